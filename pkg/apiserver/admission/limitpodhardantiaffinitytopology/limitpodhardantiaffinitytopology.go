// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package limitpodhardantiaffinitytopology lets required anti-affinity of pods speak of nodes only, so that no pod keeps all
// others out of a whole zone. Off by default. Touch it when pods can require anti-affinity in a new way.
package limitpodhardantiaffinitytopology

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/admission"

	"minik8s.io/minik8s/pkg/apiserver/admission/object"
)

// Name of the plugin.
const Name = "LimitPodHardAntiAffinityTopology"

type plugin struct{ *admission.Handler }

var _ admission.ValidationInterface = plugin{}

// New returns the plugin.
func New() admission.Interface {
	return plugin{admission.NewHandler(admission.Create, admission.Update)}
}

// Validate implements admission.ValidationInterface.
func (plugin) Validate(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if a.GetResource().GroupResource() != corev1.Resource("pods") || a.GetSubresource() != "" {
		return nil
	}
	pod, err := object.New[*corev1.Pod](a)
	if err != nil || pod.Spec.Affinity == nil || pod.Spec.Affinity.PodAntiAffinity == nil {
		return err
	}
	for _, term := range pod.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution {
		if term.TopologyKey != corev1.LabelHostname {
			return apierrors.NewForbidden(a.GetResource().GroupResource(), pod.Name, fmt.Errorf("affinity.PodAntiAffinity.RequiredDuringScheduling has TopologyKey %v but only key %v is allowed", term.TopologyKey, corev1.LabelHostname))
		}
	}
	return nil
}
