// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
)

const (
	// collectEvery is how often images are looked at, collectPatience how long that may take.
	collectEvery, collectPatience = 5 * time.Minute, 5 * time.Minute
	// Never is the usage, in percent, from which on nothing is done about it.
	Never = 100
)

// Start looks after the images until ctx ends: it notes which are in use, and removes those that were not for too long, and those
// that were not for longest if their disk is too full. Failures, but for the first, are told by events about node; that a disk stays
// too full is told at once.
func (c *Collector) Start(ctx context.Context, events record.EventRecorder, node *corev1.ObjectReference) {
	clock := c.puller.config.Clock
	for failed := false; ; {
		cctx, cancel := context.WithTimeout(ctx, collectPatience)
		err := c.Detect(cctx)
		if err == nil {
			err = c.CollectOld(cctx)
		}
		if err == nil {
			err = c.collectExcess(cctx)
		}
		cancel()
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			klog.FromContext(ctx).Error(err, "Image garbage collection failed")
			if full, is := errors.AsType[*diskError](err); is {
				events.Event(node, corev1.EventTypeWarning, full.reason, full.message)
			}
			if failed {
				events.Event(node, corev1.EventTypeWarning, "ImageGCFailed", err.Error())
			}
		}
		failed = err != nil
		t := clock.NewTimer(collectEvery)
		select {
		case <-ctx.Done():
			t.Stop()
			return
		case <-t.C():
		}
	}
}

// collectExcess removes images while their disk is fuller than it may be.
func (c *Collector) collectExcess(ctx context.Context) error {
	if c.limits.HighPercent >= Never {
		return nil
	}
	available, capacity, err := c.limits.Disk(ctx)
	if err != nil {
		return err
	}
	if capacity <= 0 {
		return &diskError{"InvalidDiskCapacity", "invalid capacity 0 on image filesystem"}
	}
	want := excess(available, capacity, c.limits.HighPercent, c.limits.LowPercent)
	if want == 0 {
		return nil
	}
	freed, err := c.Collect(ctx, want)
	if err == nil && freed < want {
		err = &diskError{"FreeDiskSpaceFailed", fmt.Sprintf("Insufficient free disk space on the node's image filesystem (%d%% of %s used). "+
			"Failed to free sufficient space by deleting unused images (freed %d bytes). "+
			"Investigate disk usage, as it could be used by active images, logs, volumes, or other data.",
			used(available, capacity), size(capacity), freed)}
	}
	return err
}

// diskError is what upstream tells of the disk of images by an event of this reason.
type diskError struct{ reason, message string }

func (e *diskError) Error() string { return e.message }

// size writes a number of bytes as upstream's event does.
func size(bytes int64) string {
	if bytes < 1<<10 {
		return fmt.Sprintf("%d B", bytes)
	}
	n, unit := float64(bytes)/(1<<10), 0
	for ; n >= 1<<10 && unit < 3; unit++ {
		n /= 1 << 10
	}
	return fmt.Sprintf("%.1f %ciB", n, "KMGT"[unit])
}

// used is how many percent of a disk are in use.
func used(available, capacity int64) int32 {
	return 100 - int32(float64(min(available, capacity))*100/float64(capacity))
}

// excess is how many bytes have to be freed to come from above high percent in use down to low percent, 0 if it is not above.
func excess(available, capacity int64, high, low int32) int64 {
	if capacity <= 0 {
		return 0
	}
	if used(available, capacity) < high {
		return 0
	}
	return max(int64(float64(capacity)*float64(100-low)/100)-min(available, capacity), 0)
}
