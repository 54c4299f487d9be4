// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package eviction

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/klog/v2"

	"minik8s.io/minik8s/pkg/kubelet/internal/meminfo"
)

// Machine reads what a Node observes. Safe for concurrent use.
type Machine struct {
	// Root is where proc is found: "/" in production.
	Root string
	// Dir is on the file system of volumes.
	Dir string
	// ImageDir asks where the engine keeps images and containers.
	ImageDir func(ctx context.Context) (string, error)
	// PodMemory is what all pods together use, caches that can be given up excluded, and may use, in bytes; it matches fs.ErrNotExist as
	// long as there has not been any pod. nil: that is not looked at.
	PodMemory func() (used uint64, limit *uint64, err error)

	mu       sync.Mutex // guards imageDir
	imageDir string
}

// images is where images are, "" if that is not known or not on this machine.
func (m *Machine) images(ctx context.Context) string {
	m.mu.Lock()
	dir := m.imageDir
	m.mu.Unlock()
	if dir == "" {
		var err error
		if dir, err = m.ImageDir(ctx); err != nil {
			return ""
		}
		m.mu.Lock()
		m.imageDir = dir
		m.mu.Unlock()
	}
	if _, err := os.Stat(dir); err != nil {
		return ""
	}
	return dir
}

// Images returns available and all bytes of the file system of images.
func (m *Machine) Images(ctx context.Context) (available, capacity int64, err error) {
	dir := m.images(ctx)
	if dir == "" {
		return 0, 0, fmt.Errorf("the directory of images is not known")
	}
	o := Observations{}
	if err := o.fileSystem(dir, ImageFsAvailable, ImageFsInodesFree); err != nil {
		return 0, 0, err
	}
	seen := o[ImageFsAvailable]
	return seen.Available.Value(), seen.Capacity.Value(), nil
}

// Dedicated implements Node.
func (m *Machine) Dedicated(ctx context.Context) bool {
	dir := m.images(ctx)
	if dir == "" {
		return false
	}
	var a, b unix.Stat_t
	return unix.Stat(dir, &a) == nil && unix.Stat(m.Dir, &b) == nil && a.Dev != b.Dev
}

// Observe implements Node.
func (m *Machine) Observe(ctx context.Context) (Observations, error) {
	o := Observations{}
	available, total, err := m.memory()
	if err != nil {
		return nil, err
	}
	o[MemoryAvailable] = Observation{*resource.NewQuantity(available, resource.BinarySI), *resource.NewQuantity(total, resource.BinarySI)}
	if m.PodMemory != nil {
		if err := o.podMemory(m.PodMemory); err != nil { // what else the node is short of can be told all the same
			klog.FromContext(ctx).Error(err, "Not observed", "signal", AllocatableMemoryAvailable)
		}
	}
	if err := o.fileSystem(m.Dir, NodeFsAvailable, NodeFsInodesFree); err != nil {
		return nil, err
	}
	if dir := m.images(ctx); dir != "" {
		if err := o.fileSystem(dir, ImageFsAvailable, ImageFsInodesFree); err != nil {
			return nil, err
		}
	}
	running, limit, err := m.processes()
	if err != nil {
		return nil, err
	}
	o[PIDAvailable] = Observation{*resource.NewQuantity(limit-running, resource.DecimalSI), *resource.NewQuantity(limit, resource.DecimalSI)}
	return o, nil
}

// podMemory observes nothing where pods are not limited together.
func (o Observations) podMemory(read func() (used uint64, limit *uint64, err error)) error {
	used, limit, err := read()
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading what memory pods use: %w", err)
	}
	if limit != nil {
		available := *limit - min(used, *limit)
		o[AllocatableMemoryAvailable] = Observation{*resource.NewQuantity(int64(available), resource.BinarySI), *resource.NewQuantity(int64(*limit), resource.BinarySI)}
	}
	return nil
}

// fileSystem observes the one of dir. One that does not count its inodes, such as btrfs, is not short of them.
func (o Observations) fileSystem(dir string, bytes, inodes Signal) error {
	var disk unix.Statfs_t
	if err := unix.Statfs(dir, &disk); err != nil {
		return fmt.Errorf("reading size of %q: %w", dir, err)
	}
	size := disk.Bsize
	o[bytes] = Observation{*resource.NewQuantity(int64(disk.Bavail)*size, resource.BinarySI), *resource.NewQuantity(int64(disk.Blocks)*size, resource.BinarySI)}
	if disk.Files > 0 {
		o[inodes] = Observation{*resource.NewQuantity(int64(disk.Ffree), resource.DecimalSI), *resource.NewQuantity(int64(disk.Files), resource.DecimalSI)}
	}
	return nil
}

// memory is what the kernel could give out, caches included, and all there is, in bytes.
func (m *Machine) memory() (available, total int64, err error) {
	info, err := meminfo.Read(m.Root)
	if err != nil {
		return 0, 0, err
	}
	free, ok := info["MemAvailable"]
	if !ok || info["MemTotal"] == 0 {
		return 0, 0, fmt.Errorf("reading memory usage: no MemAvailable or MemTotal in meminfo")
	}
	return int64(free), int64(info["MemTotal"]), nil
}

// processes is how many tasks there are and may be. The kernel counts threads for both.
func (m *Machine) processes() (running, limit int64, err error) {
	for _, name := range []string{"pid_max", "threads-max"} {
		data, err := os.ReadFile(filepath.Join(m.Root, "proc/sys/kernel", name))
		if err != nil {
			return 0, 0, fmt.Errorf("reading process limit: %w", err)
		}
		n, err := strconv.ParseInt(strings.TrimSpace(string(data)), 10, 64)
		if err != nil {
			return 0, 0, fmt.Errorf("reading process limit: %w", err)
		}
		if limit == 0 || n < limit {
			limit = n
		}
	}
	data, err := os.ReadFile(filepath.Join(m.Root, "proc/loadavg"))
	if err != nil {
		return 0, 0, fmt.Errorf("reading process count: %w", err)
	}
	f := strings.Fields(string(data))
	if len(f) < 4 {
		return 0, 0, fmt.Errorf("reading process count: unexpected loadavg %q", data)
	}
	_, all, _ := strings.Cut(f[3], "/")
	if running, err = strconv.ParseInt(all, 10, 64); err != nil {
		return 0, 0, fmt.Errorf("reading process count: %w", err)
	}
	return running, limit, nil
}
