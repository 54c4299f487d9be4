// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package kubelet

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	"minik8s.io/minik8s/pkg/kubelet/internal/eviction"
	"minik8s.io/minik8s/pkg/kubelet/internal/image"
	"minik8s.io/minik8s/pkg/kubelet/internal/node"
)

const (
	// collectEvery is how often images are looked at, collectPatience how long that may take.
	collectEvery, collectPatience = 5 * time.Minute, 5 * time.Minute
	// never is the usage, in percent, from which on nothing is done about it.
	never = 100
)

// collector removes images by the settings: old ones, and as many as the disk of images is too full for.
type collector struct {
	*image.Collector
	high, low int32
	disk      func(ctx context.Context) (available, capacity int64, err error)
}

func (k *Kubelet) collector(puller *image.Puller, machine *eviction.Machine) *collector {
	c := k.cfg.Configuration
	return &collector{
		Collector: image.NewCollector(puller, image.Ages{Min: c.ImageMinimumGCAge.Duration, Max: c.ImageMaximumGCAge.Duration}),
		high:      ptr.Deref(c.ImageGCHighThresholdPercent, never), low: ptr.Deref(c.ImageGCLowThresholdPercent, never), disk: machine.Images,
	}
}

// CollectOld removes images that were not used for too long, and those that were not used for longest if the disk is too full.
func (c *collector) CollectOld(ctx context.Context) error {
	if err := c.Collector.CollectOld(ctx); err != nil {
		return err
	}
	if c.high >= never {
		return nil
	}
	available, capacity, err := c.disk(ctx)
	if err != nil {
		return err
	}
	want := excess(available, capacity, c.high, c.low)
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

// collectImages looks after images until ctx ends.
func (k *Kubelet) collectImages(ctx context.Context) {
	g := k.parts.garbage
	if g == nil {
		return
	}
	for failed := false; ; {
		cctx, cancel := context.WithTimeout(ctx, collectPatience)
		err := g.Detect(cctx)
		if err == nil {
			err = g.CollectOld(cctx)
		}
		cancel()
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			klog.FromContext(ctx).Error(err, "Image garbage collection failed")
			if failed {
				k.recorder.Event(node.Ref(k.cfg.NodeName), corev1.EventTypeWarning, "ImageGCFailed", err.Error())
			}
		}
		failed = err != nil
		if !k.sleep(ctx, collectEvery) {
			return
		}
	}
}
