// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package stats

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	statsv1alpha1 "k8s.io/kubelet/pkg/apis/stats/v1alpha1"
	"k8s.io/utils/clock"

	"minik8s.io/minik8s/pkg/kubelet/internal/diskusage"
	"minik8s.io/minik8s/pkg/kubelet/internal/podspec"
	"minik8s.io/minik8s/pkg/kubelet/internal/volume"
)

// volumePatience is how long the volumes of one pod may hold up the look at the others'.
const volumePatience = 10 * time.Second

// VolumesConfig is what Volumes are made from; all fields are required.
type VolumesConfig struct {
	Clock clock.Clock
	// Period is the time between two looks, upstream's volumeStatsAggPeriod.
	Period time.Duration
	// Pods are those of the node.
	Pods func() []*corev1.Pod
	// Places are where the volumes of a pod are. It must not block.
	Places func(*corev1.Pod) []volume.Place
}

// Volumes measures what volumes hold, beside everything else, since counting files takes long. It is safe for concurrent use.
type Volumes struct {
	cfg VolumesConfig
	// measure may hang, when the file system does.
	measure func(context.Context, volume.Place) (statsv1alpha1.FsStats, error)

	mu    sync.Mutex // guards the fields below
	found map[types.UID][]statsv1alpha1.VolumeStats
	busy  map[types.UID]bool
}

// NewVolumes returns Volumes of which nothing is known before Start.
func NewVolumes(cfg VolumesConfig) *Volumes {
	v := &Volumes{cfg: cfg, found: map[types.UID][]statsv1alpha1.VolumeStats{}, busy: map[types.UID]bool{}}
	v.measure = func(ctx context.Context, place volume.Place) (statsv1alpha1.FsStats, error) {
		if place.Ask != nil {
			return place.Ask(ctx)
		}
		return v.fromDisk(ctx, place)
	}
	return v
}

// Start looks at once and then each period, until ctx ends. It does not wait for a file system that hangs.
func (v *Volumes) Start(ctx context.Context) {
	for {
		v.look(ctx)
		timer := v.cfg.Clock.NewTimer(v.cfg.Period)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C():
		}
	}
}

// Of returns what was last found of a pod's volumes.
func (v *Volumes) Of(uid types.UID) []statsv1alpha1.VolumeStats {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.found[uid]
}

// All returns what was last found of all volumes.
func (v *Volumes) All() []statsv1alpha1.VolumeStats {
	v.mu.Lock()
	defer v.mu.Unlock()
	var out []statsv1alpha1.VolumeStats
	for _, list := range v.found {
		out = append(out, list...)
	}
	return out
}

// look measures the volumes of all pods, one pod after the other.
func (v *Volumes) look(ctx context.Context) {
	pods := v.cfg.Pods()
	v.retain(pods)
	for _, pod := range pods {
		if pod.DeletionTimestamp != nil || podspec.IsTerminal(pod) {
			continue // who counts files keeps others from unmounting
		}
		if !v.begin(pod.UID) {
			continue // still at it since last time
		}
		pctx, cancel := context.WithTimeout(ctx, volumePatience)
		v.volumes(pctx, pod)
		cancel()
		if ctx.Err() != nil {
			return
		}
	}
}

func (v *Volumes) begin(uid types.UID) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.busy[uid] {
		return false
	}
	v.busy[uid] = true
	return true
}

func (v *Volumes) end(uid types.UID) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.busy, uid)
}

// note takes what was found of a volume, nil if it could not be measured. Of a pod that is gone it stays until the next look.
func (v *Volumes) note(uid types.UID, name string, found *statsv1alpha1.VolumeStats) {
	v.mu.Lock()
	defer v.mu.Unlock()
	list := slices.DeleteFunc(slices.Clone(v.found[uid]), func(s statsv1alpha1.VolumeStats) bool { return s.Name == name })
	if found != nil {
		list = append(list, *found)
	}
	slices.SortFunc(list, func(a, b statsv1alpha1.VolumeStats) int { return strings.Compare(a.Name, b.Name) })
	v.found[uid] = list
}

