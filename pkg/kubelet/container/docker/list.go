// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package docker

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	dockercontainer "github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/events"
	"github.com/docker/docker/api/types/filters"
	"golang.org/x/sync/errgroup"

	"minik8s.io/minik8s/pkg/kubelet/container"
)

// cache keeps what inspecting a container told, so that a relist inspects only what changed. What was exited stays
// true as long as the list says exited; what was running only while events are being received that would tell of a
// change.
type cache struct {
	mu      sync.Mutex
	entries map[string]entry
	streams int    // live event streams
	epoch   uint64 // of entries of running containers; a new one begins with the first live stream
	changes uint64 // counts invalidations, to detect those during an inspection
}

type entry struct {
	state     dockercontainer.ContainerState
	epoch     uint64
	sandbox   *container.Sandbox
	container *container.Container
}

func newCache() cache { return cache{entries: map[string]entry{}} }

func (c *cache) forget(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.entries, id)
	c.changes++
}

func (c *cache) streamBegins() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.streams == 0 {
		c.epoch++
	}
	c.streams++
}

func (c *cache) streamEnds() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.streams--
}

// get returns what is known of a container in a state, if it is still true.
func (c *cache) get(id string, state dockercontainer.ContainerState) (entry, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.entries[id]
	switch {
	case !ok || e.state != state:
		return e, false
	case state == dockercontainer.StateExited:
		return e, true
	case state == dockercontainer.StateRunning:
		return e, c.streams > 0 && e.epoch == c.epoch
	}
	return e, false
}

func (c *cache) now() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.changes
}

// put notes what was inspected from the moment since on, unless something changed meanwhile.
func (c *cache) put(id string, e entry, since uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.changes == since {
		e.epoch = c.epoch
		c.entries[id] = e
	}
}

func (c *cache) retain(ids map[string]bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id := range c.entries {
		if !ids[id] {
			delete(c.entries, id)
		}
	}
}

// List implements container.Runtime.
func (r *Runtime) List(ctx context.Context) ([]*container.Sandbox, []*container.Container, error) {
	summaries, err := r.client.ContainerList(ctx, dockercontainer.ListOptions{All: true, Filters: r.own()})
	if err != nil {
		return nil, nil, engineError(err, "listing containers")
	}
	found := make([]entry, len(summaries))
	ids := make(map[string]bool, len(summaries))
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(4)
	for i, s := range summaries {
		ids[s.ID] = true
		if e, ok := r.cache.get(s.ID, s.State); ok {
			found[i] = e
			continue
		}
		group.Go(func() error {
			since := r.cache.now()
			e, err := r.look(groupCtx, s.ID)
			if cerrdefs.IsNotFound(err) {
				return nil // removed since it was listed
			}
			if err != nil {
				return engineError(err, "inspecting container %q", s.ID)
			}
			found[i] = e
			r.cache.put(s.ID, e, since)
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, nil, err
	}
	r.cache.retain(ids)

	var sandboxes []*container.Sandbox
	var containers []*container.Container
	for _, e := range found {
		if e.sandbox != nil {
			s := *e.sandbox
			sandboxes = append(sandboxes, &s)
		}
		if e.container != nil {
			c := *e.container
			containers = append(containers, &c)
		}
	}
	return sandboxes, containers, nil
}

// own selects this node's containers.
func (r *Runtime) own() filters.Args {
	return filters.NewArgs(filters.Arg("label", labelCluster+"="+r.config.Cluster), filters.Arg("label", labelNode+"="+r.config.Node))
}

// look inspects one container for the cache.
func (r *Runtime) look(ctx context.Context, id string) (entry, error) {
	i, err := r.client.ContainerInspect(ctx, id)
	if err != nil {
		return entry{}, err
	}
	e := entry{state: i.State.Status}
	if i.Config.Labels[labelKind] == kindSandbox {
		e.sandbox = sandboxOf(i)
		return e, nil
	}
	e.container = containerOf(i)
	e.container.ImageID = r.imageID(ctx, i.Image, i.Config.Labels[labelImageRef])
	return e, nil
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

// Container implements container.Runtime.
func (r *Runtime) Container(ctx context.Context, id string) (*container.Container, error) {
	found, err := r.inspect(ctx, id, kindContainer)
	if err != nil {
		return nil, err
	}
	c := containerOf(found)
	c.ImageID = r.imageID(ctx, found.Image, found.Config.Labels[labelImageRef])
	return c, nil
}

func isRunning(i dockercontainer.InspectResponse) bool { return stateOf(i) == container.StateRunning }

// isFresh tells whether a container was created and nobody tried to start it yet.
func isFresh(i dockercontainer.InspectResponse) bool { return stateOf(i) == container.StateCreated }

// stateOf translates Docker's state. A container that could not be started stays "created" with an exit code.
func stateOf(i dockercontainer.InspectResponse) container.State {
	switch i.State.Status {
	case dockercontainer.StateRunning, dockercontainer.StatePaused, dockercontainer.StateRestarting:
		return container.StateRunning
	case dockercontainer.StateCreated:
		if i.State.ExitCode != 0 || i.State.Error != "" {
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
		State:     stateOf(i),
		CreatedAt: parseTime(i.Created),
		Labels:    extraOf(i.Config.Labels),
	}
	if s.State == container.StateRunning {
		s.Pid = i.State.Pid
	}
	if i.HostConfig.NetworkMode.IsHost() {
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
		State:                  stateOf(i),
		CreatedAt:              parseTime(i.Created),
		StartedAt:              parseTime(i.State.StartedAt),
		ImageRef:               labels[labelImageRef],
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
	events.ActionDestroy: container.EventRemoved,
}

// Events implements container.Runtime.
func (r *Runtime) Events(ctx context.Context) (<-chan container.Event, error) {
	args := r.own()
	args.Add("type", string(events.ContainerEventType))
	for _, action := range []events.Action{events.ActionCreate, events.ActionStart, events.ActionDie, events.ActionDestroy, events.ActionUpdate} {
		args.Add("event", string(action))
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
	r.cache.streamBegins()
	out := make(chan container.Event, 64)
	go func() {
		defer close(out)
		defer cancel()
		defer r.cache.streamEnds()
		for {
			select {
			case m := <-messages:
				r.cache.forget(m.Actor.ID)
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

// imageID is an image's id as the kubelet's former Docker support reported it: by digest if it came from a registry,
// of the repository that ref names if it came from several.
func (r *Runtime) imageID(ctx context.Context, id, ref string) string {
	img, err := r.client.ImageInspect(ctx, id)
	if err != nil || len(img.RepoDigests) == 0 {
		return "docker://" + id
	}
	digests := slices.Clone(img.RepoDigests)
	slices.Sort(digests)
	digest := digests[0]
	if named, err := parse(ref); err == nil {
		for _, d := range digests {
			if repo, _, _ := strings.Cut(d, "@"); repo == familiarName(named) {
				digest = d
			}
		}
	}
	return "docker-pullable://" + digest
}
