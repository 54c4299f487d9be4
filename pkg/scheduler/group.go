// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	schedulinghelper "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/ptr"

	"minik8s.io/minik8s/pkg/scheduler/framework"
	"minik8s.io/minik8s/pkg/scheduler/internal/queue"
)

// groupAttempt is one try to place those pods of a group that wait.
type groupAttempt struct {
	*framework.Group
	profile *framework.Profile
	state   *framework.GroupState
	members []*queue.Pod
	// scheduled are the pods of the group that have a node already.
	scheduled int
	// rejected is why the group does not fit, without what became of making room for it.
	rejected *fwk.Status
}

// placement is what a try has found for one pod of a group.
type placement struct {
	*attempt
	info *framework.PodInfo // on the node that was found, nil if none was
	err  error              // why not
}

// Of fwk.ProposedAssignment.
var _ fwk.ProposedAssignment = (*placement)(nil)

// GetPod implements fwk.ProposedAssignment.
func (p *placement) GetPod() *corev1.Pod { return p.info.Pod }

// GetPodInfo implements fwk.ProposedAssignment.
func (p *placement) GetPodInfo() fwk.PodInfo { return p.info }

// GetNodeName implements fwk.ProposedAssignment.
func (p *placement) GetNodeName() string { return p.info.Pod.Spec.NodeName }

// GetCycleState implements fwk.ProposedAssignment.
func (p *placement) GetCycleState() fwk.CycleState { return p.state }

// groupError is why a pod waits that would fit, or was not tried: its group does not.
type groupError struct{ message, plugin string }

func (e groupError) Error() string { return e.message }

// noGroup is what users are told of a group that does not fit.
const noGroup = "pod group is unschedulable"

// doesNotFit rejects a group for the reasons of a status.
func doesNotFit(status *fwk.Status) *fwk.Status {
	return fwk.NewStatus(fwk.Unschedulable, append([]string{noGroup}, status.Reasons()...)...).WithPlugin(status.Plugin())
}

// why is what a pod of a group is told that fits by itself, or was not tried, when status has become of the group, for which room may
// be being made.
func (g *groupAttempt) why(status *fwk.Status, roomIsMade, wasTried bool) error {
	switch {
	case !status.IsRejected():
		return status.AsError()
	case !wasTried:
		status = g.rejected
	case !roomIsMade:
		status = doesNotFit(status)
	}
	return groupError{status.Message(), status.Plugin()}
}

// scheduleGroup tries a pod together with all others of its group that wait. Either
// enough of them get a node, or nothing of the try remains.
func (s *Scheduler) scheduleGroup(ctx context.Context, popped *queue.Pod, name types.NamespacedName) {
	members := append([]*queue.Pod{popped}, s.queue.Take(ctx, s.groups.Waiting(name))...)
	members = slices.DeleteFunc(members, func(m *queue.Pod) bool {
		skip := s.skips(m)
		if skip {
			s.queue.Done(m)
		}
		return skip
	})
	if len(members) == 0 {
		return
	}
	slices.SortStableFunc(members, byAttempts)
	start := s.cfg.Clock.Now()
	snapshot := s.look()
	g, err := s.newGroupAttempt(name, members)
	if err != nil {
		s.failGroup(ctx, g, nil, nil, fwk.AsStatus(err))
		return
	}
	var placements []*placement
	status := fwk.AsStatus(snapshot.StartMutations())
	if status.IsSuccess() {
		placements, status = s.tryGroup(ctx, g)
		if err := snapshot.EndMutations(); err != nil {
			status = fwk.AsStatus(err)
		}
	}
	s.metrics.GroupPlaced(s.cfg.Clock.Since(start))
	if status.IsSuccess() {
		s.commitGroup(ctx, g, placements)
		s.metrics.GroupAttempted("scheduled", g.profile.Name(), s.cfg.Clock.Since(start))
		return
	}
	var nominations map[types.NamespacedName]*fwk.NominatingInfo
	outcome := "error"
	if status.IsRejected() {
		outcome, g.rejected = "unschedulable", status
		switch nominations, status = s.preemptForGroup(ctx, g, status); {
		case nominations != nil:
			outcome = "waiting_on_preemption"
		case !status.IsRejected():
			outcome = "error"
		}
	}
	s.failGroup(ctx, g, placements, nominations, status)
	s.metrics.GroupAttempted(outcome, g.profile.Name(), s.cfg.Clock.Since(start))
}

