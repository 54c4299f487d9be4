// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package kubelet

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"minik8s.io/minik8s/pkg/kubelet/container"
	"minik8s.io/minik8s/pkg/kubelet/container/fake"
)

// Whoever clears cgroups does not wait for ever for an engine that hangs, and can tell that it is the engine.
func TestClearGroups_EngineThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine := fake.New(fake.Config{})
		defer engine.Hang("Version", "")()
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		began := time.Now()
		if err := ClearGroups(ctx, engine, "/none"); !errors.Is(err, container.ErrUnavailable) || time.Since(began) > time.Minute {
			t.Errorf("after %s: %v", time.Since(began), err)
		}
		cancel()
		if err := ClearGroups(ctx, engine, "/none"); !errors.Is(err, context.Canceled) || errors.Is(err, container.ErrUnavailable) {
			t.Errorf("of who does not wait any more: %v", err)
		}
	})
}
