// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package podstatus

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"

	"minik8s.io/minik8s/pkg/scheduler/internal/metrics"
)

const (
	writers = 8
	// writeTimeout bounds a request.
	writeTimeout = 30 * time.Second
	maxRetries   = 5
)

// Update is what is to be told of a pod that was not placed.
type Update struct {
	Condition corev1.PodCondition
	// Nomination is the node that the pod waits for, empty for none, nil to leave it.
	Nomination *string
}

// Writer writes updates beside the scheduling cycles. Those of one pod are
// written in order, and of several that wait only the last. It is safe for
// concurrent use.
type Writer struct {
	client kubernetes.Interface
	pods   corelisters.PodLister
	queue  workqueue.TypedRateLimitingInterface[types.UID]
	count  *metrics.Metrics

	mu      sync.Mutex
	pending map[types.UID]pending       // guarded by mu
	running map[types.UID]chan struct{} // guarded by mu; closed when the request of a pod has ended
}

type pending struct {
	pod    types.NamespacedName
	update Update
}

// NewWriter returns a writer; Run must run for anything to be written. Its
// requests are counted unless count is nil.
func NewWriter(client kubernetes.Interface, pods corelisters.PodLister, count *metrics.Metrics) *Writer {
	return &Writer{
		client:  client,
		pods:    pods,
		count:   count,
		queue:   workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[types.UID]()),
		pending: map[types.UID]pending{},
		running: map[types.UID]chan struct{}{},
	}
}

// Write asks for an update of a pod.
func (w *Writer) Write(pod *corev1.Pod, u Update) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if before, ok := w.pending[pod.UID]; ok && u.Nomination == nil {
		u.Nomination = before.update.Nomination
	}
	w.pending[pod.UID] = pending{types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}, u}
	w.queue.Add(pod.UID)
}

// Pending is the number of updates that are not written yet.
func (w *Writer) Pending() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.pending)
}

// Drop takes back what is not written yet. If something is being written, what is
// done to the pod next must wait for the end of the channel that it returns: for
// 30 s at most, and of at most 8 pods at a time. It is nil if there is nothing.
func (w *Writer) Drop(uid types.UID) <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.pending, uid)
	return w.running[uid]
}

// Run writes until ctx ends.
func (w *Writer) Run(ctx context.Context) {
	stop := context.AfterFunc(ctx, w.queue.ShutDown)
	defer stop()
	var all sync.WaitGroup
	for range writers {
		all.Go(func() {
			for {
				uid, down := w.queue.Get()
				if down {
					return
				}
				w.next(ctx, uid)
				w.queue.Done(uid)
			}
		})
	}
	all.Wait()
}

func (w *Writer) next(ctx context.Context, uid types.UID) {
	w.mu.Lock()
	p, ok := w.pending[uid]
	if !ok {
		w.mu.Unlock()
		w.queue.Forget(uid)
		return
	}
	delete(w.pending, uid)
	done := make(chan struct{})
	w.running[uid] = done
	w.mu.Unlock()

	err := w.write(ctx, uid, p)

	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.running, uid)
	close(done)
	if err == nil || ctx.Err() != nil {
		w.queue.Forget(uid)
		return
	}
	logger := klog.FromContext(ctx)
	if w.queue.NumRequeues(uid) >= maxRetries {
		logger.Error(err, "Updating the pod's condition failed; giving up", "pod", p.pod)
		w.queue.Forget(uid)
		return
	}
	logger.Error(err, "Updating the pod's condition failed; retrying", "pod", p.pod)
	if _, newer := w.pending[uid]; !newer {
		w.pending[uid] = p
	}
	w.queue.AddRateLimited(uid)
}

func (w *Writer) write(ctx context.Context, uid types.UID, p pending) error {
	pod, err := w.pods.Pods(p.pod.Namespace).Get(p.pod.Name)
	if apierrors.IsNotFound(err) || err == nil && (pod.UID != uid || pod.Spec.NodeName != "") {
		return nil // gone, or it has its node
	}
	if err != nil {
		return err
	}
	status := pod.Status.DeepCopy()
	changed := SetCondition(status, p.update.Condition)
	if n := p.update.Nomination; n != nil && status.NominatedNodeName != *n {
		status.NominatedNodeName, changed = *n, true
	}
	if !changed {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	start := time.Now()
	err = Patch(ctx, w.client, pod, status)
	w.count.Called(metrics.StatusPatch, err, start)
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	return nil
}
