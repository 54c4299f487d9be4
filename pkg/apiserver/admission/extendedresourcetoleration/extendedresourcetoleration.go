// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package extendedresourcetoleration lets pods that request an extended resource tolerate the taint by which the nodes that
// have it are kept for them. Off by default. Touch it when pods can request such resources in a new way.
package extendedresourcetoleration

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/admission"

	"minik8s.io/minik8s/pkg/apis/core/quantity"
	"minik8s.io/minik8s/pkg/apiserver/admission/object"
)

// Name of the plugin.
const Name = "ExtendedResourceToleration"

type plugin struct{ *admission.Handler }

var _ admission.MutationInterface = plugin{}

// New returns the plugin.
func New() admission.Interface {
	return plugin{admission.NewHandler(admission.Create, admission.Update)}
}

// Admit implements admission.MutationInterface.
func (plugin) Admit(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if a.GetResource().GroupResource() != corev1.Resource("pods") || a.GetSubresource() != "" {
		return nil
	}
	pod, err := object.New[*corev1.Pod](a)
	if err != nil {
		return err
	}
	names := sets.New[string]()
	for _, c := range slices.Concat(pod.Spec.Containers, pod.Spec.InitContainers) {
		for name := range c.Resources.Requests {
			if quantity.IsExtended(name) {
				names.Insert(string(name))
			}
		}
	}
	for _, name := range sets.List(names) {
		add(&pod.Spec, corev1.Toleration{Key: name, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule})
	}
	return nil
}

// add replaces a toleration of the same taint.
func add(spec *corev1.PodSpec, t corev1.Toleration) {
	i := slices.IndexFunc(spec.Tolerations, func(o corev1.Toleration) bool { return o.MatchToleration(&t) })
	switch {
	case i < 0:
		spec.Tolerations = append(spec.Tolerations, t)
	case !apiequality.Semantic.DeepEqual(spec.Tolerations[i], t):
		spec.Tolerations[i] = t
	}
}
