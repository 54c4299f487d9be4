// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"context"
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
// that were not for longest if their disk is too full. Failures, but for the first, are told by events about node.
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
	want := excess(available, capacity, c.limits.HighPercent, c.limits.LowPercent)
	if want == 0 {
		return nil
	}
	freed, err := c.Collect(ctx, want)
	if err == nil && freed < want {
		err = fmt.Errorf("%w: Attempted to free %d bytes, but only found %d bytes eligible to free", errFreeDiskSpace, want, freed)
	}
	return err
}

// errFreeDiskSpace is that too little could be removed.
var errFreeDiskSpace = fmt.Errorf("Failed to garbage collect required amount of images") //nolint:staticcheck // upstream's event

// excess is how many bytes have to be freed to come from above high percent in use down to low percent, 0 if it is not above.
func excess(available, capacity int64, high, low int32) int64 {
	if capacity <= 0 {
		return 0
	}
	available = min(available, capacity)
	if used := 100 - int32(float64(available)*100/float64(capacity)); used < high {
		return 0
	}
	return max(int64(float64(capacity)*float64(100-low)/100)-available, 0)
}
