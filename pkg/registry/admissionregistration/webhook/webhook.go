// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package webhook holds what both kinds of webhook configuration share. The fields of a mutating webhook are those of a
// validating one and a reinvocation policy, so everything here is about validating ones. Touch it when their rules change.
package webhook

import (
	"fmt"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	webhookutil "k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/utils/ptr"

	"minik8s.io/minik8s/pkg/registry"
	"minik8s.io/minik8s/pkg/registry/admissionregistration/expression"
	"minik8s.io/minik8s/pkg/registry/admissionregistration/rule"
)

// Columns are those of both configurations.
var Columns = []metav1.TableColumnDefinition{
	registry.NameColumn,
	registry.Column("Webhooks", "integer", "Webhooks indicates the number of webhooks registered in this configuration"),
	registry.AgeColumn,
}

// Row is that of a configuration with so many webhooks.
func Row(m *metav1.ObjectMeta, webhooks int) []any {
	return []any{m.Name, int64(webhooks), registry.Age(m.CreationTimestamp)}
}

// Path is where configurations list their webhooks.
var Path = field.NewPath("webhooks")

var (
	failurePolicies  = []admissionv1.FailurePolicyType{admissionv1.Fail, admissionv1.Ignore}
	matchPolicies    = []admissionv1.MatchPolicyType{admissionv1.Equivalent, admissionv1.Exact}
	harmless         = []admissionv1.SideEffectClass{admissionv1.SideEffectClassNone, admissionv1.SideEffectClassNoneOnDryRun}
	anySideEffects   = append(slices.Clone(harmless), admissionv1.SideEffectClassSome, admissionv1.SideEffectClassUnknown)
	reviewVersions   = []string{"v1", "v1beta1"}
	reinvokePolicies = []admissionv1.ReinvocationPolicyType{admissionv1.IfNeededReinvocationPolicy, admissionv1.NeverReinvocationPolicy}
)

// Validating is a mutating webhook without its reinvocation policy.
func Validating(m admissionv1.MutatingWebhook) admissionv1.ValidatingWebhook {
	return admissionv1.ValidatingWebhook{
		Name: m.Name, ClientConfig: m.ClientConfig, Rules: m.Rules, FailurePolicy: m.FailurePolicy, MatchPolicy: m.MatchPolicy,
		NamespaceSelector: m.NamespaceSelector, ObjectSelector: m.ObjectSelector, SideEffects: m.SideEffects,
		TimeoutSeconds: m.TimeoutSeconds, AdmissionReviewVersions: m.AdmissionReviewVersions, MatchConditions: m.MatchConditions,
	}
}

// SetDefaults fills in what a webhook does not say.
func SetDefaults(w *admissionv1.ValidatingWebhook) {
	if w.FailurePolicy == nil {
		w.FailurePolicy = new(admissionv1.Fail)
	}
	if w.MatchPolicy == nil {
		w.MatchPolicy = new(admissionv1.Equivalent)
	}
	if w.NamespaceSelector == nil {
		w.NamespaceSelector = &metav1.LabelSelector{}
	}
	if w.ObjectSelector == nil {
		w.ObjectSelector = &metav1.LabelSelector{}
	}
	if w.TimeoutSeconds == nil {
		w.TimeoutSeconds = new(int32(10))
	}
	if s := w.ClientConfig.Service; s != nil && s.Port == nil {
		s.Port = new(int32(443))
	}
	for i := range w.Rules {
		rule.SetDefaults(&w.Rules[i].Rule)
	}
}

// Validate checks the webhooks of a configuration. A demand that the old ones did not meet, being stored before it was
// made, is not made of the new ones either. old is empty on create.
func Validate(webhooks, old []admissionv1.ValidatingWebhook) field.ErrorList {
	d := demands(old)
	d.conditions = !sameConditions(webhooks, old)
	var errs field.ErrorList
	names := sets.New[string]()
	for i := range webhooks {
		w := &webhooks[i]
		errs = append(errs, d.validate(w, Path.Index(i))...)
		if d.uniqueNames && w.Name != "" && names.Has(w.Name) {
			errs = append(errs, field.Duplicate(Path.Index(i).Child("name"), w.Name))
		}
		names.Insert(w.Name)
	}
	return errs
}

// ValidateReinvocation checks the part that only mutating webhooks have.
func ValidateReinvocation(p *admissionv1.ReinvocationPolicyType, path *field.Path) field.ErrorList {
	if p == nil || slices.Contains(reinvokePolicies, *p) {
		return nil
	}
	return field.ErrorList{field.NotSupported(path, *p, reinvokePolicies)}
}

// demand is what is asked of webhooks beyond what always was.
type demand struct {
	// sideEffects must be none on dry run, one of the versions of reviews be known, names be unique, selectors hold only
	// values that labels can have, match conditions compile.
	sideEffects, reviewVersion, uniqueNames, selectors, conditions bool
	// stored are the expressions of the old match conditions.
	stored expression.Stored
}

