// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"minik8s.io/minik8s/pkg/scheduler/framework"
	"minik8s.io/minik8s/pkg/scheduler/internal/metrics"
	"minik8s.io/minik8s/pkg/scheduler/internal/podstatus"
)

const (
	// maxBindings bounds the Bindings that are written at once.
	maxBindings = 64
	// lookTimeout bounds a look at a pod whose Binding got no answer.
	lookTimeout = 10 * time.Second
)

// commit sends an assumed pod on its way to its node. What must wait does so in a
// goroutine of its own; of the others there are no more than write Bindings.
func (s *Scheduler) commit(ctx context.Context, a *attempt, assumed *framework.PodInfo, waits bool) {
	node := assumed.Pod.Spec.NodeName
	busy, status := a.profile.RunPreBindPreFlight(ctx, a.state, assumed.Pod, node)
	if !status.IsSuccess() {
		if a.profile.RejectWaitingPod(assumed.Pod.UID) {
			a.profile.WaitOnPermit(ctx, assumed.Pod) // takes it from the waiting ones
		}
		s.undo(ctx, a, assumed, status)
		return
	}
	if waits || busy {
		// Until it is bound, which takes a while, others are to know where the pod is going to be (KEP-5278).
		s.statuses.Write(assumed.Pod, podstatus.Update{Nomination: &node})
		s.bindings.Go(func() {
			if status := s.prepare(ctx, a, assumed, waits); !status.IsSuccess() {
				s.undo(ctx, a, assumed, status)
			} else if s.takeSlot(ctx) {
				s.bind(ctx, a, assumed)
			} else {
				s.undo(ctx, a, assumed, fwk.AsStatus(ctx.Err()))
			}
		})
		return
	}
	s.land(a)
	if !s.takeSlot(ctx) {
		s.undo(ctx, a, assumed, fwk.AsStatus(ctx.Err()))
		return
	}
	s.bindings.Go(func() { s.bind(ctx, a, assumed) })
}

// land ends the part of an attempt in which a plugin may have the pod wait for an event.
func (s *Scheduler) land(a *attempt) {
	a.permitted = true
	s.queue.Land(a.pod)
}

func (s *Scheduler) takeSlot(ctx context.Context) bool {
	select {
	case s.slots <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

// prepare waits for the plugins that hold the pod and does what comes before the binding.
func (s *Scheduler) prepare(ctx context.Context, a *attempt, assumed *framework.PodInfo, waits bool) *fwk.Status {
	if waits {
		if status := a.profile.WaitOnPermit(ctx, assumed.Pod); !status.IsSuccess() {
			return status
		}
	}
	s.land(a)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	uid := assumed.Pod.UID
	a.profile.AddPodInPreBind(uid, cancel)
	defer a.profile.RemovePodInPreBind(uid)
	status := a.profile.RunPreBind(ctx, a.state, assumed.Pod, assumed.Pod.Spec.NodeName)
	if p := a.profile.GetPodInPreBind(uid); status.IsSuccess() && p != nil && !p.MarkPrebound() {
		return fwk.AsStatus(context.Cause(ctx))
	}
	return status
}

// bind makes the assumption true. It has a slot, and holds it while it writes.
func (s *Scheduler) bind(ctx context.Context, a *attempt, assumed *framework.PodInfo) {
	node := assumed.Pod.Spec.NodeName
	if written := s.statuses.Drop(assumed.Pod.UID); written != nil {
		<-s.slots // others need not wait for it too
		<-written
		if !s.takeSlot(ctx) {
			s.undo(ctx, a, assumed, fwk.AsStatus(ctx.Err()))
			return
		}
	}
	start := time.Now()
	status := s.write(ctx, a, assumed.Pod)
	s.metrics.Called(metrics.Binding, status.AsError(), start)
	<-s.slots
	if !status.IsSuccess() && framework.IsLost(status.AsError()) && s.isBound(ctx, assumed.Pod) {
		status = nil
	}
	if !status.IsSuccess() {
		s.undo(ctx, a, assumed, status)
		return
	}
	s.queue.Done(a.pod)
	s.bound(a)
	a.profile.Recorder.Eventf(assumed.Pod, nil, corev1.EventTypeNormal, "Scheduled", "Binding",
		"Successfully assigned %v/%v to %v", assumed.Pod.Namespace, assumed.Pod.Name, node)
	klog.FromContext(ctx).V(3).Info("Bound pod", "pod", klog.KObj(assumed.Pod), "node", node)
	a.profile.RunPostBind(ctx, a.state, assumed.Pod, node)
}

// write binds through the extender that does so for such pods, or by plugins.
func (s *Scheduler) write(ctx context.Context, a *attempt, pod *corev1.Pod) *fwk.Status {
	for _, e := range a.profile.Extenders() {
		if !e.IsBinder() || !e.IsInterested(pod) {
			continue
		}
		err := e.Bind(&corev1.Binding{
			ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
			Target:     corev1.ObjectReference{Kind: "Node", Name: pod.Spec.NodeName},
		})
		if err == nil || !e.IsIgnorable() {
			return fwk.AsStatus(err)
		}
		klog.FromContext(ctx).Error(err, "Skipping an ignorable extender that failed to bind", "extender", e.Name(), "pod", klog.KObj(pod))
	}
	return a.profile.RunBind(ctx, a.state, pod, pod.Spec.NodeName)
}

// isBound looks until it knows whether a pod is on the node that it was meant
// for. Its room must not be given away before.
func (s *Scheduler) isBound(ctx context.Context, pod *corev1.Pod) (bound bool) {
	backoff := wait.Backoff{Duration: 100 * time.Millisecond, Factor: 2, Jitter: 0.1, Steps: 10, Cap: lookTimeout}
	err := backoff.DelayFunc().Until(ctx, true, false, func(ctx context.Context) (bool, error) {
		ctx, cancel := context.WithTimeout(ctx, lookTimeout)
		defer cancel()
		latest, err := s.cfg.Client.CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return true, nil
		}
		if err != nil {
			klog.FromContext(ctx).Error(err, "Looking whether a pod was bound failed; looking again", "pod", klog.KObj(pod))
			return false, nil
		}
		bound = latest.UID == pod.UID && latest.Spec.NodeName == pod.Spec.NodeName
		return true, nil
	})
	return bound && err == nil
}

// undo gives up an assumption: everything is given back and the pod is tried again.
func (s *Scheduler) undo(ctx context.Context, a *attempt, assumed *framework.PodInfo, status *fwk.Status) {
	node := assumed.Pod.Spec.NodeName
	a.profile.RunReservePluginsUnreserve(ctx, a.state, assumed.Pod, node)
	s.cache.Forget(assumed.Pod.UID)
	s.groups.Forget(a.pod.Pod)
	// Others may have been rejected for what this pod held. The event comes after
	// the pod is put back, because it must not wake the pod itself.
	defer s.queue.Free(ctx, assumed.Pod)
	if ctx.Err() != nil {
		s.queue.Done(a.pod)
		return
	}
	rejectedBy, err := rejection(status, node, a.permitted)
	s.attempted(a, result(err))
	s.requeue(ctx, a, noNomination(), rejectedBy, err)
}
