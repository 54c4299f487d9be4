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
	"sync"
	"time"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
)

// TearDown takes all volumes of a pod away that drivers have brought to it. Nothing may use them any more. It needs neither the pod
// nor the API server, but the drivers: until one is back that is not registered, its volumes stay, and TearDown fails. What was staged for
// the node is unstaged once the pod has left, as upstream's: a driver that refuses that, or does not answer, holds up no pod.
func (c *CSI) TearDown(ctx context.Context, pod types.UID) error {
	unknown, all := c.records.unknown(key{pod: pod}), c.records.of(pod)
	errs := make([]error, len(all))
	var volumes sync.WaitGroup
	for i, r := range all { // all at once: a driver that hangs holds up the volumes of no other
		volumes.Go(func() {
			if err := c.tearDown(ctx, r); err != nil {
				errs[i] = fmt.Errorf("UnmountVolume.TearDown failed for volume %q (driver %s): %w", r.Name, r.Driver, err)
			}
		})
	}
	volumes.Wait()
	return errors.Join(append(errs, unknown)...)
}

func (c *CSI) tearDown(ctx context.Context, r record) error {
	c.endRenewal(r.key())
	if !r.Publishing && !r.Published { // the lock, which another may have while its driver hangs, is not waited for
		yielded, err := c.records.yield(r)
		if err != nil {
			return err
		}
		if yielded {
			c.release(r, true)
			return nil
		}
	}
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
	shared, err := c.records.yield(r)
	if err != nil {
		return err
	}
	if !shared && c.isStaged(r) {
		return c.leave(r)
	}
	return c.forget(r, shared)
}

// leave has a volume unstaged that the last pod has left, unless another comes.
func (c *CSI) leave(r record) error {
	if err := c.records.leave(r); err != nil {
		return err
	}
	c.lookAtLeft()
	return nil
}

func (c *CSI) lookAtLeft() {
	select {
	case c.left <- struct{}{}:
	default:
	}
}

// nextUnstage is how long after a failure it is tried again to unstage what was left, mostUnstage how far apart later attempts are at most,
// as upstream's.
const nextUnstage, mostUnstage = 500 * time.Millisecond, 2*time.Minute + 2*time.Second

// unstageLeft unstages what pods have left until ctx ends: each volume by itself, for a driver may hang.
func (c *CSI) unstageLeft(ctx context.Context) {
	var takers sync.WaitGroup
	defer takers.Wait()
	var mu sync.Mutex // guards taken
	taken := map[string]bool{}
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.left:
		}
		for _, r := range c.records.of(leftBehind) {
			mu.Lock()
			busy := taken[r.Name]
			taken[r.Name] = true
			mu.Unlock()
			if busy {
				continue
			}
			takers.Go(func() {
				c.takeUntilGone(ctx, r)
				mu.Lock()
				delete(taken, r.Name)
				mu.Unlock()
				c.lookAtLeft() // it may have been left once more meanwhile
			})
		}
	}
}

// takeUntilGone tries takeLeft until it succeeds or ctx ends.
func (c *CSI) takeUntilGone(ctx context.Context, r record) {
	for wait := nextUnstage; ; wait = min(2*wait, mostUnstage) {
		err := c.takeLeft(ctx, r)
		if err == nil || ctx.Err() != nil {
			return
		}
		logger := klog.FromContext(ctx).WithValues("volume", r.Name, "driver", r.Driver)
		if wait == nextUnstage {
			logger.Error(err, "A volume is staged that no pod has any more")
		}
		logger.V(2).Info("A volume is still staged that no pod has", "after", wait, "err", err)
		select {
		case <-ctx.Done():
			return
		case <-c.cfg.Clock.After(wait):
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
	shared, err := c.records.yield(r)
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

// forget drops the record of a volume that has been taken away, unless it has yielded to another that shares the volume.
func (c *CSI) forget(r record, shared bool) error {
	if !shared {
		if err := c.records.remove(r); err != nil {
			return err
		}
	}
	c.release(r, shared)
	return nil
}

// release has it told that a record of a volume has gone.
func (c *CSI) release(r record, shared bool) {
	if r.Attachment == "" {
		return
	}
	c.mu.Lock()
	delete(c.told, uniqueName(r.Driver, r.Handle)) // who wants it next waits until that is told
	if !shared {
		delete(c.before, uniqueName(r.Driver, r.Handle))
	}
	c.mu.Unlock()
	c.cfg.InUse()
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
