// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package container_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"minik8s.io/minik8s/pkg/kubelet/container"
	"minik8s.io/minik8s/pkg/kubelet/container/fake"
)

func TestBounded(t *testing.T) {
	for op, call := range map[string]func(context.Context, container.Runtime) error{
		"Version": func(ctx context.Context, r container.Runtime) error { _, err := r.Version(ctx); return err },
		"CreateSandbox": func(ctx context.Context, r container.Runtime) error {
			_, err := r.CreateSandbox(ctx, container.SandboxConfig{})
			return err
		},
		"StartSandbox": func(ctx context.Context, r container.Runtime) error {
			_, err := r.StartSandbox(ctx, "x")
			return err
		},
		"StopSandbox":   func(ctx context.Context, r container.Runtime) error { return r.StopSandbox(ctx, "x") },
		"RemoveSandbox": func(ctx context.Context, r container.Runtime) error { return r.RemoveSandbox(ctx, "x") },
		"CreateContainer": func(ctx context.Context, r container.Runtime) error {
			_, err := r.CreateContainer(ctx, "x", container.ContainerConfig{})
			return err
		},
		"StartContainer":  func(ctx context.Context, r container.Runtime) error { return r.StartContainer(ctx, "x") },
		"StopContainer":   func(ctx context.Context, r container.Runtime) error { return r.StopContainer(ctx, "x", time.Hour, "") },
		"RemoveContainer": func(ctx context.Context, r container.Runtime) error { return r.RemoveContainer(ctx, "x") },
		"UpdateContainer": func(ctx context.Context, r container.Runtime) error {
			return r.UpdateContainer(ctx, "x", container.Resources{})
		},
		"List":        func(ctx context.Context, r container.Runtime) error { _, err := r.List(ctx); return err },
		"Inspect":     func(ctx context.Context, r container.Runtime) error { _, _, err := r.Inspect(ctx, "x"); return err },
		"Events":      func(ctx context.Context, r container.Runtime) error { _, err := r.Events(ctx); return err },
		"Image":       func(ctx context.Context, r container.Runtime) error { _, err := r.Image(ctx, "x"); return err },
		"Images":      func(ctx context.Context, r container.Runtime) error { _, err := r.Images(ctx); return err },
		"RemoveImage": func(ctx context.Context, r container.Runtime) error { return r.RemoveImage(ctx, "x") },
		"ImageLayers": func(ctx context.Context, r container.Runtime) error { _, err := r.ImageLayers(ctx, "x"); return err },
		"ImageDir":    func(ctx context.Context, r container.Runtime) error { _, err := r.ImageDir(ctx); return err },
	} {
		t.Run(op, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				engine := fake.New(fake.Config{})
				defer engine.Hang(op, "")()
				r := container.Bounded(engine, time.Minute)
				want := time.Minute
				if op == "StopContainer" {
					want += time.Hour
				}
				began := time.Now()
				err := call(t.Context(), r)
				if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "has not answered "+op+" within") || time.Since(began) != want {
					t.Errorf("after %s: %v", time.Since(began), err)
				}
				// The caller's own deadline is the caller's.
				short, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				if err := call(short, r); err == nil || strings.Contains(err.Error(), "has not answered") {
					t.Errorf("the caller's deadline: %v", err)
				}
			})
		})
	}
}

// TestBounded_Stream checks that a stream of events lasts as long as its context, not as the call.
func TestBounded_Stream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine := fake.New(fake.Config{})
		ctx, cancel := context.WithCancel(t.Context())
		events, err := container.Bounded(engine, time.Minute).Events(ctx)
		if err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Hour)
		if _, err := engine.CreateSandbox(t.Context(), container.SandboxConfig{}); err != nil {
			t.Fatal(err)
		}
		if e, ok := <-events; !ok || e.Type != container.EventCreated {
			t.Errorf("got %+v, %v", e, ok)
		}
		cancel()
		for range events { // must be closed
		}
	})
}
