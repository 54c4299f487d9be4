// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// configName is what files with workloads are called in upstream's test/integration/scheduler_perf.
const configName = "performance-config.yaml"

// testCase is a sequence of operations with workloads that run it with different numbers.
type testCase struct {
	Name                   string          `json:"name"`
	FeatureGates           map[string]bool `json:"featureGates"`
	WorkloadTemplate       []operation     `json:"workloadTemplate"`
	Workloads              []workload      `json:"workloads"`
	DefaultPodTemplatePath string          `json:"defaultPodTemplatePath"`
	// SchedulerConfigPath is a KubeSchedulerConfiguration, "" for the default one.
	SchedulerConfigPath string   `json:"schedulerConfigPath"`
	Labels              []string `json:"labels"`
	// Of other figures than the throughput nothing is taken, and no threshold compared with it.
	MetricsCollectorConfig         any `json:"metricsCollectorConfig"`
	DefaultThresholdMetricSelector any `json:"defaultThresholdMetricSelector"`

	// folder is what paths are relative to.
	folder string
	// topic is what upstream calls the folder where thresholds differ by it.
	topic string
}

// workload is what a case is run with.
type workload struct {
	Name         string          `json:"name"`
	Params       map[string]any  `json:"params"`
	Labels       []string        `json:"labels"`
	FeatureGates map[string]bool `json:"featureGates"`
	// Threshold is a number of pods per second, or one by topic: see threshold.
	Threshold               any `json:"threshold"`
	ThresholdMetricSelector any `json:"thresholdMetricSelector"`
}

// operation has the fields of all operations; which of them count says Opcode.
type operation struct {
	Opcode               string         `json:"opcode"`
	Count                int            `json:"count"`
	CountParam           string         `json:"countParam"`
	CountMultiplierParam string         `json:"countMultiplierParam"`
	Namespace            string         `json:"namespace"`
	Namespaces           []string       `json:"namespaces"`
	TemplateParams       map[string]any `json:"templateParams"`

	// createNodes
	NodeTemplatePath         string       `json:"nodeTemplatePath"`
	NodeAllocatableStrategy  *allocatable `json:"nodeAllocatableStrategy"`
	LabelNodePrepareStrategy *nodeLabel   `json:"labelNodePrepareStrategy"`
	UniqueNodeLabelStrategy  *nodeLabel   `json:"uniqueNodeLabelStrategy"`

	// createNamespaces
	Prefix                string `json:"prefix"`
	NamespaceTemplatePath string `json:"namespaceTemplatePath"`

	// createPods
	PodTemplatePath                   string          `json:"podTemplatePath"`
	SteadyState                       bool            `json:"steadyState"`
	SteadyStateParam                  string          `json:"steadyStateParam"`
	Duration                          metav1.Duration `json:"duration"`
	DurationParam                     string          `json:"durationParam"`
	CollectMetrics                    bool            `json:"collectMetrics"`
	SkipWaitToCompletion              bool            `json:"skipWaitToCompletion"`
	PersistentVolumeTemplatePath      string          `json:"persistentVolumeTemplatePath"`
	PersistentVolumeClaimTemplatePath string          `json:"persistentVolumeClaimTemplatePath"`
	SignatureBatchSize                int             `json:"signatureBatchSize"`
	SignatureBatchSizeParam           string          `json:"signatureBatchSizeParam"`

	// createPodSets
	NamespacePrefix string     `json:"namespacePrefix"`
	CreatePodsOp    *operation `json:"createPodsOp"`

	// createAny, updateAny
	TemplatePath    string   `json:"templatePath"`
	UpdatePerSecond int      `json:"updatePerSecond"`
	Subresources    []string `json:"subresources"`

	// deletePods, barrier, startCollectingMetrics
	LabelSelector       map[string]string `json:"labelSelector"`
	DeletePodsPerSecond int               `json:"deletePodsPerSecond"`
	StageRequirement    string            `json:"stageRequirement"`
	Name                string            `json:"name"`

	// churn
	Mode                 string   `json:"mode"`
	Number               int      `json:"number"`
	IntervalMilliseconds int      `json:"intervalMilliseconds"`
	TemplatePaths        []string `json:"templatePaths"`
}

// allocatable is what nodes are given besides their template.
type allocatable struct {
	NodeAllocatable    map[string]string   `json:"nodeAllocatable"`
	CSINodeAllocatable map[string]csiLimit `json:"csiNodeAllocatable"`
	MigratedPlugins    []string            `json:"migratedPlugins"`
}

// csiLimit is how many volumes of a driver a node takes.
type csiLimit struct {
	Count int32 `json:"count"`
}

// nodeLabel is a label of nodes: one of the values in turn, or one that no other node has.
type nodeLabel struct {
	LabelKey    string   `json:"labelKey"`
	LabelValues []string `json:"labelValues"`
}

