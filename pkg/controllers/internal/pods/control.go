// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package pods

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

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
	err := c.Client.Delete(ctx, pod, client.Preconditions{UID: &pod.UID})
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

// parallelWrites is how many pods are written at a time for one owner. More do not make a busy API server any faster, which
// queues no more than a few hundred requests of one client, and each takes a stack.
const parallelWrites = 50

// SlowStart calls create count times, at first one call at a time and with each success one more at the same time. It begins no
// more after a failure. So a request that cannot succeed (quota, a webhook that denies) is not sent hundreds of times. It
// returns the number of calls that succeeded and the first error.
func SlowStart(count int, create func(i int) error) (int, error) {
	var (
		mu                   sync.Mutex
		begun, done, helpers int
		failed               error
		all                  sync.WaitGroup
		work                 func()
	)
	work = func() {
		mu.Lock()
		defer mu.Unlock()
		for failed == nil && begun < count {
			i := begun
			begun++
			mu.Unlock()
			err := create(i)
			mu.Lock()
			if err != nil {
				failed = cmp.Or(failed, err)
				return
			}
			done++
			if helpers < parallelWrites-1 {
				helpers++
				all.Go(work)
			}
		}
	}
	all.Go(work)
	all.Wait()
	return done, failed
}

// Each calls do for every number below n, several at a time, and returns the error of each call.
func Each(n int, do func(i int) error) []error {
	errs := make([]error, n)
	var next atomic.Int64
	var all sync.WaitGroup
	for range min(n, parallelWrites) {
		all.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				errs[i] = do(i)
			}
		})
	}
	all.Wait()
	return errs
}
