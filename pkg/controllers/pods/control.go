// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package pods

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Reasons of the events about pods that a controller created or deleted.
const (
	ReasonFailedCreate     = "FailedCreate"
	ReasonSuccessfulCreate = "SuccessfulCreate"
	ReasonFailedDelete     = "FailedDelete"
	ReasonSuccessfulDelete = "SuccessfulDelete"
)

// Control creates and deletes the pods of a controller object and records both as events of that object.
type Control struct {
	Client client.Client
	Events record.EventRecorder
}

// FromTemplate returns a pod of the template, controlled by owner. Its name is generated from the owner's.
func FromTemplate(template *corev1.PodTemplateSpec, owner client.Object, ref metav1.OwnerReference) *corev1.Pod {
	prefix := owner.GetName() + "-"
	if len(validation.NameIsDNSSubdomain(prefix, true)) > 0 {
		prefix = owner.GetName()
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:       owner.GetNamespace(),
			GenerateName:    prefix,
			Labels:          maps.Clone(template.Labels),
			Annotations:     maps.Clone(template.Annotations),
			Finalizers:      slices.Clone(template.Finalizers),
			OwnerReferences: []metav1.OwnerReference{ref},
		},
		Spec: *template.Spec.DeepCopy(),
	}
}

// Create creates the pod and tells so in the owner's events. A namespace that is being deleted is not worth an event.
func (c Control) Create(ctx context.Context, owner client.Object, pod *corev1.Pod) error {
	if len(pod.Labels) == 0 {
		return errors.New("unable to create pods, no labels")
	}
	if err := c.Client.Create(ctx, pod); err != nil {
		if !apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
			c.Events.Eventf(owner, corev1.EventTypeWarning, ReasonFailedCreate, "Error creating: %v", err)
		}
		return err
	}
	c.Events.Eventf(owner, corev1.EventTypeNormal, ReasonSuccessfulCreate, "Created pod: %v", pod.Name)
	return nil
}

// Delete deletes the pod and tells so in the owner's events. A pod that is gone already is no error.
func (c Control) Delete(ctx context.Context, owner client.Object, pod *corev1.Pod) error {
	err := c.Client.Delete(ctx, pod.DeepCopy(), client.Preconditions{UID: &pod.UID})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		c.Events.Eventf(owner, corev1.EventTypeWarning, ReasonFailedDelete, "Error deleting: %v", err)
		return fmt.Errorf("unable to delete pods: %w", err)
	}
	c.Events.Eventf(owner, corev1.EventTypeNormal, ReasonSuccessfulDelete, "Deleted pod: %v", pod.Name)
	return nil
}

// SlowStart calls create count times, in parallel batches of 1, 2, 4, ... and stops after the first batch in which a call
// fails. So a request that cannot succeed (quota, a webhook that denies) is not sent hundreds of times. It returns the
// number of calls that succeeded and the first error.
func SlowStart(count int, create func(i int) error) (int, error) {
	succeeded := 0
	for batch := 1; succeeded < count; batch *= 2 {
		first := succeeded
		size := min(batch, count-first)
		errs := make([]error, size)
		var wg sync.WaitGroup
		for i := range size {
			wg.Go(func() { errs[i] = create(first + i) })
		}
		wg.Wait()
		var failed error
		for _, err := range errs {
			if err == nil {
				succeeded++
			} else if failed == nil {
				failed = err
			}
		}
		if failed != nil {
			return succeeded, failed
		}
	}
	return succeeded, nil
}
