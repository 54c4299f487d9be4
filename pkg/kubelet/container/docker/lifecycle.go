// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package docker

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	dockercontainer "github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/versions"
	"golang.org/x/sys/unix"

	"minik8s.io/minik8s/pkg/kubelet/container"
	"minik8s.io/minik8s/pkg/kubelet/internal/cdi"
)

// CreateContainer implements container.Runtime.
func (r *Runtime) CreateContainer(ctx context.Context, sandboxID string, c container.ContainerConfig) (string, error) {
	netns, err := r.netnsFor(ctx, c.Network)
	if err != nil {
		return "", err
	}
	if err := errors.Join(passes(r.client.ClientVersion(), c), armored(c.AppArmor, armorProfiles)); err != nil {
		return "", fmt.Errorf("creating container %q: %w", c.Name, err)
	}
	if c, err = r.inject(ctx, c); err != nil {
		return "", fmt.Errorf("creating container %q: %w", c.Name, err)
	}
	config, host := r.containerSpec(sandboxID, c, netns)
	// A container that was made before the kubelet was killed is taken up again if it is what would be made now.
	reusable := func(found dockercontainer.InspectResponse) bool {
		return found.Config.Labels[labelKind] == kindContainer && found.Config.Labels[labelSandbox] == sandboxID &&
			found.Config.Labels[labelHash] == c.Hash && (isRunning(found) || isFresh(found))
	}
	name := containerName(c.Name, c.Pod, c.Attempt)
	image, known := r.accounts.get(c.Image)
	if !known { // who reads them takes the name, which must not be in use
		found, err := r.client.ContainerInspect(ctx, name)
		switch {
		case err == nil && r.owns(found.Config.Labels) && reusable(found):
			return found.ID, nil
		case err != nil && !cerrdefs.IsNotFound(err):
			return "", engineError(err, "inspecting %q", name)
		}
		if image, err = r.readAccounts(ctx, name, config.Labels, c); err != nil {
			return "", fmt.Errorf("creating container %q: %w", c.Name, err)
		}
	}
	who, err := identify(c.User, c.Groups, c.StrictGroups, image)
	if err == nil {
		err = become(who, config, host)
	}
	if err != nil {
		return "", fmt.Errorf("creating container %q: %w", c.Name, err)
	}
	id, err := r.create(ctx, name, config, host, reusable)
	if err != nil {
		return "", fmt.Errorf("creating container %q: %w", c.Name, err)
	}
	return id, nil
}

// passes says why an engine cannot give a container what a device plugin has for it: those that do not know of it ignore it.
func passes(version string, c container.ContainerConfig) error {
	if len(c.Annotations) > 0 && versions.LessThan(version, "1.43") {
		return fmt.Errorf("the container's devices come with annotations, which the engine passes on from API 1.43 on, not with %s", version)
	}
	return nil
}

// armorProfiles is where the kernel lists the profiles of AppArmor that it knows.
const armorProfiles = "/sys/kernel/security/apparmor/profiles"

// armored says that a profile of AppArmor is not there, which Docker finds out when it starts a container, and others when they make one.
func armored(profile, list string) error {
	data, err := os.ReadFile(list)
	if err != nil || slices.Contains([]string{"", "unconfined", "docker-default"}, profile) {
		return nil // where there is no list it is the engine that says so; its own profile it brings
	}
	for line := range strings.Lines(string(data)) {
		if i := strings.LastIndex(line, " ("); i >= 0 && line[:i] == profile { // its mode follows
			return nil
		}
	}
	return fmt.Errorf("apparmor profile not found %s", profile)
}

