// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package defaultpreemption

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	schedulinghelper "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"minik8s.io/minik8s/pkg/scheduler/framework"
)

// PodGroupPostFilter makes room for a group, in the whole cluster. The victims are
// asked to go beside the scheduling cycles; ctx must live until then.
func (p *DefaultPreemption) PodGroupPostFilter(ctx context.Context, _ fwk.PodGroupCycleState, group fwk.PodGroupInfo, place fwk.PodGroupSchedulingFunc) (*fwk.PodGroupPostFilterResult, *fwk.Status) {
	result, status := p.preemptForGroup(ctx, group, place)
	p.count.PreemptingForGroup(status.Code().String())
	if reason := status.Message(); reason != "" {
		status = fwk.NewStatus(status.Code(), "pod group preemption: "+reason)
	}
	return result, status
}

func (p *DefaultPreemption) preemptForGroup(ctx context.Context, group fwk.PodGroupInfo, place fwk.PodGroupSchedulingFunc) (*fwk.PodGroupPostFilterResult, *fwk.Status) {
	pods := group.GetUnscheduledPods()
	if policy := pods[0].Spec.PreemptionPolicy; policy != nil && *policy == corev1.PreemptNever {
		return nil, fwk.NewStatus(fwk.Unschedulable, "not eligible due to preemptionPolicy=Never.")
	}
	snapshot := p.handle.MutableSnapshotSharedLister()
	kept, waitedFor := map[types.NamespacedName]*fwk.NominatingInfo{}, sets.New[string]()
	for _, pod := range pods {
		if node, err := p.nomination(pod); err == nil { // or it is gone
			kept[nameOf(pod)] = nominate(node).NominatingInfo
			waitedFor.Insert(node)
		}
	}
	if p.leaving(schedulinghelper.PodPriority(pods[0]), waitedFor, snapshot.NodeInfos()) {
		return &fwk.PodGroupPostFilterResult{NominatingInfos: kept}, fwk.NewStatus(fwk.Success, "ongoing preemption on nominated nodes")
	}
	start := time.Now()
	budgets, err := p.listBudgets()
	if err != nil {
		return nil, fwk.AsStatus(err)
	}
	for _, pod := range pods {
		// The group gives up the room it waited for, which must not count beside what it gets.
		p.handle.DeleteNominatedPodIfExists(pod)
	}
	if err := snapshot.StartMutations(); err != nil {
		return nil, fwk.AsStatus(err)
	}
	t := &trial{handle: p.handle, snapshot: snapshot, priority: schedulinghelper.PodPriority(pods[0])}
	status := t.run(ctx, place, budgets)
	if err := snapshot.EndMutations(); err != nil {
		status = fwk.AsStatus(err)
	}
	p.count.Evaluated(fwk.PodGroupKeyType, status.Code(), start)
	if !status.IsSuccess() {
		return nil, status
	}
	p.count.GroupVictims(len(t.victims), t.violations, t.groups)
	object := group.GetPodGroup()
	by := &preemptor{object: object, uid: object.UID, kind: fwk.PodGroupKeyType, pods: pods, on: "cluster"}
	nominations := map[types.NamespacedName]*fwk.NominatingInfo{}
	for _, a := range t.assignments {
		nominations[nameOf(a.GetPod())] = nominate(a.GetNodeName()).NominatingInfo
		if !slices.Contains(by.nodes, a.GetNodeName()) {
			by.nodes = append(by.nodes, a.GetNodeName())
		}
	}
	p.start(ctx, by, t.victims)
	return &fwk.PodGroupPostFilterResult{NominatingInfos: nominations},
		fwk.NewStatus(fwk.Success, fmt.Sprintf("found a placement for podgroup, preempting %d victims", len(t.victims)))
}

func nameOf(pod *corev1.Pod) types.NamespacedName {
	return types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
}

// leaving tells whether victims of less than a priority are on their way from one of some nodes.
func (p *DefaultPreemption) leaving(below int32, names sets.Set[string], nodes fwk.NodeInfoLister) bool {
	for name := range names {
		node, err := nodes.Get(name)
		if err != nil {
			continue // gone, or none
		}
		for _, other := range node.GetPods() {
			if isLeaving(p.handle, other.GetPod(), below) {
				return true
			}
		}
	}
	return false
}

// trial looks for the units that have to go for a group, on a snapshot that it may change.
type trial struct {
	handle   fwk.Handle
	snapshot fwk.MutableSnapshotSharedLister
	priority int32

	assignments []fwk.ProposedAssignment
	victims     []*framework.PodInfo
	violations  int // of disruption budgets
	groups      int // that go as a whole
}

