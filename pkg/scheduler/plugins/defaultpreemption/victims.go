// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package defaultpreemption

import (
	"cmp"
	"context"
	"slices"
	"time"

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
// Units of less priority are all removed, and then spared one by one, the more
// important ones first, as long as the pod still fits. What of a unit is on other
// nodes goes with it, which changes nothing on this one.
func dryRun(ctx context.Context, h fwk.Handle, state fwk.CycleState, pod *corev1.Pod, node fwk.NodeInfo, budgets []*policyv1.PodDisruptionBudget) (*candidate, *fwk.Status) {
	potential := units(h, []fwk.NodeInfo{node}, schedulinghelper.PodPriority(pod))
	if len(potential) == 0 {
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "No preemption victims found for incoming pod")
	}
	node, state = node.Snapshot(), state.Clone()
	remove := func(u *unit) *fwk.Status {
		for _, p := range u.pods {
			if err := node.RemovePod(klog.FromContext(ctx), p.Pod); err != nil {
				return fwk.AsStatus(err)
			}
			if s := h.RunPreFilterExtensionRemovePod(ctx, state, pod, p, node); !s.IsSuccess() {
				return fwk.AsStatus(s.AsError())
			}
		}
		return nil
	}
	for _, u := range potential {
		if s := remove(u); !s.IsSuccess() {
			return nil, s
		}
	}
	if s := h.RunFilterPluginsWithNominatedPods(ctx, state, pod, node); !s.IsSuccess() {
		return nil, s
	}
	c := &candidate{node: node.Node().Name}
	for _, u := range spareInOrder(potential, budgets) {
		for _, p := range u.pods {
			node.AddPodInfo(p)
			if s := h.RunPreFilterExtensionAddPod(ctx, state, pod, p, node); !s.IsSuccess() {
				return nil, fwk.AsStatus(s.AsError())
			}
		}
		if h.RunFilterPluginsWithNominatedPods(ctx, state, pod, node).IsSuccess() {
			continue
		}
		if s := remove(u); !s.IsSuccess() {
			return nil, s
		}
		c.victims = append(c.victims, u.all()...)
		c.violations += u.violations
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

// startTime of a pod that did not start is after all others, however long it waited for its node.
func startTime(p *corev1.Pod) metav1.Time {
	if p.Status.StartTime != nil {
		return *p.Status.StartTime
	}
	return metav1.NewTime(time.Unix(1<<40, 0))
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
func eligible(h fwk.Handle, pod *corev1.Pod, nominated fwk.NodeInfo, nominatedStatus *fwk.Status) (bool, string) {
	if p := pod.Spec.PreemptionPolicy; p != nil && *p == corev1.PreemptNever {
		return false, "not eligible due to preemptionPolicy=Never."
	}
	if nominated == nil || nominatedStatus.Code() == fwk.UnschedulableAndUnresolvable {
		return true, ""
	}
	for _, p := range nominated.GetPods() {
		if isLeaving(h, p.GetPod(), schedulinghelper.PodPriority(pod)) {
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
