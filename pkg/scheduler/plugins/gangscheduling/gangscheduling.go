// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package gangscheduling lets pods of a PodGroup with the policy "gang" run only
// if at least minCount of them can (KEP-4671). Touch it when groups get another
// policy.
package gangscheduling

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"minik8s.io/minik8s/pkg/scheduler/framework"
)

// Name of the plugin.
const Name = "GangScheduling"

// permitTimeout is how long a pod that has room waits for the others.
const permitTimeout = 5 * time.Minute

// GangScheduling is the plugin.
type GangScheduling struct{ handle fwk.Handle }

var (
	_ fwk.PreEnqueuePlugin          = (*GangScheduling)(nil)
	_ fwk.PermitPlugin              = (*GangScheduling)(nil)
	_ fwk.EnqueueExtensions         = (*GangScheduling)(nil)
	_ framework.GroupFeasiblePlugin = (*GangScheduling)(nil)
)

// New returns the plugin.
func New(_ context.Context, _ runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
	return &GangScheduling{h}, nil
}

// Name returns the plugin's name.
func (*GangScheduling) Name() string { return Name }

// EventsToRegister implements fwk.EnqueueExtensions: another pod of the group, the
// group itself, or a group that wants fewer pods. Which group a pod is of never changes.
func (*GangScheduling) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	another := framework.Hint(func(pod *corev1.Pod, _, added any) bool {
		other, ok := added.(*corev1.Pod)
		return ok && sameGroup(pod, other)
	})
	return []fwk.ClusterEventWithHint{
		framework.Event(fwk.UnscheduledPod, fwk.Add, another),
		framework.Event(fwk.AssignedPod, fwk.Add, another),
		framework.Event(fwk.PodGroup, fwk.Add, framework.Hint(func(pod *corev1.Pod, _, added any) bool {
			group, ok := added.(*schedulingv1beta1.PodGroup)
			return ok && isOf(pod, group)
		})),
		framework.Event(fwk.PodGroup, fwk.Update, framework.Hint(wantsFewer)),
	}, nil
}

func sameGroup(a, b *corev1.Pod) bool {
	x, ok := framework.GroupOf(a)
	y, other := framework.GroupOf(b)
	return ok && other && x == y
}

func isOf(pod *corev1.Pod, group *schedulingv1beta1.PodGroup) bool {
	name, ok := framework.GroupOf(pod)
	return ok && name == types.NamespacedName{Namespace: group.Namespace, Name: group.Name}
}

func wantsFewer(pod *corev1.Pod, old, new any) bool {
	before, ok := old.(*schedulingv1beta1.PodGroup)
	after, changed := new.(*schedulingv1beta1.PodGroup)
	return ok && changed && isOf(pod, after) && minCount(after) < minCount(before)
}

// minCount is how many pods must run for any to run. Without a gang one is enough.
func minCount(group *schedulingv1beta1.PodGroup) int {
	if gang := group.Spec.SchedulingPolicy.Gang; gang != nil {
		return int(gang.MinCount)
	}
	return 1
}

// PreEnqueue holds a pod back until its group, and enough pods of it, are there.
func (g *GangScheduling) PreEnqueue(_ context.Context, pod *corev1.Pod) *fwk.Status {
	name, ok := framework.GroupOf(pod)
	if !ok {
		return nil
	}
	group, err := g.handle.PodGroupManager().PodGroups().Get(name.Namespace, name.Name)
	if apierrors.IsNotFound(err) {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, fmt.Sprintf("waiting for pods's pod group %q to appear in scheduling queue", name.Name))
	} else if err != nil {
		return fwk.AsStatus(err)
	}
	state, err := g.handle.PodGroupManager().PodGroupStates().Get(name.Namespace, name.Name)
	if err != nil {
		return fwk.AsStatus(err)
	}
	if group.Spec.SchedulingPolicy.Gang != nil && state.AllPodsCount() < minCount(group) {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "waiting for minCount pods from a gang to appear in scheduling queue")
	}
	return nil
}

// GroupFeasible implements framework.GroupFeasiblePlugin.
func (*GangScheduling) GroupFeasible(_ context.Context, group fwk.PodGroupInfo, scheduled, remaining int) *fwk.Status {
	need := minCount(group.GetPodGroup())
	switch {
	case scheduled >= need:
		return nil
	case scheduled+remaining < need:
		return fwk.NewStatus(fwk.Unschedulable, fmt.Sprintf("minCount (%d) cannot be satisfied: %d scheduled, %d remaining", need, scheduled, remaining))
	}
	return fwk.NewStatus(fwk.Wait, fmt.Sprintf("minCount (%d) is not yet satisfied: %d scheduled, %d remaining", need, scheduled, remaining))
}

// Permit lets a pod, and those that wait for it, pass as soon as enough of its group
// have room. They have as a rule, for a group is placed as a whole: if a pod went in
// between, the others wait for the next.
func (g *GangScheduling) Permit(ctx context.Context, _ fwk.CycleState, pod *corev1.Pod, _ string) (*fwk.Status, time.Duration) {
	name, ok := framework.GroupOf(pod)
	if !ok {
		return nil, 0
	}
	group, err := g.handle.PodGroupManager().PodGroups().Get(name.Namespace, name.Name)
	if err != nil {
		return fwk.AsStatus(err), 0
	}
	if group.Spec.SchedulingPolicy.Gang == nil {
		return nil, 0
	}
	state, err := g.handle.PodGroupManager().PodGroupStates().Get(name.Namespace, name.Name)
	if err != nil {
		return fwk.AsStatus(err), 0
	}
	if state.ScheduledPodsCount() < minCount(group) {
		g.handle.Activate(klog.FromContext(ctx), state.UnscheduledPods())
		return fwk.NewStatus(fwk.Wait, "waiting for minCount pods from a gang to be scheduled"), permitTimeout
	}
	for uid := range state.AssumedPods() {
		if waiting := g.handle.GetWaitingPod(uid); waiting != nil {
			waiting.Allow(Name)
		}
	}
	return nil, 0
}
