// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package cgroup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// v1 is a tree for each controller.
type v1 struct{ mount string }

// own are the controllers by which pods are limited and measured. The engine makes the groups of the others when it
// needs them.
var own = []string{"cpu", "cpuacct", "memory", "pids"}

func (t v1) file(controller, path, name string) string {
	return filepath.Join(t.mount, controller, path, name)
}

func (t v1) prepare(path string) error {
	for _, controller := range own {
		if err := os.MkdirAll(t.file(controller, path, ""), 0o755); err != nil {
			return err
		}
	}
	return nil
}

func (t v1) exists(path string) bool {
	for _, controller := range own {
		if _, err := os.Stat(t.file(controller, path, "")); err != nil {
			return false
		}
	}
	return true
}

func (t v1) apply(path string, r limits) (settled bool, err error) {
	if r.CPUShares > 0 {
		if err := write(t.file("cpu", path, "cpu.shares"), r.CPUShares); err != nil {
			return false, err
		}
	}
	quota := int64(-1)
	if r.CPUQuota > 0 {
		if err := write(t.file("cpu", path, "cpu.cfs_period_us"), r.CPUPeriod); err != nil {
			return false, err
		}
		below, err := t.largestQuota(path, r.CPUPeriod)
		if err != nil {
			return false, err
		}
		quota = max(r.CPUQuota, below)
	}
	if err := write(t.file("cpu", path, "cpu.cfs_quota_us"), quota); err != nil {
		return false, err
	}
	memory := int64(-1)
	if r.MemoryBytes > 0 {
		memory = r.MemoryBytes
	}
	if err := write(t.file("memory", path, "memory.limit_in_bytes"), memory); err != nil {
		return false, err
	}
	pids := "max"
	if r.PidsLimit > 0 {
		pids = strconv.FormatInt(r.PidsLimit, 10)
	}
	if err := writeText(t.file("pids", path, "pids.max"), pids); err != nil {
		return false, err
	}
	return r.CPUQuota <= 0 || quota == r.CPUQuota, nil
}

func (t v1) memoryLimit(path string) (int64, error) {
	return readSigned(t.file("memory", path, "memory.limit_in_bytes"))
}

// largestQuota is the most that a group below has in a period, 0 if none is limited. The kernel refuses to give a group less.
func (t v1) largestQuota(path string, period int64) (int64, error) {
	entries, err := os.ReadDir(t.file("cpu", path, ""))
	if err != nil {
		return 0, err
	}
	largest := int64(0)
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		below := filepath.Join(path, e.Name())
		quota, err := readSigned(t.file("cpu", below, "cpu.cfs_quota_us"))
		if errors.Is(err, os.ErrNotExist) || err == nil && quota <= 0 {
			continue // gone meanwhile, or not limited
		}
		if err != nil {
			return 0, err
		}
		own, err := readSigned(t.file("cpu", below, "cpu.cfs_period_us"))
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return 0, err
		}
		largest = max(largest, (quota*period+own-1)/own)
	}
	return largest, nil
}

// dirs are those of all mounted hierarchies, since the engine makes a pod's group in each of them.
func (t v1) dirs(path string) ([]string, error) {
	entries, err := os.ReadDir(t.mount)
	if err != nil {
		return nil, fmt.Errorf("listing cgroup hierarchies: %w", err)
	}
	var dirs []string
	for _, e := range entries {
		// Some are links to a hierarchy of several controllers.
		if e.IsDir() {
			dirs = append(dirs, t.file(e.Name(), path, ""))
		}
	}
	return dirs, nil
}

func (t v1) stats(path string) (Stats, error) {
	s := Stats{Time: time.Now()}
	cpu, err := readNumber(t.file("cpuacct", path, "cpuacct.usage"))
	if err != nil {
		return s, err
	}
	s.CPU = time.Duration(cpu)
	if s.MemoryUsage, err = readNumber(t.file("memory", path, "memory.usage_in_bytes")); err != nil {
		return s, err
	}
	memory, err := readTable(t.file("memory", path, "memory.stat"))
	if err != nil {
		return s, err
	}
	s.WorkingSet = workingSet(s.MemoryUsage, memory["total_inactive_file"])
	s.RSS, s.PageFaults, s.MajorPageFaults = memory["total_rss"], memory["total_pgfault"], memory["total_pgmajfault"]
	if n, err := readNumber(t.file("memory", path, "memory.limit_in_bytes")); err == nil && n < unlimited {
		s.MemoryLimit = &n
	}
	if n, ok := memory["total_swap"]; ok {
		s.Swap = &n
	}
	s.Processes, err = readNumber(t.file("pids", path, "pids.current"))
	return s, err
}

// readSigned reads a number of which -1 means none.
func readSigned(file string) (int64, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("parsing %q: %w", file, err)
	}
	return n, nil
}

func write(file string, n int64) error { return writeText(file, strconv.FormatInt(n, 10)) }

func writeText(file, text string) error {
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		if errors.Is(err, unix.EBUSY) {
			return fmt.Errorf("%w (more is in use than the new limit)", err)
		}
		return err
	}
	return nil
}

// rmdir removes a directory even if it has files, where those are the kernel's.
func rmdir(dir string) error {
	if err := unix.Rmdir(dir); err != nil {
		return &os.PathError{Op: "rmdir", Path: dir, Err: err}
	}
	return nil
}
