// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package horizontalpodautoscaler

import (
	"context"
	"errors"
	"fmt"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"minik8s.io/minik8s/pkg/controllers/ownwrites"
)

// pass is one look at one autoscaler. What it finds out is in the status of its copy, which is written at the end, however it ends.
type pass struct {
	*Reconciler
	hpa     *autoscalingv2.HorizontalPodAutoscaler
	history *history
	// from and to are the number of pods before and after.
	from, to int32
}

// run looks at the workload, decides, and scales it.
func (p *pass) run(ctx context.Context) error {
	found, err := p.find(ctx, p.hpa)
	if err != nil {
		p.Kinds.refresh(p.Clock.Now())
		cause := errors.Unwrap(err)
		p.warn("FailedGetScale", cause.Error())
		p.condition(autoscalingv2.AbleToScale, false, "FailedGetScale", fmt.Sprintf("the HPA controller was unable to get the target's current scale: %v", cause))
		return err
	}
	p.condition(autoscalingv2.AbleToScale, true, "SucceededGetScale", "the HPA controller was able to get the target's current scale")
	p.from, p.to = found.scale.Spec.Replicas, found.scale.Spec.Replicas
	p.history.begin(p.from, p.Clock.Now())
	switch do, replicas, reason := courseFor(p.hpa, p.from); do {
	case toBounds:
		return p.scale(ctx, found, replicas, reason, nil)
	case off:
		p.condition(autoscalingv2.ScalingActive, false, "ScalingDisabled", "scaling is disabled since the replica count of the target is zero")
		p.stay(nil)
		return nil
	}
	chosen, statuses, partly := p.compute(ctx, found)
	if chosen == nil {
		setCounts(p.hpa, p.from, p.hpa.Status.DesiredReplicas, statuses, false, p.Clock.Now())
		p.warn("FailedComputeMetricsReplicas", partly.Error())
		return fmt.Errorf("failed to compute desired number of replicas based on listed metrics for %s: %w", reference(p.hpa), partly)
	}
	wanted, reason := aim(p.hpa, chosen, p.from)
	v := settle(&p.hpa.Spec, p.history, p.from, wanted, minimumOf(p.hpa), p.Settings.HorizontalPodAutoscalerDownscaleStabilization.Duration, p.Clock.Now())
	p.condition(autoscalingv2.AbleToScale, true, v.able.reason, v.able.message)
	p.condition(autoscalingv2.ScalingLimited, v.isLimited, v.limited.reason, v.limited.message)
	if v.replicas == p.from {
		p.stay(statuses)
		return partly
	}
	if err := p.scale(ctx, found, v.replicas, reason, statuses); err != nil {
		return err
	}
	return partly
}

// compute asks all metrics. It returns the proposal to go by, nil if there is none; err is set also if there is one but some metrics
// failed.
func (p *pass) compute(ctx context.Context, found target) (*proposal, []autoscalingv2.MetricStatus, error) {
	selector, err := p.selector(ctx, found.scale.Status.Selector)
	if err != nil {
		return nil, nil, err
	}
	specs := p.hpa.Spec.Metrics
	statuses, outcomes := make([]autoscalingv2.MetricStatus, len(specs)), make([]outcome, len(specs))
	for i := range specs {
		outcomes[i] = p.ask(ctx, &specs[i], found, selector)
		if proposed := outcomes[i].proposal; proposed != nil {
			statuses[i] = proposed.status
		}
	}
	chosen, failed, err := choose(found.scale.Spec.Replicas, outcomes)
	if chosen == nil {
		p.condition(autoscalingv2.ScalingActive, false, failed.reason, fmt.Sprintf("the HPA was unable to compute the replica count: %v", failed.cause))
		return nil, statuses, err
	}
	p.condition(autoscalingv2.ScalingActive, true, "ValidMetricFound", "the HPA was able to successfully calculate a replica count from "+chosen.metric)
	return chosen, statuses, err
}

// ask has one metric say how many pods there should be.
func (p *pass) ask(ctx context.Context, spec *autoscalingv2.MetricSpec, found target, selector labels.Selector) outcome {
	start := p.Clock.Now()
	var proposed proposal
	o, err := p.observe(ctx, p.hpa.Namespace, spec, selector)
	if err == nil {
		s := size{wanted: found.scale.Spec.Replicas, present: found.scale.Status.Replicas}
		proposed, err = propose(spec, o, s, leniencyOf(p.hpa.Spec.Behavior, p.Settings), p.Clock.Now())
	}
	countComputation(spec.Type, p.hpa.Status.CurrentReplicas, proposed.replicas, err, p.Clock.Since(start))
	if err != nil {
		if meta.IsNoMatchError(err) {
			p.Kinds.refresh(p.Clock.Now())
		}
		failed := failureOf(spec, err)
		p.warn(failed.reason, failed.cause.Error())
		return outcome{failure: &failed}
	}
	return outcome{proposal: &proposed}
}

