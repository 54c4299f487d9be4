// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package docker

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	dockercontainer "github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/events"
	"github.com/docker/docker/api/types/filters"

	"minik8s.io/minik8s/pkg/kubelet/container"
)

// List implements container.Runtime.
func (r *Runtime) List(ctx context.Context) ([]container.Summary, error) {
	found, err := r.client.ContainerList(ctx, dockercontainer.ListOptions{All: true, Filters: r.own()})
	if err != nil {
		return nil, engineError(err, "listing containers")
	}
	out := make([]container.Summary, len(found))
	ids := make(map[string]bool, len(found))
	for i, f := range found {
		out[i] = container.Summary{ID: f.ID, Pod: podOf(f.Labels), State: stateOf(f.State, false)}
		ids[f.ID] = true
	}
	r.imageIDs.retain(ids)
	return out, nil
}

// own selects this node's containers.
func (r *Runtime) own() filters.Args {
	return filters.NewArgs(filters.Arg("label", labelCluster+"="+r.config.Cluster), filters.Arg("label", labelNode+"="+r.config.Node))
}

// Inspect implements container.Runtime.
func (r *Runtime) Inspect(ctx context.Context, id string) (*container.Sandbox, *container.Container, error) {
	found, err := r.client.ContainerInspect(ctx, id)
	if err != nil {
		return nil, nil, engineError(err, "inspecting %q", id)
	}
	labels := found.Config.Labels
	switch {
	case r.owns(labels) && labels[labelKind] == kindSandbox:
		return sandboxOf(found), nil, nil
	case r.owns(labels) && labels[labelKind] == kindContainer:
		c := containerOf(found)
		c.ImageID = r.imageID(ctx, found)
		return nil, c, nil
	}
	return nil, nil, fmt.Errorf("inspecting %q: not of this node: %w", id, container.ErrNotFound)
}

// inspect returns a container of this node and kind.
func (r *Runtime) inspect(ctx context.Context, id, kind string) (dockercontainer.InspectResponse, error) {
	found, err := r.client.ContainerInspect(ctx, id)
	if err != nil {
		return found, engineError(err, "inspecting %q", id)
	}
	if !r.owns(found.Config.Labels) || found.Config.Labels[labelKind] != kind {
		return found, fmt.Errorf("inspecting %q: not a %s of this node: %w", id, kind, container.ErrNotFound)
	}
	return found, nil
}

func isRunning(i dockercontainer.InspectResponse) bool {
	return inspectedState(i) == container.StateRunning
}

// isFresh tells whether a container was created and nobody tried to start it yet.
func isFresh(i dockercontainer.InspectResponse) bool {
	return inspectedState(i) == container.StateCreated
}

// inspectedState knows a container that could not be started: it stays "created", with an exit code.
func inspectedState(i dockercontainer.InspectResponse) container.State {
	return stateOf(i.State.Status, i.State.ExitCode != 0 || i.State.Error != "")
}

// stateOf translates Docker's state.
func stateOf(state dockercontainer.ContainerState, failed bool) container.State {
	switch state {
	case dockercontainer.StateRunning, dockercontainer.StatePaused, dockercontainer.StateRestarting:
		return container.StateRunning
	case dockercontainer.StateCreated:
		if failed {
			return container.StateExited
		}
		return container.StateCreated
	case dockercontainer.StateExited, dockercontainer.StateDead, dockercontainer.StateRemoving:
		return container.StateExited
	}
	return container.StateUnknown
}

func sandboxOf(i dockercontainer.InspectResponse) *container.Sandbox {
	s := &container.Sandbox{
		ID:        i.ID,
		Pod:       podOf(i.Config.Labels),
		Attempt:   attemptOf(i.Config.Labels),
		Image:     i.Config.Image,
		Handler:   i.HostConfig.Runtime,
		State:     inspectedState(i),
		CreatedAt: parseTime(i.Created),
		Labels:    extraOf(i.Config.Labels),
	}
	if s.State == container.StateRunning {
		s.Pid = i.State.Pid
	}
	if i.HostConfig.NetworkMode.IsHost() || i.Config.Labels[labelNetwork] == string(container.NamespaceNode) {
		s.Network = container.NamespaceNode
	}
	return s
}

