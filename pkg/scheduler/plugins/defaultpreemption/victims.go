// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package defaultpreemption

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	schedulinghelper "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"minik8s.io/minik8s/pkg/scheduler/framework"
)

// candidate is a node on which the pod fits once the victims are gone.
type candidate struct {
	node string
	// victims, the most important first.
	victims []*framework.PodInfo
	// violations counts the victims that a disruption budget protects.
	violations int
}

// dryRun finds the victims on a node, or says why preemption is no help there.
// Pods of less priority are all removed, and then spared one by one, the more
// important ones first, as long as the pod still fits.
func dryRun(ctx context.Context, h fwk.Handle, state fwk.CycleState, pod *corev1.Pod, node fwk.NodeInfo, budgets []*policyv1.PodDisruptionBudget) (*candidate, *fwk.Status) {
	node, state = node.Snapshot(), state.Clone()
	var potential []*framework.PodInfo
	for _, p := range node.GetPods() {
		if schedulinghelper.PodPriority(p.GetPod()) < schedulinghelper.PodPriority(pod) {
			potential = append(potential, framework.AsPodInfo(p))
		}
	}
	if len(potential) == 0 {
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "No preemption victims found for incoming pod")
	}
	remove := func(p *framework.PodInfo) *fwk.Status {
		if err := node.RemovePod(klog.FromContext(ctx), p.Pod); err != nil {
			return fwk.AsStatus(err)
		}
		return h.RunPreFilterExtensionRemovePod(ctx, state, pod, p, node)
	}
	for _, p := range potential {
		if s := remove(p); !s.IsSuccess() {
			return nil, fwk.AsStatus(s.AsError())
		}
	}
	if s := h.RunFilterPluginsWithNominatedPods(ctx, state, pod, node); !s.IsSuccess() {
		return nil, s
	}
	slices.SortStableFunc(potential, byImportance)
	protected, others := splitByBudget(potential, budgets)
	c := &candidate{node: node.Node().Name}
	for i, p := range append(protected, others...) {
		node.AddPodInfo(p)
		if s := h.RunPreFilterExtensionAddPod(ctx, state, pod, p, node); !s.IsSuccess() {
			return nil, fwk.AsStatus(s.AsError())
		}
		if h.RunFilterPluginsWithNominatedPods(ctx, state, pod, node).IsSuccess() {
			continue
		}
		if s := remove(p); !s.IsSuccess() {
			return nil, fwk.AsStatus(s.AsError())
		}
		c.victims = append(c.victims, p)
		if i < len(protected) {
			c.violations++
		}
	}
	slices.SortStableFunc(c.victims, byImportance)
	return c, nil
}

// byImportance orders by priority, and then by age: who ran longer matters more.
func byImportance(a, b *framework.PodInfo) int {
	if c := cmp.Compare(b.Priority(), a.Priority()); c != 0 {
		return c
	}
	return startTime(a.Pod).Compare(startTime(b.Pod).Time)
}

// startTime of a pod that did not start is its creation.
func startTime(p *corev1.Pod) metav1.Time {
	if p.Status.StartTime != nil {
		return *p.Status.StartTime
	}
	return p.CreationTimestamp
}

// splitByBudget separates pods, in order, whose eviction would exceed what a
// disruption budget allows. A budget that covers a pod it already counts as
// disrupted is not charged for it again.
func splitByBudget(pods []*framework.PodInfo, budgets []*policyv1.PodDisruptionBudget) (protected, others []*framework.PodInfo) {
	left := make([]int32, len(budgets))
	for i, b := range budgets {
		left[i] = b.Status.DisruptionsAllowed
	}
	for _, p := range pods {
		violates := false
		for i, b := range budgets {
			if !covers(b, p.Pod) {
				continue
			}
			if _, counted := b.Status.DisruptedPods[p.Pod.Name]; counted {
				continue
			}
			left[i]--
			violates = violates || left[i] < 0
		}
		if violates {
			protected = append(protected, p)
		} else {
			others = append(others, p)
		}
	}
	return protected, others
}

func covers(b *policyv1.PodDisruptionBudget, pod *corev1.Pod) bool {
	if b.Namespace != pod.Namespace || len(pod.Labels) == 0 {
		return false
	}
	selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
	return err == nil && !selector.Empty() && selector.Matches(labels.Set(pod.Labels))
}

// pick returns the candidate whose victims are missed least: the fewest budget
// violations, the lowest first victim, the lowest sum of priorities, the fewest
// victims, the youngest first victims; then the first one.
func pick(candidates []*candidate) *candidate {
	return slices.MinFunc(candidates, func(a, b *candidate) int {
		if len(a.victims) == 0 || len(b.victims) == 0 {
			return cmp.Compare(len(a.victims), len(b.victims))
		}
		return cmp.Or(
			cmp.Compare(a.violations, b.violations),
			cmp.Compare(a.victims[0].Priority(), b.victims[0].Priority()),
			cmp.Compare(a.cost(), b.cost()),
			cmp.Compare(len(a.victims), len(b.victims)),
			b.oldestFirstVictim().Compare(a.oldestFirstVictim().Time),
		)
	})
}

// cost sums the priorities, shifted so that negative ones count too.
func (c *candidate) cost() (sum int64) {
	const shift = int64(1) << 31
	for _, v := range c.victims {
		sum += int64(v.Priority()) + shift
	}
	return sum
}

// oldestFirstVictim is the earliest start among the victims of highest priority.
func (c *candidate) oldestFirstVictim() metav1.Time {
	oldest := startTime(c.victims[0].Pod)
	for _, v := range c.victims[1:] {
		if v.Priority() == c.victims[0].Priority() {
			if t := startTime(v.Pod); t.Before(&oldest) {
				oldest = t
			}
		}
	}
	return oldest
}

// eligible tells whether a pod may preempt others, and if not, why.
func eligible(pod *corev1.Pod, nominated fwk.NodeInfo, nominatedStatus *fwk.Status) (bool, string) {
	if p := pod.Spec.PreemptionPolicy; p != nil && *p == corev1.PreemptNever {
		return false, "not eligible due to preemptionPolicy=Never."
	}
	if nominated == nil || nominatedStatus.Code() == fwk.UnschedulableAndUnresolvable {
		return true, ""
	}
	for _, p := range nominated.GetPods() {
		if schedulinghelper.PodPriority(p.GetPod()) < schedulinghelper.PodPriority(pod) && beingPreempted(p.GetPod()) {
			return false, "not eligible due to a terminating pod on the nominated node."
		}
	}
	return true, ""
}

func beingPreempted(p *corev1.Pod) bool {
	if p.DeletionTimestamp == nil {
		return false
	}
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.DisruptionTarget {
			return c.Status == corev1.ConditionTrue && c.Reason == corev1.PodReasonPreemptionByScheduler
		}
	}
	return false
}

func message(schedulerName string) string {
	return fmt.Sprintf("%s: preempting to accommodate a higher priority pod", schedulerName)
}
