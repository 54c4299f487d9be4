// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package horizontalpodautoscaler

import (
	"context"
	"errors"
	"fmt"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/retry"
)

// target is what an autoscaler scales: the resource and its scale, as the API server had it a moment ago.
type target struct {
	resource schema.GroupResource
	scale    *autoscalingv1.Scale
}

// find asks for the scale of the workload that h refers to. What is wrapped in the error is what upstream's condition says.
func (r *Reconciler) find(ctx context.Context, h *autoscalingv2.HorizontalPodAutoscaler) (target, error) {
	ref := &h.Spec.ScaleTargetRef
	gv, err := schema.ParseGroupVersion(ref.APIVersion)
	if err != nil {
		return target{}, fmt.Errorf("invalid API version in scale target reference: %w", invalidSpec{err})
	}
	mappings, err := r.Kinds.RESTMappings(schema.GroupKind{Group: gv.Group, Kind: ref.Kind})
	if err != nil {
		return target{}, fmt.Errorf("unable to determine resource for scale target reference: %w", err)
	}
	first := errors.New("unrecognized resource")
	for i, mapping := range mappings {
		resource := mapping.Resource.GroupResource()
		scale, err := r.getScale(ctx, h.Namespace, resource, ref.Name)
		if err == nil {
			return target{resource, scale}, nil
		}
		if i == 0 {
			first = err
		}
	}
	return target{}, fmt.Errorf("failed to query scale subresource for %s: %w", reference(h), first)
}

func (r *Reconciler) getScale(ctx context.Context, namespace string, resource schema.GroupResource, name string) (*autoscalingv1.Scale, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return r.Scales.Scales(namespace).Get(ctx, resource, name, metav1.GetOptions{})
}

// resize writes the number of pods into the scale. Somebody else may have changed the workload meanwhile, its own controller mostly:
// then it is tried again on what there is now.
func (r *Reconciler) resize(ctx context.Context, t target, replicas int32) error {
	scale := t.scale
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		ctx, cancel := context.WithTimeout(ctx, callTimeout)
		defer cancel()
		scale.Spec.Replicas = replicas
		_, err := r.Scales.Scales(scale.Namespace).Update(ctx, t.resource, scale, metav1.UpdateOptions{})
		if apierrors.IsConflict(err) {
			if latest, getErr := r.getScale(ctx, scale.Namespace, t.resource, scale.Name); getErr == nil {
				scale = latest
			}
		}
		return err
	})
}

// reference is what upstream's errors call the workload.
func reference(h *autoscalingv2.HorizontalPodAutoscaler) string {
	return fmt.Sprintf("%s/%s/%s", h.Spec.ScaleTargetRef.Kind, h.Namespace, h.Spec.ScaleTargetRef.Name)
}
