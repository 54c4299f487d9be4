// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package event

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"minik8s.io/minik8s/pkg/registry/registrytest"
)

func TestResource(t *testing.T) {
	modern := func(change func(*corev1.Event)) func(*corev1.Event) {
		return func(e *corev1.Event) {
			e.EventTime = metav1.NowMicro()
			e.ReportingController, e.ReportingInstance, e.Action = "example.com/c", "c-1", "Act"
			change(e)
		}
	}
	registrytest.Run(t, Resource, registrytest.Case[*corev1.Event]{
		AddToScheme: corev1.AddToScheme,
		Valid: func() *corev1.Event {
			return &corev1.Event{
				ObjectMeta:     metav1.ObjectMeta{Name: "e"},
				InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: registrytest.Namespace, Name: "p"},
				Reason:         "Started", Message: " up ", Type: "Normal", Source: corev1.EventSource{Component: "kubelet", Host: "n"},
			}
		},
		Update: func(e *corev1.Event) { e.Count = 2 },
		Invalid: []registrytest.Invalid[*corev1.Event]{
			{Name: "other namespace", Mutate: func(e *corev1.Event) { e.InvolvedObject.Namespace = "x" }, Field: "involvedObject.namespace"},
			{Name: "no controller", Mutate: modern(func(e *corev1.Event) { e.ReportingController = "" }), Field: "reportingComponent"},
			{Name: "no instance", Mutate: modern(func(e *corev1.Event) { e.ReportingInstance = "" }), Field: "reportingInstance"},
			{Name: "no action", Mutate: modern(func(e *corev1.Event) { e.Action = "" }), Field: "action"},
			{Name: "long message", Mutate: modern(func(e *corev1.Event) { e.Message = strings.Repeat("x", 1025) }), Field: "message"},
		},
		Row: []any{"<unknown>", "Normal", "Started", "pod/p", "", "kubelet, n", "up", "<unknown>", int64(1), "e"},
	})
}