// run removes all units of less priority, places the group, and then spares units one
// by one, the more important ones first, as long as the pods still fit where they are.
// All may be spared: pods choose otherwise among empty nodes, and where they went then
// they may fit beside all others. They are nominated to that.
func (t *trial) run(ctx context.Context, place fwk.PodGroupSchedulingFunc, budgets []*policyv1.PodDisruptionBudget) *fwk.Status {
	nodes, err := t.snapshot.NodeInfos().List()
	if err != nil {
		return fwk.AsStatus(err)
	}
	potential := units(t.handle, nodes, t.priority)
	if len(potential) == 0 {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "No preemption victims found for incoming preemptor")
	}
	for _, u := range potential {
		for _, p := range u.pods {
			if err := t.snapshot.RemovePod(klog.FromContext(ctx), p.Pod, p.Pod.Spec.NodeName); err != nil {
				return fwk.AsStatus(err)
			}
		}
	}
	placed, status := place(ctx)
	if !status.IsSuccess() {
		return status
	}
	t.assignments = placed.ProposedAssignments
	for _, u := range spareInOrder(potential, budgets) {
		fits, err := t.spare(ctx, u)
		if err != nil {
			return fwk.AsStatus(err)
		}
		if !fits {
			t.victims = append(t.victims, u.all()...)
			t.violations += u.violations
			if u.group {
				t.groups++
			}
		}
	}
	slices.SortStableFunc(t.victims, byImportance)
	return nil
}

// spare puts a unit back and tells whether the group fits beside it; if not it is
// taken off again.
func (t *trial) spare(ctx context.Context, u *unit) (bool, error) {
	for _, p := range u.pods {
		if err := t.snapshot.AddPod(p, p.Pod.Spec.NodeName); err != nil {
			return false, err
		}
		if err := t.tell(ctx, p, t.handle.RunPreFilterExtensionAddPod); err != nil {
			return false, err
		}
	}
	fits, err := t.fits(ctx)
	if fits || err != nil {
		return fits, err
	}
	for _, p := range u.pods {
		if err := t.snapshot.RemovePod(klog.FromContext(ctx), p.Pod, p.Pod.Spec.NodeName); err != nil {
			return false, err
		}
		if err := t.tell(ctx, p, t.handle.RunPreFilterExtensionRemovePod); err != nil {
			return false, err
		}
	}
	return false, nil
}

// tell has the plugins' states of all pods of the group follow a change.
func (t *trial) tell(ctx context.Context, changed *framework.PodInfo, extension func(context.Context, fwk.CycleState, *corev1.Pod, fwk.PodInfo, fwk.NodeInfo) *fwk.Status) error {
	node, err := t.snapshot.NodeInfos().Get(changed.Pod.Spec.NodeName)
	if err != nil {
		return err
	}
	for _, a := range t.assignments {
		if s := extension(ctx, a.GetCycleState(), a.GetPod(), changed, node); !s.IsSuccess() {
			return s.AsError()
		}
	}
	return nil
}

// fits tells whether all pods of the group still fit where they are, each beside those
// before it: what its state tells of them is from when it was placed.
func (t *trial) fits(ctx context.Context) (fits bool, err error) {
	var held []fwk.ProposedAssignment
	defer func() {
		for _, a := range slices.Backward(held) {
			t.handle.RunReservePluginsUnreserve(ctx, a.GetCycleState(), a.GetPod(), a.GetNodeName())
			if gone := t.snapshot.RemovePod(klog.FromContext(ctx), a.GetPod(), a.GetNodeName()); gone != nil {
				err = gone
			}
		}
	}()
	for _, a := range t.assignments {
		node, err := t.snapshot.NodeInfos().Get(a.GetNodeName())
		if err != nil {
			return false, err
		}
		if !t.handle.RunFilterPluginsWithNominatedPods(ctx, a.GetCycleState(), a.GetPod(), node).IsSuccess() {
			return false, nil
		}
		if err := t.snapshot.AddPod(a.GetPodInfo(), a.GetNodeName()); err != nil {
			return false, err
		}
		held = append(held, a)
		if s := t.handle.RunReservePluginsReserve(ctx, a.GetCycleState(), a.GetPod(), a.GetNodeName()); !s.IsSuccess() {
			return false, nil
		}
	}
	return true, nil
}
