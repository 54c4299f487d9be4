// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package netdev reads the counters of the network interfaces of a process, as the kernel prints them in /proc/PID/net/dev.
// Touch it when one of them is read wrongly.
package netdev

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Interface is what went through a network interface since it was made.
type Interface struct {
	Name   string
	Rx, Tx Counters
}

// Counters are of one direction.
type Counters struct{ Bytes, Packets, Errors, Dropped uint64 }

// Read reads a file net/dev. The loopback interface is left out.
func Read(file string) ([]Interface, error) {
	data, err := os.ReadFile(filepath.Clean(file))
	if err != nil {
		return nil, fmt.Errorf("reading counters of network interfaces: %w", err)
	}
	return parse(string(data)), nil
}

func parse(text string) []Interface {
	var out []Interface
	for line := range strings.Lines(text) {
		name, rest, ok := strings.Cut(line, ":")
		if name = strings.TrimSpace(name); !ok || name == "lo" {
			continue // also the two lines of the heading
		}
		words := strings.Fields(rest)
		if len(words) < 12 {
			continue
		}
		var v [12]uint64
		var err error
		for i := range v {
			if v[i], err = strconv.ParseUint(words[i], 10, 64); err != nil {
				break
			}
		}
		if err == nil {
			out = append(out, Interface{Name: name, Rx: Counters{v[0], v[1], v[2], v[3]}, Tx: Counters{v[8], v[9], v[10], v[11]}})
		}
	}
	return out
}
