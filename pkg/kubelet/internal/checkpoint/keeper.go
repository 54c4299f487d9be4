// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"minik8s.io/minik8s/pkg/kubelet/internal/podworker"
)

// Keep returns a life in which each pod is in the store before anything is done about it, until it is forgotten. It writes in the
// pod's own goroutine, so that a slow disk delays no other pod. A pod that cannot be written goes its way all the same.
func (s *Store) Keep(life podworker.Life) podworker.Life {
	return &keeper{Life: life, store: s, saved: map[types.UID]saved{}}
}

type keeper struct {
	podworker.Life
	store *Store

	mu    sync.Mutex // guards saved
	saved map[types.UID]saved
}

// saved is what of a pod was written last: the pod itself, so that the same is not even compared, and what matters of it.
type saved struct {
	pod *corev1.Pod
	sum [sha256.Size]byte
}

func (k *keeper) Sync(ctx context.Context, pod *corev1.Pod) (podworker.Result, error) {
	k.save(ctx, pod)
	return k.Life.Sync(ctx, pod)
}

func (k *keeper) Terminate(ctx context.Context, pod *corev1.Pod, grace time.Duration) error {
	k.save(ctx, pod)
	return k.Life.Terminate(ctx, pod, grace)
}

func (k *keeper) Cleanup(ctx context.Context, pod *corev1.Pod, deleted bool) error {
	k.save(ctx, pod)
	return k.Life.Cleanup(ctx, pod, deleted)
}

func (k *keeper) Forget(pod *corev1.Pod) {
	k.mu.Lock()
	delete(k.saved, pod.UID)
	k.mu.Unlock()
	if err := k.store.Remove(pod.UID); err != nil {
		klog.Background().Error(err, "Forgetting checkpoint failed")
	}
	k.Life.Forget(pod)
}

// save writes a pod if something but its status has changed.
func (k *keeper) save(ctx context.Context, pod *corev1.Pod) {
	k.mu.Lock()
	last, known := k.saved[pod.UID]
	k.mu.Unlock()
	if known && last.pod == pod {
		return
	}
	data, err := json.Marshal([]any{pod.Spec, pod.Labels, pod.Annotations, pod.Generation, pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds, pod.Status.Phase})
	sum := sha256.Sum256(data)
	if err != nil || !known || last.sum != sum {
		if err := k.store.Save(pod); err != nil {
			klog.FromContext(ctx).Error(err, "Checkpointing failed")
			return
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.saved[pod.UID] = saved{pod: pod, sum: sum}
}