// byAttempts has pods that were tried before go before those that came since: by the time that they wait, which begins anew with each
// failure, it would be the other way round.
func byAttempts(a, b *queue.Pod) int { return cmp.Compare(b.Attempts, a.Attempts) }

// group lists those pods of a pod's group that wait.
func (s *Scheduler) group(pod *corev1.Pod) []types.UID {
	name, ok := framework.GroupOf(pod)
	if !ok {
		return nil
	}
	return s.groups.Waiting(name)
}

// incomplete tells whether the object of a pod's group is not there.
func (s *Scheduler) incomplete(pod *corev1.Pod) bool {
	name, ok := framework.GroupOf(pod)
	if !ok {
		return false
	}
	_, err := s.groups.PodGroups().Get(name.Namespace, name.Name)
	return err != nil
}

// newGroupAttempt fails if the pods cannot be tried together; the attempt is then
// good for telling so.
func (s *Scheduler) newGroupAttempt(name types.NamespacedName, members []*queue.Pod) (*groupAttempt, error) {
	g := &groupAttempt{
		Group:   &framework.Group{},
		profile: s.profiles[members[0].Pod.Spec.SchedulerName],
		state:   framework.NewGroupState(),
		members: members,
	}
	for _, m := range members {
		g.Pods = append(g.Pods, m.Pod)
	}
	object, err := s.groups.PodGroups().Get(name.Namespace, name.Name)
	if err != nil {
		return g, err
	}
	g.Object = object
	state, err := s.groups.PodGroupStates().Get(name.Namespace, name.Name)
	if err != nil {
		return g, err
	}
	g.scheduled = state.ScheduledPodsCount()
	return g, checkGroup(object, slices.Concat(g.Pods, state.ScheduledPods()))
}

// checkGroup tells why pods, at least one, cannot be placed as a group.
func checkGroup(group *schedulingv1beta1.PodGroup, pods []*corev1.Pod) error {
	first, priority := pods[0], ptr.Deref(group.Spec.Priority, 0)
	for _, pod := range pods {
		if pod.Spec.SchedulerName != first.Spec.SchedulerName {
			return fmt.Errorf("all pods in a single pod group should have the same .spec.schedulerName set, got: %q and %q", pod.Spec.SchedulerName, first.Spec.SchedulerName)
		}
		if p := schedulinghelper.PodPriority(pod); p != priority {
			return fmt.Errorf("all pods in a single pod group should have the same priority as the pod group's priority, got %d and %d", p, priority)
		}
		if a, b := preemptionPolicy(pod), preemptionPolicy(first); a != b {
			return fmt.Errorf("all pods in a single pod group should have the same preemption policy, got %v and %v", a, b)
		}
	}
	return nil
}

func preemptionPolicy(pod *corev1.Pod) corev1.PreemptionPolicy {
	return ptr.Deref(pod.Spec.PreemptionPolicy, corev1.PreemptLowerPriority)
}

