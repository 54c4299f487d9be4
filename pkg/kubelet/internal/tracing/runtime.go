// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package tracing

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/trace"

	"minik8s.io/minik8s/pkg/kubelet/container"
)

// Runtime returns r with a span for each call, under the names of the CRI's calls that do the same. Streams have none, for they last
// as long as their callers want. A Tracer that is nil returns r.
func (t *Tracer) Runtime(r container.Runtime) container.Runtime {
	if t == nil {
		return r
	}
	return &traced{r, t}
}

type traced struct {
	container.Runtime
	t *Tracer
}

// The services of the CRI.
const (
	runtimeService = "runtime.v1.RuntimeService/"
	imageService   = "runtime.v1.ImageService/"
)

func (x *traced) Version(ctx context.Context) (container.Version, error) {
	return within(ctx, x.t, runtimeService+"Version", trace.SpanKindClient, func(ctx context.Context) (container.Version, error) { return x.Runtime.Version(ctx) })
}

// RunPodSandbox of the CRI makes and starts, so that it stands for each.

func (x *traced) CreateSandbox(ctx context.Context, c container.SandboxConfig) (string, error) {
	return within(ctx, x.t, runtimeService+"RunPodSandbox", trace.SpanKindClient, func(ctx context.Context) (string, error) { return x.Runtime.CreateSandbox(ctx, c) })
}

func (x *traced) StartSandbox(ctx context.Context, id string) (*container.Sandbox, error) {
	return within(ctx, x.t, runtimeService+"RunPodSandbox", trace.SpanKindClient, func(ctx context.Context) (*container.Sandbox, error) { return x.Runtime.StartSandbox(ctx, id) })
}

func (x *traced) StopSandbox(ctx context.Context, id string) error {
	return x.t.do(ctx, runtimeService+"StopPodSandbox", trace.SpanKindClient, func(ctx context.Context) error { return x.Runtime.StopSandbox(ctx, id) })
}

func (x *traced) RemoveSandbox(ctx context.Context, id string) error {
	return x.t.do(ctx, runtimeService+"RemovePodSandbox", trace.SpanKindClient, func(ctx context.Context) error { return x.Runtime.RemoveSandbox(ctx, id) })
}

func (x *traced) CreateContainer(ctx context.Context, sandboxID string, c container.ContainerConfig) (string, error) {
	return within(ctx, x.t, runtimeService+"CreateContainer", trace.SpanKindClient, func(ctx context.Context) (string, error) { return x.Runtime.CreateContainer(ctx, sandboxID, c) })
}

func (x *traced) StartContainer(ctx context.Context, id string) error {
	return x.t.do(ctx, runtimeService+"StartContainer", trace.SpanKindClient, func(ctx context.Context) error { return x.Runtime.StartContainer(ctx, id) })
}

func (x *traced) StopContainer(ctx context.Context, id string, grace time.Duration, signal string) error {
	return x.t.do(ctx, runtimeService+"StopContainer", trace.SpanKindClient, func(ctx context.Context) error { return x.Runtime.StopContainer(ctx, id, grace, signal) })
}

func (x *traced) RemoveContainer(ctx context.Context, id string) error {
	return x.t.do(ctx, runtimeService+"RemoveContainer", trace.SpanKindClient, func(ctx context.Context) error { return x.Runtime.RemoveContainer(ctx, id) })
}

func (x *traced) UpdateContainer(ctx context.Context, id string, r container.Resources) error {
	return x.t.do(ctx, runtimeService+"UpdateContainerResources", trace.SpanKindClient, func(ctx context.Context) error { return x.Runtime.UpdateContainer(ctx, id, r) })
}

func (x *traced) List(ctx context.Context) ([]container.Summary, error) {
	return within(ctx, x.t, runtimeService+"ListContainers", trace.SpanKindClient, func(ctx context.Context) ([]container.Summary, error) { return x.Runtime.List(ctx) })
}

func (x *traced) Image(ctx context.Context, ref string) (*container.Image, error) {
	return within(ctx, x.t, imageService+"ImageStatus", trace.SpanKindClient, func(ctx context.Context) (*container.Image, error) { return x.Runtime.Image(ctx, ref) })
}

func (x *traced) PullImage(ctx context.Context, ref string, auth *container.RegistryAuth) (*container.Image, error) {
	return within(ctx, x.t, imageService+"PullImage", trace.SpanKindClient, func(ctx context.Context) (*container.Image, error) { return x.Runtime.PullImage(ctx, ref, auth) })
}

func (x *traced) Images(ctx context.Context) ([]*container.Image, error) {
	return within(ctx, x.t, imageService+"ListImages", trace.SpanKindClient, func(ctx context.Context) ([]*container.Image, error) { return x.Runtime.Images(ctx) })
}

func (x *traced) RemoveImage(ctx context.Context, ref string) error {
	return x.t.do(ctx, imageService+"RemoveImage", trace.SpanKindClient, func(ctx context.Context) error { return x.Runtime.RemoveImage(ctx, ref) })
}
