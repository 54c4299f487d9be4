// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

func TestReadCases(t *testing.T) {
	dir := t.TempDir()
	folder := filepath.Join(dir, "misc")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	text := `
- name: Basic
  defaultPodTemplatePath: ../templates/pod.yaml
  featureGates: {A: true, B: false}
  workloadTemplate:
  - opcode: createNodes
    countParam: $nodes
  - opcode: createPods
    countParam: $pods
    steadyStateParam: $steady
    durationParam: $duration
    collectMetrics: true
    templateParams: {cpu: $cpu, fixed: 1, roots: $roots|2, classes: $classes}
  - opcode: createAny
    countParam: $classes
  workloads:
  - name: small
    labels: [short]
    threshold: {misc: 7, other: 8}
    featureGates: {A: false}
    params: {nodes: 5, pods: 0, steady: true, duration: 10s, cpu: 200m, classes: 25}
- name: Unknown
  workloadTemplate:
  - opcode: createNodes
    colour: red
`
	if err := os.WriteFile(filepath.Join(folder, configName), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cases, unknown, err := readCases(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(cases) != 1 || len(unknown) != 1 || !strings.Contains(unknown[0], `unknown field "workloadTemplate[0].colour"`) && !strings.Contains(unknown[0], "colour") {
		t.Fatalf("%d cases, unknown: %v", len(cases), unknown)
	}
	c, w := &cases[0], &cases[0].Workloads[0]
	if got := c.gates(w); got != "A=false,B=false" {
		t.Errorf("gates %s", got)
	}
	if got, err := c.threshold(w); got != 7 || err != nil {
		t.Errorf("threshold %v, %v, want 7", got, err)
	}
	if got, err := c.threshold(&workload{Threshold: "much"}); err == nil {
		t.Errorf("a threshold that is no number is %v", got)
	}
	if !c.has(w, "short") || c.has(w, "performance") {
		t.Error("labels are mixed up")
	}
	operations, err := c.operations(w, 0.1)
	if err != nil {
		t.Fatal(err)
	}
	nodes, pods := operations[0], operations[1]
	if nodes.Count != 1 {
		t.Errorf("a tenth of five nodes is %d, want 1: there must be some", nodes.Count)
	}
	if got := operations[2].Count; got != 25 {
		t.Errorf("of 25 classes that pods name there are %d", got)
	}
	if pods.Count != 0 || !pods.SteadyState || pods.Duration.Duration != 10*time.Second {
		t.Errorf("%d pods, steady = %v for %s; want none, for 10 s", pods.Count, pods.SteadyState, pods.Duration.Duration)
	}
	if diff := cmp.Diff(map[string]any{"cpu": "200m", "fixed": 1.0, "roots": 2.0, "classes": 25.0}, pods.TemplateParams); diff != "" {
		t.Errorf("parameters of the template (-want +got):\n%s", diff)
	}
}

func TestRender(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pod.yaml")
	text := `
metadata:
  name: pod-{{Mod .Index 3}}-{{AddInt .Count 1}}-{{DivideFloat .Index 2}}
  labels: {{JSON .labels}}
`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	pod := &corev1.Pod{}
	if err := (templates{}).render(path, map[string]any{"labels": map[string]string{"a": "b"}}, 5, 9, pod); err != nil {
		t.Fatal(err)
	}
	if pod.Name != "pod-2-10-2.5" || pod.Labels["a"] != "b" {
		t.Errorf("got %q with labels %v", pod.Name, pod.Labels)
	}
}

func TestThroughput(t *testing.T) {
	begin := time.Unix(1000, 0)
	p := &progress{pods: map[types.UID]seen{
		"1": {namespace: "a", bound: begin.Add(-time.Second)}, // before
		"2": {namespace: "a", bound: begin.Add(time.Second)},
		"3": {namespace: "a", bound: begin.Add(2 * time.Second), gone: true},
		"4": {namespace: "b", bound: begin.Add(4 * time.Second)}, // elsewhere
		"5": {namespace: "a"},
	}}
	if perSecond, pods := p.throughput(begin, []string{"a"}, nil); perSecond != 1 || pods != 2 {
		t.Errorf("%v pods per second, %d pods; want 1, 2", perSecond, pods)
	}
}
