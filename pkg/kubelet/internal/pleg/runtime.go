// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package pleg

import (
	"context"
	"time"

	"minik8s.io/minik8s/pkg/kubelet/container"
)

// Runtime is the engine for those who change something: what they have done through it, or may have, is in what Pod returns
// from then on.
func (p *PLEG) Runtime() container.Runtime { return &told{Runtime: p.cfg.Runtime, pleg: p} }

type told struct {
	container.Runtime
	pleg *PLEG
}

// changed notes that something was done with what the engine is known to have.
func (t *told) changed(id string, err error) error {
	t.pleg.mu.Lock()
	uid, ok := t.pleg.owner[id]
	t.pleg.mu.Unlock()
	if ok {
		t.pleg.touched(container.Pod{UID: uid}, id)
	}
	return err
}

func (t *told) CreateSandbox(ctx context.Context, c container.SandboxConfig) (string, error) {
	id, err := t.Runtime.CreateSandbox(ctx, c)
	if err != nil {
		t.pleg.missed(c.Pod)
		return "", err
	}
	t.pleg.touched(c.Pod, id)
	return id, nil
}

func (t *told) StartSandbox(ctx context.Context, id string) (*container.Sandbox, error) {
	s, err := t.Runtime.StartSandbox(ctx, id)
	return s, t.changed(id, err)
}

func (t *told) CreateContainer(ctx context.Context, sandboxID string, c container.ContainerConfig) (string, error) {
	id, err := t.Runtime.CreateContainer(ctx, sandboxID, c)
	if err != nil {
		t.pleg.missed(c.Pod)
		return "", err
	}
	t.pleg.touched(c.Pod, id)
	return id, nil
}

func (t *told) StopSandbox(ctx context.Context, id string) error {
	return t.changed(id, t.Runtime.StopSandbox(ctx, id))
}

func (t *told) RemoveSandbox(ctx context.Context, id string) error {
	return t.changed(id, t.Runtime.RemoveSandbox(ctx, id))
}

func (t *told) StartContainer(ctx context.Context, id string) error {
	return t.changed(id, t.Runtime.StartContainer(ctx, id))
}

func (t *told) StopContainer(ctx context.Context, id string, grace time.Duration, signal string) error {
	return t.changed(id, t.Runtime.StopContainer(ctx, id, grace, signal))
}

func (t *told) RemoveContainer(ctx context.Context, id string) error {
	return t.changed(id, t.Runtime.RemoveContainer(ctx, id))
}

func (t *told) UpdateContainer(ctx context.Context, id string, r container.Resources) error {
	return t.changed(id, t.Runtime.UpdateContainer(ctx, id, r))
}
