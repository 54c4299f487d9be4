// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package program

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// Usage is what a process has taken.
type Usage struct {
	// Resident memory in bytes, and Anonymous, that part of it which is no file, as the program is one.
	Resident, Anonymous int64
	Processor           time.Duration
}

// Usage tells what the program has taken so far.
func (p *Program) Usage() (Usage, error) { return usageOf(p.cmd.Process.Pid) }

func usageOf(pid int) (Usage, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return Usage{}, err
	}
	statm, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return Usage{}, err
	}
	return parse(string(stat), string(statm))
}

// parse reads two files of a process (proc(5)). The 14th and 15th field of stat are the processor's time for the program and
// for the kernel on its behalf, in hundredths of a second. The second field of statm is resident memory and the third that
// of files, in pages.
func parse(stat, statm string) (Usage, error) {
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:]) // begins with the third: a name may have spaces
	if len(fields) < 13 {
		return Usage{}, fmt.Errorf("reading stat %q: too short", stat)
	}
	var ticks int64
	for _, field := range fields[14-3 : 16-3] {
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return Usage{}, fmt.Errorf("reading stat: %w", err)
		}
		ticks += n
	}
	var size, resident, files int64
	if _, err := fmt.Sscan(statm, &size, &resident, &files); err != nil {
		return Usage{}, fmt.Errorf("reading statm: %w", err)
	}
	page := int64(os.Getpagesize())
	return Usage{Resident: resident * page, Anonymous: (resident - files) * page, Processor: time.Duration(ticks) * 10 * time.Millisecond}, nil
}