// readCases reads all cases below root. A case with fields that are not known here cannot be run: it is only named.
func readCases(root string) (cases []testCase, unknown []string, err error) {
	err = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.Name() != configName {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		var all []json.RawMessage
		if err := yaml.Unmarshal(data, &all); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		folder, err := filepath.Rel(root, filepath.Dir(path))
		if err != nil {
			return err
		}
		topic := strings.ReplaceAll(folder, string(filepath.Separator), "_")
		for i, raw := range all {
			c := testCase{folder: filepath.Dir(path), topic: topic}
			if err := yaml.UnmarshalStrict(raw, &c); err != nil {
				unknown = append(unknown, fmt.Sprintf("%s, case %d: %v", path, i+1, err))
				continue
			}
			cases = append(cases, c)
		}
		return nil
	})
	if err == nil && len(cases) == 0 {
		err = fmt.Errorf("no %s below %s", configName, root)
	}
	return cases, unknown, err
}

// has tells whether a workload or its case has the label.
func (c *testCase) has(w *workload, label string) bool {
	return slices.Contains(c.Labels, label) || slices.Contains(w.Labels, label)
}

// gates are the feature gates of a workload in the form of a flag.
func (c *testCase) gates(w *workload) string {
	all := map[string]bool{}
	maps.Copy(all, c.FeatureGates)
	maps.Copy(all, w.FeatureGates)
	var out []string
	for name, on := range all {
		out = append(out, fmt.Sprintf("%s=%t", name, on))
	}
	slices.Sort(out)
	return strings.Join(out, ",")
}

// threshold is how many pods per second upstream's CI wants of a workload, 0 if it does not say.
func (c *testCase) threshold(w *workload) (float64, error) {
	value := w.Threshold
	if byTopic, ok := value.(map[string]any); ok {
		value = byTopic[c.topic]
	}
	switch t := value.(type) {
	case nil:
		return 0, nil
	case float64:
		return t, nil
	}
	return 0, fmt.Errorf("the threshold %v is no number", value)
}

// hasClaims tells whether pods of the case may have resource claims, which a controller makes of templates.
func (c *testCase) hasClaims() bool { return c.topic == "dra" || strings.HasPrefix(c.topic, "dra_") }

// operations are those of the case with a workload's numbers in them, which are scaled.
func (c *testCase) operations(w *workload, scale float64) ([]operation, error) {
	out := make([]operation, len(c.WorkloadTemplate))
	for i := range c.WorkloadTemplate {
		part := scale
		if c.names(c.WorkloadTemplate[i].CountParam) {
			part = 1 // other objects count on all of these
		}
		o, err := w.resolve(c.WorkloadTemplate[i], part)
		if err != nil {
			return nil, fmt.Errorf("operation %d, %s: %w", i, o.Opcode, err)
		}
		out[i] = o
	}
	return out, nil
}

// names tells whether templates name a parameter.
func (c *testCase) names(param string) bool {
	return param != "" && slices.ContainsFunc(c.WorkloadTemplate, func(o operation) bool {
		return slices.Contains(slices.Collect(maps.Values(o.TemplateParams)), any(param))
	})
}

func (w *workload) resolve(o operation, scale float64) (operation, error) {
	multiplier := 1
	var err error
	for param, to := range map[string]*int{o.CountParam: &o.Count, o.CountMultiplierParam: &multiplier, o.SignatureBatchSizeParam: &o.SignatureBatchSize} {
		if param != "" {
			var e error
			*to, e = w.number(param)
			err = errors.Join(err, e)
		}
	}
	if o.CountParam != "" {
		o.Count = max(1, int(math.Round(float64(o.Count*multiplier)*scale)))
		if n, _ := w.number(o.CountParam); n == 0 {
			o.Count = 0
		}
	}
	if o.SteadyStateParam != "" {
		o.SteadyState, _ = w.Params[strings.TrimPrefix(o.SteadyStateParam, "$")].(bool)
	}
	if o.DurationParam != "" {
		text, _ := w.Params[strings.TrimPrefix(o.DurationParam, "$")].(string)
		err = errors.Join(err, json.Unmarshal(fmt.Appendf(nil, "%q", text), &o.Duration))
	}
	params := map[string]any{}
	for name, value := range o.TemplateParams {
		if text, ok := value.(string); ok && strings.HasPrefix(text, "$") {
			// What follows a bar counts for workloads that do not have the parameter.
			param, otherwise, has := strings.Cut(text[1:], "|")
			if value, ok = w.Params[param]; !ok && has {
				err = errors.Join(err, yaml.Unmarshal([]byte(otherwise), &value))
			} else if !ok {
				err = errors.Join(err, fmt.Errorf("the workload has no parameter %s", text))
			}
		}
		params[name] = value
	}
	o.TemplateParams = params
	return o, err
}

// number is a parameter of the workload.
func (w *workload) number(param string) (int, error) {
	n, ok := w.Params[strings.TrimPrefix(param, "$")].(float64)
	if !ok {
		return 0, fmt.Errorf("the workload has no number %s", param)
	}
	return int(n), nil
}
