// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package prioritylevelconfiguration

import (
	"context"
	"fmt"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	flowcontrolv1beta3 "k8s.io/api/flowcontrol/v1beta3"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/apis/flowcontrol/bootstrap"
	"k8s.io/apiserver/pkg/util/shufflesharding"
)

const maxQueues = 10_000_000

var (
	levelTypes    = []flowcontrolv1.PriorityLevelEnablement{flowcontrolv1.PriorityLevelEnablementExempt, flowcontrolv1.PriorityLevelEnablementLimited}
	responseTypes = []flowcontrolv1.LimitResponseType{flowcontrolv1.LimitResponseTypeQueue, flowcontrolv1.LimitResponseTypeReject}
)

func validate(_ context.Context, p *flowcontrolv1.PriorityLevelConfiguration) field.ErrorList {
	var errs field.ErrorList
	// Only v1beta3, which is not served, has a meaning for it.
	const preserve = flowcontrolv1beta3.PriorityLevelPreserveZeroConcurrencySharesKey
	if _, ok := p.Annotations[preserve]; ok {
		errs = append(errs, field.Forbidden(field.NewPath("metadata", "annotations"), fmt.Sprintf("annotation '%s' is forbidden", preserve)))
	}
	path := field.NewPath("spec")
	errs = append(errs, validateSpec(p.Name, &p.Spec, path)...)
	for _, fixed := range bootstrap.MandatoryPriorityLevelConfigurations {
		if p.Name == fixed.Name {
			errs = append(errs, validateFixed(p, fixed, path)...)
		}
	}
	return append(errs, validateConditions(p.Status.Conditions)...)
}

// validateFixed holds a mandatory level to what it must be. How much the exempt one lends is up to the administrator.
func validateFixed(p, fixed *flowcontrolv1.PriorityLevelConfiguration, path *field.Path) field.ErrorList {
	have, msg := p.Spec, "spec of '%s' must equal the fixed value"
	if p.Name == flowcontrolv1.PriorityLevelConfigurationNameExempt {
		have.Exempt, msg = fixed.Spec.Exempt, "spec of '%s' except the 'spec.exempt' field must equal the fixed value"
	}
	if apiequality.Semantic.DeepEqual(have, fixed.Spec) {
		return nil
	}
	return field.ErrorList{field.Invalid(path, p.Spec, fmt.Sprintf(msg, p.Name))}
}

func validateStatus(_ context.Context, p, _ *flowcontrolv1.PriorityLevelConfiguration) field.ErrorList {
	return validateConditions(p.Status.Conditions)
}

func validateConditions(conditions []flowcontrolv1.PriorityLevelConfigurationCondition) field.ErrorList {
	var errs field.ErrorList
	seen := sets.New[flowcontrolv1.PriorityLevelConfigurationConditionType]()
	for i, c := range conditions {
		path := field.NewPath("status", "conditions").Index(i).Child("type")
		if seen.Has(c.Type) {
			errs = append(errs, field.Duplicate(path, c.Type))
		}
		seen.Insert(c.Type)
		if c.Type == "" {
			errs = append(errs, field.Required(path, ""))
		}
	}
	return errs
}

func validateSpec(name string, s *flowcontrolv1.PriorityLevelConfigurationSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if (name == flowcontrolv1.PriorityLevelConfigurationNameExempt) != (s.Type == flowcontrolv1.PriorityLevelEnablementExempt) {
		errs = append(errs, field.Invalid(path.Child("type"), s.Type, "must be 'Exempt' if and only if `name` is 'exempt'"))
	}
	switch s.Type {
	case flowcontrolv1.PriorityLevelEnablementExempt:
		if s.Limited != nil {
			errs = append(errs, field.Forbidden(path.Child("limited"), "must be nil if the type is not Limited"))
		}
		if e := s.Exempt; e != nil {
			errs = append(errs, validateShares(e.NominalConcurrencyShares, e.LendablePercent, path.Child("exempt"))...)
		}
	case flowcontrolv1.PriorityLevelEnablementLimited:
		if s.Exempt != nil {
			errs = append(errs, field.Forbidden(path.Child("exempt"), "must be nil if the type is Limited"))
		}
		if s.Limited == nil {
			return append(errs, field.Required(path.Child("limited"), "must not be empty when type is Limited"))
		}
		errs = append(errs, validateLimited(s.Limited, path.Child("limited"))...)
	case "":
		errs = append(errs, field.Required(path.Child("type"), ""))
	default:
		errs = append(errs, field.NotSupported(path.Child("type"), s.Type, levelTypes))
	}
	return errs
}

