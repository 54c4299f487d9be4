// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package event serves the events.k8s.io spelling of Events out of the storage of core events, so that one event can be
// read both ways. Touch it when the fields of either spelling change.
package event

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/conversion"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/rest"

	"minik8s.io/minik8s/pkg/registry"
	core "minik8s.io/minik8s/pkg/registry/core/event"
)

var kind = eventsv1.SchemeGroupVersion.WithKind("Event")

// Resource describes events.
var Resource registry.Descriptor = descriptor{}

type descriptor struct{}

// Info implements registry.Descriptor.
func (descriptor) Info() registry.Info {
	return registry.Info{Kind: kind, Name: "events", Namespaced: true, Stored: true}
}

// AddToScheme implements registry.Descriptor: it maps the names of fields to those of core events.
func (descriptor) AddToScheme(scheme *runtime.Scheme) error {
	return scheme.AddFieldLabelConversionFunc(kind, func(label, value string) (string, string, error) {
		if mapped, ok := labels[label]; ok {
			return mapped, value, nil
		}
		return "", "", fmt.Errorf("field label not supported: %s", label)
	})
}

var labels = map[string]string{
	"metadata.name":             "metadata.name",
	"metadata.namespace":        "metadata.namespace",
	"reason":                    "reason",
	"regarding.kind":            "involvedObject.kind",
	"regarding.namespace":       "involvedObject.namespace",
	"regarding.name":            "involvedObject.name",
	"regarding.uid":             "involvedObject.uid",
	"regarding.apiVersion":      "involvedObject.apiVersion",
	"regarding.resourceVersion": "involvedObject.resourceVersion",
	"regarding.fieldPath":       "involvedObject.fieldPath",
	"reportingController":       "reportingComponent",
	"type":                      "type",
}

// Storage implements registry.Descriptor. It is a second view of the keys of core events.
func (descriptor) Storage(c registry.Config) (map[string]rest.Storage, error) {
	return core.Resource.Storage(c)
}

// AddToScheme registers the types, with the core Event as their internal version, and the conversions.
func AddToScheme(scheme *runtime.Scheme) error {
	if err := eventsv1.AddToScheme(scheme); err != nil {
		return err
	}
	internal := schema.GroupVersion{Group: eventsv1.GroupName, Version: runtime.APIVersionInternal}
	scheme.AddKnownTypes(internal, &corev1.Event{}, &corev1.EventList{})
	for _, add := range []error{
		scheme.AddConversionFunc((*eventsv1.Event)(nil), (*corev1.Event)(nil), func(in, out any, _ conversion.Scope) error {
			toCore(in.(*eventsv1.Event), out.(*corev1.Event))
			return nil
		}),
		scheme.AddConversionFunc((*corev1.Event)(nil), (*eventsv1.Event)(nil), func(in, out any, _ conversion.Scope) error {
			fromCore(in.(*corev1.Event), out.(*eventsv1.Event))
			return nil
		}),
		scheme.AddConversionFunc((*eventsv1.EventList)(nil), (*corev1.EventList)(nil), func(in, out any, _ conversion.Scope) error {
			from, to := in.(*eventsv1.EventList), out.(*corev1.EventList)
			to.ListMeta = from.ListMeta
			to.Items = make([]corev1.Event, len(from.Items))
			for i := range from.Items {
				toCore(&from.Items[i], &to.Items[i])
			}
			return nil
		}),
		scheme.AddConversionFunc((*corev1.EventList)(nil), (*eventsv1.EventList)(nil), func(in, out any, _ conversion.Scope) error {
			from, to := in.(*corev1.EventList), out.(*eventsv1.EventList)
			to.ListMeta = from.ListMeta
			to.Items = make([]eventsv1.Event, len(from.Items))
			for i := range from.Items {
				fromCore(&from.Items[i], &to.Items[i])
			}
			return nil
		}),
	} {
		if add != nil {
			return add
		}
	}
	return nil
}

// toCore copies deeply, since the two objects live on apart.
func toCore(in *eventsv1.Event, out *corev1.Event) {
	in = in.DeepCopy()
	*out = corev1.Event{
		ObjectMeta:          in.ObjectMeta,
		InvolvedObject:      in.Regarding,
		Related:             in.Related,
		Reason:              in.Reason,
		Message:             in.Note,
		Action:              in.Action,
		Type:                in.Type,
		EventTime:           in.EventTime,
		ReportingController: in.ReportingController,
		ReportingInstance:   in.ReportingInstance,
		Source:              in.DeprecatedSource,
		FirstTimestamp:      in.DeprecatedFirstTimestamp,
		LastTimestamp:       in.DeprecatedLastTimestamp,
		Count:               in.DeprecatedCount,
	}
	if in.Series != nil {
		out.Series = &corev1.EventSeries{Count: in.Series.Count, LastObservedTime: in.Series.LastObservedTime}
	}
}

func fromCore(in *corev1.Event, out *eventsv1.Event) {
	in = in.DeepCopy()
	*out = eventsv1.Event{
		ObjectMeta:               in.ObjectMeta,
		Regarding:                in.InvolvedObject,
		Related:                  in.Related,
		Reason:                   in.Reason,
		Note:                     in.Message,
		Action:                   in.Action,
		Type:                     in.Type,
		EventTime:                in.EventTime,
		ReportingController:      in.ReportingController,
		ReportingInstance:        in.ReportingInstance,
		DeprecatedSource:         in.Source,
		DeprecatedFirstTimestamp: in.FirstTimestamp,
		DeprecatedLastTimestamp:  in.LastTimestamp,
		DeprecatedCount:          in.Count,
	}
	if in.Series != nil {
		out.Series = &eventsv1.EventSeries{Count: in.Series.Count, LastObservedTime: in.Series.LastObservedTime}
	}
}
