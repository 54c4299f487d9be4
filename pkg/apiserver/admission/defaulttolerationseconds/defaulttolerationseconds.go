// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package defaulttolerationseconds makes pods tolerate a node that is not ready or unreachable for five minutes, unless they
// say otherwise. Touch it when this default changes.
package defaulttolerationseconds

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiserver/pkg/admission"

	"minik8s.io/minik8s/pkg/apiserver/admission/object"
)

// Name of the plugin.
const Name = "DefaultTolerationSeconds"

// seconds is kube-apiserver's default of both --default-not-ready-toleration-seconds and
// --default-unreachable-toleration-seconds.
const seconds = 300

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
	for _, key := range []string{corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable} {
		if !tolerates(pod.Spec.Tolerations, key) {
			pod.Spec.Tolerations = append(pod.Spec.Tolerations, corev1.Toleration{
				Key: key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: new(int64(seconds)),
			})
		}
	}
	return nil
}

func tolerates(all []corev1.Toleration, key string) bool {
	for _, t := range all {
		if (t.Key == key || t.Key == "") && (t.Effect == corev1.TaintEffectNoExecute || t.Effect == "") {
			return true
		}
	}
	return false
}
