// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"testing"
)

// The figure per definition means something only if they are of a usual size.
func TestDefinition(t *testing.T) {
	t.Parallel()
	data, err := json.Marshal(definition(7))
	if err != nil {
		t.Fatal(err)
	}
	if len(data) < 4<<10 || len(data) > 16<<10 {
		t.Errorf("a definition has %d bytes, want some thousands", len(data))
	}
}
