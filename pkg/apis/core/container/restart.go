// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package container

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

const (
	maxRules = 20
	maxCodes = 255
)

var (
	restartPolicies = []corev1.ContainerRestartPolicy{corev1.ContainerRestartPolicyAlways, corev1.ContainerRestartPolicyNever, corev1.ContainerRestartPolicyOnFailure}
	ruleActions     = []corev1.ContainerRestartRuleAction{corev1.ContainerRestartRuleActionRestart, corev1.ContainerRestartRuleActionRestartAllContainers}
	codeOperators   = []corev1.ContainerRestartRuleOnExitCodesOperator{corev1.ContainerRestartRuleOnExitCodesOpIn, corev1.ContainerRestartRuleOnExitCodesOpNotIn}
)

// validateRestart checks a container's own restart policy and rules (KEP-5307).
func validateRestart(c *corev1.Container, path *field.Path) field.ErrorList {
	rules := path.Child("restartPolicyRules")
	var errs field.ErrorList
	switch {
	case c.RestartPolicy == nil && len(c.RestartPolicyRules) > 0:
		errs = append(errs, field.Required(path.Child("restartPolicy"), "must specify restartPolicy when restart rules are used"))
	case c.RestartPolicy != nil && !slices.Contains(restartPolicies, *c.RestartPolicy):
		errs = append(errs, field.NotSupported(path.Child("restartPolicy"), *c.RestartPolicy, restartPolicies))
	}
	if n := len(c.RestartPolicyRules); n > maxRules {
		errs = append(errs, field.TooMany(rules, n, maxRules))
	}
	for i, r := range c.RestartPolicyRules {
		p := rules.Index(i)
		if !slices.Contains(ruleActions, r.Action) {
			errs = append(errs, field.NotSupported(p.Child("action"), r.Action, ruleActions))
		}
		codes := p.Child("exitCodes")
		if r.ExitCodes == nil {
			errs = append(errs, field.Required(codes, "must be specified"))
			continue
		}
		if !slices.Contains(codeOperators, r.ExitCodes.Operator) {
			errs = append(errs, field.NotSupported(codes.Child("operator"), r.ExitCodes.Operator, codeOperators))
		}
		if n := len(r.ExitCodes.Values); n > maxCodes {
			errs = append(errs, field.TooMany(codes.Child("values"), n, maxCodes))
		}
	}
	return errs
}
