// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package csi

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"k8s.io/apimachinery/pkg/types"
)

// TearDown takes all volumes of a pod away that drivers have brought to it. Nothing may use them any more. It needs neither the pod
// nor the API server, but the drivers: until one is back that is not registered, its volumes stay, and TearDown fails.
func (c *CSI) TearDown(ctx context.Context, pod types.UID) error {
	errs := []error{c.records.unknown(key{pod: pod})}
	for _, r := range c.records.of(pod) {
		if err := c.tearDown(ctx, r); err != nil {
			errs = append(errs, fmt.Errorf("UnmountVolume.TearDown failed for volume %q (driver %s): %w", r.Name, r.Driver, err))
		}
	}
	return errors.Join(errs...)
}

func (c *CSI) tearDown(ctx context.Context, r record) error {
	c.endRenewal(r.key())
	release, err := c.busy.take(ctx, string(uniqueName(r.Driver, r.Handle)))
	if err != nil {
		return err
	}
	defer release()
	if r, _ = c.records.get(r.key()); r.Name == "" {
		return nil
	}
	c.mu.Lock()
	delete(c.seen, r.key())
	c.mu.Unlock()
	if r.Publishing || r.Published {
		if err := c.unpublish(ctx, r); err != nil {
			return err
		}
	}
	shared, err := c.records.shared(r)
	if err != nil {
		return err
	}
	if !shared && c.isStaged(r) {
		if err := c.unstage(ctx, r); err != nil {
			return err
		}
	}
	if err := c.records.remove(r); err != nil {
		return err
	}
	if r.Attachment != "" {
		c.mu.Lock()
		delete(c.told, uniqueName(r.Driver, r.Handle)) // who wants it next waits until that is told
		if !shared {
			delete(c.before, uniqueName(r.Driver, r.Handle))
		}
		c.mu.Unlock()
		c.cfg.InUse()
	}
	return nil
}

func (c *CSI) unpublish(ctx context.Context, r record) error {
	d, err := c.Registrar.find(r.Driver)
	if err != nil {
		return fmt.Errorf("kubernetes.io/csi: Unmounter.TearDownAt failed to get CSI client: %w", err)
	}
	target := c.layout.target(r.pod, r.Name, r.block())
	_, err = call(ctx, d, func(ctx context.Context, n csipb.NodeClient) (*csipb.NodeUnpublishVolumeResponse, error) {
		return n.NodeUnpublishVolume(ctx, &csipb.NodeUnpublishVolumeRequest{VolumeId: r.Handle, TargetPath: c.seenBy(d, target)})
	})
	if err != nil {
		return fmt.Errorf("kubernetes.io/csi: Unmounter.TearDownAt failed: %w", err)
	}
	if err := c.free(target); err != nil {
		return err
	}
	if err := removePoint(target); err != nil {
		return err
	}
	if r.block() { // the folder is there for this volume; other pods may have theirs in it
		_ = os.Remove(filepath.Dir(target))
	}
	return nil
}

func (c *CSI) unstage(ctx context.Context, r record) error {
	d, err := c.Registrar.find(r.Driver)
	if err != nil {
		return fmt.Errorf("kubernetes.io/csi: attacher.UnmountDevice failed to create newCsiDriverClient: %w", err)
	}
	dir := c.layout.staging(r)
	c.mu.Lock()
	delete(c.staged, dir)
	c.mu.Unlock()
	_, err = call(ctx, d, func(ctx context.Context, n csipb.NodeClient) (*csipb.NodeUnstageVolumeResponse, error) {
		return n.NodeUnstageVolume(ctx, &csipb.NodeUnstageVolumeRequest{VolumeId: r.Handle, StagingTargetPath: c.seenBy(d, dir)})
	})
	if err != nil {
		return fmt.Errorf("kubernetes.io/csi: attacher.UnmountDevice failed: %w", err)
	}
	return c.removeStaging(r)
}

// removeStaging removes the directories of a volume that is not staged any more.
func (c *CSI) removeStaging(r record) error {
	dir := c.layout.staging(r)
	if err := c.free(dir); err != nil {
		return err
	}
	if err := removePoint(dir); err != nil || r.block() {
		return err
	}
	return removeFolder(filepath.Dir(dir))
}

// free verifies that nothing is mounted on path: what a driver has left there is somebody's data, and is not to be deleted.
func (c *CSI) free(path string) error {
	mounted, err := c.mounted(path)
	if err == nil && mounted {
		err = fmt.Errorf("kubernetes.io/csi: %s is still mounted, although the driver has taken the volume away", path)
	}
	return err
}

// removePoint removes what a volume was mounted on, if the driver has not: an empty directory, a file or a link.
func removePoint(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing a mount point: %w", err)
	}
	return nil
}
