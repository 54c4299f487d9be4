// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package program

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// Usage is what a process has taken.
type Usage struct {
	Memory
	// Peak is the most resident memory that it had at a time since its start.
	Peak      int64
	Processor time.Duration
}

// Memory of a process in bytes.
type Memory struct {
	// Resident memory, and Anonymous, that part of it which is no file, as the program is one.
	Resident, Anonymous int64
}

// Plus is what two programs have together.
func (m Memory) Plus(o Memory) Memory {
	return Memory{Resident: m.Resident + o.Resident, Anonymous: m.Anonymous + o.Anonymous}
}

// Usage tells what the program has taken so far.
func (p *Program) Usage() (Usage, error) { return UsageOf(p.cmd.Process.Pid) }

// UsageOf tells what a process has taken so far.
func UsageOf(pid int) (Usage, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return Usage{}, err
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return Usage{}, err
	}
	return parse(string(stat), string(status))
}

// parse reads two files of a process (proc(5)). The 14th and 15th field of stat are the processor's time for the program and
// for the kernel on its behalf, in hundredths of a second. The lines of status about memory are in KiB.
func parse(stat, status string) (Usage, error) {
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
	u := Usage{Processor: time.Duration(ticks) * 10 * time.Millisecond}
	wanted := map[string]*int64{"VmHWM": &u.Peak, "VmRSS": &u.Resident, "RssAnon": &u.Anonymous}
	for line := range strings.Lines(status) {
		name, value, _ := strings.Cut(line, ":")
		to, ok := wanted[name]
		if !ok {
			continue
		}
		if _, err := fmt.Sscanf(value, "%d kB", to); err != nil {
			return Usage{}, fmt.Errorf("reading status %q: %w", line, err)
		}
		*to <<= 10
		delete(wanted, name)
	}
	if len(wanted) > 0 {
		return Usage{}, fmt.Errorf("reading status: %d lines about memory are missing", len(wanted))
	}
	return u, nil
}

// Sample looks at the program's anonymous memory every so often, because the kernel does not keep its peak as it does that of
// all resident memory. The function that it returns ends that, and returns the most that was seen.
func (p *Program) Sample(every time.Duration) func() int64 {
	ctx, cancel := context.WithCancel(context.Background())
	var most atomic.Int64
	done := make(chan struct{})
	go func() {
		defer close(done)
		wait.UntilWithContext(ctx, func(context.Context) {
			if u, err := p.Usage(); err == nil { // it may have ended
				most.Store(max(most.Load(), u.Anonymous))
			}
		}, every)
	}()
	return func() int64 {
		cancel()
		<-done
		return most.Load()
	}
}