// containerOf translates all but the image's id, which takes another call.
func containerOf(i dockercontainer.InspectResponse) *container.Container {
	labels := i.Config.Labels
	c := &container.Container{
		ID:                     i.ID,
		SandboxID:              labels[labelSandbox],
		Pod:                    podOf(labels),
		Name:                   labels[labelContainer],
		Type:                   container.ContainerType(labels[labelType]),
		Attempt:                attemptOf(labels),
		Hash:                   labels[labelHash],
		State:                  inspectedState(i),
		CreatedAt:              parseTime(i.Created),
		StartedAt:              parseTime(i.State.StartedAt),
		ImageRef:               labels[labelImageRef],
		LogPath:                i.LogPath,
		User:                   userOf(labels),
		TerminationMessageFile: labels[labelTermination],
		Resources:              resourcesOf(i.HostConfig.Resources),
		Labels:                 extraOf(labels),
	}
	if total, err := nodeMemory(); err == nil && c.Resources.MemoryBytes == total {
		c.Resources.MemoryBytes = 0 // see UpdateContainer
	}
	switch c.State {
	case container.StateRunning:
		c.Pid = i.State.Pid
	case container.StateExited:
		c.FinishedAt = parseTime(i.State.FinishedAt)
		c.ExitCode = i.State.ExitCode
		c.Message = i.State.Error
		// Docker's flag is also set when only a child was killed and pid 1 went on to end well.
		c.OOMKilled = i.State.OOMKilled && i.State.ExitCode != 0
		if c.FinishedAt.IsZero() {
			c.FinishedAt = c.CreatedAt // it never ran
		} else if c.FinishedAt.Before(c.StartedAt) {
			c.FinishedAt = c.StartedAt // Docker notes the start when it has returned, the end when it happens
		}
	}
	return c
}

// parseTime reads Docker's time, whose year 1 means never.
func parseTime(s string) time.Time {
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil || t.Year() <= 1 {
		return time.Time{}
	}
	return t
}

// eventTypes are Docker's actions that change what List tells.
var eventTypes = map[events.Action]container.EventType{
	events.ActionCreate:  container.EventCreated,
	events.ActionStart:   container.EventStarted,
	events.ActionDie:     container.EventDied,
	events.ActionUpdate:  container.EventUpdated,
	events.ActionDestroy: container.EventRemoved,
}

// Events implements container.Runtime.
func (r *Runtime) Events(ctx context.Context) (<-chan container.Event, error) {
	args := r.own()
	args.Add("type", string(events.ContainerEventType))
	for action := range eventTypes {
		args.Add("event", string(action))
	}
	// The client tells that it could not subscribe a moment after it has returned, too late to look.
	if _, err := r.client.Ping(ctx); err != nil {
		return nil, engineError(err, "subscribing to events")
	}
	ctx, cancel := context.WithCancel(ctx)
	// Docker answers before it has subscribed the caller; asking for events since now closes the gap.
	messages, failed := r.client.Events(ctx, events.ListOptions{Since: time.Now().Format(time.RFC3339Nano), Filters: args})
	select {
	case err := <-failed:
		cancel()
		return nil, engineError(err, "subscribing to events")
	default:
	}
	out := make(chan container.Event, 64)
	go func() {
		defer close(out)
		defer cancel()
		for {
			select {
			case m := <-messages:
				t, ok := eventTypes[m.Action]
				if !ok {
					continue
				}
				e := container.Event{ID: m.Actor.ID, PodUID: podOf(m.Actor.Attributes).UID, Type: t}
				select {
				case out <- e:
				case <-ctx.Done():
					return
				}
			case <-failed:
				return
			}
		}
	}()
	return out, nil
}

// imageID is the id of a container's image as the kubelet's former Docker support reported it: by digest if it came from a
// registry, of the repository that the pod names if it came from several. It is looked up once for each container.
func (r *Runtime) imageID(ctx context.Context, i dockercontainer.InspectResponse) string {
	if known := r.imageIDs.get(i.ID); known != "" {
		return known
	}
	img, err := r.client.ImageInspect(ctx, i.Image)
	if err != nil {
		return "docker://" + i.Image
	}
	id := "docker://" + i.Image
	if len(img.RepoDigests) > 0 {
		id = "docker-pullable://" + digestFor(i.Config.Labels[labelImageRef], img.RepoDigests)
	}
	r.imageIDs.put(i.ID, id)
	return id
}

// digestFor chooses among the digests of an image that of the repository which ref names.
func digestFor(ref string, digests []string) string {
	digests = slices.Sorted(slices.Values(digests))
	chosen := digests[0]
	if named, err := parse(ref); err == nil {
		for _, d := range digests {
			if repo, _, _ := strings.Cut(d, "@"); repo == familiarName(named) {
				chosen = d
			}
		}
	}
	return chosen
}

// imageIDs are the ids of images by the id of the container.
type imageIDs struct {
	mu sync.Mutex
	of map[string]string
}

func (m *imageIDs) get(container string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.of[container]
}

func (m *imageIDs) put(container, image string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.of[container] = image
}

// retain forgets the containers that are gone.
func (m *imageIDs) retain(containers map[string]bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	maps.DeleteFunc(m.of, func(id, _ string) bool { return !containers[id] })
}
