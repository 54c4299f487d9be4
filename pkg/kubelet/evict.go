// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package kubelet

import (
	"context"
	"errors"
	"math"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
	statsv1alpha1 "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"minik8s.io/minik8s/pkg/kubelet/container"
	"minik8s.io/minik8s/pkg/kubelet/internal/eviction"
	"minik8s.io/minik8s/pkg/kubelet/internal/pleg"
	"minik8s.io/minik8s/pkg/kubelet/internal/podlog"
	"minik8s.io/minik8s/pkg/kubelet/internal/podspec"
	"minik8s.io/minik8s/pkg/kubelet/internal/podsync"
	"minik8s.io/minik8s/pkg/kubelet/internal/podusage"
	"minik8s.io/minik8s/pkg/kubelet/internal/podworker"
	"minik8s.io/minik8s/pkg/kubelet/internal/status"
)

// evictor ends pods for the node's sake.
type evictor struct {
	*pods
	life     *podsync.Syncer
	meter    *podusage.Meter
	recorder record.EventRecorder
	metrics  interface {
		Evicted(signal string, observed time.Time)
		Preempted(resource string)
	}
}

var _ eviction.Pods = (*evictor)(nil)

func (e *evictor) Usage(ctx context.Context, pod *corev1.Pod, scope eviction.Scope) (*statsv1alpha1.PodStats, error) {
	return e.meter.Measure(ctx, pod, scope)
}

func (e *evictor) Evict(ctx context.Context, pod *corev1.Pod, ev eviction.Eviction) {
	f := status.Failure{Reason: eviction.Reason, Message: ev.Message, Grace: ev.Grace, Disrupted: ev.Disrupted, Clear: true}
	if e.life.Fail(ctx, pod, f) {
		e.metrics.Evicted(string(ev.Signal), ev.Observed)
		klog.FromContext(ctx).Info("Evicting pod", "pod", klog.KObj(pod), "message", ev.Message)
		e.recorder.AnnotatedEventf(podspec.PodRef(pod), ev.Annotations, corev1.EventTypeWarning, eviction.Reason, "%s", ev.Message)
	}
	e.workers.Terminate(pod.UID, ev.Grace)
}

// preempt ends a pod for a critical one, which is short of a resource and does not wait for that.
func (e *evictor) preempt(ctx context.Context, pod *corev1.Pod, resource string) {
	const reason, message = "Preempting", "Preempted in order to admit critical pod"
	if e.life.Fail(ctx, pod, status.Failure{Reason: reason, Message: message, Disrupted: true}) {
		e.metrics.Preempted(resource)
		klog.FromContext(ctx).Info("Preempting pod", "pod", klog.KObj(pod))
		e.recorder.Event(podspec.PodRef(pod), corev1.EventTypeWarning, reason, message)
	}
	e.workers.Terminate(pod.UID, podworker.Grace(pod))
}

// machine is this node as eviction sees it: what it observes, and what can be freed without ending a pod.
type machine struct {
	observer // in production an *eviction.Machine
	pods     *pods
	pleg     *pleg.PLEG
	garbage  garbage
}

// observer tells how much there is of what a node may run out of.
type observer interface {
	Observe(ctx context.Context) (eviction.Observations, error)
	Dedicated(ctx context.Context) bool
}

var _ eviction.Node = (*machine)(nil)

// RemoveDeadContainers removes those of pods that have ended; their logs go with them.
func (m *machine) RemoveDeadContainers(ctx context.Context) error {
	var errs []error
	for uid, obs := range m.pleg.Pods() {
		if stage, ok := m.pods.workers.Stage(uid); !ok || stage < podworker.Finished {
			continue
		}
		for _, c := range obs.Containers {
			if c.State != container.StateExited {
				continue
			}
			err := m.pleg.Runtime().RemoveContainer(ctx, c.ID)
			if err == nil {
				err = podlog.Standard().Drop(c)
			}
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func (m *machine) RemoveUnusedImages(ctx context.Context) error {
	_, err := m.garbage.Collect(ctx, math.MaxInt64)
	return err
}
