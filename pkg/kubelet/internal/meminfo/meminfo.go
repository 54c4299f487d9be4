// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package meminfo reads what the kernel tells of the machine's memory in /proc/meminfo. Touch it when that has another form.
package meminfo

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Read returns the figures of the machine whose proc is below root ("/" in production) by their names: sizes in bytes, the rest as
// it is.
func Read(root string) (map[string]uint64, error) {
	data, err := os.ReadFile(filepath.Join(root, "proc/meminfo"))
	if err != nil {
		return nil, fmt.Errorf("reading memory size: %w", err)
	}
	return Parse(string(data)), nil
}

// Parse is Read of the content of the file. Lines that it does not understand are left out.
func Parse(text string) map[string]uint64 {
	info := map[string]uint64{}
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) < 2 {
			continue
		}
		n, err := strconv.ParseUint(f[1], 10, 64)
		if err != nil {
			continue
		}
		if len(f) > 2 && f[2] == "kB" {
			n <<= 10
		}
		info[strings.TrimSuffix(f[0], ":")] = n
	}
	return info
}