// inject translates the CDI devices of a container. What has no translation is left to the daemon, if it knows such devices.
func (r *Runtime) inject(ctx context.Context, c container.ContainerConfig) (container.ContainerConfig, error) {
	if len(c.CDIDevices) == 0 {
		return c, nil
	}
	var known []string
	if versions.GreaterThanOrEqualTo(r.client.ClientVersion(), "1.44") {
		info, err := r.client.Info(ctx)
		if err != nil {
			return c, engineError(err, "asking the Docker daemon's configuration")
		}
		known = info.CDISpecDirs // none unless the daemon is to know them
	}
	dirs := r.config.CDIDirs
	if len(dirs) == 0 {
		dirs = known
	}
	edited, err := cdi.Inject(c, filepath.Join(r.config.KubeletDir, "cdi-devices"), dirs...)
	if _, unsupported := errors.AsType[*cdi.UnsupportedError](err); unsupported && len(known) > 0 {
		return c, nil
	}
	return edited, err
}

// create makes a container, or returns the one that has its name if that is reusable. Any other container of this node
// with the name is what a killed kubelet left behind, and is replaced.
func (r *Runtime) create(ctx context.Context, name string, config *dockercontainer.Config, host *dockercontainer.HostConfig,
	reusable func(dockercontainer.InspectResponse) bool) (string, error) {
	began, plain := time.Now(), name
	for {
		made, err := r.fresh.ContainerCreate(ctx, config, host, nil, nil, name)
		if err == nil {
			return made.ID, nil
		}
		if !cerrdefs.IsConflict(err) || !strings.Contains(err.Error(), "already in use") {
			return "", engineError(err, "image %q", config.Image)
		}
		found, inspectErr := r.client.ContainerInspect(ctx, name)
		switch {
		case cerrdefs.IsNotFound(inspectErr):
			// It vanished between the two calls, or its removal has not given the name back: wait for the latter. Docker may
			// never do that; then another name does, for it is the labels that say whose the container is.
			if time.Since(began) > r.ghost {
				began, name = time.Now(), another(plain)
			}
			if err := ctx.Err(); err != nil {
				return "", err
			}
			if err := pauseFor(ctx, 50*time.Millisecond); err != nil {
				return "", err
			}
			continue
		case inspectErr != nil:
			return "", engineError(inspectErr, "inspecting %q", name)
		case !r.owns(found.Config.Labels):
			return "", fmt.Errorf("the name %q is taken by a container of another cluster or node: %w", name, err)
		case reusable(found):
			return found.ID, nil
		}
		err = r.remove(ctx, found.ID)
		if errors.Is(err, container.ErrDead) {
			name, err = another(plain), nil
		}
		if err != nil {
			return "", err
		}
	}
}

// another is a name for a container whose own is taken by one that does not go.
func another(name string) string { return name + "_" + strconv.FormatUint(rand.Uint64(), 16) }

