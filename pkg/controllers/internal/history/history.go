// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package history keeps the past pod templates of a workload as ControllerRevisions, the way kubectl rollout history and
// undo expect them. Touch it when a revision is missing, numbered wrongly or cannot be gone back to. DaemonSets use all of it,
// StatefulSets, whose revisions are named otherwise, how a template is kept.
package history

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"minik8s.io/minik8s/pkg/controllers/internal/adoption"
	"minik8s.io/minik8s/pkg/controllers/internal/pods"
)

// HashLabel is the label that ties a pod to its revision.
const HashLabel = appsv1.ControllerRevisionHashLabelKey

// Workload is an object with a history.
type Workload struct {
	Object   client.Object
	Kind     schema.GroupVersionKind
	Selector labels.Selector
	Template *corev1.PodTemplateSpec
	// Collisions is the collision count in the workload's status.
	Collisions *int32
}

// Keeper reads and writes revisions.
type Keeper struct {
	Client client.Client
	// Live reads a revision whose name is taken though the cache does not show it.
	Live client.Reader
}

// Revisions is the history of a workload.
type Revisions struct {
	// Current is the revision of the present template. Duplicates are further revisions of the same template.
	Current    *appsv1.ControllerRevision
	Duplicates []*appsv1.ControllerRevision
	// Old are the revisions of other templates.
	Old []*appsv1.ControllerRevision
}

// CollisionError says that the name of a new revision is taken by another template: the collision count in the workload's
// status has to be raised before another attempt.
type CollisionError struct {
	Name string
}

// Error implements error.
func (e *CollisionError) Error() string {
	return fmt.Sprintf("controller revision %q exists with another template", e.Name)
}

// Patch returns the data of a revision: a strategic merge patch which puts the template into the workload.
func Patch(template *corev1.PodTemplateSpec) ([]byte, error) {
	raw, err := json.Marshal(template)
	if err != nil {
		return nil, fmt.Errorf("rendering the pod template: %w", err)
	}
	var fields map[string]any
	if err := json.Unmarshal(raw, &fields); err != nil {
		return nil, fmt.Errorf("reading the rendered pod template: %w", err)
	}
	fields["$patch"] = "replace"
	return json.Marshal(map[string]any{"spec": map[string]any{"template": fields}})
}

// Template returns the template in the data of a revision: the reverse of Patch.
func Template(data []byte) (*corev1.PodTemplateSpec, error) {
	var patch struct {
		Spec struct {
			Template *corev1.PodTemplateSpec `json:"template"`
		} `json:"spec"`
	}
	if err := json.Unmarshal(data, &patch); err != nil {
		return nil, fmt.Errorf("reading the pod template: %w", err)
	}
	if patch.Spec.Template == nil {
		return nil, errors.New("there is no pod template in it")
	}
	return patch.Spec.Template, nil
}

