// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"minik8s.io/minik8s/pkg/scheduler/internal/metrics"
)

// Services is what the profiles of a scheduler share and offer to their plugins.
type Services struct {
	// Client and Informers reach the API with the scheduler's identity.
	Client    kubernetes.Interface
	Informers informers.SharedInformerFactory
	// Config is that of Client, nil in tests on a fake one.
	Config   *rest.Config
	Recorder events.EventRecorderLogger
	// State returns the snapshot that the running cycle decides on.
	State func() *Snapshot
	// Nominator knows the pods that wait for room on a node.
	Nominator fwk.PodNominator
	// Awaken puts waiting pods back into the active queue.
	Awaken func(logger klog.Logger, pods map[string]*corev1.Pod)
	// Waiting has the pods that a Permit plugin holds.
	Waiting *WaitingPods
	// Outside are the extenders, in order.
	Outside []fwk.Extender
	// Parallel bounds the goroutines of a cycle.
	Parallel Parallelizer
	// DRA knows resource claims, slices and device classes.
	DRA fwk.SharedDRAManager
	// CSI knows CSINodes.
	CSI fwk.CSIManager
	// Groups knows pod groups and their pods; nil if pods are scheduled one by one.
	Groups fwk.PodGroupManager
	// Metrics counts what plugins do; nil counts nothing.
	Metrics *metrics.Metrics
}

var _ fwk.Handle = (*Profile)(nil)

// ClientSet implements fwk.Handle.
func (s *Services) ClientSet() kubernetes.Interface { return s.Client }

// KubeConfig implements fwk.Handle.
func (s *Services) KubeConfig() *rest.Config { return s.Config }

// EventRecorder implements fwk.Handle.
func (s *Services) EventRecorder() events.EventRecorderLogger { return s.Recorder }

// SharedInformerFactory implements fwk.Handle.
func (s *Services) SharedInformerFactory() informers.SharedInformerFactory { return s.Informers }

// SharedDRAManager implements fwk.Handle.
func (s *Services) SharedDRAManager() fwk.SharedDRAManager { return s.DRA }

// SharedCSIManager implements fwk.Handle.
func (s *Services) SharedCSIManager() fwk.CSIManager { return s.CSI }

// SnapshotSharedLister implements fwk.Handle. The snapshot is for the scheduling
// cycle: a binding cycle that looks at it sees a later pod's.
func (s *Services) SnapshotSharedLister() fwk.SharedLister { return s.State() }

// MutableSnapshotSharedLister implements fwk.Handle; only pod groups need to change it.
func (s *Services) MutableSnapshotSharedLister() fwk.MutableSnapshotSharedLister { return s.State() }

// Extenders implements fwk.Handle.
func (s *Services) Extenders() []fwk.Extender { return s.Outside }

// Parallelizer implements fwk.Handle.
func (s *Services) Parallelizer() fwk.Parallelizer { return counted{s.Parallel, s.Metrics} }

func (s *Services) counts() *metrics.Metrics { return s.Metrics }

// CountsOf returns what counts for our own plugins; nil, which counts nothing, of
// a handle that is not ours.
func CountsOf(h fwk.Handle) *metrics.Metrics {
	if s, ok := h.(interface{ counts() *metrics.Metrics }); ok {
		return s.counts()
	}
	return nil
}

// APIDispatcher implements fwk.Handle: nil, as without upstream's feature SchedulerAsyncAPICalls.
func (s *Services) APIDispatcher() fwk.APIDispatcher { return nil }

// APICacher implements fwk.Handle: nil, as without upstream's feature SchedulerAsyncAPICalls.
func (s *Services) APICacher() fwk.APICacher { return nil }

// PodGroupManager implements fwk.Handle.
func (s *Services) PodGroupManager() fwk.PodGroupManager {
	if s.Groups == nil {
		return NoGroups{}
	}
	return s.Groups
}

// Activate implements fwk.PodActivator.
func (s *Services) Activate(logger klog.Logger, pods map[string]*corev1.Pod) { s.Awaken(logger, pods) }

// AddNominatedPod implements fwk.PodNominator.
func (s *Services) AddNominatedPod(logger klog.Logger, pod fwk.PodInfo, info *fwk.NominatingInfo) {
	s.Nominator.AddNominatedPod(logger, pod, info)
}

// DeleteNominatedPodIfExists implements fwk.PodNominator.
func (s *Services) DeleteNominatedPodIfExists(pod *corev1.Pod) {
	s.Nominator.DeleteNominatedPodIfExists(pod)
}

// UpdateNominatedPod implements fwk.PodNominator.
func (s *Services) UpdateNominatedPod(logger klog.Logger, old *corev1.Pod, pod fwk.PodInfo) {
	s.Nominator.UpdateNominatedPod(logger, old, pod)
}

// NominatedPodsForNode implements fwk.PodNominator.
func (s *Services) NominatedPodsForNode(node string) []fwk.PodInfo {
	return s.Nominator.NominatedPodsForNode(node)
}

// IterateOverWaitingPods implements fwk.Handle.
func (s *Services) IterateOverWaitingPods(callback func(fwk.WaitingPod)) { s.Waiting.each(callback) }

// GetWaitingPod implements fwk.Handle; nil if the pod does not wait.
func (s *Services) GetWaitingPod(uid types.UID) fwk.WaitingPod {
	if p := s.Waiting.get(uid); p != nil {
		return p
	}
	return nil
}

// RejectWaitingPod implements fwk.Handle.
func (s *Services) RejectWaitingPod(uid types.UID) bool {
	p := s.Waiting.get(uid)
	return p != nil && p.Reject("", "removed")
}

// AddPodInPreBind implements fwk.Handle.
func (s *Services) AddPodInPreBind(uid types.UID, cancel context.CancelCauseFunc) {
	s.Waiting.preBinds.Store(uid, &podInPreBind{cancel: cancel})
}

// GetPodInPreBind implements fwk.Handle; nil if the pod is not there.
func (s *Services) GetPodInPreBind(uid types.UID) fwk.PodInPreBind {
	if p, ok := s.Waiting.preBinds.Load(uid); ok {
		return p.(*podInPreBind)
	}
	return nil
}

// RemovePodInPreBind implements fwk.Handle.
func (s *Services) RemovePodInPreBind(uid types.UID) { s.Waiting.preBinds.Delete(uid) }

// ProfileName implements fwk.Handle.
func (p *Profile) ProfileName() string { return p.name }
