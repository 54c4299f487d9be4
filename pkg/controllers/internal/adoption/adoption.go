// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package adoption makes a controller object own what its selector matches: it adopts orphans and releases what does not
// match any more. Touch it when the rules of adoption change; every workload controller uses it.
package adoption

import (
	"context"
	"encoding/json"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Owner is a controller object that claims others.
type Owner struct {
	// Object is the owner.
	Object client.Object
	// Kind is the owner's kind, as written to owner references.
	Kind schema.GroupVersionKind
	// Selector matches what belongs to the owner.
	Selector labels.Selector
	// Accepts, if set, tells what belongs to the owner among what the selector matches.
	Accepts func(metav1.Object) bool
	// Client patches the claimed objects.
	Client client.Client
	// Live reads the owner anew before the first adoption, because a cached owner may have been deleted meanwhile and
	// would pass on objects to a ghost.
	Live client.Reader
}

// Decision is what is to be done with one object.
type Decision int

// The decisions.
const (
	Ignore Decision = iota
	Keep
	Adopt
	Release
)

// Decide says what an owner does with obj. It looks at metadata only.
func Decide(owner, obj metav1.Object, selector labels.Selector) Decision {
	return decide(owner, obj, selector.Matches(labels.Set(obj.GetLabels())))
}

func decide(owner, obj metav1.Object, matches bool) Decision {
	deleting := owner.GetDeletionTimestamp() != nil
	ref := metav1.GetControllerOfNoCopy(obj)
	switch {
	case ref != nil && ref.UID != owner.GetUID():
		return Ignore
	case ref != nil && matches:
		return Keep
	case ref != nil && !deleting:
		return Release
	case ref != nil:
		return Ignore
	case matches && !deleting && obj.GetDeletionTimestamp() == nil:
		return Adopt
	}
	return Ignore
}

// All decides about every object, carries out adoptions and releases and returns the objects that belong to the owner.
// The objects themselves are not changed. On an error the objects claimed so far are returned with it.
func All[T client.Object](ctx context.Context, owner Owner, objects []T) ([]T, error) {
	var claimed []T
	checked := false
	for _, obj := range objects {
		switch decide(owner.Object, obj, owner.matches(obj)) {
		case Keep:
			claimed = append(claimed, obj)
		case Release:
			if err := owner.release(ctx, obj); err != nil {
				return claimed, err
			}
		case Adopt:
			if !checked {
				if err := owner.checkAlive(ctx); err != nil {
					return claimed, err
				}
				checked = true
			}
			adopted, ok, err := owner.adopt(ctx, obj)
			if err != nil {
				return claimed, err
			}
			if ok {
				claimed = append(claimed, adopted.(T))
			}
		}
	}
	return claimed, nil
}

func (o Owner) matches(obj metav1.Object) bool {
	return o.Selector.Matches(labels.Set(obj.GetLabels())) && (o.Accepts == nil || o.Accepts(obj))
}

// checkAlive asks the API server whether the owner still is the one in hand and not being deleted.
func (o Owner) checkAlive(ctx context.Context) error {
	fresh := o.Object.DeepCopyObject().(client.Object)
	if err := o.Live.Get(ctx, client.ObjectKeyFromObject(o.Object), fresh); err != nil {
		return fmt.Errorf("can't adopt: reading %s %q: %w", o.Kind.Kind, o.Object.GetName(), err)
	}
	if fresh.GetUID() != o.Object.GetUID() {
		return fmt.Errorf("original %v %v/%v is gone: got uid %v, wanted %v", o.Kind.Kind, o.Object.GetNamespace(), o.Object.GetName(), fresh.GetUID(), o.Object.GetUID())
	}
	if fresh.GetDeletionTimestamp() != nil {
		return fmt.Errorf("%v/%v has just been deleted at %v", o.Object.GetNamespace(), o.Object.GetName(), fresh.GetDeletionTimestamp())
	}
	return nil
}

func (o Owner) adopt(ctx context.Context, obj client.Object) (client.Object, bool, error) {
	adopted, err := o.patch(ctx, obj, []any{metav1.NewControllerRef(o.Object, o.Kind)})
	if apierrors.IsNotFound(err) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, fmt.Errorf("adopting %q by %s %q: %w", obj.GetName(), o.Kind.Kind, o.Object.GetName(), err)
	}
	return adopted, true, nil
}

func (o Owner) release(ctx context.Context, obj client.Object) error {
	_, err := o.patch(ctx, obj, []any{map[string]any{"$patch": "delete", "uid": o.Object.GetUID()}})
	// Invalid means that the object has no such owner any more, or has been replaced by one of the same name.
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsInvalid(err) {
		return fmt.Errorf("releasing %q from %s %q: %w", obj.GetName(), o.Kind.Kind, o.Object.GetName(), err)
	}
	return nil
}

// patch merges into the owner references; the UID in it makes the patch fail on another object of the same name.
func (o Owner) patch(ctx context.Context, obj client.Object, refs []any) (client.Object, error) {
	data, err := json.Marshal(map[string]any{"metadata": map[string]any{"ownerReferences": refs, "uid": obj.GetUID()}})
	if err != nil {
		return nil, fmt.Errorf("rendering the owner references: %w", err)
	}
	patched := obj.DeepCopyObject().(client.Object)
	return patched, o.Client.Patch(ctx, patched, client.RawPatch(types.StrategicMergePatchType, data))
}
