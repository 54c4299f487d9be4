// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package podstatus

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"

	"minik8s.io/minik8s/pkg/scheduler/internal/latest"
	"minik8s.io/minik8s/pkg/scheduler/internal/metrics"
)

// Update is what is to be told of a pod that was not placed.
type Update struct {
	Condition corev1.PodCondition
	// Nomination is the node that the pod waits for, empty for none, nil to leave it.
	Nomination *string
}

// Writer writes updates of pods, by UID.
type Writer struct {
	*latest.Writer[types.UID, pending]
	client kubernetes.Interface
	pods   corelisters.PodLister
	count  *metrics.Metrics
}

type pending struct {
	pod    types.NamespacedName
	update Update
}

// NewWriter returns a writer; Run must run for anything to be written. Its
// requests are counted unless count is nil.
func NewWriter(client kubernetes.Interface, pods corelisters.PodLister, count *metrics.Metrics) *Writer {
	w := &Writer{client: client, pods: pods, count: count}
	w.Writer = latest.New(w.write)
	return w
}

// Write asks for an update of a pod.
func (w *Writer) Write(pod *corev1.Pod, u Update) {
	w.Change(pod.UID, func(before pending) pending {
		if u.Nomination == nil {
			u.Nomination = before.update.Nomination
		}
		return pending{types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}, u}
	})
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
	start := time.Now()
	err = Patch(ctx, w.client, pod, status)
	w.count.Called(metrics.StatusPatch, err, start)
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	return nil
}
