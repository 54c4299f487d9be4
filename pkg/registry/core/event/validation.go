// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package event

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"

	"minik8s.io/minik8s/pkg/registry"
)

const (
	maxField = 128
	maxNote  = 1024
)

// strict tells that the request came by events.k8s.io, whose rules are stricter.
func strict(ctx context.Context) bool {
	info, ok := genericapirequest.RequestInfoFrom(ctx)
	return ok && info.APIGroup == eventsv1.GroupName
}

func validate(ctx context.Context, e *corev1.Event) field.ErrorList {
	s := strict(ctx)
	errs := validateCommon(e, s)
	if !s {
		return errs
	}
	errs = append(errs, registry.ValidateMetadata(e, true, apivalidation.NameIsDNSSubdomain)...)
	errs = append(errs, validateSeries(e.Series)...)
	if e.EventTime.IsZero() {
		errs = append(errs, field.Required(field.NewPath("eventTime"), ""))
	}
	if e.Type != corev1.EventTypeNormal && e.Type != corev1.EventTypeWarning {
		errs = append(errs, field.Invalid(field.NewPath("type"), "", fmt.Sprintf("has invalid value: %v", e.Type)))
	}
	unset := func(ok bool, name string) {
		if !ok {
			errs = append(errs, field.Invalid(field.NewPath(name), "", "needs to be unset"))
		}
	}
	unset(e.FirstTimestamp.IsZero(), "firstTimestamp")
	unset(e.LastTimestamp.IsZero(), "lastTimestamp")
	unset(e.Count == 0, "count")
	unset(e.Source == corev1.EventSource{}, "source")
	return errs
}

func validateUpdate(ctx context.Context, e, old *corev1.Event) field.ErrorList {
	s := strict(ctx)
	errs := validateCommon(e, s)
	if !s {
		return errs
	}
	errs = append(errs, registry.ValidateMetadataUpdate(e, old)...)
	if !apiequality.Semantic.DeepEqual(e.Series, old.Series) {
		errs = append(errs, validateSeries(e.Series)...)
	}
	same := func(a, b any, name string) {
		errs = append(errs, apivalidation.ValidateImmutableField(a, b, field.NewPath(name))...)
	}
	// Only the series may change: another event is another object.
	same(e.InvolvedObject, old.InvolvedObject, "involvedObject")
	same(e.Reason, old.Reason, "reason")
	same(e.Message, old.Message, "message")
	same(e.Source, old.Source, "source")
	same(e.FirstTimestamp, old.FirstTimestamp, "firstTimestamp")
	same(e.LastTimestamp, old.LastTimestamp, "lastTimestamp")
	same(e.Count, old.Count, "count")
	same(e.Reason, old.Reason, "reason")
	same(e.Type, old.Type, "type")
	// Some storages truncate the time to microseconds.
	if !apiequality.Semantic.DeepEqual(e.EventTime.UnixMicro(), old.EventTime.UnixMicro()) {
		same(e.EventTime, old.EventTime, "eventTime")
	}
	same(e.Action, old.Action, "action")
	same(e.Related, old.Related, "related")
	same(e.ReportingController, old.ReportingController, "reportingController")
	same(e.ReportingInstance, old.ReportingInstance, "reportingInstance")
	return errs
}

// validateCommon are the rules of both APIs.
func validateSeries(s *corev1.EventSeries) field.ErrorList {
	var errs field.ErrorList
	if s == nil {
		return nil
	}
	if s.Count < 2 {
		errs = append(errs, field.Invalid(field.NewPath("series.count"), "", "should be at least 2"))
	}
	if s.LastObservedTime.IsZero() {
		errs = append(errs, field.Required(field.NewPath("series.lastObservedTime"), ""))
	}
	return errs
}

func validateCommon(e *corev1.Event, strict bool) field.ErrorList {
	var errs field.ErrorList
	involved := field.NewPath("involvedObject", "namespace")
	for _, msg := range validation.IsDNS1123Subdomain(e.Namespace) {
		errs = append(errs, field.Invalid(field.NewPath("namespace"), e.Namespace, msg))
	}
	if e.EventTime.IsZero() {
		switch {
		case e.InvolvedObject.Namespace == "":
			// Events about cluster-scoped objects live in "default".
			if e.Namespace != "" && e.Namespace != metav1.NamespaceDefault {
				errs = append(errs, field.Invalid(involved, e.InvolvedObject.Namespace, "does not match event.namespace"))
			}
		case e.Namespace != e.InvolvedObject.Namespace:
			errs = append(errs, field.Invalid(involved, e.InvolvedObject.Namespace, "does not match event.namespace"))
		}
		return errs
	}
	if e.InvolvedObject.Namespace == "" && e.Namespace != metav1.NamespaceDefault && e.Namespace != metav1.NamespaceSystem {
		errs = append(errs, field.Invalid(involved, e.InvolvedObject.Namespace, "does not match event.namespace"))
	}
	controller := field.NewPath("reportingComponent")
	if strict {
		controller = field.NewPath("reportingController")
	}
	if e.ReportingController == "" {
		errs = append(errs, field.Required(controller, ""))
	}
	for _, msg := range validation.IsQualifiedName(e.ReportingController) {
		errs = append(errs, field.Invalid(controller, e.ReportingController, msg))
	}
	text := func(name, value string, required bool, limit int) {
		if required && value == "" {
			errs = append(errs, field.Required(field.NewPath(name), ""))
		}
		if len(value) > limit {
			errs = append(errs, field.Invalid(field.NewPath(name), "", fmt.Sprintf("can have at most %v characters", limit)))
		}
	}
	text("reportingInstance", e.ReportingInstance, true, maxField)
	text("action", e.Action, true, maxField)
	text("reason", e.Reason, true, maxField)
	text("message", e.Message, false, maxNote)
	return errs
}
