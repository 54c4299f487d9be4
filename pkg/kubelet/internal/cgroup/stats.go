// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package cgroup

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// Stats is the usage of a group and those below it.
type Stats struct {
	// Time is when it was read.
	Time time.Time
	// CPU is the time used since the group was made.
	CPU time.Duration
	// MemoryUsage includes caches; WorkingSet is without inactive file pages and RSS without any; all in bytes.
	MemoryUsage, WorkingSet, RSS uint64
	// MemoryLimit is in bytes, nil if there is none.
	MemoryLimit *uint64
	// Swap is in bytes, nil where the kernel does not count it.
	Swap *uint64
	// SwapLimit is in bytes, nil if there is none or the kernel does not tell, as on v1.
	SwapLimit *uint64
	// PageFaults and MajorPageFaults count since the group was made.
	PageFaults, MajorPageFaults uint64
	// Processes counts threads too.
	Processes uint64
	// CPUPressure, MemoryPressure and IOPressure are nil where the kernel does not tell, as on v1.
	CPUPressure, MemoryPressure, IOPressure *Pressure
}

// workingSet is what cannot easily be taken from a group.
func workingSet(usage, inactiveFile uint64) uint64 {
	if inactiveFile > usage {
		return 0
	}
	return usage - inactiveFile
}

// readNumber reads a file that holds one number.
func readNumber(file string) (uint64, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return 0, fmt.Errorf("reading cgroup usage: %w", err)
	}
	n, err := strconv.ParseUint(string(bytes.TrimSpace(b)), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("parsing %q: %w", file, err)
	}
	return n, nil
}

// readTable reads a file of lines "key number".
func readTable(file string) (map[string]uint64, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("reading cgroup usage: %w", err)
	}
	table := map[string]uint64{}
	for line := range strings.Lines(string(b)) {
		key, value, ok := strings.Cut(strings.TrimSpace(line), " ")
		if !ok {
			continue
		}
		n, err := strconv.ParseUint(value, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("parsing %q of %q: %w", key, file, err)
		}
		table[key] = n
	}
	return table, nil
}
