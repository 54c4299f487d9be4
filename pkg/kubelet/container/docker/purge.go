// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package docker

import (
	"context"
	"errors"
	"fmt"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	dockercontainer "github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/image"
	"golang.org/x/sync/errgroup"

	"minik8s.io/minik8s/pkg/kubelet/container"
)

// errStuck says that a daemon that was asked to remove or to end containers does not.
var errStuck = errors.New("the Docker daemon does not get on")

// Purge removes every container of the cluster, of all its nodes on this daemon, and the pause image unless a container
// of another cluster uses it. Repeating it is harmless. It removes as much as it can, and gives up when the daemon has done
// nothing for a minute.
func (r *Runtime) Purge(ctx context.Context) error { return r.watched(ctx, r.purge) }

// PurgeNode removes every container of the Runtime's node, as Purge does.
func (r *Runtime) PurgeNode(ctx context.Context) error {
	return r.watched(ctx, func(ctx context.Context, progress func()) error { return r.removeThose(ctx, r.own(), progress) })
}

// KillNode ends every container of the Runtime's node at once, as a loss of power does. They stay, dead. It gives up as Purge does.
func (r *Runtime) KillNode(ctx context.Context) error {
	return r.watched(ctx, func(ctx context.Context, progress func()) error {
		list, err := r.List(ctx)
		if err != nil {
			return err
		}
		ids := make([]string, len(list))
		for i, s := range list {
			ids[i] = s.ID
		}
		progress()
		return each(ctx, ids, r.kill, progress)
	})
}

// watched runs what has the daemon do one thing after the other and calls progress after each. It gives up when the daemon has done
// nothing for a while: nobody else would end a call that hangs.
func (r *Runtime) watched(ctx context.Context, run func(ctx context.Context, progress func()) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watch := time.AfterFunc(r.patience, func() { cancel(fmt.Errorf("%w: nothing for %s", errStuck, r.patience)) })
	defer watch.Stop()
	err := run(ctx, func() { watch.Reset(r.patience) })
	if cause := context.Cause(ctx); err != nil && errors.Is(cause, errStuck) {
		return fmt.Errorf("%w: %w: %w", container.ErrUnavailable, cause, err)
	}
	return err
}

func (r *Runtime) purge(ctx context.Context, progress func()) error {
	if err := r.removeThose(ctx, filters.NewArgs(filters.Arg("label", labelCluster+"="+r.config.Cluster)), progress); err != nil {
		return err
	}
	images, err := r.pauseImages(ctx)
	if err != nil {
		return engineError(err, "listing pause images")
	}
	for _, i := range images {
		// Docker refuses to remove an image that a container uses.
		_, err := r.client.ImageRemove(ctx, i.ID, image.RemoveOptions{PruneChildren: true})
		if err != nil && !cerrdefs.IsNotFound(err) && !cerrdefs.IsConflict(err) {
			return engineError(err, "removing the pause image")
		}
	}
	return nil
}

// removeThose removes the containers that a filter selects.
func (r *Runtime) removeThose(ctx context.Context, those filters.Args, progress func()) error {
	list, err := r.client.ContainerList(ctx, dockercontainer.ListOptions{All: true, Filters: those})
	if err != nil {
		return engineError(err, "listing the containers of cluster %q", r.config.Cluster)
	}
	// Sandboxes last, so that no container loses its namespaces while it runs.
	var containers, sandboxes []string
	for _, s := range list {
		if s.Labels[labelKind] == kindSandbox {
			sandboxes = append(sandboxes, s.ID)
		} else {
			containers = append(containers, s.ID)
		}
	}
	progress()
	return errors.Join(each(ctx, containers, r.insist, progress), each(ctx, sandboxes, r.insist, progress))
}

// insist removes a container, and asks for some time again if it is dead and cannot be removed: a daemon that has just come back may still
// have its file system mounted somewhere. Nobody else would ask later.
func (r *Runtime) insist(ctx context.Context, id string) error {
	for began := time.Now(); ; {
		err := r.remove(ctx, id)
		if !errors.Is(err, container.ErrDead) || time.Since(began) > r.dead {
			return err
		}
		if pauseFor(ctx, 100*time.Millisecond) != nil {
			return err
		}
	}
}

// each does something to containers, to as many as it can, and calls progress after each.
func each(ctx context.Context, ids []string, do func(ctx context.Context, id string) error, progress func()) error {
	errs := make([]error, len(ids))
	var group errgroup.Group
	group.SetLimit(4)
	for i, id := range ids {
		group.Go(func() error {
			if errs[i] = do(ctx, id); ctx.Err() == nil {
				progress()
			}
			return nil
		})
	}
	_ = group.Wait() // the errors are in errs
	return errors.Join(errs...)
}
