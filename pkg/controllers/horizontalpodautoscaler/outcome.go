// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package horizontalpodautoscaler

import (
	"fmt"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
)

// invalidSpec is an error that only a change of the autoscaler's spec can mend.
type invalidSpec struct{ error }

// Unwrap returns what is wrong.
func (e invalidSpec) Unwrap() error { return e.error }

// failure is why a metric asks for nothing.
type failure struct {
	// reason and cause are what the condition and an event say.
	reason string
	cause  error
	// err says the same to who has several metrics before him.
	err error
}

// failureOf tells in upstream's words that the metric of a spec has no value, or none to go by.
func failureOf(spec *autoscalingv2.MetricSpec, err error) failure {
	switch spec.Type {
	case autoscalingv2.ResourceMetricSourceType:
		cause := fmt.Errorf("failed to get %s %s: %w", spec.Resource.Name, aspect(&spec.Resource.Target), err)
		return failure{"FailedGetResourceMetric", cause, fmt.Errorf("failed to get %s resource metric value: %w", spec.Resource.Name, cause)}
	case autoscalingv2.ContainerResourceMetricSourceType:
		source := spec.ContainerResource
		cause := fmt.Errorf("failed to get %s %s: %w", source.Name, aspect(&source.Target), err)
		return failure{"FailedGetContainerResourceMetric", cause, fmt.Errorf("failed to get %s container metric value: %w", source.Container, cause)}
	case autoscalingv2.PodsMetricSourceType:
		return failure{"FailedGetPodsMetric", err, fmt.Errorf("failed to get pods metric value: %w", err)}
	case autoscalingv2.ObjectMetricSourceType:
		said := err
		if spec.Object.Target.Type == autoscalingv2.AverageValueMetricType {
			said = fmt.Errorf("failed to get %s object metric: %w", spec.Object.Metric.Name, err)
		}
		return failure{"FailedGetObjectMetric", err, fmt.Errorf("failed to get object metric value: %w", said)}
	case autoscalingv2.ExternalMetricSourceType:
		name := spec.External.Metric.Name
		said := fmt.Errorf("failed to get external metric %s: %w", name, err)
		if spec.External.Target.AverageValue != nil {
			said = fmt.Errorf("failed to get %s external metric: %w", name, err)
		}
		return failure{"FailedGetExternalMetric", err, fmt.Errorf("failed to get %s external metric value: %w", name, said)}
	}
	return failure{"InvalidMetricSourceType", err, err}
}

// aspect is what of a resource is looked at.
func aspect(target *autoscalingv2.MetricTarget) string {
	if target.AverageValue != nil {
		return "usage"
	}
	return "utilization"
}

// outcome is what one metric came to: one of the two is set.
type outcome struct {
	proposal *proposal
	failure  *failure
}

// choose returns the proposal of the most pods: the first of them, or the last if that is none, whose metric upstream names too. If
// metrics failed, err tells of the first of them, and there is none to go by if all did, or if the others ask for less pods than there
// shall be: those that failed might have asked for more.
func choose(wanted int32, outcomes []outcome) (chosen *proposal, failed *failure, err error) {
	failures := 0
	for _, o := range outcomes {
		switch {
		case o.failure != nil:
			failures++
			if failed == nil {
				failed = o.failure
			}
		case chosen == nil || chosen.replicas == 0 || o.proposal.replicas > chosen.replicas:
			chosen = o.proposal
		}
	}
	if failed != nil {
		err = fmt.Errorf("invalid metrics (%d invalid out of %d), first error is: %w", failures, len(outcomes), failed.err)
	}
	if failures > 0 && chosen != nil && chosen.replicas < wanted {
		chosen = nil
	}
	return chosen, failed, err
}
