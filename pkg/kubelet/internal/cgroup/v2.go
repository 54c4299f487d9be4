// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package cgroup

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// v2 is one tree for all controllers. Only groups without processes of their own can hand controllers down, which is
// why the groups made here never have any.
type v2 struct {
	mount string
	proc  string // where meminfo is
}

func (t v2) file(path, name string) string { return filepath.Join(t.mount, path, name) }

// prepare makes a group and hands the controllers down to it and to those that will be below it.
func (t v2) prepare(p string) error {
	if err := os.MkdirAll(t.file(p, ""), 0o755); err != nil {
		return err
	}
	level := "/"
	if err := t.delegate(level, controllers...); err != nil {
		return err
	}
	for part := range strings.SplitSeq(strings.TrimPrefix(p, "/"), "/") {
		level = path.Join(level, part)
		if err := t.delegate(level, controllers...); err != nil {
			return err
		}
	}
	return nil
}

// controllers are those by which pods are limited and measured.
var controllers = []string{"cpu", "cpuset", "io", "memory", "pids"}

// delegate enables controllers that a group has for those below it, one at a time because a write enables all or none.
func (t v2) delegate(p string, wanted ...string) error {
	list := func(name string) ([]string, error) {
		b, err := os.ReadFile(t.file(p, name))
		if err != nil {
			return nil, err
		}
		return strings.Fields(string(b)), nil
	}
	available, err := list("cgroup.controllers")
	if err != nil {
		return err
	}
	enabled, err := list("cgroup.subtree_control")
	if err != nil {
		return err
	}
	for _, c := range wanted {
		if slices.Contains(available, c) && !slices.Contains(enabled, c) {
			if err := writeText(t.file(p, "cgroup.subtree_control"), "+"+c); err != nil {
				return fmt.Errorf("enabling cgroup controller %s below %q: %w", c, p, err)
			}
		}
	}
	return nil
}

func (t v2) exists(p string) bool {
	_, err := os.Stat(t.file(p, ""))
	return err == nil
}

// weight translates v1's relative weight (2 to 262144) to v2's (1 to 10000).
func weight(shares int64) int64 {
	return 1 + (min(max(shares, minShares), maxShares)-minShares)*9999/(maxShares-minShares)
}

func (t v2) apply(p string, r limits) (settled bool, err error) {
	limit := func(n int64) string {
		if n > 0 {
			return fmt.Sprint(n)
		}
		return "max"
	}
	period := r.CPUPeriod
	if period == 0 {
		period = quotaPeriod
	}
	if r.CPUShares > 0 {
		if err := writeText(t.file(p, "cpu.weight"), fmt.Sprint(weight(r.CPUShares))); err != nil {
			return false, err
		}
	}
	for _, f := range []struct{ name, text string }{
		{"cpu.max", limit(r.CPUQuota) + " " + fmt.Sprint(period)},
		{"memory.max", limit(r.MemoryBytes)},
		{"pids.max", limit(r.PidsLimit)},
	} {
		if err := writeText(t.file(p, f.name), f.text); err != nil {
			return false, err
		}
	}
	for name, text := range r.memory.files() {
		if err := settle(t.file(p, name), text); err != nil { // as it is without MemoryQoS, unless there was some before
			return false, err
		}
	}
	return true, nil
}

func (t v2) memoryLimit(p string) (int64, error) {
	b, err := os.ReadFile(t.file(p, "memory.max"))
	if err != nil {
		return 0, err
	}
	text := strings.TrimSpace(string(b))
	if text == "max" {
		return 0, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("parsing %q: %w", t.file(p, "memory.max"), err)
	}
	return n, nil
}

func (t v2) dirs(p string) ([]string, error) { return []string{t.file(p, "")}, nil }

func (t v2) stats(p string) (Stats, error) {
	s := Stats{Time: time.Now()}
	cpu, err := readTable(t.file(p, "cpu.stat"))
	if err != nil {
		return s, err
	}
	s.CPU = time.Duration(cpu["usage_usec"]) * time.Microsecond
	if s.MemoryUsage, err = readNumber(t.file(p, "memory.current")); err != nil {
		return s, err
	}
	memory, err := readTable(t.file(p, "memory.stat"))
	if err != nil {
		return s, err
	}
	s.WorkingSet = workingSet(s.MemoryUsage, memory["inactive_file"])
	s.RSS, s.PageFaults, s.MajorPageFaults = memory["anon"], memory["pgfault"], memory["pgmajfault"]
	if n, err := readNumber(t.file(p, "memory.max")); err == nil { // not of "max"
		s.MemoryLimit = &n
	}
	if n, err := readNumber(t.file(p, "memory.swap.current")); err == nil {
		s.Swap = &n
	}
	if n, err := readNumber(t.file(p, "memory.swap.max")); err == nil { // not of "max"
		s.SwapLimit = &n
	}
	s.CPUPressure, s.MemoryPressure = ReadPressure(t.file(p, "cpu.pressure")), ReadPressure(t.file(p, "memory.pressure"))
	s.IOPressure = ReadPressure(t.file(p, "io.pressure"))
	s.Processes, err = readNumber(t.file(p, "pids.current"))
	return s, err
}