// selector returns what selects the pods. Two autoscalers with the same pods would undo each other's work.
func (p *pass) selector(ctx context.Context, text string) (labels.Selector, error) {
	if text == "" {
		p.warn("SelectorRequired", "selector is required")
		p.condition(autoscalingv2.ScalingActive, false, "InvalidSelector", "the HPA target's scale is missing a selector")
		return nil, errors.New("selector is required")
	}
	selector, err := labels.Parse(text)
	if err != nil {
		return nil, p.refuse("InvalidSelector", fmt.Sprintf("couldn't convert selector into a corresponding internal selector object: %v", err))
	}
	p.selectors.put(client.ObjectKeyFromObject(p.hpa), selector)
	selected, err := p.podsOf(ctx, p.hpa.Namespace, selector)
	if err != nil {
		return nil, err
	}
	if found := p.selectors.selecting(p.hpa.Namespace, selected); len(found) > 1 {
		return nil, p.refuse("AmbiguousSelector", fmt.Sprintf("pods by selector %s are controlled by more than one HPA (e.g. %v)", text, found[:2]))
	}
	return selector, nil
}

// refuse says by an event and a condition why nothing can be computed, and returns it.
func (p *pass) refuse(reason, message string) error {
	p.warn(reason, message)
	p.condition(autoscalingv2.ScalingActive, false, reason, message)
	return errors.New(message)
}

// scale changes the number of pods.
func (p *pass) scale(ctx context.Context, found target, replicas int32, reason string, statuses []autoscalingv2.MetricStatus) error {
	err := p.resize(ctx, found, replicas)
	now := p.Clock.Now()
	if err == nil || ownwrites.IsUncertain(err) {
		p.history.scaled(p.from, replicas, p.hpa.Spec.Behavior, now)
	}
	if err != nil {
		p.warn("FailedRescale", fmt.Sprintf("New size: %d; reason: %s; error: %v", replicas, reason, err))
		p.condition(autoscalingv2.AbleToScale, false, "FailedUpdateScale", fmt.Sprintf("the HPA controller was unable to update the target scale: %v", err))
		setCounts(p.hpa, p.from, p.hpa.Status.DesiredReplicas, statuses, false, now)
		return fmt.Errorf("failed to rescale %s: %w", reference(p.hpa), err)
	}
	p.to = replicas
	p.condition(autoscalingv2.AbleToScale, true, "SucceededRescale", fmt.Sprintf("the HPA controller was able to update the target scale to %d", replicas))
	p.Events.Eventf(p.hpa, corev1.EventTypeNormal, "SuccessfulRescale", "New size: %d; reason: %s", replicas, reason)
	if replicas == 0 && minimumOf(p.hpa) == 0 && knowsWithoutPods(p.hpa) {
		p.condition(autoscalingv2.ScaledToZero, true, "ScaledToZero", "the HPA controller scaled the workload to zero")
	} else {
		p.condition(autoscalingv2.ScaledToZero, false, "NotScaledToZero", "the HPA controller did not scale the workload to zero")
	}
	setCounts(p.hpa, p.from, replicas, statuses, true, now)
	desiredReplicas.WithLabelValues(p.hpa.Namespace, p.hpa.Name).Set(float64(replicas))
	return nil
}

// stay leaves the number of pods as it is.
func (p *pass) stay(statuses []autoscalingv2.MetricStatus) {
	setCounts(p.hpa, p.from, p.from, statuses, false, p.Clock.Now())
	desiredReplicas.WithLabelValues(p.hpa.Namespace, p.hpa.Name).Set(float64(p.from))
}

func (p *pass) condition(kind autoscalingv2.HorizontalPodAutoscalerConditionType, is bool, reason, message string) {
	setCondition(&p.hpa.Status, kind, is, explanation{reason, message}, p.Clock.Now())
}

func (p *pass) warn(reason, message string) {
	p.Events.Event(p.hpa, corev1.EventTypeWarning, reason, message)
}

// writeStatus writes the status if the pass has changed it.
func (p *pass) writeStatus(ctx context.Context, before *autoscalingv2.HorizontalPodAutoscalerStatus) error {
	if equality.Semantic.DeepEqual(before, &p.hpa.Status) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if err := client.IgnoreNotFound(p.Client.Status().Update(ctx, p.hpa)); err != nil {
		p.warn("FailedUpdateStatus", err.Error())
		return fmt.Errorf("failed to update status for %s: %w", p.hpa.Name, err)
	}
	return nil
}
