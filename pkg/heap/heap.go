// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package heap is about what a start takes and a running server does not need. Touch it when a loaded server collects its
// heap all the time, or one that rests holds too much memory.
package heap

import (
	"context"
	"fmt"
	"os"
	"runtime/debug"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
	"k8s.io/klog/v2"
)

// Manage takes care of the memory of a process that has started, until ctx ends: what the start has left and what bursts of work
// leave is given back to the system, and the heap has so many bytes of room to grow in. Do not call it before: what a start
// makes lives long, and lies the closer together the more often the heap is collected meanwhile.
func Manage(ctx context.Context, room uint64) {
	giveBack()
	giveRoom(room)
	rest(ctx)
}

func giveBack() {
	debug.FreeOSMemory()
	if err := forgetProgram(); err != nil {
		klog.ErrorS(err, "Giving back the pages of the program")
	}
}

// forgetProgram drops the pages of the program from the process. A start touches most of it and a running server little.
// What is needed comes back from the page cache, or from the file.
func forgetProgram() error {
	program, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return err
	}
	maps, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		return err
	}
	parts, err := unchanged(string(maps), program)
	if err != nil {
		return err
	}
	for _, p := range parts {
		if _, _, errno := unix.Syscall(unix.SYS_MADVISE, p.begin, p.end-p.begin, unix.MADV_DONTNEED); errno != 0 {
			return fmt.Errorf("madvise: %w", errno)
		}
	}
	return nil
}

// mapping is a range of addresses.
type mapping struct{ begin, end uintptr }

// unchanged returns where a file is mapped as it is on the disk, from /proc/PID/smaps (proc(5)). What may be written or has
// anonymous pages differs from the file and would be lost: relocations of a dynamically linked program, as cgo makes one, are
// read-only after they were made.
func unchanged(smaps, file string) ([]mapping, error) {
	var all []mapping
	mine := false
	for line := range strings.Lines(smaps) {
		fields := strings.Fields(line)
		if len(fields) < 2 {
			continue
		}
		from, to, ok := strings.Cut(fields[0], "-")
		switch {
		case fields[0] == "Anonymous:" && mine && fields[1] != "0":
			all, mine = all[:len(all)-1], false
		case ok && !strings.HasSuffix(fields[0], ":"):
			if mine = len(fields) == 6 && fields[5] == file && !strings.Contains(fields[1], "w"); !mine {
				continue
			}
			begin, err := strconv.ParseUint(from, 16, 64)
			if err != nil {
				return nil, fmt.Errorf("reading memory map: %w", err)
			}
			end, err := strconv.ParseUint(to, 16, 64)
			if err != nil {
				return nil, fmt.Errorf("reading memory map: %w", err)
			}
			all = append(all, mapping{begin: uintptr(begin), end: uintptr(end)})
		}
	}
	return all, nil
}
