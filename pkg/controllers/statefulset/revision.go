// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package statefulset

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"minik8s.io/minik8s/pkg/controllers/internal/adoption"
	"minik8s.io/minik8s/pkg/controllers/internal/history"
)

// hashLabel is the label of a revision that tells the hash in its name. Pods carry the whole name.
const hashLabel = "controller.kubernetes.io/hash"

// maxPrefix is how much of the set's name fits into the name of a revision, in bytes.
const maxPrefix = 223

// Revision is a pod template by its name.
type Revision struct {
	Name     string
	Template *corev1.PodTemplateSpec
}

// Revisions are the templates that pods of a set are made of.
type Revisions struct {
	// Update is the present template. Current is the one before, while an update is under way.
	Current, Update Revision
	// Collisions counts how often the name of a revision was taken by another one.
	Collisions int32
	// All are the objects of the history, the oldest first.
	All []*appsv1.ControllerRevision
}

// known returns the names of the revisions that the status tells.
func known(set *appsv1.StatefulSet) Revisions {
	return Revisions{
		Current:    Revision{Name: set.Status.CurrentRevision},
		Update:     Revision{Name: set.Status.UpdateRevision},
		Collisions: ptr.Deref(set.Status.CollisionCount, 0),
	}
}

// Hash is the hash in the name of a revision with this data. It is upstream's: pods that it made belong to ours.
func Hash(data []byte, collisions int32) string {
	hash := fnv.New32()
	hash.Write(data)
	hash.Write([]byte(strconv.Itoa(int(collisions))))
	return rand.SafeEncodeString(strconv.FormatUint(uint64(hash.Sum32()), 10))
}

// newRevision returns the revision of the set's template as it is created.
func newRevision(set *appsv1.StatefulSet, data []byte, number int64, collisions int32) *appsv1.ControllerRevision {
	hash := Hash(data, collisions)
	labels := maps.Clone(set.Spec.Template.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	labels[hashLabel] = hash
	return &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:       set.Namespace,
			Name:            set.Name[:min(len(set.Name), maxPrefix)] + "-" + hash,
			Labels:          labels,
			Annotations:     maps.Clone(set.Annotations),
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(set, kind)},
		},
		Data:     runtime.RawExtension{Raw: data},
		Revision: number,
	}
}

// Find returns the revision among those of the history (the oldest first) that has this data, and the number it has to have
// to be the newest. If none has, the newest one will do when its template means the same: another version of the API server
// may have spelled it otherwise, and that is no reason to restart all pods.
func Find(all []*appsv1.ControllerRevision, data []byte, template *corev1.PodTemplateSpec) (found *appsv1.ControllerRevision, number int64) {
	if len(all) == 0 {
		return nil, 1
	}
	last := all[len(all)-1]
	for _, revision := range slices.Backward(all) {
		switch {
		case !bytes.Equal(revision.Data.Raw, data):
		case bytes.Equal(last.Data.Raw, data):
			return last, last.Revision
		default:
			return revision, last.Revision + 1
		}
	}
	if before, err := history.Template(last.Data.Raw); err == nil && equality.Semantic.DeepEqual(before, template) {
		return last, last.Revision
	}
	return nil, last.Revision + 1
}

// Expired returns the revisions that neither the set nor a pod needs and that are more than limit, the oldest ones. A negative
// limit keeps all.
func Expired(revisions Revisions, claimed []*corev1.Pod, limit int) []*appsv1.ControllerRevision {
	live := map[string]bool{revisions.Current.Name: true, revisions.Update.Name: true}
	for _, pod := range claimed {
		live[pod.Labels[appsv1.StatefulSetRevisionLabel]] = true
	}
	old := slices.DeleteFunc(slices.Clone(revisions.All), func(r *appsv1.ControllerRevision) bool { return live[r.Name] })
	if limit < 0 || len(old) <= limit {
		return nil
	}
	return old[:len(old)-limit]
}

