// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package mount

import (
	"context"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"
)

// Fake remembers mounts without making any, for tests of what uses Interface.
type Fake struct {
	mu     sync.Mutex
	points []string
	// Sizes are the limits of tmpfs mounts by directory, PageSizes those of the pages of huge pages, Sources the names of bind mounted files by target.
	Sizes     map[string]int64
	PageSizes map[string]int64
	Sources   map[string]string
	// Layers are those of overlays by directory.
	Layers map[string][]string
	// Remotes are what servers were asked for by directory, NoServer the error with which they answer.
	Remotes  map[string]string
	NoServer error
	// Devices are the devices with their kinds and options by directory.
	Devices map[string]string
	// Busy mount points cannot be unmounted and give its error.
	Busy map[string]error
}

// Tmpfs implements Interface.
func (f *Fake) Tmpfs(dir string, mode fs.FileMode, _, size int64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.Sizes == nil {
		f.Sizes = map[string]int64{}
	}
	f.Sizes[dir] = size
	f.points = append(f.points, dir)
	return os.Chmod(dir, mode)
}

// HugePages implements Interface.
func (f *Fake) HugePages(dir string, mode fs.FileMode, _, pageSize int64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.PageSizes == nil {
		f.PageSizes = map[string]int64{}
	}
	f.PageSizes[dir] = pageSize
	f.points = append(f.points, dir)
	return os.Chmod(dir, mode)
}

// Bind implements Interface.
func (f *Fake) Bind(file *os.File, target string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.Sources == nil {
		f.Sources = map[string]string{}
	}
	f.Sources[target] = file.Name()
	f.points = append(f.points, target)
	return nil
}

// Overlay implements Interface.
func (f *Fake) Overlay(layers []string, dir string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.Layers == nil {
		f.Layers = map[string][]string{}
	}
	f.Layers[dir] = layers
	f.points = append(f.points, dir)
	return nil
}

// Remote implements Interface.
func (f *Fake) Remote(ctx context.Context, kind, source, dir string, options []string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.NoServer != nil {
		return f.NoServer
	}
	if f.Remotes == nil {
		f.Remotes = map[string]string{}
	}
	f.Remotes[dir] = strings.Join(append([]string{kind, source}, options...), " ")
	f.points = append(f.points, dir)
	return ctx.Err()
}

// Device implements Interface.
func (f *Fake) Device(ctx context.Context, device, dir, kind string, options []string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.Devices == nil {
		f.Devices = map[string]string{}
	}
	f.Devices[dir] = strings.Join(append([]string{kind, device}, options...), " ")
	f.points = append(f.points, dir)
	return ctx.Err()
}

// Mounted implements Interface.
func (f *Fake) Mounted(dir string) (bool, error) { return f.IsMountPoint(dir) }

// Unmount implements Interface.
func (f *Fake) Unmount(target string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.Busy[target]; err != nil {
		return err
	}
	if i := slices.Index(f.points, target); i >= 0 {
		f.points = slices.Delete(f.points, i, i+1)
	}
	return nil
}

// Under implements Interface.
func (f *Fake) Under(dir string) ([]string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var list []string
	for _, p := range slices.Backward(f.points) {
		if p == dir || strings.HasPrefix(p, dir+"/") {
			list = append(list, p)
		}
	}
	return list, nil
}

// IsMountPoint implements Interface.
func (f *Fake) IsMountPoint(dir string) (bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Contains(f.points, dir), nil
}
