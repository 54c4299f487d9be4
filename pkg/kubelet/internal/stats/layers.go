// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package stats

import (
	"context"
	"errors"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	statsv1alpha1 "k8s.io/kubelet/pkg/apis/stats/v1alpha1"
	"k8s.io/utils/clock"

	"minik8s.io/minik8s/pkg/kubelet/container"
)

const (
	// layerAge is how old a figure may become before the engine counts again, which costs it a walk through the files of a container.
	layerAge = 3 * time.Minute
	// layerLook is how often new containers are looked for.
	layerLook = 10 * time.Second
	// layerPatience bounds one call of the engine.
	layerPatience = 30 * time.Second
	// layerRest times what a container took to measure is waited before the next, so that at most a fifth of the time is spent.
	layerRest = 4
)

// Engine tells of disks. All of it may take long.
type Engine interface {
	DiskUsage(ctx context.Context, id string) (container.DiskUsage, error)
	Images(ctx context.Context) ([]*container.Image, error)
	ImageDir(ctx context.Context) (string, error)
}

// LayersConfig is what Layers are made from; all fields are required.
type LayersConfig struct {
	Clock  clock.Clock
	Engine Engine
	// Running are the ids of the containers that run.
	Running func() []string
}

// Layer is what a container has written, in bytes, and when that was counted.
type Layer struct {
	Time time.Time
	container.DiskUsage
}

// Layers measures what containers write and what images take, beside everything else: who asks gets what was last found. It is safe
// for concurrent use.
type Layers struct {
	cfg LayersConfig

	mu     sync.Mutex // guards the fields below; the engine is not asked with it
	dir    string     // of the engine, "" while it is not known
	layers map[string]layer
	images layer // Rootfs is what all images take
}

// layer is known once one count was a success; tried is when the last one was, success or not.
type layer struct {
	Layer
	tried time.Time
	known bool
}

// NewLayers returns Layers of which nothing is known before Start.
func NewLayers(cfg LayersConfig) *Layers { return &Layers{cfg: cfg, layers: map[string]layer{}} }

// Start measures until ctx ends.
func (l *Layers) Start(ctx context.Context) {
	for {
		l.look(ctx)
		if !l.rest(ctx, layerLook) {
			return
		}
	}
}

// Of returns what a container has written, false if that is not known yet.
func (l *Layers) Of(id string) (Layer, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	found := l.layers[id]
	return found.Layer, found.known
}

// Dir is where the engine keeps images and containers, "" while that is not known.
func (l *Layers) Dir() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.dir
}

// ImageFs are the figures of the file system of images, UsedBytes what images take; nil while it is not known or not on this machine.
// Engines tell the size of each image, so that what images share counts for each, up to what the file system holds.
func (l *Layers) ImageFs() *statsv1alpha1.FsStats {
	l.mu.Lock()
	dir, images := l.dir, l.images
	l.mu.Unlock()
	if dir == "" {
		return nil
	}
	s, err := FileSystem(dir, l.cfg.Clock.Now())
	if err != nil {
		return nil
	}
	s.InodesUsed = nil // nobody counts those of images
	if !images.known {
		s.UsedBytes = nil
		return &s
	}
	s.Time, s.UsedBytes = metav1.NewTime(images.Time), new(min(*s.UsedBytes, uint64(max(images.Rootfs, 0))))
	return &s
}

// Written are the figures of what a container has written, its log included, and of the file system that it is on; nil while either
// is not known.
func (l *Layers) Written(id string) *statsv1alpha1.FsStats {
	found, known := l.Of(id)
	fs := l.ImageFs()
	if !known || fs == nil {
		return nil
	}
	fs.Time, fs.UsedBytes = metav1.NewTime(found.Time), new(uint64(max(found.Rootfs+found.Log, 0)))
	return fs
}

// look asks the engine for what is not known, or no more.
func (l *Layers) look(ctx context.Context) {
	if l.Dir() == "" {
		dctx, cancel := context.WithTimeout(ctx, layerPatience)
		dir, err := l.cfg.Engine.ImageDir(dctx)
		cancel()
		if err == nil {
			l.mu.Lock()
			l.dir = dir
			l.mu.Unlock()
		}
	}
	l.mu.Lock()
	images := l.images
	l.mu.Unlock()
	if l.due(images) {
		images = l.measure(ctx, "images", images, l.countImages)
		l.mu.Lock()
		l.images = images
		l.mu.Unlock()
	}
	running := map[string]bool{}
	for _, id := range l.cfg.Running() {
		running[id] = true
	}
	l.retain(running)
	for id := range running {
		l.mu.Lock()
		old := l.layers[id]
		l.mu.Unlock()
		if !l.due(old) {
			continue
		}
		began := l.cfg.Clock.Now()
		next := l.measure(ctx, id, old, func(ctx context.Context) (container.DiskUsage, error) { return l.cfg.Engine.DiskUsage(ctx, id) })
		l.mu.Lock()
		l.layers[id] = next // of one that is gone until the next look
		l.mu.Unlock()
		if !l.rest(ctx, layerRest*l.cfg.Clock.Since(began)) {
			return
		}
	}
}

func (l *Layers) due(old layer) bool {
	return old.tried.IsZero() || l.cfg.Clock.Since(old.tried) >= layerAge
}

// measure counts anew. What fails leaves the figure that there was, with its time.
func (l *Layers) measure(ctx context.Context, what string, old layer, count func(context.Context) (container.DiskUsage, error)) layer {
	mctx, cancel := context.WithTimeout(ctx, layerPatience)
	u, err := count(mctx)
	cancel()
	now := l.cfg.Clock.Now()
	old.tried = now
	if err != nil {
		if ctx.Err() == nil && !errors.Is(err, container.ErrNotFound) {
			klog.FromContext(ctx).V(2).Info("A count of the disk failed", "of", what, "err", err)
		}
		return old
	}
	return layer{Layer: Layer{Time: now, DiskUsage: u}, tried: now, known: true}
}

func (l *Layers) countImages(ctx context.Context) (container.DiskUsage, error) {
	images, err := l.cfg.Engine.Images(ctx)
	var u container.DiskUsage
	for _, img := range images {
		u.Rootfs += img.SizeBytes
	}
	return u, err
}

// retain forgets containers that do not run any more.
func (l *Layers) retain(running map[string]bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for id := range l.layers {
		if !running[id] {
			delete(l.layers, id)
		}
	}
}

// rest waits for d and returns false if ctx ended first.
func (l *Layers) rest(ctx context.Context, d time.Duration) bool {
	t := l.cfg.Clock.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C():
		return true
	}
}