// retain forgets pods that are gone.
func (v *Volumes) retain(pods []*corev1.Pod) {
	keep := map[types.UID]bool{}
	for _, p := range pods {
		keep[p.UID] = true
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	for uid := range v.found {
		if !keep[uid] {
			delete(v.found, uid)
		}
	}
}

// volumes measures those of one pod, all at once: one that hangs keeps its last figures, and no other from new ones. It returns when all are
// measured or ctx ends; the pod counts as busy until all are.
func (v *Volumes) volumes(ctx context.Context, pod *corev1.Pod) {
	var all sync.WaitGroup
	for _, place := range v.cfg.Places(pod) {
		all.Go(func() { v.note(pod.UID, place.Name, v.one(ctx, pod, place)) })
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		all.Wait()
		v.end(pod.UID)
	}()
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// one measures a volume; nil if that fails, and it is left out.
func (v *Volumes) one(ctx context.Context, pod *corev1.Pod, place volume.Place) *statsv1alpha1.VolumeStats {
	found, err := v.measure(ctx, place)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			klog.FromContext(ctx).V(2).Info("A volume is left out of the figures", "pod", klog.KObj(pod), "volume", place.Name, "err", err)
		}
		return nil
	}
	s := &statsv1alpha1.VolumeStats{Name: place.Name, FsStats: found}
	if place.Claim != "" {
		s.PVCRef = &statsv1alpha1.PVCReference{Namespace: pod.Namespace, Name: place.Claim}
	}
	return s
}

// fromDisk measures one volume. Of those that have no file system to themselves the files are counted.
func (v *Volumes) fromDisk(ctx context.Context, place volume.Place) (statsv1alpha1.FsStats, error) {
	info, err := os.Stat(place.Path)
	if err != nil {
		return statsv1alpha1.FsStats{}, err
	}
	if !info.IsDir() {
		return statsv1alpha1.FsStats{}, fmt.Errorf("%s is no directory: %w", place.Path, fs.ErrNotExist) // a block device, of which nothing is told
	}
	s, err := FileSystem(place.Path, v.cfg.Clock.Now())
	if err != nil || place.Alone {
		return s, err
	}
	u, err := diskusage.Of(ctx, place.Path)
	s.UsedBytes, s.InodesUsed = new(uint64(u.Bytes)), new(uint64(u.Inodes))
	return s, err
}

// FileSystem are the figures of the file system that a path is on.
func FileSystem(path string, now time.Time) (statsv1alpha1.FsStats, error) {
	var fs unix.Statfs_t
	if err := unix.Statfs(path, &fs); err != nil {
		return statsv1alpha1.FsStats{}, &os.PathError{Op: "statfs", Path: path, Err: err}
	}
	size := uint64(fs.Bsize)
	return statsv1alpha1.FsStats{
		Time: metav1.NewTime(now), CapacityBytes: new(fs.Blocks * size), AvailableBytes: new(fs.Bavail * size),
		UsedBytes: new((fs.Blocks - fs.Bfree) * size), Inodes: new(fs.Files), InodesFree: new(fs.Ffree), InodesUsed: new(fs.Files - fs.Ffree),
	}, nil
}

// logFiles are the figures of a container's log and of the older ones beside it, which engines name after it; nil if there is
// none.
func logFiles(path string, now time.Time) *statsv1alpha1.FsStats {
	dir := filepath.Dir(path)
	entries, err := os.ReadDir(dir)
	if path == "" || err != nil {
		return nil
	}
	s, err := FileSystem(dir, now)
	if err != nil {
		return nil
	}
	bytes, inodes, there := uint64(0), uint64(0), false
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), filepath.Base(path)) {
			continue
		}
		there = true
		if info, err := os.Stat(filepath.Join(dir, e.Name())); err == nil && info.Mode().IsRegular() {
			bytes += uint64(info.Size())
			inodes++
		}
	}
	if !there {
		return nil
	}
	s.UsedBytes, s.InodesUsed = &bytes, &inodes
	return &s
}
