// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package docker

import (
	"context"
	"errors"
	"fmt"
	"time"

	dockercontainer "github.com/docker/docker/api/types/container"

	"minik8s.io/minik8s/pkg/kubelet/container"
)

// CreateSandbox implements container.Runtime.
func (r *Runtime) CreateSandbox(ctx context.Context, c container.SandboxConfig) (string, error) {
	netns, err := r.netnsFor(ctx, c.Network)
	if err != nil {
		return "", err
	}
	config, host := r.sandboxSpec(c, netns)
	name := sandboxName(c.Pod, c.Attempt)
	reusable := func(found dockercontainer.InspectResponse) bool {
		return found.Config.Labels[labelKind] == kindSandbox && (isRunning(found) || isFresh(found))
	}
	id, err := r.create(ctx, name, config, host, reusable)
	if errors.Is(err, container.ErrNotFound) { // the pause image is not there yet, or was removed meanwhile
		if err := r.importPause(ctx); err != nil {
			return "", err
		}
		id, err = r.create(ctx, name, config, host, reusable)
	}
	if err != nil {
		return "", fmt.Errorf("creating the sandbox of pod %q: %w", c.Pod.Namespace+"/"+c.Pod.Name, err)
	}
	return id, nil
}

// netnsFor is the network namespace that a pod with this network has to enter by itself, "" if Docker brings it where it belongs.
func (r *Runtime) netnsFor(ctx context.Context, network container.NamespaceMode) (string, error) {
	if network != container.NamespaceNode {
		return "", nil
	}
	netns, err := r.netns(ctx)
	if err != nil {
		return "", fmt.Errorf("finding out whose network the engine's is: %w", err)
	}
	return netns, nil
}

// StartSandbox implements container.Runtime.
func (r *Runtime) StartSandbox(ctx context.Context, id string) (*container.Sandbox, error) {
	if err := r.fresh.ContainerStart(ctx, id, dockercontainer.StartOptions{}); err != nil {
		return nil, engineError(err, "starting sandbox %q", id)
	}
	for {
		found, err := r.inspect(ctx, id, kindSandbox)
		if err != nil {
			return nil, fmt.Errorf("sandbox: %w", err)
		}
		sb := sandboxOf(found)
		if found.Config.Labels[labelNetwork] == "" {
			return sb, nil
		}
		netns, err := r.netnsFor(ctx, container.NamespaceNode)
		if err != nil {
			return nil, err
		}
		if isIn(sb.Pid, netns) {
			return sb, nil
		}
		// It is on its way for some milliseconds. Nobody must join it before it is there.
		if sb.State != container.StateRunning {
			return nil, fmt.Errorf("sandbox %q could not enter the network of its node", id)
		}
		if err := pauseFor(ctx, 2*time.Millisecond); err != nil {
			return nil, err
		}
	}
}

// StopSandbox implements container.Runtime.
func (r *Runtime) StopSandbox(ctx context.Context, id string) error {
	if err := r.kill(ctx, id); err != nil {
		return engineError(err, "stopping sandbox %q", id)
	}
	return nil
}

// RemoveSandbox implements container.Runtime.
func (r *Runtime) RemoveSandbox(ctx context.Context, id string) error {
	return r.remove(ctx, id)
}
