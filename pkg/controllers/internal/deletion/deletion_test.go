// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package deletion

import (
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/event"
)

func TestOnly(t *testing.T) {
	p := Only()
	if !p.Delete(event.DeleteEvent{}) {
		t.Error("a deletion is stopped")
	}
	if p.Create(event.CreateEvent{}) || p.Update(event.UpdateEvent{}) || p.Generic(event.GenericEvent{}) {
		t.Error("something else is let through")
	}
}
