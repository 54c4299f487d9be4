// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package csi

import (
	"context"
	"fmt"
	"io/fs"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	statsv1alpha1 "k8s.io/kubelet/pkg/apis/stats/v1alpha1"
)

// errNoStats is that of a volume whose driver tells nothing, of which then nothing is told, as upstream.
var errNoStats = fmt.Errorf("the driver tells no figures of its volumes: %w", fs.ErrNotExist)

// Stats returns a function that asks the driver of the volume that a pod has at path for what it holds, nil if no driver provides it.
func (c *CSI) Stats(pod types.UID, path string) func(context.Context) (statsv1alpha1.FsStats, error) {
	r, known := c.at(pod, path)
	if !known {
		return nil
	}
	return func(ctx context.Context) (statsv1alpha1.FsStats, error) {
		if !r.Published {
			return statsv1alpha1.FsStats{}, errNoStats
		}
		return c.stats(ctx, r)
	}
}

// Driver names the driver of the volume that a pod has at path, "" if none provides it.
func (c *CSI) Driver(pod types.UID, path string) string {
	r, _ := c.at(pod, path)
	return r.Driver
}

func (c *CSI) stats(ctx context.Context, r record) (stats statsv1alpha1.FsStats, err error) {
	path := c.layout.target(r.pod, r.Name, r.block())
	d, err := c.Registrar.find(r.Driver)
	if err != nil {
		return stats, err
	}
	can, err := capabilitiesOf(ctx, d)
	if err != nil {
		return stats, err
	}
	if !can[csipb.NodeServiceCapability_RPC_GET_VOLUME_STATS] {
		return stats, errNoStats
	}
	answer, err := call(ctx, d, func(ctx context.Context, n csipb.NodeClient) (*csipb.NodeGetVolumeStatsResponse, error) {
		return n.NodeGetVolumeStats(ctx, &csipb.NodeGetVolumeStatsRequest{
			VolumeId: r.Handle, VolumePath: c.seenBy(d, path), StagingTargetPath: c.stagedAt(d, r),
		})
	})
	if err != nil {
		return stats, err
	}
	stats.Time = metav1.NewTime(c.cfg.Clock.Now())
	for _, u := range answer.GetUsage() {
		available, total, used := amount(u.GetAvailable()), amount(u.GetTotal()), amount(u.GetUsed())
		switch u.GetUnit() {
		case csipb.VolumeUsage_BYTES:
			stats.AvailableBytes, stats.CapacityBytes, stats.UsedBytes = available, total, used
		case csipb.VolumeUsage_INODES:
			stats.InodesFree, stats.Inodes, stats.InodesUsed = available, total, used
		}
	}
	if stats.CapacityBytes == nil && stats.Inodes == nil {
		return stats, errNoStats
	}
	return stats, nil
}

// amount is 0 where a driver says nonsense.
func amount(n int64) *uint64 { return new(uint64(max(n, 0))) }
