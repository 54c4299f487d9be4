// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package etcdstore

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/storage/etcd3"
)

// decoder reads stored objects without their kind, which upstream loses on the way to its internal types: an object in
// memory has none, so that the items of a list show none.
type decoder struct{ etcd3.Decoder }

// Decode implements etcd3.Decoder.
func (d decoder) Decode(value []byte, into runtime.Object, revision int64) error {
	if err := d.Decoder.Decode(value, into, revision); err != nil {
		return err
	}
	forgetKind(into)
	return nil
}

// DecodeListItem implements etcd3.Decoder.
func (d decoder) DecodeListItem(ctx context.Context, data []byte, revision uint64, newItem func() runtime.Object) (runtime.Object, error) {
	item, err := d.Decoder.DecodeListItem(ctx, data, revision, newItem)
	if err != nil {
		return nil, err
	}
	forgetKind(item)
	return item, nil
}

// forgetKind leaves alone what is nothing without its kind.
func forgetKind(obj runtime.Object) {
	if _, untyped := obj.(runtime.Unstructured); !untyped {
		obj.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	}
}
