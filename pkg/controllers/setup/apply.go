// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package setup

import (
	"context"
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ApplyStatus applies status, an apply configuration of k8s.io/client-go, to the status of obj as owner, by force. An object
// that is gone is no error. The client's own Apply does the same, but cannot read an answer in protobuf.
func ApplyStatus(ctx context.Context, c client.Client, obj client.Object, status any, owner string) error {
	patch, err := json.Marshal(status)
	if err != nil {
		return fmt.Errorf("encoding the status: %w", err)
	}
	applied := obj.DeepCopyObject().(client.Object)
	return client.IgnoreNotFound(c.Status().Patch(ctx, applied, client.RawPatch(types.ApplyPatchType, patch), client.FieldOwner(owner), client.ForceOwnership))
}
