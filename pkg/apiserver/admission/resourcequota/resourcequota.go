// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package resourcequota refuses requests that would use up more than a ResourceQuota of the namespace allows, and writes
// down what the others use. What objects use is told by package quota; touch this one when other requests have to be looked
// at. See https://kubernetes.io/docs/concepts/policy/resource-quotas/.
package resourcequota

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/initializer"
	"k8s.io/apiserver/pkg/admission/plugin/resourcequota"
	"k8s.io/apiserver/pkg/admission/plugin/resourcequota/apis/resourcequota/validation"
	apiquota "k8s.io/apiserver/pkg/quota/v1"
	"k8s.io/apiserver/pkg/quota/v1/generic"
	"k8s.io/client-go/kubernetes"

	"minik8s.io/minik8s/pkg/apis/quota"
)

// Name of the plugin.
const Name = resourcequota.PluginName

// workers is how many namespaces are worked on at the same time; the requests of one namespace are judged together.
const workers = 5

// Plugin is the admission plugin.
type Plugin struct {
	*resourcequota.QuotaAdmission
	devices devices
}

var (
	_ admission.ValidationInterface                = (*Plugin)(nil)
	_ initializer.WantsExternalKubeInformerFactory = (*Plugin)(nil)
	_ initializer.WantsExternalKubeClientSet       = (*Plugin)(nil)
	_ initializer.WantsDrainedNotification         = (*Plugin)(nil)
)

// New returns the plugin by its configuration, which may be nil; its limitedResources are those that nobody gets without a
// quota. Its workers run until the drained notification.
func New(config io.Reader) (admission.Interface, error) {
	limits, err := resourcequota.LoadConfiguration(config)
	if err != nil {
		return nil, fmt.Errorf("reading the configuration of %s: %w", Name, err)
	}
	if errs := validation.ValidateConfiguration(limits); len(errs) > 0 {
		return nil, fmt.Errorf("the configuration of %s is invalid: %w", Name, errs.ToAggregate())
	}
	inner, err := resourcequota.NewResourceQuota(limits, workers)
	if err != nil {
		return nil, fmt.Errorf("creating the admission plugin %s: %w", Name, err)
	}
	return &Plugin{QuotaAdmission: inner}, nil
}

// SetExternalKubeClientSet implements initializer.WantsExternalKubeClientSet.
func (p *Plugin) SetExternalKubeClientSet(c kubernetes.Interface) {
	p.QuotaAdmission.SetExternalKubeClientSet(c)
	p.devices.client = c
}

// SetDrainedNotification implements initializer.WantsDrainedNotification.
func (p *Plugin) SetDrainedNotification(drained <-chan struct{}) {
	p.QuotaAdmission.SetDrainedNotification(drained)
	var evaluators []apiquota.Evaluator
	for _, kind := range quota.Kinds(&p.devices) {
		evaluators = append(evaluators, &evaluator{kind: kind, now: time.Now})
	}
	// Events expire by themselves and must get through when all else fails.
	ignored := map[schema.GroupResource]struct{}{{Resource: "events"}: {}, {Group: "events.k8s.io", Resource: "events"}: {}}
	p.SetQuotaConfiguration(generic.NewConfiguration(evaluators, ignored))
}

// evaluator judges requests for one kind.
type evaluator struct {
	kind quota.Kind
	now  func() time.Time
}

var _ apiquota.Evaluator = (*evaluator)(nil)

// Constraints implements apiquota.Evaluator.
func (e *evaluator) Constraints(required []corev1.ResourceName, item runtime.Object) error {
	if e.kind.Require == nil {
		return nil
	}
	return e.kind.Require(required, item)
}

// GroupResource implements apiquota.Evaluator.
func (e *evaluator) GroupResource() schema.GroupResource { return e.kind.Resource }

// Handles implements apiquota.Evaluator.
func (e *evaluator) Handles(a admission.Attributes) bool {
	switch a.GetSubresource() {
	case "":
		return a.GetOperation() == admission.Create || a.GetOperation() == admission.Update && e.handlesUpdate(a)
	case "resize":
		return e.kind.Resource == corev1.Resource("pods") && a.GetOperation() == admission.Update
	case "status": // tells what a claim holds in fact, and of which classes; it is counted and never refused
		return e.kind.Resource == corev1.Resource("persistentvolumeclaims")
	}
	return false
}

func (e *evaluator) handlesUpdate(a admission.Attributes) bool {
	return e.kind.Updates || e.kind.Moves != nil && e.kind.Moves(a.GetOldObject(), a.GetObject())
}

// Matches implements apiquota.Evaluator.
func (e *evaluator) Matches(q *corev1.ResourceQuota, item runtime.Object) (bool, error) {
	if len(e.kind.Matching(q.Status.Hard)) == 0 {
		return false, nil
	}
	return e.kind.InScopes(quota.Scopes(&q.Spec), item)
}

// MatchingScopes implements apiquota.Evaluator.
func (e *evaluator) MatchingScopes(item runtime.Object, scopes []corev1.ScopedResourceSelectorRequirement) ([]corev1.ScopedResourceSelectorRequirement, error) {
	var matching []corev1.ScopedResourceSelectorRequirement
	for _, scope := range scopes {
		in, err := e.kind.InScopes([]corev1.ScopedResourceSelectorRequirement{scope}, item)
		if err != nil {
			return nil, fmt.Errorf("error on matching scope %s: %w", scope.ScopeName, err)
		}
		if in {
			matching = append(matching, scope)
		}
	}
	return matching, nil
}

// UncoveredQuotaScopes implements apiquota.Evaluator.
func (e *evaluator) UncoveredQuotaScopes(limited, matched []corev1.ScopedResourceSelectorRequirement) ([]corev1.ScopedResourceSelectorRequirement, error) {
	var uncovered []corev1.ScopedResourceSelectorRequirement
	for _, scope := range limited {
		if !slices.ContainsFunc(matched, func(m corev1.ScopedResourceSelectorRequirement) bool { return m.ScopeName == scope.ScopeName }) {
			uncovered = append(uncovered, scope)
		}
	}
	return uncovered, nil
}

// MatchingResources implements apiquota.Evaluator.
func (e *evaluator) MatchingResources(input []corev1.ResourceName) []corev1.ResourceName {
	return slices.DeleteFunc(slices.Clone(input), func(name corev1.ResourceName) bool { return !e.kind.Counts(name) })
}

// Usage implements apiquota.Evaluator.
func (e *evaluator) Usage(item runtime.Object) (corev1.ResourceList, error) {
	return e.kind.Usage(item, e.now())
}

// UsageStats implements apiquota.Evaluator. Only the controller adds up what is there; admission never asks.
func (e *evaluator) UsageStats(apiquota.UsageStatsOptions) (apiquota.UsageStats, error) {
	return apiquota.UsageStats{}, errors.New("admission does not add up usage")
}
