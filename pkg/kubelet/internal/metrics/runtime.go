// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"context"
	"errors"
	"io"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"minik8s.io/minik8s/pkg/kubelet/container"
)

// Runtime returns r with its calls counted and timed, under the names of the CRI's calls that do the same. Streams, which last as
// long as their callers want, are counted only.
func (m *Metrics) Runtime(r container.Runtime) container.Runtime { return &counted{Runtime: r, m: m} }

type counted struct {
	container.Runtime
	m         *Metrics
	sandboxes sync.Map // those that are being made, a sandbox by id
}

// count notes a call that is over.
func (m *Metrics) count(operation string, err error) {
	m.operations.WithLabelValues(operation).Inc()
	if err != nil {
		m.operationErrors.WithLabelValues(operation).Inc()
	}
}

// note notes a call that is over and began then.
func (m *Metrics) note(operation string, began time.Time, err error) {
	m.count(operation, err)
	m.operationDuration.WithLabelValues(operation).Observe(m.clock.Since(began).Seconds())
}

// timed calls f and notes it.
func timed[T any](m *Metrics, operation string, f func() (T, error)) (T, error) {
	began := m.clock.Now()
	v, err := f()
	m.note(operation, began, err)
	return v, err
}

func (c *counted) do(operation string, f func() error) error {
	_, err := timed(c.m, operation, func() (struct{}, error) { return struct{}{}, f() })
	return err
}

func (c *counted) Version(ctx context.Context) (container.Version, error) {
	return timed(c.m, "version", func() (container.Version, error) { return c.Runtime.Version(ctx) })
}

// sandbox is one that is being made; upstream counts its creation and its start as one operation.
type sandbox struct {
	handler string
	began   time.Time
}

func (c *counted) CreateSandbox(ctx context.Context, cfg container.SandboxConfig) (string, error) {
	c.m.startedPods.Inc()
	sb := sandbox{cfg.Handler, c.m.clock.Now()}
	id, err := c.Runtime.CreateSandbox(ctx, cfg)
	if err != nil {
		c.ran(sb, err)
		return "", err
	}
	c.sandboxes.Store(id, sb)
	return id, nil
}

func (c *counted) StartSandbox(ctx context.Context, id string) (*container.Sandbox, error) {
	s, err := c.Runtime.StartSandbox(ctx, id)
	if sb, known := c.sandboxes.LoadAndDelete(id); known {
		c.ran(sb.(sandbox), err)
	}
	return s, err
}

func (c *counted) ran(s sandbox, err error) {
	c.m.note("run_podsandbox", s.began, err)
	c.m.sandboxDuration.WithLabelValues(s.handler).Observe(c.m.clock.Since(s.began).Seconds())
	if err != nil {
		c.m.sandboxErrors.WithLabelValues(s.handler).Inc()
		c.m.startedPodErrors.Inc()
	}
}

func (c *counted) StopSandbox(ctx context.Context, id string) error {
	return c.do("stop_podsandbox", func() error { return c.Runtime.StopSandbox(ctx, id) })
}

func (c *counted) RemoveSandbox(ctx context.Context, id string) error {
	c.sandboxes.Delete(id)
	return c.do("remove_podsandbox", func() error { return c.Runtime.RemoveSandbox(ctx, id) })
}

func (c *counted) CreateContainer(ctx context.Context, sandboxID string, cfg container.ContainerConfig) (string, error) {
	c.m.startedContainers.WithLabelValues(typeLabel(cfg.Type)).Inc()
	return timed(c.m, "create_container", func() (string, error) { return c.Runtime.CreateContainer(ctx, sandboxID, cfg) })
}

func (c *counted) ImagesInUse(ctx context.Context) (map[string]bool, error) {
	return timed(c.m, "list_containers", func() (map[string]bool, error) { return c.Runtime.ImagesInUse(ctx) })
}

func (c *counted) DiskUsage(ctx context.Context, id string) (container.DiskUsage, error) {
	return timed(c.m, "container_stats", func() (container.DiskUsage, error) { return c.Runtime.DiskUsage(ctx, id) })
}

// Terminated notes the end of a container.
func (m *Metrics) Terminated(t container.ContainerType, end *corev1.ContainerStateTerminated) {
	m.terminatedContainers.WithLabelValues(typeLabel(t), strconv.Itoa(int(end.ExitCode)), end.Reason).Inc()
}

