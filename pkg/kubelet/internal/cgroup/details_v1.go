// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package cgroup

import (
	"strconv"
	"strings"
	"time"
)

// tick is the unit of cpuacct.stat.
const tick = uint64(time.Second / 100)

func (t v1) details(path string) (Details, error) {
	d := Details{Time: time.Now()}
	var candidates []string
	for _, controller := range own {
		candidates = append(candidates, t.file(controller, path, ""), t.file(controller, path, "cgroup.clone_children"))
	}
	d.Created = created(candidates...)
	f := &files{}
	t.cpuDetails(f, path, &d)
	t.memoryDetails(f, path, &d)
	d.PIDs = f.pids(t.file("cpu", path, "cgroup.procs"))
	d.Threads = f.number(t.file("pids", path, "pids.current"))
	d.MaxThreads = f.number(t.file("pids", path, "pids.max"))
	d.Disks = t.disks(f, path)
	return d, f.err
}

func (t v1) cpuDetails(f *files, path string, d *Details) {
	d.CPUTotal = f.number(t.file("cpuacct", path, "cpuacct.usage"))
	used := f.table(t.file("cpuacct", path, "cpuacct.stat"))
	d.CPUUser, d.CPUSystem = used.get("user", tick), used.get("system", tick)
	stat := f.table(t.file("cpu", path, "cpu.stat"))
	d.Periods, d.ThrottledPeriods, d.Throttled = stat.get("nr_periods", 1), stat.get("nr_throttled", 1), stat.get("throttled_time", 1)
	d.BurstPeriods, d.Burst = stat.get("nr_bursts", 1), stat.get("burst_time", 1)
	d.Shares = f.number(t.file("cpu", path, "cpu.shares"))
	d.PeriodMicros = f.number(t.file("cpu", path, "cpu.cfs_period_us"))
	quota := t.file("cpu", path, "cpu.cfs_quota_us")
	if text, ok := f.text(quota); ok && text != "-1" {
		d.QuotaMicros = f.parse(quota, text)
	}
}

func (t v1) memoryDetails(f *files, path string, d *Details) {
	number := func(name string) *uint64 { return f.number(t.file("memory", path, name)) }
	d.MemoryUsage, d.MemoryMaxUsage = number("memory.usage_in_bytes"), number("memory.max_usage_in_bytes")
	d.MemoryFailures, d.KernelMemory = number("memory.failcnt"), number("memory.kmem.usage_in_bytes")
	d.MemoryLimit, d.SwapLimit = limit(number("memory.limit_in_bytes")), limit(number("memory.memsw.limit_in_bytes"))
	d.MemoryReservation = limit(number("memory.soft_limit_in_bytes"))
	stat := f.table(t.file("memory", path, "memory.stat"))
	total := func(key string) *uint64 { return stat.get("total_"+key, 1) }
	d.Cache, d.RSS, d.Swap, d.MappedFile = total("cache"), total("rss"), total("swap"), total("mapped_file")
	d.ActiveFile, d.InactiveFile = total("active_file"), total("inactive_file")
	d.PageFaults, d.MajorPageFaults = total("pgfault"), total("pgmajfault")
	d.OwnPageFaults, d.OwnMajorPageFaults = stat.get("pgfault", 1), stat.get("pgmajfault", 1)
	d.FileDirty, d.FileWriteback = total("dirty"), total("writeback")
	d.FileRefaults, d.AnonRefaults = total("workingset_refault_file"), total("workingset_refault_anon")
	if d.MemoryUsage != nil && d.InactiveFile != nil {
		d.WorkingSet = new(workingSet(*d.MemoryUsage, *d.InactiveFile))
	}
	d.OOMKills = f.table(t.file("memory", path, "memory.oom_control")).get("oom_kill", 1)
}

// disks reads lines "major:minor operation number".
func (t v1) disks(f *files, path string) []Disk {
	var disks []Disk
	for _, of := range []struct {
		file        string
		read, write func(*Disk) *uint64
	}{
		{"blkio.throttle.io_service_bytes_recursive", func(d *Disk) *uint64 { return &d.ReadBytes }, func(d *Disk) *uint64 { return &d.WriteBytes }},
		{"blkio.throttle.io_serviced_recursive", func(d *Disk) *uint64 { return &d.Reads }, func(d *Disk) *uint64 { return &d.Writes }},
	} {
		text, ok := f.text(t.file("blkio", path, of.file))
		if !ok {
			continue
		}
		for line := range strings.Lines(text) {
			w := strings.Fields(line)
			if len(w) != 3 {
				continue // the sum of all
			}
			major, minor, ok := device(w[0])
			n, err := strconv.ParseUint(w[2], 10, 64)
			if !ok || err != nil {
				continue
			}
			disks = addDisk(disks, major, minor, func(d *Disk) {
				switch w[1] {
				case "Read":
					*of.read(d) = n
				case "Write":
					*of.write(d) = n
				}
			})
		}
	}
	return disks
}
