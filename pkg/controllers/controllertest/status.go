// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package controllertest

import (
	"context"
	"encoding/json"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// PatchStatus patches the status of obj and what the patch says of its metadata, as API servers do of most kinds. The fake
// client leaves metadata as they are.
func PatchStatus(ctx context.Context, c client.Client, obj client.Object, patch client.Patch) error {
	data, err := patch.Data(obj)
	if err != nil {
		return err
	}
	var parts map[string]json.RawMessage
	if err := json.Unmarshal(data, &parts); err != nil {
		return err
	}
	status, err := json.Marshal(map[string]json.RawMessage{"status": parts["status"]})
	if err != nil {
		return err
	}
	first := obj.DeepCopyObject().(client.Object)
	if err := c.Patch(ctx, first, client.RawPatch(patch.Type(), data)); err != nil || parts["status"] == nil {
		return err
	}
	// With its last finalizer a deleted object goes.
	return client.IgnoreNotFound(c.SubResource("status").Patch(ctx, obj, client.RawPatch(patch.Type(), status)))
}
