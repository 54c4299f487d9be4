// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"minik8s.io/minik8s/pkg/apis/core/qos"
	"minik8s.io/minik8s/pkg/kubelet/internal/podspec"
)

// Swap is what of the machine's swap containers may use (KEP-2400).
type Swap struct {
	// Limited lets those of burstable pods use a share like that of their request in the machine's memory. Otherwise none uses any.
	Limited bool
	// Memory and Total are what the machine has, in bytes.
	Memory, Total uint64
}

// MaySwap says whether a container uses swap where some may (LimitedSwap).
func MaySwap(pod *corev1.Pod, c *corev1.Container) bool {
	// One that asks for no memory has neither, so that both are the same.
	return !podspec.IsCritical(pod) && qos.Of(pod) == corev1.PodQOSBurstable && c.Resources.Requests.Memory().Cmp(*c.Resources.Limits.Memory()) != 0
}

// limit is what a container may use.
func (s Swap) limit(pod *corev1.Pod, c *corev1.Container) int64 {
	if !s.Limited || s.Memory == 0 || !MaySwap(pod, c) {
		return 0
	}
	page := int64(os.Getpagesize()) // what the kernel makes of it
	return int64(float64(c.Resources.Requests.Memory().Value())/float64(s.Memory)*float64(s.Total)) / page * page
}

// Tune sets in the group of a running container what the engine does not: its huge pages and, with version 2 only, that it has no more
// swap than it may, how memory is kept for it and taken from it, and that the kernel ends all of its processes when its memory runs out, and
// not one.
func (m *Manager) Tune(pod *corev1.Pod, c *corev1.Container, id string) error {
	dir := m.containerPath(m.Parent(pod), id)
	pages := m.limitContainer(pod, c, dir)
	if m.config.Version != "2" {
		return pages
	}
	group := "1"
	if m.config.SingleProcessOOMKill {
		group = "0"
	}
	files := m.config.MemoryQoS.container(pod, c).files()
	files["memory.oom.group"], files["memory.swap.max"] = group, strconv.FormatInt(m.config.Swap.limit(pod, c), 10)
	errs := []error{pages}
	for name, text := range files {
		errs = append(errs, settle(path.Join(m.config.MountPoint, dir, name), text))
	}
	return errors.Join(errs...)
}

// settle writes what a file does not say yet. One that is not there is of a container that has ended, or of what the kernel has not.
func settle(file, text string) error {
	have, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if strings.TrimSpace(string(have)) == text {
		return nil
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("setting %s: %w", file, err)
	}
	return nil
}
