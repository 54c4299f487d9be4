// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
)

// Group is a pod group with those of its pods that a cycle tries. It implements
// fwk.PodGroupInfo.
type Group struct {
	Object *schedulingv1beta1.PodGroup
	Pods   []*corev1.Pod
}

var _ fwk.PodGroupInfo = (*Group)(nil)

// GetUnscheduledPods implements fwk.PodGroupInfo.
func (g *Group) GetUnscheduledPods() []*corev1.Pod { return g.Pods }

// GetName implements fwk.PodGroupInfo.
func (g *Group) GetName() string { return g.Object.Name }

// GetNamespace implements fwk.PodGroupInfo.
func (g *Group) GetNamespace() string { return g.Object.Namespace }

// GetType implements fwk.PodGroupInfo.
func (g *Group) GetType() fwk.EntityKeyType { return fwk.PodGroupKeyType }

// GetKey implements fwk.PodGroupInfo.
func (g *Group) GetKey() string { return fwk.PodGroupKey(g.Object.Namespace, g.Object.Name).String() }

// GetPodGroup implements fwk.PodGroupInfo.
func (g *Group) GetPodGroup() *schedulingv1beta1.PodGroup { return g.Object }

// GetCompositePodGroup implements fwk.PodGroupInfo: none, as without upstream's feature CompositePodGroup.
func (g *Group) GetCompositePodGroup() *schedulingv1alpha3.CompositePodGroup { return nil }

// GetChildren implements fwk.PodGroupInfo: none, as without upstream's feature CompositePodGroup.
func (g *Group) GetChildren() []fwk.PodGroupInfo { return nil }

// GroupOf names the pod group of a pod, if it has one.
func GroupOf(pod *corev1.Pod) (name types.NamespacedName, ok bool) {
	if g := pod.Spec.SchedulingGroup; g != nil && g.PodGroupName != nil {
		return types.NamespacedName{Namespace: pod.Namespace, Name: *g.PodGroupName}, true
	}
	return name, false
}

// GroupState carries plugins' results through the cycle of a group, of which
// there is one placement.
type GroupState struct{ *CycleState }

var (
	_ fwk.PodGroupCycleState  = (*GroupState)(nil)
	_ fwk.PlacementCycleState = (*GroupState)(nil)
)

// NewGroupState returns the empty state of a group's cycle.
func NewGroupState() *GroupState { return &GroupState{NewCycleState(nil)} }

// GetParentPlacementCycleState implements fwk.PodGroupCycleState: groups have no parents.
func (*GroupState) GetParentPlacementCycleState() fwk.PlacementCycleState { return nil }

// GetPodGroupSchedulingCycle implements fwk.PlacementCycleState.
func (g *GroupState) GetPodGroupSchedulingCycle() fwk.PodGroupCycleState { return g }

// GroupFeasiblePlugin says, before each pod of a group is tried and after the last
// one, whether the group can be placed in part: scheduled have a node, remaining
// were not tried yet. Success: what has a node by now may be bound. Wait: more must
// get one. Unschedulable: it is no use to try the others.
type GroupFeasiblePlugin interface {
	fwk.Plugin
	GroupFeasible(ctx context.Context, group fwk.PodGroupInfo, scheduled, remaining int) *fwk.Status
}

// RunGroupFeasible asks all plugins; the first that does not agree decides.
func (p *Profile) RunGroupFeasible(ctx context.Context, group fwk.PodGroupInfo, scheduled, remaining int) *fwk.Status {
	var wait *fwk.Status
	for _, x := range p.groupFeasible {
		s := x.GroupFeasible(ctx, group, scheduled, remaining)
		switch {
		case s.IsSuccess():
		case s.IsWait():
			wait = s.WithPlugin(x.Name())
		default:
			return s.WithPlugin(x.Name())
		}
	}
	return wait
}

// RunPodGroupPostFilter asks the plugins for a way out for a group and returns the
// first success. The reasons of all that failed are joined.
func (p *Profile) RunPodGroupPostFilter(ctx context.Context, state fwk.PodGroupCycleState, group fwk.PodGroupInfo, place fwk.PodGroupSchedulingFunc) (*fwk.PodGroupPostFilterResult, *fwk.Status) {
	var reasons []string
	for _, x := range p.groupPostFilter {
		start := x.calls.began(state.ShouldRecordPluginMetrics())
		result, s := x.plugin.PodGroupPostFilter(ctx, state, group, place)
		x.calls.ended(main, start, s)
		switch {
		case s.IsSuccess():
			return result, s
		case !s.IsRejected():
			return nil, fwk.AsStatus(s.AsError()).WithPlugin(x.name)
		}
		reasons = append(reasons, s.Reasons()...)
		if s.Code() == fwk.UnschedulableAndUnresolvable {
			break
		}
	}
	return nil, fwk.NewStatus(fwk.Unschedulable, reasons...)
}

// NoGroups is a fwk.PodGroupManager that knows no group; what there is none of is
// for others to embed.
type NoGroups struct{}

type (
	noGroups          struct{}
	noGroupStates     struct{}
	noComposites      struct{}
	noCompositeStates struct{}
)

var _ fwk.PodGroupManager = NoGroups{}

func noGroup(resource, name string) error {
	return apierrors.NewNotFound(schema.GroupResource{Group: schedulingv1beta1.GroupName, Resource: resource}, name)
}

func (noGroups) Get(_, name string) (*schedulingv1beta1.PodGroup, error) {
	return nil, noGroup("podgroups", name)
}

func (noGroupStates) Get(_, name string) (fwk.PodGroupState, error) {
	return nil, noGroup("podgroups", name)
}

func (noComposites) Get(_, name string) (*schedulingv1alpha3.CompositePodGroup, error) {
	return nil, noGroup("compositepodgroups", name)
}

func (noCompositeStates) Get(_, name string) (fwk.CompositePodGroupState, error) {
	return nil, noGroup("compositepodgroups", name)
}

// PodGroups implements fwk.PodGroupManager.
func (NoGroups) PodGroups() fwk.PodGroupLister { return noGroups{} }

// PodGroupStates implements fwk.PodGroupManager.
func (NoGroups) PodGroupStates() fwk.PodGroupStateLister { return noGroupStates{} }

// CompositePodGroups implements fwk.PodGroupManager.
func (NoGroups) CompositePodGroups() fwk.CompositePodGroupLister { return noComposites{} }

// CompositePodGroupStates implements fwk.PodGroupManager.
func (NoGroups) CompositePodGroupStates() fwk.CompositePodGroupStateLister {
	return noCompositeStates{}
}

var errNoHierarchies = errors.New("pod groups have no hierarchy in this scheduler")

// BuildHierarchySnapshotFromPod implements fwk.PodGroupManager.
func (NoGroups) BuildHierarchySnapshotFromPod(*corev1.Pod) (fwk.PodGroupManager, error) {
	return nil, errNoHierarchies
}

// GetRootKeyForGroup implements fwk.PodGroupManager: each group is its own root.
func (NoGroups) GetRootKeyForGroup(key fwk.EntityKey) (fwk.EntityKey, bool, error) {
	return key, key.Type == fwk.PodGroupKeyType, nil
}
