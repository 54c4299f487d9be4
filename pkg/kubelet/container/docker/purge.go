// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package docker

import (
	"context"

	cerrdefs "github.com/containerd/errdefs"
	dockercontainer "github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/image"
	"golang.org/x/sync/errgroup"
)

// Purge removes every container of the cluster, of all its nodes on this daemon, and the pause image unless a container
// of another cluster uses it. Repeating it is harmless.
func (r *Runtime) Purge(ctx context.Context) error {
	list, err := r.client.ContainerList(ctx, dockercontainer.ListOptions{
		All: true, Filters: filters.NewArgs(filters.Arg("label", labelCluster+"="+r.config.Cluster)),
	})
	if err != nil {
		return engineError(err, "listing the containers of cluster %q", r.config.Cluster)
	}
	// Sandboxes last, so that no container loses its namespaces while it runs.
	for _, kind := range []string{kindContainer, kindSandbox} {
		group, groupCtx := errgroup.WithContext(ctx)
		group.SetLimit(4)
		for _, s := range list {
			if (s.Labels[labelKind] == kindSandbox) == (kind == kindSandbox) {
				group.Go(func() error { return r.remove(groupCtx, s.ID) })
			}
		}
		if err := group.Wait(); err != nil {
			return err
		}
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
