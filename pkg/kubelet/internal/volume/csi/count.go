// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package csi

import (
	"context"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
)

// lookAtCounts is how often it is seen whether a driver is due to say how many volumes the node takes: the shortest period that a CSIDriver
// can have.
const lookAtCounts = 10 * time.Second

// recount has drivers whose CSIDriver says so tell from time to time how many volumes the node takes, until ctx ends (KEP-4876).
func (c *CSI) recount(ctx context.Context) {
	asked := map[string]time.Time{} // by driver
	for {
		timer := c.cfg.Clock.NewTimer(lookAtCounts)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C():
		}
		c.askCounts(ctx, c.dueCounts(ctx, asked))
	}
}

// dueCounts are the drivers that are to be asked now, and notes that they are. A driver says it when it registers, which was before the
// first look at it.
func (c *CSI) dueCounts(ctx context.Context, asked map[string]time.Time) (due []string) {
	now := c.cfg.Clock.Now()
	for _, driver := range c.Registrar.names() {
		last, known := asked[driver]
		if !known {
			asked[driver] = now.Add(-lookAtCounts)
		} else if period := c.countPeriod(ctx, driver); period > 0 && now.Sub(last) >= period {
			asked[driver] = now
			due = append(due, driver)
		}
	}
	return due
}

// askCounts asks all at once: one that hangs holds nobody up for longer than a look.
func (c *CSI) askCounts(ctx context.Context, drivers []string) {
	ctx, cancel := context.WithTimeout(ctx, lookAtCounts)
	defer cancel()
	var all sync.WaitGroup
	for _, driver := range drivers {
		all.Go(func() {
			if err := c.Registrar.recount(ctx, driver); err != nil && ctx.Err() == nil {
				klog.FromContext(ctx).Error(err, "Finding out how many volumes the node takes", "driver", driver)
			}
		})
	}
	all.Wait()
}

// countPeriod is how often a driver is to be asked, 0 for never.
func (c *CSI) countPeriod(ctx context.Context, driver string) time.Duration {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	info, err := c.info(ctx, driver)
	if err != nil || info == nil {
		return 0
	}
	return time.Duration(ptr.Deref(info.Spec.NodeAllocatableUpdatePeriodSeconds, 0)) * time.Second
}

// exhausted says whether a volume was not attached because the node has as many as it takes. Then the driver is asked how many that are.
// Without a period in the CSIDriver that is left to retries.
func (c *CSI) exhausted(ctx context.Context, v *volume) bool {
	if c.countPeriod(ctx, v.driver) == 0 {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, apiPatience)
	defer cancel()
	a, err := c.cfg.Client.StorageV1().VolumeAttachments().Get(ctx, attachmentName(v.handle, v.driver, c.cfg.NodeName), metav1.GetOptions{})
	if err != nil || !outOfRoom(a) {
		return false
	}
	c.askCounts(ctx, []string{v.driver})
	return true
}

func outOfRoom(a *storagev1.VolumeAttachment) bool {
	e := a.Status.AttachError
	return e != nil && ptr.Deref(e.ErrorCode, 0) == int32(codes.ResourceExhausted)
}
