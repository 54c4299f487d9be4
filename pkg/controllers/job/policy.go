// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package job

import (
	"fmt"
	"math"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// ruling is what a pod failure policy says about a failed pod.
type ruling struct {
	// action is empty when no rule matches.
	action batchv1.PodFailurePolicyAction
	// message says why the Job fails; it is set with the action FailJob only.
	message string
}

// counts reports whether the failure counts towards the back-off limits.
func (r ruling) counts() bool { return r.action != batchv1.PodFailurePolicyActionIgnore }

// judge returns what the first matching rule of a policy says about a failed pod (KEP-3329).
func judge(policy *batchv1.PodFailurePolicy, pod *corev1.Pod) ruling {
	if policy == nil {
		return ruling{}
	}
	for i, rule := range policy.Rules {
		r := ruling{action: rule.Action}
		if rule.OnExitCodes != nil {
			container := exitedWith(&pod.Status, rule.OnExitCodes)
			if container == nil {
				continue
			}
			if r.action == batchv1.PodFailurePolicyActionFailJob {
				r.message = fmt.Sprintf("Container %s for pod %s/%s failed with exit code %d matching %v rule at index %d",
					container.Name, pod.Namespace, pod.Name, container.State.Terminated.ExitCode, rule.Action, i)
			}
			return r
		}
		if condition := matchingCondition(&pod.Status, rule.OnPodConditions); condition != nil {
			if r.action == batchv1.PodFailurePolicyActionFailJob {
				r.message = fmt.Sprintf("Pod %s/%s has condition %v matching %v rule at index %d",
					pod.Namespace, pod.Name, condition.Type, rule.Action, i)
			}
			return r
		}
	}
	return ruling{}
}

// exitedWith returns the first container that failed with an exit code as required; containers go before init
// containers.
func exitedWith(
	status *corev1.PodStatus, codes *batchv1.PodFailurePolicyOnExitCodesRequirement,
) *corev1.ContainerStatus {
	for _, list := range [][]corev1.ContainerStatus{status.ContainerStatuses, status.InitContainerStatuses} {
		for i := range list {
			end := list[i].State.Terminated
			if end == nil || end.ExitCode == 0 || ptr.Deref(codes.ContainerName, list[i].Name) != list[i].Name {
				continue
			}
			isListed := slices.Contains(codes.Values, end.ExitCode)
			if isListed && codes.Operator == batchv1.PodFailurePolicyOnExitCodesOpIn ||
				!isListed && codes.Operator == batchv1.PodFailurePolicyOnExitCodesOpNotIn {
				return &list[i]
			}
		}
	}
	return nil
}

// pattern is a condition that a rule looks for.
type pattern = batchv1.PodFailurePolicyOnPodConditionsPattern

func matchingCondition(status *corev1.PodStatus, patterns []pattern) *corev1.PodCondition {
	for i := range status.Conditions {
		c := &status.Conditions[i]
		if slices.Contains(patterns, pattern{Type: c.Type, Status: c.Status}) {
			return c
		}
	}
	return nil
}

// succeededBy reports whether the indexes that succeeded are enough for a success policy, and by which rule (KEP-3998).
func succeededBy(policy *batchv1.SuccessPolicy, completions int, succeeded indexes) (message string, ok bool) {
	if policy == nil || len(succeeded) == 0 {
		return "", false
	}
	for i, rule := range policy.Rules {
		have, enough := succeeded.count(), math.MaxInt
		if rule.SucceededIndexes != nil {
			required := parseIndexes(*rule.SucceededIndexes, completions)
			if len(required) == 0 {
				continue
			}
			have, enough = required.common(succeeded), required.count()
		}
		if rule.SucceededCount != nil {
			enough = min(enough, int(*rule.SucceededCount))
		}
		if have >= enough {
			return fmt.Sprintf("Matched rules at index %d", i), true
		}
	}
	return "", false
}
