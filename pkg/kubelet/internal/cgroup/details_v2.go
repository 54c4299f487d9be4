// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package cgroup

import (
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"minik8s.io/minik8s/pkg/kubelet/internal/meminfo"
)

func (t v2) details(p string) (Details, error) {
	d := Details{Time: time.Now(), Created: created(t.file(p, ""), t.file(p, "cgroup.events"), t.file(p, "cgroup.procs"))}
	f := &files{}
	t.cpuDetails(f, p, &d)
	t.memoryDetails(f, p, &d)
	if p == "/" {
		t.rootMemory(f, &d)
	}
	d.PIDs = f.pids(t.file(p, "cgroup.procs"))
	d.Threads, d.MaxThreads = f.number(t.file(p, "pids.current")), f.number(t.file(p, "pids.max"))
	d.Disks = t.disks(f, p)
	d.CPUPressure, d.MemoryPressure = f.pressure(t.file(p, "cpu.pressure")), f.pressure(t.file(p, "memory.pressure"))
	d.IOPressure = f.pressure(t.file(p, "io.pressure"))
	return d, f.err
}

func (t v2) cpuDetails(f *files, p string, d *Details) {
	const micros = uint64(time.Microsecond)
	stat := f.table(t.file(p, "cpu.stat"))
	d.CPUTotal, d.CPUUser, d.CPUSystem = stat.get("usage_usec", micros), stat.get("user_usec", micros), stat.get("system_usec", micros)
	d.Periods, d.ThrottledPeriods, d.Throttled = stat.get("nr_periods", 1), stat.get("nr_throttled", 1), stat.get("throttled_usec", micros)
	d.BurstPeriods, d.Burst = stat.get("nr_bursts", 1), stat.get("burst_usec", micros)
	if w := f.number(t.file(p, "cpu.weight")); w != nil && *w > 0 {
		d.Shares = new(sharesOf(*w))
	}
	file := t.file(p, "cpu.max")
	if text, ok := f.text(file); ok {
		quota, period, _ := strings.Cut(text, " ")
		d.PeriodMicros = f.parse(file, period)
		if quota != "max" {
			d.QuotaMicros = f.parse(file, quota)
		}
	}
}

// sharesOf is the inverse of weight.
func sharesOf(weight uint64) uint64 { return minShares + (weight-1)*(maxShares-minShares)/9999 }

func (t v2) memoryDetails(f *files, p string, d *Details) {
	number := func(name string) *uint64 { return f.number(t.file(p, name)) }
	d.MemoryUsage, d.MemoryMaxUsage, d.Swap = number("memory.current"), number("memory.peak"), number("memory.swap.current")
	d.MemoryLimit, d.SwapLimit, d.MemoryReservation = number("memory.max"), number("memory.swap.max"), number("memory.min")
	stat := f.table(t.file(p, "memory.stat"))
	d.Cache, d.RSS, d.MappedFile, d.KernelMemory = stat.get("file", 1), stat.get("anon", 1), stat.get("file_mapped", 1), stat.get("kernel", 1)
	d.ActiveFile, d.InactiveFile = stat.get("active_file", 1), stat.get("inactive_file", 1)
	d.PageFaults, d.MajorPageFaults = stat.get("pgfault", 1), stat.get("pgmajfault", 1)
	d.FileDirty, d.FileWriteback, d.Scanned, d.Stolen = stat.get("file_dirty", 1), stat.get("file_writeback", 1), stat.get("pgscan", 1), stat.get("pgsteal", 1)
	d.FileRefaults, d.AnonRefaults = stat.get("workingset_refault_file", 1), stat.get("workingset_refault_anon", 1)
	if d.MemoryUsage != nil && d.InactiveFile != nil {
		d.WorkingSet = new(workingSet(*d.MemoryUsage, *d.InactiveFile))
	}
	events := f.table(t.file(p, "memory.events"))
	d.MemoryFailures, d.OOMKills = events.get("max", 1), events.get("oom_kill", 1)
	d.AboveHigh, d.AtMax = events.get("high", 1), events.get("max", 1)
}

// rootMemory reads what the root of v2 has no files for.
func (t v2) rootMemory(f *files, d *Details) {
	text, ok := f.text(filepath.Join(t.proc, "meminfo"))
	if !ok || d.MemoryUsage != nil {
		return
	}
	info := meminfo.Parse(text)
	if info["MemTotal"] == 0 {
		return
	}
	d.MemoryUsage, d.Swap = new(info["MemTotal"]-info["MemFree"]), new(info["SwapTotal"]-info["SwapFree"])
	inactive := info["Inactive(file)"]
	if d.InactiveFile != nil {
		inactive = *d.InactiveFile
	}
	d.WorkingSet = new(workingSet(*d.MemoryUsage, inactive))
}

// disks reads lines "major:minor rbytes=1 wbytes=2 rios=3 wios=4 …".
func (t v2) disks(f *files, p string) []Disk {
	text, ok := f.text(t.file(p, "io.stat"))
	if !ok {
		return nil
	}
	var disks []Disk
	for line := range strings.Lines(text) {
		w := strings.Fields(line)
		if len(w) < 2 {
			continue
		}
		major, minor, ok := device(w[0])
		if !ok {
			continue
		}
		disks = addDisk(disks, major, minor, func(d *Disk) {
			for _, pair := range w[1:] {
				key, value, _ := strings.Cut(pair, "=")
				n, err := strconv.ParseUint(value, 10, 64)
				if err != nil {
					continue
				}
				switch key {
				case "rbytes":
					d.ReadBytes = n
				case "wbytes":
					d.WriteBytes = n
				case "rios":
					d.Reads = n
				case "wios":
					d.Writes = n
				}
			}
		})
	}
	return disks
}
