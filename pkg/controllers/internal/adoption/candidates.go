// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package adoption

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"minik8s.io/minik8s/pkg/controllers/internal/index"
	"minik8s.io/minik8s/pkg/controllers/ownwrites"
)

// Candidates returns what owner has to decide about: the objects that it controls, and those without a controller that selector
// matches. newList returns an empty list of their kind, which has to be indexed by controller. They are copies. For pods there is
// pods.Candidates.
func Candidates[T client.Object](ctx context.Context, reader client.Reader, newList func() client.ObjectList, owner client.Object, selector labels.Selector) ([]T, error) {
	// Orphans come first: one that is adopted in between is found twice then, and not missed.
	orphans, err := ownwrites.Peek[T](ctx, reader, newList(), index.Orphans(owner.GetNamespace()), client.MatchingLabelsSelector{Selector: selector})
	if err != nil {
		return nil, fmt.Errorf("listing what has no controller: %w", err)
	}
	owned, err := Owned[T](ctx, reader, newList(), owner)
	if err != nil {
		return nil, err
	}
	for _, orphan := range orphans {
		if !slices.ContainsFunc(owned, func(other T) bool { return other.GetName() == orphan.GetName() }) {
			owned = append(owned, orphan.DeepCopyObject().(T))
		}
	}
	return owned, nil
}

// Owned returns the objects that owner controls. They are copies.
func Owned[T client.Object](ctx context.Context, reader client.Reader, list client.ObjectList, owner client.Object) ([]T, error) {
	found, err := ownwrites.Peek[T](ctx, reader, list, index.ControlledBy(owner.GetNamespace(), owner.GetUID()))
	if err != nil {
		return nil, fmt.Errorf("listing what %q controls: %w", owner.GetName(), err)
	}
	for i := range found {
		found[i] = found[i].DeepCopyObject().(T)
	}
	return found, nil
}