// tryGroup places one pod after the other, each beside those before it, until the
// group cannot be placed any more. It needs a trial on the snapshot and leaves
// nothing in it. Success means that enough pods have a node, a new one among them.
func (s *Scheduler) tryGroup(ctx context.Context, g *groupAttempt) (tried []*placement, status *fwk.Status) {
	var undo []func()
	defer func() {
		for _, f := range slices.Backward(undo) {
			f()
		}
	}()
	placed := 0
	status = g.profile.RunGroupFeasible(ctx, g.Group, g.scheduled, len(g.members))
	for i, m := range g.members {
		if i == 0 && status.IsRejected() {
			status = doesNotFit(status)
		}
		if !status.IsSuccess() && !status.IsWait() {
			return tried, status
		}
		p, back := s.tryMember(ctx, g, m)
		tried = append(tried, p)
		if p.err == nil {
			placed++
			undo = append(undo, back)
		} else if !unschedulable(p.err) {
			return tried, fwk.AsStatus(fmt.Errorf("failed to schedule other pod from a pod group: %w", p.err))
		}
		status = g.profile.RunGroupFeasible(ctx, g.Group, g.scheduled+placed, len(g.members)-i-1)
	}
	switch {
	case status.IsWait():
		return tried, doesNotFit(status)
	case status.IsSuccess() && placed == 0:
		return tried, fwk.NewStatus(fwk.Unschedulable, noGroup)
	}
	return tried, status
}

// tryMember looks for a node for one pod, and takes there what it needs, for those that
// are tried next to see it, until that is undone.
func (s *Scheduler) tryMember(ctx context.Context, g *groupAttempt, m *queue.Pod) (p *placement, undo func()) {
	p = &placement{attempt: s.newAttempt(m, g.profile)}
	p.state.SetGroup(g.state)
	node, err := s.place(ctx, p.attempt)
	s.metrics.Placed(s.cfg.Clock.Since(p.start))
	if err != nil {
		p.err = err
		return p, nil
	}
	info, snapshot := m.WithNode(node), s.snapshot.Load()
	unreserve := func() { g.profile.RunReservePluginsUnreserve(ctx, p.state, info.Pod, node) }
	if status := g.profile.RunReservePluginsReserve(ctx, p.state, info.Pod, node); !status.IsSuccess() {
		unreserve()
		_, p.err = rejection(status, node, false)
		return p, nil
	}
	if p.err = snapshot.AddPod(info, node); p.err != nil {
		unreserve()
		return p, nil
	}
	nominated := s.nominated.NodeOf(info.Pod.UID)
	s.nominated.Remove(info.Pod.UID) // it must not count twice
	p.info = info
	return p, func() {
		unreserve()
		if err := snapshot.RemovePod(klog.FromContext(ctx), info.Pod, node); err != nil {
			// The trial ends, and with it all that is in it.
			klog.FromContext(ctx).Error(err, "Undoing the try of a pod of a group", "pod", klog.KObj(info.Pod), "node", node)
		}
		if nominated != "" {
			s.nominated.Set(m.PodInfo, nominated)
		}
	}
}

// preemptForGroup looks for a way out of a rejection. Nominations are nil if there is none.
func (s *Scheduler) preemptForGroup(ctx context.Context, g *groupAttempt, rejected *fwk.Status) (map[types.NamespacedName]*fwk.NominatingInfo, *fwk.Status) {
	result, status := g.profile.RunPodGroupPostFilter(ctx, g.state, g.Group, func(ctx context.Context) (*fwk.PodGroupAssignments, *fwk.Status) {
		again := *g
		again.state = framework.NewGroupState()
		tried, status := s.tryGroup(ctx, &again)
		out := &fwk.PodGroupAssignments{}
		for _, p := range tried {
			if p.err == nil {
				out.ProposedAssignments = append(out.ProposedAssignments, p)
			}
		}
		return out, status
	})
	if !status.IsSuccess() && !status.IsRejected() {
		return nil, status
	}
	reasons := slices.Concat(rejected.Reasons(), status.Reasons())
	why := fwk.NewStatus(fwk.Unschedulable, reasons...).WithPlugin(rejected.Plugin())
	if !status.IsSuccess() || result == nil {
		return nil, why
	}
	return result.NominatingInfos, why
}