// revisions finds or makes the revision of the present template and finds the one that the set had before.
func (r *Reconciler) revisions(ctx context.Context, set *appsv1.StatefulSet, selector labels.Selector) (Revisions, error) {
	data, err := history.Patch(&set.Spec.Template)
	if err != nil {
		return Revisions{}, err
	}
	all, err := r.history(ctx, set, selector)
	if err != nil {
		return Revisions{}, err
	}
	revisions := Revisions{All: all, Collisions: ptr.Deref(set.Status.CollisionCount, 0)}
	found, number := Find(all, data, &set.Spec.Template)
	switch {
	case found == nil:
		if found, err = r.createRevision(ctx, set, data, number, &revisions.Collisions); err != nil {
			return Revisions{}, err
		}
	case found.Revision != number:
		found = found.DeepCopy()
		found.Revision = number
		if err := r.Client.Update(ctx, found); err != nil {
			return Revisions{}, fmt.Errorf("renumbering controller revision %q: %w", found.Name, err)
		}
	}
	if revisions.Update, err = read(found); err != nil {
		return Revisions{}, err
	}
	revisions.Current = revisions.Update
	for _, revision := range all {
		if revision.Name == set.Status.CurrentRevision {
			revisions.Current, err = read(revision)
		}
	}
	return revisions, err
}

func read(revision *appsv1.ControllerRevision) (Revision, error) {
	template, err := history.Template(revision.Data.Raw)
	if err != nil {
		return Revision{}, fmt.Errorf("reading controller revision %q: %w", revision.Name, err)
	}
	return Revision{Name: revision.Name, Template: template}, nil
}

// history adopts and returns the revisions of the set, the oldest first.
func (r *Reconciler) history(ctx context.Context, set *appsv1.StatefulSet, selector labels.Selector) ([]*appsv1.ControllerRevision, error) {
	newList := func() client.ObjectList { return &appsv1.ControllerRevisionList{} }
	candidates, err := adoption.Candidates[*appsv1.ControllerRevision](ctx, r.Client, newList, set, selector)
	if err != nil {
		return nil, fmt.Errorf("listing controller revisions: %w", err)
	}
	// One that was relabelled is no revision any more, but is not released either.
	candidates = slices.DeleteFunc(candidates, func(c *appsv1.ControllerRevision) bool { return !selector.Matches(labels.Set(c.Labels)) })
	owner := adoption.Owner{Object: set, Kind: kind, Selector: selector, Client: r.Client, Live: r.Live}
	all, err := adoption.All(ctx, owner, candidates)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(all, func(a, b *appsv1.ControllerRevision) int {
		return cmp.Or(cmp.Compare(a.Revision, b.Revision), a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	return all, nil
}

// createRevision creates the revision of the present template, raising the collision count until its name is free.
func (r *Reconciler) createRevision(ctx context.Context, set *appsv1.StatefulSet, data []byte, number int64, collisions *int32) (*appsv1.ControllerRevision, error) {
	for {
		revision := newRevision(set, data, number, *collisions)
		err := r.Client.Create(ctx, revision)
		if err == nil {
			return revision, nil
		}
		if !apierrors.IsAlreadyExists(err) {
			return nil, fmt.Errorf("creating controller revision %q: %w", revision.Name, err)
		}
		existing := &appsv1.ControllerRevision{}
		if err := r.Live.Get(ctx, client.ObjectKeyFromObject(revision), existing); err != nil {
			return nil, fmt.Errorf("reading controller revision %q which exists: %w", revision.Name, err)
		}
		if bytes.Equal(existing.Data.Raw, data) {
			return existing, nil
		}
		*collisions++
	}
}

// cleanUp deletes the revisions beyond revisionHistoryLimit.
func (r *Reconciler) cleanUp(ctx context.Context, set *appsv1.StatefulSet, revisions Revisions, claimed []*corev1.Pod) error {
	keeper := history.Keeper{Client: r.Client, Live: r.Live}
	for _, revision := range Expired(revisions, claimed, int(ptr.Deref(set.Spec.RevisionHistoryLimit, 10))) {
		if err := keeper.Delete(ctx, revision); err != nil {
			return err
		}
	}
	return nil
}
