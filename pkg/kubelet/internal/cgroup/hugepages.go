// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"
)

// hugetlb is the controller of huge pages. Not all kernels have it, and then nothing limits them but their number.
const hugetlb = "hugetlb"

// hugePages are limits in bytes by the size of the pages, in the words of the kernel's files ("2MB").
type hugePages map[string]int64

// String is the same for the same limits.
func (h hugePages) String() string {
	var parts []string
	for _, size := range slices.Sorted(maps.Keys(h)) {
		parts = append(parts, fmt.Sprintf("%s=%d", size, h[size]))
	}
	return strings.Join(parts, ",")
}

// hugePagesOf are the limits that a list has. Whoever has none of a size may use none.
func hugePagesOf(list corev1.ResourceList) hugePages {
	out := hugePages{}
	for name, limit := range list {
		text, is := strings.CutPrefix(string(name), corev1.ResourceHugePagesPrefix)
		if !is {
			continue
		}
		if size, err := resource.ParseQuantity(text); err == nil {
			out[kernelSize(size.Value())] = limit.Value()
		}
	}
	return out
}

// podHugePages are those of all containers of a pod together. Requests and limits of huge pages are the same.
func podHugePages(pod *corev1.Pod) hugePages {
	return hugePagesOf(resourcehelper.PodLimits(pod, resourcehelper.PodResourcesOptions{}))
}

// kernelSize is how the kernel writes the size of pages in the names of files.
func kernelSize(bytes int64) string {
	for _, unit := range []struct {
		size int64
		name string
	}{{1 << 30, "GB"}, {1 << 20, "MB"}} {
		if bytes >= unit.size {
			return strconv.FormatInt(bytes/unit.size, 10) + unit.name
		}
	}
	return strconv.FormatInt(bytes>>10, 10) + "KB"
}

// limitContainer sets the limits of huge pages of a container whose pod has some, in its group. One that has gone needs none.
func (m *Manager) limitContainer(pod *corev1.Pod, c *corev1.Container, file string) error {
	if len(podHugePages(pod)) == 0 {
		return nil // the pod's own limits are 0
	}
	if !m.tree.exists(file) {
		return nil
	}
	err := m.tree.limitHugePages(file, hugePagesOf(c.Resources.Limits))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("limiting huge pages of container %q: %w", c.Name, err)
	}
	return nil
}

// limitPages writes limits to the files of a directory that are called hugetlb.SIZE.suffix, 0 for sizes without one.
func limitPages(dir, suffix string, limits hugePages) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		size, is := strings.CutSuffix(strings.TrimPrefix(e.Name(), hugetlb+"."), "."+suffix)
		if !is || !strings.HasPrefix(e.Name(), hugetlb+".") || strings.Contains(size, ".") { // hugetlb.2MB.rsvd.max
			continue
		}
		file, want := filepath.Join(dir, e.Name()), strconv.FormatInt(limits[size], 10)
		if now, err := os.ReadFile(file); err == nil && strings.TrimSpace(string(now)) == want {
			continue
		}
		if err := writeText(file, want); err != nil {
			return err
		}
	}
	return nil
}

func (t v1) limitHugePages(p string, limits hugePages) error {
	if !isDir(filepath.Join(t.mount, hugetlb)) {
		return nil // no such controller
	}
	dir := t.file(hugetlb, p, "")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return limitPages(dir, "limit_in_bytes", limits)
}

// limitHugePages hands the controller down by itself, for systemd does not know of it.
func (t v2) limitHugePages(p string, limits hugePages) error {
	available, err := os.ReadFile(t.file("/", "cgroup.controllers"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if !slices.Contains(strings.Fields(string(available)), hugetlb) {
		return nil
	}
	level := "/"
	for part := range strings.SplitSeq(strings.TrimPrefix(path.Clean(p), "/"), "/") {
		if err := t.delegate(level, hugetlb); err != nil {
			return err
		}
		level = path.Join(level, part)
	}
	return limitPages(t.file(p, ""), "max", limits)
}
