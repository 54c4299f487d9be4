// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package event

import (
	"cmp"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"minik8s.io/minik8s/pkg/registry"
)

var docs = corev1.Event{}.SwaggerDoc()

var columns = []metav1.TableColumnDefinition{
	registry.Column("Last Seen", "string", docs["lastTimestamp"]),
	registry.Column("Type", "string", docs["type"]),
	registry.Column("Reason", "string", docs["reason"]),
	registry.Column("Object", "string", docs["involvedObject"]),
	registry.WideColumn("Subobject", "string", corev1.ObjectReference{}.SwaggerDoc()["fieldPath"]),
	registry.WideColumn("Source", "string", docs["source"]),
	registry.Column("Message", "string", docs["message"]),
	registry.WideColumn("First Seen", "string", docs["firstTimestamp"]),
	registry.WideColumn("Count", "string", docs["count"]),
	{Name: "Name", Type: "string", Format: "name", Description: registry.NameColumn.Description, Priority: 1},
}

func row(e *corev1.Event) []any {
	first := registry.Age(e.FirstTimestamp)
	if e.FirstTimestamp.IsZero() {
		first = registry.Age(metav1.Time{Time: e.EventTime.Time})
	}
	last := registry.Age(e.LastTimestamp)
	if e.LastTimestamp.IsZero() {
		last = first
	}
	count := max(e.Count, 1)
	if e.Series != nil {
		last, count = registry.Age(metav1.Time{Time: e.Series.LastObservedTime.Time}), e.Series.Count
	}
	object := strings.ToLower(e.InvolvedObject.Kind)
	if e.InvolvedObject.Name != "" {
		object += "/" + e.InvolvedObject.Name
	}
	source := cmp.Or(e.Source.Component, e.ReportingController)
	if host := cmp.Or(e.Source.Host, e.ReportingInstance); host != "" {
		source += ", " + host
	}
	return []any{
		last, e.Type, e.Reason, object, e.InvolvedObject.FieldPath, source, strings.TrimSpace(e.Message), first, int64(count), e.Name,
	}
}
