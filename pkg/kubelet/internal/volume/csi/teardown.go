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
	"time"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
)

// TearDown takes all volumes of a pod away that drivers have brought to it. Nothing may use them any more. It needs neither the pod
// nor the API server, but the drivers: until one is back that is not registered, its volumes stay, and TearDown fails. What was staged for
// the node and cannot be unstaged now holds up no pod, as upstream's: that goes on without it.
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
			return c.leave(ctx, r, err)
		}
	}
	return c.forget(r, shared)
}

// leave has a volume unstaged later that the last pod has left, unless the pod comes again.
func (c *CSI) leave(ctx context.Context, r record, why error) error {
	if ctx.Err() != nil {
		return why
	}
	if err := c.records.leave(r); err != nil {
		return errors.Join(why, err)
	}
	klog.FromContext(ctx).Error(why, "A volume is staged that no pod has any more", "volume", r.Name, "driver", r.Driver)
	select {
	case c.left <- struct{}{}:
	default:
	}
	return nil
}

// nextUnstage is when it is tried first to unstage what was left, mostUnstage how far apart later attempts are at most, as upstream's.
const nextUnstage, mostUnstage = time.Second, 2*time.Minute + 2*time.Second

// unstageLeft unstages what pods have left, again and again while something is.
func (c *CSI) unstageLeft(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.left:
		}
		for wait := nextUnstage; len(c.records.of(leftBehind)) > 0; wait = min(2*wait, mostUnstage) {
			select {
			case <-ctx.Done():
				return
			case <-c.cfg.Clock.After(wait):
			}
			for _, r := range c.records.of(leftBehind) {
				if err := c.takeLeft(ctx, r); err != nil {
					klog.FromContext(ctx).V(2).Info("A volume is still staged that no pod has", "volume", r.Name, "driver", r.Driver, "err", err)
				}
			}
		}
	}
}

// takeLeft unstages a volume that the last pod has left, unless another has come, which does that when it leaves.
func (c *CSI) takeLeft(ctx context.Context, r record) error {
	release, err := c.busy.take(ctx, string(uniqueName(r.Driver, r.Handle)))
	if err != nil {
		return err
	}
	defer release()
	if _, there := c.records.get(r.key()); !there {
		return nil
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
	return c.forget(r, shared)
}

// forget drops the record of a volume that has been taken away, and that of the volume as an earlier pod has left it.
func (c *CSI) forget(r record, shared bool) error {
	if left, there := c.records.get(key{leftBehind, r.Name}); there && !shared && left.same(r) && left.key() != r.key() {
		if err := c.records.remove(left); err != nil {
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