func demands(old []admissionv1.ValidatingWebhook) demand {
	d := demand{sideEffects: true, reviewVersion: true, uniqueNames: true, selectors: true, stored: expression.Stored{}}
	names := sets.New[string]()
	for i := range old {
		w := &old[i]
		d.sideEffects = d.sideEffects && w.SideEffects != nil && slices.Contains(harmless, *w.SideEffects)
		d.reviewVersion = d.reviewVersion && (len(w.AdmissionReviewVersions) == 0 || knownVersion(w.AdmissionReviewVersions))
		d.uniqueNames = d.uniqueNames && !names.Has(w.Name)
		names.Insert(w.Name)
		d.selectors = d.selectors && len(validateSelectors(w, metav1validation.LabelSelectorValidationOptions{}, nil)) == 0
		for _, c := range w.MatchConditions {
			d.stored.Insert(c.Expression)
		}
	}
	return d
}

func knownVersion(versions []string) bool {
	return slices.ContainsFunc(versions, func(v string) bool { return slices.Contains(reviewVersions, v) })
}

func sameConditions(a, b []admissionv1.ValidatingWebhook) bool {
	return slices.EqualFunc(a, b, func(x, y admissionv1.ValidatingWebhook) bool {
		return apiequality.Semantic.DeepEqual(x.MatchConditions, y.MatchConditions)
	})
}

func (d demand) validate(w *admissionv1.ValidatingWebhook, path *field.Path) field.ErrorList {
	errs := validation.IsFullyQualifiedName(path.Child("name"), w.Name)
	for i := range w.Rules {
		errs = append(errs, rule.Validate(&w.Rules[i], path.Child("rules").Index(i))...)
	}
	if p := w.FailurePolicy; p != nil && !slices.Contains(failurePolicies, *p) {
		errs = append(errs, field.NotSupported(path.Child("failurePolicy"), *p, failurePolicies))
	}
	if p := w.MatchPolicy; p != nil && !slices.Contains(matchPolicies, *p) {
		errs = append(errs, field.NotSupported(path.Child("matchPolicy"), *p, matchPolicies))
	}
	errs = append(errs, d.validateSideEffects(w.SideEffects, path.Child("sideEffects"))...)
	if t := w.TimeoutSeconds; t != nil && (*t < 1 || *t > 30) {
		errs = append(errs, field.Invalid(path.Child("timeoutSeconds"), *t, "the timeout value must be between 1 and 30 seconds"))
	}
	errs = append(errs, validateSelectors(w, metav1validation.LabelSelectorValidationOptions{AllowInvalidLabelValueInSelector: !d.selectors}, path)...)
	errs = append(errs, validateClient(&w.ClientConfig, path.Child("clientConfig"))...)
	if d.conditions {
		errs = append(errs, expression.ValidateConditions(w.MatchConditions, false, d.stored, path.Child("matchConditions"))...)
	}
	return append(errs, d.validateReviewVersions(w.AdmissionReviewVersions, path.Child("admissionReviewVersions"))...)
}

func (d demand) validateSideEffects(s *admissionv1.SideEffectClass, path *field.Path) field.ErrorList {
	allowed := anySideEffects
	if d.sideEffects {
		allowed = harmless
	}
	switch {
	case s == nil:
		names := make([]string, len(allowed))
		for i, class := range allowed {
			names[i] = string(class)
		}
		return field.ErrorList{field.Required(path, "must specify one of "+strings.Join(names, ", "))}
	case !slices.Contains(allowed, *s):
		return field.ErrorList{field.NotSupported(path, *s, allowed)}
	}
	return nil
}

func validateSelectors(w *admissionv1.ValidatingWebhook, options metav1validation.LabelSelectorValidationOptions, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if w.NamespaceSelector != nil {
		errs = append(errs, metav1validation.ValidateLabelSelector(w.NamespaceSelector, options, path.Child("namespaceSelector"))...)
	}
	if w.ObjectSelector != nil {
		errs = append(errs, metav1validation.ValidateLabelSelector(w.ObjectSelector, options, path.Child("objectSelector"))...)
	}
	return errs
}

func validateClient(c *admissionv1.WebhookClientConfig, path *field.Path) field.ErrorList {
	switch {
	case (c.URL == nil) == (c.Service == nil):
		return field.ErrorList{field.Required(path, "exactly one of url or service is required")}
	case c.URL != nil:
		return webhookutil.ValidateWebhookURL(path.Child("url"), *c.URL, true)
	}
	// The port is defaulted; without one, 443 is meant.
	return webhookutil.ValidateWebhookService(path.Child("service"), c.Service.Name, c.Service.Namespace, c.Service.Path, ptr.Deref(c.Service.Port, 443))
}

func (d demand) validateReviewVersions(versions []string, path *field.Path) field.ErrorList {
	known := strings.Join(reviewVersions, ", ")
	if len(versions) == 0 {
		return field.ErrorList{field.Required(path, "must specify one of "+known)}
	}
	var errs field.ErrorList
	seen := sets.New[string]()
	for i, v := range versions {
		if seen.Has(v) {
			errs = append(errs, field.Invalid(path.Index(i), v, "duplicate version"))
			continue
		}
		seen.Insert(v)
		for _, msg := range validation.IsDNS1035Label(v) {
			errs = append(errs, field.Invalid(path.Index(i), v, msg))
		}
	}
	if d.reviewVersion && !knownVersion(versions) {
		errs = append(errs, field.Invalid(path, versions, fmt.Sprintf("must include at least one of %s", known)))
	}
	return errs
}
