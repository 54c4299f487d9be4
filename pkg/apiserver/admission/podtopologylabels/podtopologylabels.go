// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package podtopologylabels gives pods the zone and region of the node they are bound to, so that they can be told by the
// downward API (KEP-4742). Touch it when other labels are to follow.
package podtopologylabels

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/initializer"
	"k8s.io/client-go/informers"
	corelisters "k8s.io/client-go/listers/core/v1"

	"minik8s.io/minik8s/pkg/apiserver/admission/object"
)

// Name of the plugin.
const Name = "PodTopologyLabels"

var keys = []string{corev1.LabelTopologyZone, corev1.LabelTopologyRegion}

// Plugin is the admission plugin.
type Plugin struct {
	*admission.Handler
	nodes corelisters.NodeLister
}

var (
	_ admission.MutationInterface                  = (*Plugin)(nil)
	_ initializer.WantsExternalKubeInformerFactory = (*Plugin)(nil)
)

// New returns the plugin.
func New() admission.Interface { return &Plugin{Handler: admission.NewHandler(admission.Create)} }

// SetExternalKubeInformerFactory implements initializer.WantsExternalKubeInformerFactory.
func (p *Plugin) SetExternalKubeInformerFactory(f informers.SharedInformerFactory) {
	nodes := f.Core().V1().Nodes()
	p.nodes = nodes.Lister()
	p.SetReadyFunc(nodes.Informer().HasSynced)
}

// ValidateInitialization implements admission.InitializationValidator.
func (p *Plugin) ValidateInitialization() error {
	if p.nodes == nil {
		return errors.New("missing node lister")
	}
	return nil
}

// Admit implements admission.MutationInterface. The binding carries the labels to the pod.
func (p *Plugin) Admit(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if a.GetResource().GroupResource() != corev1.Resource("pods") {
		return nil
	}
	switch a.GetSubresource() {
	case "binding":
		b, err := object.New[*corev1.Binding](a)
		if err != nil {
			return err
		}
		if b.Target.Kind != "Node" {
			return nil
		}
		b.Labels, err = p.merge(a, b.Labels, b.Target.Name)
		return err
	case "":
		pod, err := object.New[*corev1.Pod](a)
		if err != nil || pod.Spec.NodeName == "" {
			return err
		}
		pod.Labels, err = p.merge(a, pod.Labels, pod.Spec.NodeName)
		return err
	}
	return nil
}

// merge adds the node's labels over those that are there. A node that is not known has none.
func (p *Plugin) merge(a admission.Attributes, labels map[string]string, name string) (map[string]string, error) {
	if !p.WaitForReady() {
		return nil, admission.NewForbidden(a, errors.New("not yet ready to handle request"))
	}
	node, err := p.nodes.Get(name)
	if apierrors.IsNotFound(err) {
		return labels, nil
	}
	if err != nil {
		return nil, apierrors.NewInternalError(fmt.Errorf("getting node %q: %w", name, err))
	}
	for _, key := range keys {
		if v, ok := node.Labels[key]; ok {
			if labels == nil {
				labels = map[string]string{}
			}
			labels[key] = v
		}
	}
	return labels, nil
}