// pauseFor waits between two looks at something that Docker has no way of waiting for.
func pauseFor(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// StartError is the engine's refusal to start a container; its text is Docker's own.
type StartError struct {
	message string
	cause   error
}

func (e *StartError) Error() string { return e.message }
func (e *StartError) Unwrap() error { return e.cause }

// StartContainer implements container.Runtime. Refusals of the engine are *StartError.
func (r *Runtime) StartContainer(ctx context.Context, id string) error {
	err := r.fresh.ContainerStart(ctx, id, dockercontainer.StartOptions{})
	if err == nil {
		return nil
	}
	switch sentinel := classify(err); {
	case errors.Is(sentinel, container.ErrUnavailable), cerrdefs.IsNotFound(err) && strings.Contains(err.Error(), "No such container"),
		ctx.Err() != nil:
		return engineError(err, "starting container %q", id)
	case errors.Is(sentinel, container.ErrNotRunning):
		return &StartError{message: said(err), cause: container.ErrNotRunning}
	}
	return &StartError{message: said(err), cause: nil}
}

// StopContainer implements container.Runtime. It does in three calls what Docker does in one, because Docker's takes a
// signal only in newer versions and goes on waiting when the caller has changed its mind.
func (r *Runtime) StopContainer(ctx context.Context, id string, grace time.Duration, signal string) error {
	found, err := r.client.ContainerInspect(ctx, id)
	if cerrdefs.IsNotFound(err) || err == nil && !isRunning(found) {
		return nil
	}
	if err != nil {
		return engineError(err, "stopping container %q", id)
	}
	if signal == "" {
		signal = found.Config.StopSignal
	}
	if signal == "" {
		signal = "SIGTERM"
	}
	if grace > 0 {
		if err := r.signal(ctx, id, signal); err != nil {
			return engineError(err, "sending %s to container %q", signal, id)
		}
		waiting, cancel := context.WithTimeout(ctx, grace)
		err := r.wait(waiting, id, dockercontainer.WaitConditionNotRunning)
		cancel()
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if waiting.Err() == nil {
			return engineError(err, "waiting for container %q to stop", id)
		}
	}
	if err := r.kill(ctx, id); err != nil {
		return engineError(err, "killing container %q", id)
	}
	return nil
}

// signal sends a signal; that there is nobody to receive it is success.
func (r *Runtime) signal(ctx context.Context, id, signal string) error {
	err := r.client.ContainerKill(ctx, id, signal)
	if err == nil || cerrdefs.IsNotFound(err) || errors.Is(classify(err), container.ErrNotRunning) {
		return nil
	}
	return err
}

// kill ends a container at once and waits for it.
func (r *Runtime) kill(ctx context.Context, id string) error {
	if err := r.signal(ctx, id, "SIGKILL"); err != nil {
		return err
	}
	return r.wait(ctx, id, dockercontainer.WaitConditionNotRunning)
}

// wait waits for a container to stop or to go away.
func (r *Runtime) wait(ctx context.Context, id string, condition dockercontainer.WaitCondition) error {
	done, failed := r.client.ContainerWait(ctx, id, condition)
	select {
	case <-done:
		return nil
	case err := <-failed:
		if cerrdefs.IsNotFound(err) {
			return nil
		}
		return err
	}
}

// RemoveContainer implements container.Runtime.
func (r *Runtime) RemoveContainer(ctx context.Context, id string) error {
	return r.remove(ctx, id)
}

func (r *Runtime) remove(ctx context.Context, id string) error {
	err := r.client.ContainerRemove(ctx, id, dockercontainer.RemoveOptions{Force: true, RemoveVolumes: true})
	if cerrdefs.IsConflict(err) && strings.Contains(err.Error(), "already in progress") {
		err = r.wait(ctx, id, dockercontainer.WaitConditionRemoved)
	}
	if err == nil || cerrdefs.IsNotFound(err) {
		return nil
	}
	err = engineError(err, "removing container %q", id)
	// Docker keeps what it could not remove all of, such as a file system that a daemon which was killed has left mounted.
	if found, ierr := r.client.ContainerInspect(ctx, id); ierr == nil && found.State.Status == dockercontainer.StateDead {
		return fmt.Errorf("%w: %w", container.ErrDead, err)
	}
	return err
}

// UpdateContainer implements container.Runtime. Docker cannot take a memory limit away again; the node's whole memory
// is set in its place, which is the same to the container.
func (r *Runtime) UpdateContainer(ctx context.Context, id string, res container.Resources) error {
	found, err := r.inspect(ctx, id, kindContainer)
	if err != nil {
		return err
	}
	if !isRunning(found) {
		return fmt.Errorf("container %q: %w", id, container.ErrNotRunning)
	}
	update := dockercontainer.UpdateConfig{Resources: resources(res)}
	now := found.HostConfig.Resources
	if res.MemoryBytes == 0 && now.Memory > 0 {
		total, err := nodeMemory()
		if err != nil {
			return err
		}
		update.Memory, update.MemorySwap = total, total
	}
	if res.CPUQuota == 0 && now.CPUQuota > 0 {
		update.CPUQuota = -1
	}
	if res.PidsLimit == 0 && now.PidsLimit != nil && *now.PidsLimit > 0 {
		none := int64(-1)
		update.PidsLimit = &none
	}
	_, err = r.client.ContainerUpdate(ctx, id, update)
	return engineError(err, "updating container %q", id)
}

// nodeMemory is the machine's, in bytes.
func nodeMemory() (int64, error) {
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return 0, fmt.Errorf("reading the node's memory: %w", err)
	}
	return int64(info.Totalram) * int64(info.Unit), nil
}
