// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package extender asks programs outside of the scheduler, over HTTP, which nodes
// a pod may run on, which it would rather, whom to preempt, and to bind it. Touch
// it when the protocol of k8s.io/kube-scheduler/extender changes.
package extender

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/rest"
	resourcehelper "k8s.io/component-helpers/resource"
	configv1 "k8s.io/kube-scheduler/config/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
	fwk "k8s.io/kube-scheduler/framework"
)

const (
	// defaultTimeout bounds a call if the configuration does not.
	defaultTimeout = 5 * time.Second
	// maxAnswer bounds what is read of an answer, in bytes.
	maxAnswer = 64 << 20
)

// Extender is one such program. It is safe for concurrent use.
type Extender struct {
	cfg     configv1.Extender
	client  *http.Client
	managed sets.Set[corev1.ResourceName]
}

var _ fwk.Extender = (*Extender)(nil)

// New returns the extenders of a configuration, those that can be ignored last.
func New(list []configv1.Extender) ([]fwk.Extender, error) {
	var needed, ignorable []fwk.Extender
	for _, cfg := range list {
		e, err := newExtender(cfg)
		if err != nil {
			return nil, fmt.Errorf("extender %q: %w", cfg.URLPrefix, err)
		}
		if e.IsIgnorable() {
			ignorable = append(ignorable, e)
		} else {
			needed = append(needed, e)
		}
	}
	return slices.Concat(needed, ignorable), nil
}

func newExtender(cfg configv1.Extender) (*Extender, error) {
	config := &rest.Config{}
	if t := cfg.TLSConfig; t != nil {
		config.TLSClientConfig = rest.TLSClientConfig{
			Insecure: t.Insecure, ServerName: t.ServerName,
			CertFile: t.CertFile, KeyFile: t.KeyFile, CAFile: t.CAFile,
			CertData: t.CertData, KeyData: t.KeyData, CAData: t.CAData,
		}
	}
	if cfg.EnableHTTPS && config.CAFile == "" && len(config.CAData) == 0 {
		config.Insecure = true // as upstream does without a CA
	}
	transport, err := rest.TransportFor(config)
	if err != nil {
		return nil, fmt.Errorf("preparing TLS: %w", err)
	}
	if cfg.HTTPTimeout.Duration == 0 {
		cfg.HTTPTimeout.Duration = defaultTimeout
	}
	e := &Extender{cfg: cfg, client: &http.Client{Transport: transport, Timeout: cfg.HTTPTimeout.Duration}, managed: sets.New[corev1.ResourceName]()}
	for _, r := range cfg.ManagedResources {
		e.managed.Insert(corev1.ResourceName(r.Name))
	}
	return e, nil
}

// Name is the extender's URL.
func (e *Extender) Name() string { return e.cfg.URLPrefix }

// IsIgnorable implements fwk.Extender.
func (e *Extender) IsIgnorable() bool { return e.cfg.Ignorable }

// IsFilter implements fwk.Extender.
func (e *Extender) IsFilter() bool { return e.cfg.FilterVerb != "" }

// IsPrioritizer implements fwk.Extender.
func (e *Extender) IsPrioritizer() bool { return e.cfg.PrioritizeVerb != "" }

// IsBinder implements fwk.Extender.
func (e *Extender) IsBinder() bool { return e.cfg.BindVerb != "" }

// SupportsPreemption implements fwk.Extender.
func (e *Extender) SupportsPreemption() bool { return e.cfg.PreemptVerb != "" }

// IsInterested implements fwk.Extender: the pod asks for a resource of the extender.
func (e *Extender) IsInterested(pod *corev1.Pod) bool {
	if e.managed.Len() == 0 {
		return true
	}
	asks := func(containers []corev1.Container) bool {
		return slices.ContainsFunc(containers, func(c corev1.Container) bool { return e.manages(c.Resources.Requests) || e.manages(c.Resources.Limits) })
	}
	return asks(pod.Spec.Containers) || asks(pod.Spec.InitContainers) ||
		resourcehelper.IsPodLevelResourcesSet(pod) && (e.manages(pod.Spec.Resources.Requests) || e.manages(pod.Spec.Resources.Limits))
}

func (e *Extender) manages(list corev1.ResourceList) bool {
	for name := range list {
		if e.managed.Has(name) {
			return true
		}
	}
	return false
}

// args describes nodes, by name only if the extender knows them already.
func (e *Extender) args(pod *corev1.Pod, nodes []fwk.NodeInfo) *extenderv1.ExtenderArgs {
	args := &extenderv1.ExtenderArgs{Pod: pod}
	if e.cfg.NodeCacheCapable {
		names := make([]string, 0, len(nodes))
		for _, n := range nodes {
			names = append(names, n.Node().Name)
		}
		args.NodeNames = &names
		return args
	}
	args.Nodes = &corev1.NodeList{}
	for _, n := range nodes {
		args.Nodes.Items = append(args.Nodes.Items, *n.Node())
	}
	return args
}

