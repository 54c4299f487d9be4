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
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
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
	// Live, if set, is asked for pods whose creation was answered by nobody, so that no second one is created.
	Live   client.Reader
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
		if c.Live != nil && isUncertain(err) {
			if catchUpErr := c.catchUp(ctx, owner, pod.Labels); catchUpErr != nil {
				err = errors.Join(err, catchUpErr)
			}
		}
		if !apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
			c.Events.Eventf(owner, corev1.EventTypeWarning, ReasonFailedCreate, "Error creating: %v", err)
		}
		return err
	}
	c.Events.Eventf(owner, corev1.EventTypeNormal, ReasonSuccessfulCreate, "Created pod: %v", pod.Name)
	return nil
}

// isUncertain reports whether a write that failed may have been done all the same: its answer was lost or came too late.
func isUncertain(err error) bool {
	status := apierrors.APIStatus(nil)
	return !errors.As(err, &status) || apierrors.IsTimeout(err) || apierrors.IsServerTimeout(err) || apierrors.IsInternalError(err) ||
		apierrors.IsUnexpectedServerError(err)
}

// patience is for an API server that does not answer for a while: about 40 seconds in all.
var patience = wait.Backoff{Duration: 10 * time.Millisecond, Factor: 2, Steps: 13}

// catchUp calls tryCatchUp until it succeeds. Giving up early would mean to go on with a cache that lacks a pod.
func (c Control) catchUp(ctx context.Context, owner client.Object, labels map[string]string) error {
	var last error
	err := wait.ExponentialBackoffWithContext(ctx, patience, func(ctx context.Context) (bool, error) {
		last = c.tryCatchUp(ctx, owner, labels)
		return last == nil, nil
	})
	if err != nil {
		return last
	}
	return nil
}

// tryCatchUp makes the next read of pods wait until the cache has those that the owner has with these labels. A client which
// reads its own writes waits only for those that were answered; an empty patch of a pod is such a one.
func (c Control) tryCatchUp(ctx context.Context, owner client.Object, labels map[string]string) error {
	var list corev1.PodList
	if err := c.Live.List(ctx, &list, client.InNamespace(owner.GetNamespace()), client.MatchingLabels(labels)); err != nil {
		return fmt.Errorf("looking for a pod that may have been created: %w", err)
	}
	for i := range list.Items {
		pod := &list.Items[i]
		if !metav1.IsControlledBy(pod, owner) {
			continue
		}
		err := c.Client.Get(ctx, client.ObjectKeyFromObject(pod), &corev1.Pod{})
		if apierrors.IsNotFound(err) {
			err = client.IgnoreNotFound(c.Client.Patch(ctx, pod, client.RawPatch(types.MergePatchType, []byte("{}"))))
		}
		if err != nil {
			return fmt.Errorf("waiting for pod %q that was created: %w", pod.Name, err)
		}
	}
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