// commitGroup sends the pods that have a node on their way, and puts the others back: what is left of the group is tried again at
// once, by itself, so that room is made for it.
func (s *Scheduler) commitGroup(ctx context.Context, g *groupAttempt, placements []*placement) {
	s.queue.GroupPlaced(g.members[0])
	var ready, left []*placement
	for _, p := range placements {
		if p.err != nil {
			left = append(left, p)
			continue
		}
		p.state.SetGroup(nil)
		if s.occupy(ctx, p.attempt, p.info) {
			ready = append(ready, p)
		}
	}
	if s.isScheduled(ctx, g, len(ready)) { // none was lost since it was tried
		s.conditions.Write(g.Object, metav1.Condition{Type: schedulingv1beta1.PodGroupInitiallyScheduled, Status: metav1.ConditionTrue, Reason: "Scheduled"})
	}
	for _, p := range left {
		if len(ready) == 0 { // nothing is different from now
			s.reject(ctx, p.attempt, nil, p.err)
			continue
		}
		s.attempted(p.attempt, result(p.err))
		if latest := s.report(ctx, p.attempt, nil, p.err); latest != nil {
			s.queue.Again(ctx, p.pod, latest)
		}
	}
	// All have room by now: the first sees that it need not wait for the last.
	for _, p := range ready {
		s.proceed(ctx, p.attempt, p.info)
	}
}

// isScheduled tells whether, with so many more pods, enough of a group have a node.
func (s *Scheduler) isScheduled(ctx context.Context, g *groupAttempt, more int) bool {
	n := g.scheduled + more
	return n > 0 && g.profile.RunGroupFeasible(ctx, g.Group, n, 0).IsSuccess()
}

// failGroup puts all pods of a group back, and says why in their status and in the
// group's. Those that were not tried, or would fit, are told why the group does not.
func (s *Scheduler) failGroup(ctx context.Context, g *groupAttempt, placements []*placement, nominations map[types.NamespacedName]*fwk.NominatingInfo, status *fwk.Status) {
	condition := metav1.Condition{
		Type: schedulingv1beta1.PodGroupInitiallyScheduled, Status: metav1.ConditionFalse,
		Reason: schedulingv1beta1.PodGroupReasonUnschedulable, Message: status.Message(),
	}
	s.queue.GroupFailed(g.members[0], status.IsRejected())
	if !status.IsRejected() {
		condition.Reason = schedulingv1beta1.PodGroupReasonSchedulerError
	}
	if g.Object != nil && !s.isScheduled(ctx, g, 0) { // or only those fail that are more than are needed
		s.conditions.Write(g.Object, condition)
	}
	for i, m := range g.members {
		a, err := s.newAttempt(m, g.profile), g.why(status, nominations != nil, i < len(placements))
		if i < len(placements) {
			a = placements[i].attempt
			if own := placements[i].err; own != nil && (status.IsRejected() || !unschedulable(own)) {
				err = own
			}
		}
		nomination := nominations[types.NamespacedName{Namespace: m.Pod.Namespace, Name: m.Pod.Name}]
		if nomination == nil {
			nomination = &fwk.NominatingInfo{NominatingMode: fwk.ModeOverride}
		}
		s.reject(ctx, a, nomination, err)
	}
}

// reject puts a pod back that was tried as one of a group. Who has rejected it is in
// the error: one that would fit waits for what may help its group, and is tried with
// the others when an event helps one of them, or when the back-off of the group ends.
func (s *Scheduler) reject(ctx context.Context, a *attempt, nomination *fwk.NominatingInfo, err error) {
	rejectedBy := sets.Set[string]{}
	var fit *framework.FitError
	var group groupError
	switch {
	case errors.As(err, &fit):
		rejectedBy = fit.RejectedBy
	case errors.Is(err, framework.ErrNoNodes):
		rejectedBy.Insert(noNodes)
	case errors.As(err, &group):
		rejectedBy.Insert(group.plugin)
	}
	s.attempted(a, result(err))
	s.requeue(ctx, a, nomination, rejectedBy, err)
}

// unschedulable tells a pod that plugins reject from a failure.
func unschedulable(err error) bool {
	var fit *framework.FitError
	var group groupError
	var late lateRejection
	return errors.As(err, &fit) || errors.As(err, &group) || errors.As(err, &late) || errors.Is(err, framework.ErrNoNodes)
}
