// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package podnodeselector gives pods the node selector of their namespace, and refuses those whose own one is against it.
// Off by default. Touch it when namespaces can say where their pods run in another way.
package podnodeselector

import (
	"context"
	"errors"
	"fmt"
	"io"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apiserver/pkg/admission"
	"sigs.k8s.io/yaml"

	"minik8s.io/minik8s/pkg/apiserver/admission/namespace"
	"minik8s.io/minik8s/pkg/apiserver/admission/object"
)

// Name of the plugin.
const Name = "PodNodeSelector"

// annotation of a namespace: the labels that nodes of its pods must have.
const annotation = "scheduler.alpha.kubernetes.io/node-selector"

// clusterDefault is the key in Selectors for namespaces without the annotation.
const clusterDefault = "clusterDefaultNodeSelector"

// Configuration is upstream's. Selectors are by namespace: the labels that a pod may ask for; none means all.
type Configuration struct {
	Selectors map[string]string `json:"podNodeSelectorPluginConfig"`
}

type plugin struct {
	namespace.Handler
	selectors map[string]labels.Set
}

var (
	_ admission.MutationInterface   = (*plugin)(nil)
	_ admission.ValidationInterface = (*plugin)(nil)
)

// New returns the plugin by its configuration, which may be nil.
func New(config io.Reader) (admission.Interface, error) {
	var c Configuration
	if config != nil {
		data, err := io.ReadAll(config)
		if err != nil {
			return nil, fmt.Errorf("reading the configuration of %s: %w", Name, err)
		}
		if err := yaml.UnmarshalStrict(data, &c); err != nil {
			return nil, fmt.Errorf("reading the configuration of %s: %w", Name, err)
		}
	}
	p := &plugin{Handler: namespace.NewHandler(admission.Create), selectors: map[string]labels.Set{}}
	for name, text := range c.Selectors {
		selector, err := labels.ConvertSelectorToLabelsMap(text)
		if err != nil {
			return nil, fmt.Errorf("configuration of %s: %s: %w", Name, name, err)
		}
		p.selectors[name] = selector
	}
	return p, nil
}

// Admit implements admission.MutationInterface.
func (p *plugin) Admit(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	pod, selector, err := p.read(ctx, a)
	if pod == nil || err != nil {
		return err
	}
	merged := labels.Merge(selector, pod.Spec.NodeSelector)
	if err := p.check(a, pod.Name, selector, pod.Spec.NodeSelector, merged); err != nil {
		return err
	}
	pod.Spec.NodeSelector = merged
	return nil
}

// Validate implements admission.ValidationInterface: later plugins may have changed what Admit did.
func (p *plugin) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	pod, selector, err := p.read(ctx, a)
	if pod == nil || err != nil {
		return err
	}
	return p.check(a, pod.Name, selector, pod.Spec.NodeSelector, pod.Spec.NodeSelector)
}

// read returns the pod of a request, nil if it is about something else, and what its namespace asks of nodes.
func (p *plugin) read(ctx context.Context, a admission.Attributes) (*corev1.Pod, labels.Set, error) {
	if a.GetResource().GroupResource() != corev1.Resource("pods") || a.GetSubresource() != "" {
		return nil, nil, nil
	}
	pod, err := object.New[*corev1.Pod](a)
	if err != nil {
		return nil, nil, err
	}
	selector, err := p.selector(ctx, a)
	return pod, selector, err
}

// check compares what a pod asks of nodes with what its namespace does, and what comes out with what is allowed there.
func (p *plugin) check(a admission.Attributes, pod string, selector, asked, result labels.Set) error {
	var reason string
	switch allowed := p.selectors[a.GetNamespace()]; {
	case labels.Conflicts(selector, asked):
		reason = "pod node label selector conflicts with its namespace node label selector"
	case len(allowed) > 0 && !labels.SelectorFromSet(result).Matches(allowed):
		reason = "pod node label selector labels conflict with its namespace whitelist"
	default:
		return nil
	}
	return apierrors.NewForbidden(a.GetResource().GroupResource(), pod, errors.New(reason))
}

// selector is what the namespace of the request asks of nodes.
func (p *plugin) selector(ctx context.Context, a admission.Attributes) (labels.Set, error) {
	ns, err := p.Of(ctx, a)
	if err != nil {
		return nil, err
	}
	if text, ok := ns.Annotations[annotation]; ok {
		return labels.ConvertSelectorToLabelsMap(text)
	}
	return p.selectors[clusterDefault], nil
}