// NotStarted notes that a container could not be started, by the reason that its status has.
func (m *Metrics) NotStarted(t container.ContainerType, reason string) {
	m.startedContainerErrors.WithLabelValues(typeLabel(t), reason).Inc()
}

func typeLabel(t container.ContainerType) string {
	switch t {
	case container.TypeInit:
		return "init_container"
	case container.TypeEphemeral:
		return "ephemeral_container"
	}
	return "container"
}

func (c *counted) StartContainer(ctx context.Context, id string) error {
	return c.do("start_container", func() error { return c.Runtime.StartContainer(ctx, id) })
}

func (c *counted) StopContainer(ctx context.Context, id string, grace time.Duration, signal string) error {
	return c.do("stop_container", func() error { return c.Runtime.StopContainer(ctx, id, grace, signal) })
}

func (c *counted) RemoveContainer(ctx context.Context, id string) error {
	return c.do("remove_container", func() error { return c.Runtime.RemoveContainer(ctx, id) })
}

func (c *counted) UpdateContainer(ctx context.Context, id string, r container.Resources) error {
	return c.do("update_container", func() error { return c.Runtime.UpdateContainer(ctx, id, r) })
}

func (c *counted) List(ctx context.Context) ([]container.Summary, error) {
	return timed(c.m, "list_containers", func() ([]container.Summary, error) { return c.Runtime.List(ctx) })
}

func (c *counted) Inspect(ctx context.Context, id string) (*container.Sandbox, *container.Container, error) {
	began := c.m.clock.Now()
	s, ctr, err := c.Runtime.Inspect(ctx, id)
	operation := "container_status"
	if s != nil {
		operation = "podsandbox_status"
	}
	c.m.note(operation, began, err)
	return s, ctr, err
}

func (c *counted) Events(ctx context.Context) (<-chan container.Event, error) {
	events, err := c.Runtime.Events(ctx)
	c.m.count("get_container_events", err)
	return events, err
}

// Exec is timed where nobody can type: a shell lasts as long as its user wants.
func (c *counted) Exec(ctx context.Context, id string, o container.ExecOptions) (int, error) {
	if o.Stdin == nil && !o.TTY {
		return timed(c.m, "exec_sync", func() (int, error) { return c.Runtime.Exec(ctx, id, o) })
	}
	code, err := c.Runtime.Exec(ctx, id, o)
	c.m.count("exec", err)
	return code, err
}

func (c *counted) Attach(ctx context.Context, id string, o container.AttachOptions) error {
	err := c.Runtime.Attach(ctx, id, o)
	c.m.count("attach", err)
	return err
}

func (c *counted) PortForward(ctx context.Context, sandboxID string, port int32, stream io.ReadWriteCloser) error {
	err := c.Runtime.PortForward(ctx, sandboxID, port, stream)
	c.m.count("port_forward", err)
	return err
}

// Image counts it as no error that there is no such image, as the CRI has it.
func (c *counted) Image(ctx context.Context, ref string) (*container.Image, error) {
	began := c.m.clock.Now()
	img, err := c.Runtime.Image(ctx, ref)
	failure := err
	if errors.Is(err, container.ErrNotFound) {
		failure = nil
	}
	c.m.note("image_status", began, failure)
	return img, err
}

func (c *counted) PullImage(ctx context.Context, ref string, auth *container.RegistryAuth) (*container.Image, error) {
	return timed(c.m, "pull_image", func() (*container.Image, error) { return c.Runtime.PullImage(ctx, ref, auth) })
}

func (c *counted) Images(ctx context.Context) ([]*container.Image, error) {
	return timed(c.m, "list_images", func() ([]*container.Image, error) { return c.Runtime.Images(ctx) })
}

func (c *counted) RemoveImage(ctx context.Context, ref string) error {
	return c.do("remove_image", func() error { return c.Runtime.RemoveImage(ctx, ref) })
}

// ImageLayers is a part of what the CRI's call of that name tells.
func (c *counted) ImageLayers(ctx context.Context, id string) ([]string, error) {
	return timed(c.m, "image_status", func() ([]string, error) { return c.Runtime.ImageLayers(ctx, id) })
}

func (c *counted) ImageDir(ctx context.Context) (string, error) {
	return timed(c.m, "image_fs_info", func() (string, error) { return c.Runtime.ImageDir(ctx) })
}
