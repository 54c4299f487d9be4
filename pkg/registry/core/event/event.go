// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package event serves Events, which are kept for an hour only. One storage serves both the core and the events.k8s.io
// spelling of them; the latter is in pkg/registry/events. Touch it when the rules for either change.
package event

import (
	"cmp"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/rest"

	"minik8s.io/minik8s/pkg/registry"
)

const defaultTTL = time.Hour

// Resource describes events.
var Resource = &registry.Resource[*corev1.Event]{
	Kind:                corev1.SchemeGroupVersion.WithKind("Event"),
	Name:                "events",
	ShortNames:          []string{"ev"},
	New:                 func() *corev1.Event { return &corev1.Event{} },
	NewList:             func() runtime.Object { return &corev1.EventList{} },
	AllowCreateOnUpdate: true,
	Metadata:            registry.MinimalMetadata,
	// Nothing depends on an event, and none waits for anything when it is deleted.
	DefaultGarbageCollection: rest.Unsupported,
	Validate:                 validate,
	ValidateUpdate:           validateUpdate,
	Fields: registry.Fields[*corev1.Event]{
		"involvedObject.kind":            func(e *corev1.Event) string { return e.InvolvedObject.Kind },
		"involvedObject.namespace":       func(e *corev1.Event) string { return e.InvolvedObject.Namespace },
		"involvedObject.name":            func(e *corev1.Event) string { return e.InvolvedObject.Name },
		"involvedObject.uid":             func(e *corev1.Event) string { return string(e.InvolvedObject.UID) },
		"involvedObject.apiVersion":      func(e *corev1.Event) string { return e.InvolvedObject.APIVersion },
		"involvedObject.resourceVersion": func(e *corev1.Event) string { return e.InvolvedObject.ResourceVersion },
		"involvedObject.fieldPath":       func(e *corev1.Event) string { return e.InvolvedObject.FieldPath },
		"reason":                         func(e *corev1.Event) string { return e.Reason },
		"reportingComponent":             func(e *corev1.Event) string { return e.ReportingController },
		"source":                         func(e *corev1.Event) string { return cmp.Or(e.Source.Component, e.ReportingController) },
		"type":                           func(e *corev1.Event) string { return e.Type },
	},
	Columns: columns,
	Row:     row,
	Configure: func(s *registry.Store[*corev1.Event], c registry.Config) error {
		ttl := uint64(cmp.Or(c.EventTTL, defaultTTL) / time.Second)
		s.TTLFunc = func(runtime.Object, uint64, bool) (uint64, error) { return ttl, nil }
		return nil
	},
}
