// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package podstatus

import (
	"cmp"
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"

	"minik8s.io/minik8s/pkg/scheduler/internal/latest"
	"minik8s.io/minik8s/pkg/scheduler/internal/metrics"
)

// Update is what is to be told of a pod that has no node yet.
type Update struct {
	// Condition is one that the pod gets, nil to leave all as they are.
	Condition *corev1.PodCondition
	// Nomination is the node that the pod waits for, empty for none, nil to leave it.
	Nomination *string
}

// Writer writes updates of pods, by UID.
type Writer struct {
	*latest.Writer[types.UID, pending]
	client kubernetes.Interface
	pods   corelisters.PodLister
	count  *metrics.Metrics

	mu sync.Mutex
	// nominations are those that were written last, which the lister may not show yet. Guarded by mu.
	nominations map[types.UID]string
}

type pending struct {
	pod    types.NamespacedName
	update Update
}

// NewWriter returns a writer; Run must run for anything to be written. Its
// requests are counted unless count is nil.
func NewWriter(client kubernetes.Interface, pods corelisters.PodLister, count *metrics.Metrics) *Writer {
	w := &Writer{client: client, pods: pods, count: count, nominations: map[types.UID]string{}}
	w.Writer = latest.New(w.write)
	return w
}

// Write asks for an update of a pod.
func (w *Writer) Write(pod *corev1.Pod, u Update) {
	w.Change(pod.UID, func(before pending) pending {
		u.Condition = cmp.Or(u.Condition, before.update.Condition)
		u.Nomination = cmp.Or(u.Nomination, before.update.Nomination)
		return pending{types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}, u}
	})
}

// Forget is to be called for a pod that needs no node any more, when the lister shows that.
func (w *Writer) Forget(uid types.UID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.nominations, uid)
}

func (w *Writer) write(ctx context.Context, uid types.UID, p pending) error {
	pod, err := w.waiting(uid, p.pod)
	if pod == nil {
		return err
	}
	before, changed, nomination := *pod, false, p.update.Nomination
	if nomination != nil {
		before.Status.NominatedNodeName = w.nominated(pod, *nomination)
	}
	status := before.Status.DeepCopy()
	if c := p.update.Condition; c != nil {
		changed = SetCondition(status, *c)
	}
	if nomination != nil && status.NominatedNodeName != *nomination {
		status.NominatedNodeName, changed = *nomination, true
	}
	if !changed {
		return nil
	}
	start := time.Now()
	err = Patch(ctx, w.client, &before, status)
	w.count.Called(metrics.StatusPatch, err, start)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err == nil && nomination != nil {
		w.remember(uid, p.pod, *nomination)
	}
	return err
}

// waiting returns what the lister shows of a pod that has no node; nil if it is gone, or has one.
func (w *Writer) waiting(uid types.UID, name types.NamespacedName) (*corev1.Pod, error) {
	pod, err := w.pods.Pods(name.Namespace).Get(name.Name)
	if apierrors.IsNotFound(err) || err == nil && (pod.UID != uid || pod.Spec.NodeName != "") {
		return nil, nil
	}
	return pod, err
}

// nominated is what a pod's nomination is taken to be. If the lister shows the one that is wanted, it may be from before the last write.
func (w *Writer) nominated(pod *corev1.Pod, want string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if last, ok := w.nominations[pod.UID]; ok && pod.Status.NominatedNodeName == want {
		return last
	}
	return pod.Status.NominatedNodeName
}

func (w *Writer) remember(uid types.UID, name types.NamespacedName, nomination string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if pod, _ := w.waiting(uid, name); pod != nil { // or Forget is over
		w.nominations[uid] = nomination
	}
}