// Filter implements fwk.Extender.
func (e *Extender) Filter(pod *corev1.Pod, nodes []fwk.NodeInfo) (left []fwk.NodeInfo, failed, unresolvable extenderv1.FailedNodesMap, err error) {
	var answer extenderv1.ExtenderFilterResult
	if err := e.call(e.cfg.FilterVerb, e.args(pod, nodes), &answer); err != nil {
		return nil, nil, nil, err
	}
	if answer.Error != "" {
		return nil, nil, nil, errors.New(answer.Error)
	}
	byName := make(map[string]fwk.NodeInfo, len(nodes))
	for _, n := range nodes {
		byName[n.Node().Name] = n
	}
	var names []string
	switch {
	case e.cfg.NodeCacheCapable && answer.NodeNames != nil:
		names = *answer.NodeNames
	case answer.Nodes != nil:
		for i := range answer.Nodes.Items {
			names = append(names, answer.Nodes.Items[i].Name)
		}
	}
	for _, name := range names {
		n, ok := byName[name]
		if !ok {
			return nil, nil, nil, fmt.Errorf("extender %q claims a filtered node %q which is not found in the input node list", e.Name(), name)
		}
		left = append(left, n)
	}
	return left, answer.FailedNodes, answer.FailedAndUnresolvableNodes, nil
}

// Prioritize implements fwk.Extender.
func (e *Extender) Prioritize(pod *corev1.Pod, nodes []fwk.NodeInfo) (*extenderv1.HostPriorityList, int64, error) {
	var answer extenderv1.HostPriorityList
	if err := e.call(e.cfg.PrioritizeVerb, e.args(pod, nodes), &answer); err != nil {
		return nil, 0, err
	}
	return &answer, e.cfg.Weight, nil
}

// Bind implements fwk.Extender.
func (e *Extender) Bind(b *corev1.Binding) error {
	var answer extenderv1.ExtenderBindingResult
	err := e.call(e.cfg.BindVerb, &extenderv1.ExtenderBindingArgs{PodName: b.Name, PodNamespace: b.Namespace, PodUID: b.UID, Node: b.Target.Name}, &answer)
	if err == nil && answer.Error != "" {
		err = errors.New(answer.Error)
	}
	return err
}

// ProcessPreemption implements fwk.Extender.
func (e *Extender) ProcessPreemption(pod *corev1.Pod, victims map[string]*extenderv1.Victims, nodes fwk.NodeInfoLister) (map[string]*extenderv1.Victims, error) {
	args := &extenderv1.ExtenderPreemptionArgs{Pod: pod}
	if e.cfg.NodeCacheCapable {
		args.NodeNameToMetaVictims = map[string]*extenderv1.MetaVictims{}
		for node, v := range victims {
			meta := &extenderv1.MetaVictims{NumPDBViolations: v.NumPDBViolations}
			for _, p := range v.Pods {
				meta.Pods = append(meta.Pods, &extenderv1.MetaPod{UID: string(p.UID)})
			}
			args.NodeNameToMetaVictims[node] = meta
		}
	} else {
		args.NodeNameToVictims = victims
	}
	var answer extenderv1.ExtenderPreemptionResult
	if err := e.call(e.cfg.PreemptVerb, args, &answer); err != nil {
		return nil, err
	}
	// The answer names victims by UID, whatever was sent.
	out := map[string]*extenderv1.Victims{}
	for name, meta := range answer.NodeNameToMetaVictims {
		node, err := nodes.Get(name)
		if err != nil {
			return nil, fmt.Errorf("extender %q: %w", e.Name(), err)
		}
		if meta == nil {
			meta = &extenderv1.MetaVictims{} // null in JSON
		}
		v := &extenderv1.Victims{NumPDBViolations: meta.NumPDBViolations}
		for _, p := range meta.Pods {
			uid := types.UID("")
			if p != nil {
				uid = types.UID(p.UID)
			}
			i := slices.IndexFunc(node.GetPods(), func(on fwk.PodInfo) bool { return on.GetPod().UID == uid })
			if i < 0 {
				return nil, fmt.Errorf("extender %q claims to preempt pod (UID: %v) on node %q, but the pod is not found on that node", e.Name(), uid, name)
			}
			v.Pods = append(v.Pods, node.GetPods()[i].GetPod())
		}
		out[name] = v
	}
	return out, nil
}

// call posts args to a verb and reads the answer. It ends within the extender's timeout.
func (e *Extender) call(verb string, args, answer any) error {
	body, err := json.Marshal(args)
	if err != nil {
		return fmt.Errorf("encoding the question: %w", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), e.cfg.HTTPTimeout.Duration)
	defer cancel()
	url := strings.TrimRight(e.cfg.URLPrefix, "/") + "/" + verb
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("preparing the question: %w", err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := e.client.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("failed %v with extender at URL %v, code %v", verb, url, resp.StatusCode)
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxAnswer)).Decode(answer); err != nil {
		return fmt.Errorf("decoding the answer of %v: %w", url, err)
	}
	return nil
}
