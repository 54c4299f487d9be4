// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package statefulset

import (
	"cmp"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"minik8s.io/minik8s/pkg/controllers/internal/pods"
)

// Members are the pods of a set by what they are to it.
type Members struct {
	// Replicas has a pod for each ordinal that the set wants, the lowest first. One that does not exist yet has no UID.
	Replicas []*corev1.Pod
	// Condemned are the pods with other ordinals, the highest first.
	Condemned []*corev1.Pod
}

// Arrange divides the pods of a set and adds those that are missing. Revisions decide which template a missing pod is made of.
func Arrange(set *appsv1.StatefulSet, revisions Revisions, claimed []*corev1.Pod) Members {
	m := Members{Replicas: make([]*corev1.Pod, replicasOf(set))}
	first := firstOrdinal(set)
	for _, pod := range claimed {
		switch ordinal := ordinalOf(pod); {
		case inRange(set, ordinal):
			m.Replicas[ordinal-first] = pod
		case ordinal >= 0:
			m.Condemned = append(m.Condemned, pod)
		}
	}
	for i := range m.Replicas {
		if m.Replicas[i] == nil {
			made := revisions.Update
			if keepsCurrent(set, i) {
				made = revisions.Current
			}
			m.Replicas[i] = NewPod(set, made.Template, made.Name, first+i)
		}
	}
	slices.SortFunc(m.Condemned, func(a, b *corev1.Pod) int { return cmp.Compare(ordinalOf(b), ordinalOf(a)) })
	return m
}

// keepsCurrent reports whether a new pod in place i is made of the current template rather than of that updated to: the pods
// below the partition are, and without any parameters as many as there were.
func keepsCurrent(set *appsv1.StatefulSet, i int) bool {
	if rolling := set.Spec.UpdateStrategy.RollingUpdate; rolling != nil {
		return i < int(ptr.Deref(rolling.Partition, 0))
	}
	return set.Spec.UpdateStrategy.Type == appsv1.RollingUpdateStatefulSetStrategyType && i < int(set.Status.CurrentReplicas)
}

// Action is something done for one pod.
type Action int

// The actions.
const (
	// Create creates the pod, its claims first.
	Create Action = iota
	// Provide creates the claims that a pending pod lacks.
	Provide
	// Settle puts the pod's identity, its volumes and the owners of its claims right.
	Settle
	// Release puts only the owners of its claims right.
	Release
	// Delete deletes the pod.
	Delete
)

// Step is what is done for one pod, in this order.
type Step struct {
	Pod     *corev1.Pod
	Actions []Action
}

// Plan is what brings a set nearer to the pods it should have, whatever their revisions. The steps for replicas come first; if
// one fails, those for condemned pods have to wait.
type Plan struct {
	Replicas  []Step
	Condemned []Step
	// Complete says that nothing has to be waited for, so that an update may go on.
	Complete bool
}

// isParallel reports whether the set's pods are created and deleted without waiting for one another.
func isParallel(set *appsv1.StatefulSet) bool {
	return set.Spec.PodManagementPolicy == appsv1.ParallelPodManagement
}

func exists(pod *corev1.Pod) bool { return pod.UID != "" }

func isTerminating(pod *corev1.Pod) bool { return pod.DeletionTimestamp != nil }

// isReady reports whether the pod runs and is ready.
func isReady(pod *corev1.Pod) bool { return pod.Status.Phase == corev1.PodRunning && pods.IsReady(pod) }

// isAvailable reports whether the pod is there to stay and has been ready for long enough.
func isAvailable(set *appsv1.StatefulSet, pod *corev1.Pod, now time.Time) bool {
	return pods.IsAvailable(pod, set.Spec.MinReadySeconds, now) && !isTerminating(pod)
}

// Manage returns the plan for a set with these members.
func Manage(set *appsv1.StatefulSet, m Members, now time.Time) Plan {
	if isParallel(set) {
		return manageParallel(m)
	}
	return manageOrdered(set, m, now)
}

// manageParallel sees to all pods at once.
func manageParallel(m Members) Plan {
	plan := Plan{Complete: true}
	for _, pod := range m.Replicas {
		switch {
		case pods.IsTerminal(pod) && isTerminating(pod):
		case pods.IsTerminal(pod):
			plan.Replicas = append(plan.Replicas, Step{pod, []Action{Delete}})
		case !exists(pod):
			plan.Replicas = append(plan.Replicas, Step{pod, []Action{Create}})
		case pod.Status.Phase == corev1.PodPending:
			plan.Replicas = append(plan.Replicas, Step{pod, []Action{Provide, Settle}})
		default:
			plan.Replicas = append(plan.Replicas, Step{pod, []Action{Settle}})
		}
	}
	for _, pod := range m.Condemned {
		step := Step{pod, []Action{Release}}
		if !isTerminating(pod) {
			step.Actions = append(step.Actions, Delete)
		}
		plan.Condemned = append(plan.Condemned, step)
	}
	return plan
}

// manageOrdered goes up the ordinals and stops at the first pod which is not available. Only when all are, it deletes the
// condemned pod with the highest ordinal, and that only when those below it are well.
func manageOrdered(set *appsv1.StatefulSet, m Members, now time.Time) Plan {
	var plan Plan
	for _, pod := range m.Replicas {
		var actions []Action
		available := false
		switch {
		case pods.IsTerminal(pod) && isTerminating(pod):
		case pods.IsTerminal(pod):
			actions = []Action{Delete}
		case !exists(pod):
			actions = []Action{Create}
		case pod.Status.Phase == corev1.PodPending:
			actions = []Action{Provide, Release}
		case isReady(pod) && isAvailable(set, pod, now):
			actions, available = []Action{Settle}, true
		}
		if actions != nil {
			plan.Replicas = append(plan.Replicas, Step{pod, actions})
		}
		if !available {
			return plan
		}
	}
	for i, pod := range m.Condemned {
		step := Step{pod, []Action{Release}}
		if i == 0 && mayGo(set, m.Condemned, now) {
			step.Actions = append(step.Actions, Delete)
		}
		plan.Condemned = append(plan.Condemned, step)
	}
	plan.Complete = len(m.Condemned) == 0
	return plan
}

// mayGo reports whether the first of the condemned pods is to be deleted now: if it is available or no pod below it lacks
// anything.
func mayGo(set *appsv1.StatefulSet, condemned []*corev1.Pod, now time.Time) bool {
	if isTerminating(condemned[0]) {
		return false
	}
	if isReady(condemned[0]) && isAvailable(set, condemned[0], now) {
		return true
	}
	return !slices.ContainsFunc(condemned[1:], func(pod *corev1.Pod) bool { return !isAvailable(set, pod, now) })
}
