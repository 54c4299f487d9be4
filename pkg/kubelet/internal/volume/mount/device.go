// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package mount

import (
	"context"
	"sync"

	utilmount "k8s.io/mount-utils"
	utilexec "k8s.io/utils/exec"
)

// making has a turn for each device: two pods that come at the same time must not both make a file system on it.
var making sync.Map // of chan struct{}, by device

// Device implements Interface, by the node's programs blkid, mkfs.KIND, fsck and mount.
func (Linux) Device(ctx context.Context, device, dir, kind string, options []string) error {
	v, _ := making.LoadOrStore(device, make(chan struct{}, 1))
	turn := v.(chan struct{})
	select {
	case turn <- struct{}{}:
		defer func() { <-turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	formatter := utilmount.NewSafeFormatAndMount(utilmount.NewWithoutSystemd(""), within{utilexec.New(), ctx})
	err := formatter.FormatAndMount(device, dir, kind, options)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// within runs programs until ctx ends.
type within struct {
	utilexec.Interface
	ctx context.Context //nolint:containedctx // the library has no place for it
}

func (w within) Command(name string, args ...string) utilexec.Cmd {
	return w.CommandContext(w.ctx, name, args...)
}
