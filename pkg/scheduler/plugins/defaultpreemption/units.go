// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package defaultpreemption

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	schedulinghelper "k8s.io/component-helpers/scheduling/corev1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/ptr"

	"minik8s.io/minik8s/pkg/scheduler/framework"
)

// unit is what is preempted as a whole: a pod, or all pods of a group whose
// disruptionMode says so.
type unit struct {
	// pods on the nodes that are looked at, at least one, and elsewhere.
	pods, elsewhere []*framework.PodInfo
	// priority is that of its group, if the pods have one.
	priority int32
	// grouped tells that the pods are of a group, and group that they go as a whole.
	grouped, group bool
	// began is when the first pod did.
	began metav1.Time
	// violations counts the pods that a disruption budget protects.
	violations int
}

// units are those on nodes that have less than a priority.
func units(h fwk.Handle, nodes []fwk.NodeInfo, below int32) []*unit {
	var out []*unit
	groups := map[types.NamespacedName]*unit{}
	for _, n := range nodes {
		for _, p := range n.GetPods() {
			info := framework.AsPodInfo(p)
			group := groupOf(h, info.Pod)
			priority := priorityIn(group, info.Pod)
			if priority >= below {
				continue
			}
			whole := group != nil && group.Spec.DisruptionMode != nil && group.Spec.DisruptionMode.All != nil
			name, _ := framework.GroupOf(info.Pod)
			if u := groups[name]; whole && u != nil {
				u.pods = append(u.pods, info)
				continue
			}
			u := &unit{pods: []*framework.PodInfo{info}, priority: priority, grouped: group != nil, group: whole, began: startTime(info.Pod)}
			out = append(out, u)
			if whole {
				groups[name] = u
			}
		}
	}
	for name, u := range groups {
		u.elsewhere = elsewhere(h, name, u.pods)
		for _, p := range u.all() {
			if t := startTime(p.Pod); t.Before(&u.began) {
				u.began = t
			}
		}
	}
	return out
}

// groupOf returns the group that a pod is of, nil if there is none.
func groupOf(h fwk.Handle, pod *corev1.Pod) *schedulingv1beta1.PodGroup {
	name, ok := framework.GroupOf(pod)
	if !ok {
		return nil
	}
	group, err := h.SnapshotSharedLister().PodGroups().Get(name.Namespace, name.Name)
	if err != nil {
		return nil
	}
	return group
}

// priorityIn is by whom a pod may be preempted: what its group, if it has one, says, whatever the pod had before it was in that.
func priorityIn(group *schedulingv1beta1.PodGroup, pod *corev1.Pod) int32 {
	if group == nil {
		return schedulinghelper.PodPriority(pod)
	}
	return ptr.Deref(group.Spec.Priority, 0)
}

// isLeaving tells whether a pod goes already for one of a priority.
func isLeaving(h fwk.Handle, pod *corev1.Pod, below int32) bool {
	return beingPreempted(pod) && priorityIn(groupOf(h, pod), pod) < below
}

// elsewhere are the pods of a group that have a node and are not among those here.
func elsewhere(h fwk.Handle, name types.NamespacedName, here []*framework.PodInfo) (out []*framework.PodInfo) {
	state, err := h.SnapshotSharedLister().PodGroupStates().Get(name.Namespace, name.Name)
	if err != nil {
		return nil
	}
	seen := sets.New[types.UID]()
	for _, p := range here {
		seen.Insert(p.Pod.UID)
	}
	for _, pod := range state.ScheduledPods() {
		if !seen.Has(pod.UID) {
			out = append(out, framework.NewPodInfo(pod))
		}
	}
	return out
}

func (u *unit) all() []*framework.PodInfo { return slices.Concat(u.pods, u.elsewhere) }

// spareInOrder lists units in the order in which they are to be spared: those that a
// disruption budget protects first, and then the more important ones. It counts what
// would be violated.
func spareInOrder(all []*unit, budgets []*policyv1.PodDisruptionBudget) []*unit {
	slices.SortStableFunc(all, byWeight)
	left := make([]int32, len(budgets))
	for i, b := range budgets {
		left[i] = b.Status.DisruptionsAllowed
	}
	var protected, others []*unit
	for _, u := range all {
		u.violations = 0
		for _, pods := range [][]*framework.PodInfo{u.pods, u.elsewhere} {
			for _, p := range pods {
				if violates(p, budgets, left) {
					u.violations++
				}
			}
		}
		if u.violations > 0 {
			protected = append(protected, u)
		} else {
			others = append(others, u)
		}
	}
	return append(protected, others...)
}

// violates takes a pod from what budgets leave, and tells whether that was too much.
// A budget that covers a pod it already counts as disrupted is not charged for it again.
func violates(p *framework.PodInfo, budgets []*policyv1.PodDisruptionBudget, left []int32) (too bool) {
	for i, b := range budgets {
		if !covers(b, p.Pod) {
			continue
		}
		if _, counted := b.Status.DisruptedPods[p.Pod.Name]; counted {
			continue
		}
		left[i]--
		too = too || left[i] < 0
	}
	return too
}

// byWeight orders by priority; a group, or a pod of one, before a pod; a larger group
// before a smaller one; who ran longer before who began later.
func byWeight(a, b *unit) int {
	rank := func(u *unit) int {
		if !u.grouped {
			return 0
		}
		return len(u.pods) + len(u.elsewhere)
	}
	return cmp.Or(
		cmp.Compare(b.priority, a.priority),
		cmp.Compare(rank(b), rank(a)),
		a.began.Compare(b.began.Time),
	)
}