func validateShares(shares, lendable *int32, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if shares != nil && *shares < 0 {
		errs = append(errs, field.Invalid(path.Child("nominalConcurrencyShares"), *shares, "must be a non-negative integer"))
	}
	if lendable != nil && (*lendable < 0 || *lendable > 100) {
		errs = append(errs, field.Invalid(path.Child("lendablePercent"), *lendable, "must be between 0 and 100, inclusive"))
	}
	return errs
}

func validateLimited(l *flowcontrolv1.LimitedPriorityLevelConfiguration, path *field.Path) field.ErrorList {
	errs := validateShares(l.NominalConcurrencyShares, l.LendablePercent, path)
	errs = append(errs, validateResponse(&l.LimitResponse, path.Child("limitResponse"))...)
	if n := l.BorrowingLimitPercent; n != nil && *n < 0 {
		errs = append(errs, field.Invalid(path.Child("borrowingLimitPercent"), *n, "if specified, must be a non-negative integer"))
	}
	return errs
}

func validateResponse(r *flowcontrolv1.LimitResponse, path *field.Path) field.ErrorList {
	switch r.Type {
	case flowcontrolv1.LimitResponseTypeReject:
		if r.Queuing != nil {
			return field.ErrorList{field.Forbidden(path.Child("queuing"), "must be nil if limited.limitResponse.type is not Limited")}
		}
		return nil
	case flowcontrolv1.LimitResponseTypeQueue:
		if r.Queuing == nil {
			return field.ErrorList{field.Required(path.Child("queuing"), "must not be empty if limited.limitResponse.type is Limited")}
		}
		return validateQueuing(r.Queuing, path.Child("queuing"))
	case "":
		return field.ErrorList{field.Required(path.Child("type"), "")}
	}
	return field.ErrorList{field.NotSupported(path.Child("type"), r.Type, responseTypes)}
}

func validateQueuing(q *flowcontrolv1.QueuingConfiguration, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if q.QueueLengthLimit <= 0 {
		errs = append(errs, field.Invalid(path.Child("queueLengthLimit"), q.QueueLengthLimit, "must be positive"))
	}
	if q.Queues <= 0 {
		errs = append(errs, field.Invalid(path.Child("queues"), q.Queues, "must be positive"))
	} else if q.Queues > maxQueues {
		errs = append(errs, field.Invalid(path.Child("queues"), q.Queues, fmt.Sprintf("must not be greater than %d", maxQueues)))
	}
	hand := path.Child("handSize")
	if q.HandSize <= 0 {
		return append(errs, field.Invalid(hand, q.HandSize, "must be positive"))
	}
	if q.HandSize > q.Queues {
		return append(errs, field.Invalid(hand, q.HandSize, fmt.Sprintf("should not be greater than queues (%d)", q.Queues)))
	}
	// A hand of queues is dealt to a flow by one hash.
	if shufflesharding.RequiredEntropyBits(int(q.Queues), int(q.HandSize)) > shufflesharding.MaxHashBits {
		errs = append(errs, field.Invalid(hand, q.HandSize, fmt.Sprintf("required entropy bits of deckSize %d and handSize %d should not be greater than %d",
			q.Queues, q.HandSize, shufflesharding.MaxHashBits)))
	}
	return errs
}
