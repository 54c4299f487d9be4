// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package replicas keeps a number of pods of one template: what ReplicaSet and ReplicationController have in common. Touch
// it when either creates or deletes pods wrongly, or a number in their status is off.
package replicas

import (
	"cmp"
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"minik8s.io/minik8s/pkg/controllers/internal/adoption"
	"minik8s.io/minik8s/pkg/controllers/internal/pods"
)

// Set is a controller object that wants a number of pods.
type Set struct {
	// Object is the controller object itself, Kind its kind as written to owner references.
	Object client.Object
	Kind   schema.GroupVersionKind
	// Selector matches the pods, Template makes them and Replicas is how many there shall be.
	Selector labels.Selector
	Template *corev1.PodTemplateSpec
	Replicas int
	// MinReadySeconds is how long a pod has to be ready to count as available.
	MinReadySeconds int32
	// Siblings returns the UIDs of the sets with the same controller as this one. Scaling an old ReplicaSet of a
	// Deployment down then frees the nodes where pods of the new one already run.
	Siblings func(context.Context) ([]types.UID, error)
}

// Keeper brings the number of pods of sets to the wanted one. It has to be behind a
// setup.Env.Barrier, so that a pod just created is not created again.
type Keeper struct {
	Client client.Client
	Live   client.Reader
	Events record.EventRecorder
	Clock  clock.PassiveClock
}

// Result is what one pass found.
type Result struct {
	Counts
	// ScaleErr is what stopped the pass from creating or deleting pods.
	ScaleErr error
	// Recheck is the time until the next ready pod has been ready for long enough; 0 when there is none to wait for.
	Recheck time.Duration
}

// Keep claims the pods of the set and creates or deletes as many as are missing or too many. A set that is being deleted is
// only counted. The error says why the pods could not be told; that they could not be changed is in the result.
func (k Keeper) Keep(ctx context.Context, set Set) (Result, error) {
	candidates, err := pods.Candidates(ctx, k.Client, set.Object, set.Selector)
	if err != nil {
		return Result{}, err
	}
	owner := adoption.Owner{Object: set.Object, Kind: set.Kind, Selector: set.Selector, Client: k.Client, Live: k.Live}
	active, err := adoption.All(ctx, owner, pods.Filter(candidates, pods.IsActive))
	if err != nil {
		return Result{}, err
	}
	terminating := pods.Filter(candidates, func(pod *corev1.Pod) bool {
		return pods.IsTerminating(pod) && adoption.Decide(set.Object, pod, set.Selector) == adoption.Keep
	})
	now := k.Clock.Now()
	result := Result{
		Counts:  Count(set.Template.Labels, active, len(terminating), set.MinReadySeconds, now),
		Recheck: pods.NextAvailable(active, set.MinReadySeconds, now),
	}
	if set.Object.GetDeletionTimestamp() == nil {
		result.ScaleErr = k.scale(ctx, set, active)
	}
	return result, nil
}

// scale brings the number of active pods to the wanted one.
func (k Keeper) scale(ctx context.Context, set Set, active []*corev1.Pod) error {
	control := pods.Control{Client: k.Client, Events: k.Events}
	create, remove := Step(len(active), set.Replicas)
	if create > 0 {
		ref := *metav1.NewControllerRef(set.Object, set.Kind)
		_, err := pods.SlowStart(create, func(int) error {
			err := control.Create(ctx, set.Object, pods.FromTemplate(set.Template, set.Object, ref))
			if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
				return nil
			}
			return err
		})
		return err
	}
	if remove == 0 {
		return nil
	}
	related, err := k.related(ctx, set, active)
	if err != nil {
		return err
	}
	victims := slices.Clone(active)
	pods.SortForDeletion(victims, related, k.Clock.Now())
	return cmp.Or(pods.Each(remove, func(i int) error { return control.Delete(ctx, set.Object, victims[i]) })...)
}

// related counts, per node, the active pods of this set and of its siblings.
func (k Keeper) related(ctx context.Context, set Set, active []*corev1.Pod) (map[string]int, error) {
	siblings, err := set.Siblings(ctx)
	if err != nil {
		return nil, err
	}
	related := slices.Clone(active)
	for _, uid := range siblings {
		if uid == set.Object.GetUID() {
			continue
		}
		others, err := pods.OwnedBy(ctx, k.Client, set.Object.GetNamespace(), uid)
		if err != nil {
			return nil, err
		}
		related = append(related, pods.Filter(others, pods.IsActive)...)
	}
	count := map[string]int{}
	for _, pod := range related {
		count[pod.Spec.NodeName]++
	}
	return count, nil
}
