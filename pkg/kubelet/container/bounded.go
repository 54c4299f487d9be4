// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package container

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Patience is how long an engine may take for a call, as upstream's runtimeRequestTimeout.
const Patience = 2 * time.Minute

// Bounded returns r with a deadline on each call that should be short: patience, and for StopContainer the grace besides. One
// that has passed is an error which matches context.DeadlineExceeded and says that the engine was at fault. Exec, Attach, Logs
// and PortForward last as long as their callers want, PullImage, SaveImage and LoadImage as long as they get on, a stream of events until it breaks.
func Bounded(r Runtime, patience time.Duration) Runtime {
	return &bounded{Runtime: r, patience: patience}
}

type bounded struct {
	Runtime
	patience time.Duration
}

// within calls f with a deadline.
func within[T any](ctx context.Context, patience time.Duration, what string, f func(context.Context) (T, error)) (T, error) {
	inner, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	v, err := f(inner)
	return v, late(ctx, inner, err, what, patience)
}

// late says whose deadline has passed if it was not the caller's.
func late(ctx, inner context.Context, err error, what string, patience time.Duration) error {
	if err != nil && ctx.Err() == nil && errors.Is(inner.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("the container engine has not answered %s within %s: %w", what, patience, context.DeadlineExceeded)
	}
	return err
}

type none = struct{}

func (b *bounded) do(ctx context.Context, patience time.Duration, what string, f func(context.Context) error) error {
	_, err := within(ctx, patience, what, func(ctx context.Context) (none, error) { return none{}, f(ctx) })
	return err
}

func (b *bounded) Version(ctx context.Context) (Version, error) {
	return within(ctx, b.patience, "Version", b.Runtime.Version)
}

func (b *bounded) CreateSandbox(ctx context.Context, c SandboxConfig) (string, error) {
	return within(ctx, b.patience, "CreateSandbox", func(ctx context.Context) (string, error) { return b.Runtime.CreateSandbox(ctx, c) })
}

func (b *bounded) StartSandbox(ctx context.Context, id string) (*Sandbox, error) {
	return within(ctx, b.patience, "StartSandbox", func(ctx context.Context) (*Sandbox, error) { return b.Runtime.StartSandbox(ctx, id) })
}

func (b *bounded) StopSandbox(ctx context.Context, id string) error {
	return b.do(ctx, b.patience, "StopSandbox", func(ctx context.Context) error { return b.Runtime.StopSandbox(ctx, id) })
}

func (b *bounded) RemoveSandbox(ctx context.Context, id string) error {
	return b.do(ctx, b.patience, "RemoveSandbox", func(ctx context.Context) error { return b.Runtime.RemoveSandbox(ctx, id) })
}

func (b *bounded) CreateContainer(ctx context.Context, sandboxID string, c ContainerConfig) (string, error) {
	return within(ctx, b.patience, "CreateContainer", func(ctx context.Context) (string, error) { return b.Runtime.CreateContainer(ctx, sandboxID, c) })
}

func (b *bounded) StartContainer(ctx context.Context, id string) error {
	return b.do(ctx, b.patience, "StartContainer", func(ctx context.Context) error { return b.Runtime.StartContainer(ctx, id) })
}

func (b *bounded) StopContainer(ctx context.Context, id string, grace time.Duration, signal string) error {
	return b.do(ctx, grace+b.patience, "StopContainer", func(ctx context.Context) error { return b.Runtime.StopContainer(ctx, id, grace, signal) })
}

func (b *bounded) RemoveContainer(ctx context.Context, id string) error {
	return b.do(ctx, b.patience, "RemoveContainer", func(ctx context.Context) error { return b.Runtime.RemoveContainer(ctx, id) })
}

func (b *bounded) UpdateContainer(ctx context.Context, id string, r Resources) error {
	return b.do(ctx, b.patience, "UpdateContainer", func(ctx context.Context) error { return b.Runtime.UpdateContainer(ctx, id, r) })
}

func (b *bounded) List(ctx context.Context) ([]Summary, error) {
	return within(ctx, b.patience, "List", b.Runtime.List)
}

func (b *bounded) Inspect(ctx context.Context, id string) (s *Sandbox, c *Container, err error) {
	err = b.do(ctx, b.patience, "Inspect", func(ctx context.Context) (err error) { s, c, err = b.Runtime.Inspect(ctx, id); return err })
	return s, c, err
}

// Events bounds the subscription only. What it holds it gives back when ctx ends.
func (b *bounded) Events(ctx context.Context) (<-chan Event, error) {
	inner, cancel := context.WithCancel(ctx)
	timer := time.AfterFunc(b.patience, cancel)
	events, err := b.Runtime.Events(inner)
	if !timer.Stop() && ctx.Err() == nil { // the stream has been ended, or is about to be
		cancel()
		return nil, fmt.Errorf("the container engine has not answered Events within %s: %w", b.patience, context.DeadlineExceeded)
	}
	if err != nil {
		cancel()
		return nil, err
	}
	context.AfterFunc(ctx, cancel)
	return events, nil
}

func (b *bounded) Image(ctx context.Context, ref string) (*Image, error) {
	return within(ctx, b.patience, "Image", func(ctx context.Context) (*Image, error) { return b.Runtime.Image(ctx, ref) })
}

func (b *bounded) Images(ctx context.Context) ([]*Image, error) {
	return within(ctx, b.patience, "Images", b.Runtime.Images)
}

func (b *bounded) RemoveImage(ctx context.Context, ref string) error {
	return b.do(ctx, b.patience, "RemoveImage", func(ctx context.Context) error { return b.Runtime.RemoveImage(ctx, ref) })
}

func (b *bounded) ImagesInUse(ctx context.Context) (map[string]bool, error) {
	return within(ctx, b.patience, "ImagesInUse", b.Runtime.ImagesInUse)
}

func (b *bounded) DiskUsage(ctx context.Context, id string) (DiskUsage, error) {
	return within(ctx, b.patience, "DiskUsage", func(ctx context.Context) (DiskUsage, error) { return b.Runtime.DiskUsage(ctx, id) })
}

func (b *bounded) ImageLayers(ctx context.Context, id string) ([]string, error) {
	return within(ctx, b.patience, "ImageLayers", func(ctx context.Context) ([]string, error) { return b.Runtime.ImageLayers(ctx, id) })
}

func (b *bounded) ImageDir(ctx context.Context) (string, error) {
	return within(ctx, b.patience, "ImageDir", b.Runtime.ImageDir)
}