// Split divides the revisions of a workload by whether they carry the patch, and returns the number that the current one
// has to have.
func Split(revisions []*appsv1.ControllerRevision, patch []byte) (Revisions, int64) {
	var split Revisions
	var same []*appsv1.ControllerRevision
	next := int64(1)
	for _, revision := range revisions {
		if bytes.Equal(revision.Data.Raw, patch) {
			same = append(same, revision)
			continue
		}
		split.Old = append(split.Old, revision)
		next = max(next, revision.Revision+1)
	}
	if len(same) > 0 {
		slices.SortStableFunc(same, func(a, b *appsv1.ControllerRevision) int {
			return cmp.Or(cmp.Compare(b.Revision, a.Revision), a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
		})
		split.Current, split.Duplicates = same[0], same[1:]
	}
	return split, next
}

// Expired returns the old revisions that limit has no room for, the oldest first. A revision that pods still run (its hash
// is in live) stays.
func Expired(old []*appsv1.ControllerRevision, limit int, live map[string]bool) []*appsv1.ControllerRevision {
	surplus := len(old) - limit
	sorted := slices.SortedStableFunc(slices.Values(old), func(a, b *appsv1.ControllerRevision) int {
		return cmp.Compare(a.Revision, b.Revision)
	})
	var expired []*appsv1.ControllerRevision
	for _, revision := range sorted {
		if len(expired) < surplus && !live[revision.Labels[HashLabel]] {
			expired = append(expired, revision)
		}
	}
	return expired
}

// Sync claims the revisions of the workload and makes sure that the present template has one with the highest number.
func (k Keeper) Sync(ctx context.Context, w Workload) (Revisions, error) {
	patch, err := Patch(w.Template)
	if err != nil {
		return Revisions{}, err
	}
	all, err := k.claim(ctx, w)
	if err != nil {
		return Revisions{}, err
	}
	for _, revision := range all {
		if _, ok := revision.Labels[HashLabel]; ok {
			continue
		}
		// A revision without the hash is named by it; the name is free of collisions.
		revision.Labels = with(revision.Labels, revision.Name)
		if err := k.Client.Update(ctx, revision); err != nil {
			return Revisions{}, fmt.Errorf("labeling controller revision %q: %w", revision.Name, err)
		}
	}
	revisions, next := Split(all, patch)
	if revisions.Current == nil {
		revisions.Current, err = k.create(ctx, w, patch, next)
		return revisions, err
	}
	if revisions.Current.Revision < next {
		revisions.Current.Revision = next
		if err := k.Client.Update(ctx, revisions.Current); err != nil {
			return Revisions{}, fmt.Errorf("renumbering controller revision %q: %w", revisions.Current.Name, err)
		}
	}
	return revisions, nil
}

// Delete deletes a revision.
func (k Keeper) Delete(ctx context.Context, revision *appsv1.ControllerRevision) error {
	if err := k.Client.Delete(ctx, revision, client.Preconditions{UID: &revision.UID}); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting controller revision %q: %w", revision.Name, err)
	}
	return nil
}

// claim returns the revisions of the workload; the caller may change them.
func (k Keeper) claim(ctx context.Context, w Workload) ([]*appsv1.ControllerRevision, error) {
	newList := func() client.ObjectList { return &appsv1.ControllerRevisionList{} }
	candidates, err := adoption.Candidates[*appsv1.ControllerRevision](ctx, k.Client, newList, w.Object, w.Selector)
	if err != nil {
		return nil, fmt.Errorf("listing controller revisions: %w", err)
	}
	return adoption.All(ctx, adoption.Owner{Object: w.Object, Kind: w.Kind, Selector: w.Selector, Client: k.Client, Live: k.Live}, candidates)
}

// create creates the revision of the present template.
func (k Keeper) create(ctx context.Context, w Workload, patch []byte, number int64) (*appsv1.ControllerRevision, error) {
	hash := pods.TemplateHash(w.Template, w.Collisions)
	revision := &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:       w.Object.GetNamespace(),
			Name:            w.Object.GetName() + "-" + hash,
			Labels:          with(w.Template.Labels, hash),
			Annotations:     maps.Clone(w.Object.GetAnnotations()),
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(w.Object, w.Kind)},
		},
		Data:     runtime.RawExtension{Raw: patch},
		Revision: number,
	}
	err := k.Client.Create(ctx, revision)
	if !apierrors.IsAlreadyExists(err) {
		if err != nil {
			return nil, fmt.Errorf("creating controller revision %q: %w", revision.Name, err)
		}
		return revision, nil
	}
	existing := &appsv1.ControllerRevision{}
	if err := k.Live.Get(ctx, client.ObjectKeyFromObject(revision), existing); err != nil {
		return nil, fmt.Errorf("reading controller revision %q which exists: %w", revision.Name, err)
	}
	if ref := metav1.GetControllerOfNoCopy(existing); ref != nil && ref.UID == w.Object.GetUID() && bytes.Equal(existing.Data.Raw, patch) {
		return existing, nil
	}
	return nil, &CollisionError{Name: revision.Name}
}

func with(labels map[string]string, hash string) map[string]string {
	labels = maps.Clone(labels)
	if labels == nil {
		labels = map[string]string{}
	}
	labels[HashLabel] = hash
	return labels
}
