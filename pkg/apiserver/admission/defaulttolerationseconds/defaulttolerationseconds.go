// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package defaulttolerationseconds makes pods tolerate a node that is not ready or unreachable for a time, five minutes by default,
// unless they say otherwise. Touch it when this changes.
package defaulttolerationseconds

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiserver/pkg/admission"

	"minik8s.io/minik8s/pkg/apiserver/admission/object"
)

// Name of the plugin.
const Name = "DefaultTolerationSeconds"

// Seconds is for how long nodes are tolerated, as kube-apiserver's --default-not-ready-toleration-seconds and
// --default-unreachable-toleration-seconds.
type Seconds struct{ NotReady, Unreachable int64 }

// Default is kube-apiserver's.
var Default = Seconds{NotReady: 300, Unreachable: 300}

type plugin struct {
	*admission.Handler
	seconds Seconds
}

var _ admission.MutationInterface = &plugin{}

// New returns the plugin.
func New() admission.Interface {
	return &plugin{admission.NewHandler(admission.Create, admission.Update), Default}
}

// Initialize implements admission.PluginInitializer: the plugin has these seconds.
func (s Seconds) Initialize(p admission.Interface) {
	if p, ok := p.(*plugin); ok {
		p.seconds = s
	}
}

// Admit implements admission.MutationInterface.
func (p *plugin) Admit(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if a.GetResource().GroupResource() != corev1.Resource("pods") || a.GetSubresource() != "" {
		return nil
	}
	pod, err := object.New[*corev1.Pod](a)
	if err != nil {
		return err
	}
	for _, t := range []struct {
		key     string
		seconds int64
	}{{corev1.TaintNodeNotReady, p.seconds.NotReady}, {corev1.TaintNodeUnreachable, p.seconds.Unreachable}} {
		if !tolerates(pod.Spec.Tolerations, t.key) {
			pod.Spec.Tolerations = append(pod.Spec.Tolerations, corev1.Toleration{
				Key: t.key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: &t.seconds,
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
