// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package job

import (
	"context"
	"encoding/json"
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"minik8s.io/minik8s/pkg/controllers/internal/adoption"
	"minik8s.io/minik8s/pkg/controllers/internal/pods"
)

// claim adopts orphans, releases what does not match any more and returns the pods of the Job; they belong to the
// cache. The tracking finalizer comes and goes in the same write as the owner, or a pod would be lost to counting by a
// crash in between: that is why adoption.All does not do here.
func (r *Reconciler) claim(ctx context.Context, job *batchv1.Job) ([]*corev1.Pod, error) {
	selector, err := selectorOf(job)
	if err != nil {
		// Validation rejects such a selector; trying again cannot help.
		return nil, reconcile.TerminalError(fmt.Errorf("parsing the selector of job %q: %w", job.Name, err))
	}
	candidates, err := pods.Candidates(ctx, r.Client, job, selector)
	if err != nil {
		return nil, err
	}
	var claimed []*corev1.Pod
	checked := false
	for _, pod := range candidates {
		switch adoption.Decide(job, pod, selector) {
		case adoption.Keep:
			claimed = append(claimed, pod)
		case adoption.Release:
			if err := r.disown(ctx, job, pod); err != nil {
				return nil, err
			}
		case adoption.Adopt:
			if !checked {
				if err := r.checkAlive(ctx, job); err != nil {
					return nil, err
				}
				checked = true
			}
			adopted, err := r.adopt(ctx, job, pod)
			if err != nil {
				return nil, err
			}
			if adopted != nil {
				claimed = append(claimed, adopted)
			}
		}
	}
	return claimed, nil
}

// checkAlive asks the API server whether the Job still is the one in hand and not being deleted; the cached one might
// be a ghost.
func (r *Reconciler) checkAlive(ctx context.Context, job *batchv1.Job) error {
	fresh := &batchv1.Job{}
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(job), fresh); err != nil {
		return fmt.Errorf("can't adopt: reading Job %q: %w", job.Name, err)
	}
	if fresh.UID != job.UID {
		return fmt.Errorf("original Job %v/%v is gone: got uid %v, wanted %v", job.Namespace, job.Name, fresh.UID, job.UID)
	}
	if fresh.DeletionTimestamp != nil {
		return fmt.Errorf("%v/%v has just been deleted at %v", job.Namespace, job.Name, fresh.DeletionTimestamp)
	}
	return nil
}

// adopt returns the pod as it is afterwards, nil if it is gone.
func (r *Reconciler) adopt(ctx context.Context, job *batchv1.Job, pod *corev1.Pod) (*corev1.Pod, error) {
	adopted, err := r.patchOwner(ctx, pod, map[string]any{
		"ownerReferences": []any{metav1.NewControllerRef(job, kind)},
		"finalizers":      []string{batchv1.JobTrackingFinalizer},
	})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("adopting pod %q by Job %q: %w", pod.Name, job.Name, err)
	}
	return adopted, nil
}

func (r *Reconciler) disown(ctx context.Context, job *batchv1.Job, pod *corev1.Pod) error {
	_, err := r.patchOwner(ctx, pod, map[string]any{
		"ownerReferences":                     []any{map[string]any{"$patch": "delete", "uid": job.UID}},
		"$deleteFromPrimitiveList/finalizers": []string{batchv1.JobTrackingFinalizer},
	})
	// Invalid means that the pod has no such owner any more, or has been replaced by one of the same name.
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsInvalid(err) {
		return fmt.Errorf("releasing pod %q from Job %q: %w", pod.Name, job.Name, err)
	}
	return nil
}

// patchOwner merges into the metadata; the UID in it makes the patch fail on another pod of the same name.
func (r *Reconciler) patchOwner(ctx context.Context, pod *corev1.Pod, metadata map[string]any) (*corev1.Pod, error) {
	metadata["uid"] = pod.UID
	data, err := json.Marshal(map[string]any{"metadata": metadata})
	if err != nil {
		return nil, fmt.Errorf("rendering the owner: %w", err)
	}
	patched := pod.DeepCopy()
	return patched, r.Client.Patch(ctx, patched, client.RawPatch(types.StrategicMergePatchType, data))
}
