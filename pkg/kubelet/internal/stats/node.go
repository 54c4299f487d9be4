// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package stats

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-base/metrics"
	statsv1alpha1 "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"minik8s.io/minik8s/pkg/kubelet/internal/cgroup"
	"minik8s.io/minik8s/pkg/kubelet/internal/meminfo"
	"minik8s.io/minik8s/pkg/kubelet/internal/netdev"
	"minik8s.io/minik8s/pkg/network/namespace"
)

// nodeStats reads the machine's own figures from /proc.
func (s *Collector) nodeStats(now time.Time, onlyCPUAndMemory bool) statsv1alpha1.NodeStats {
	n := statsv1alpha1.NodeStats{NodeName: s.cfg.NodeName, StartTime: metav1.NewTime(BootTime())}
	if busy, ok := cpuBusy(); ok {
		n.CPU = s.cpu("node", cgroup.Stats{CPU: time.Duration(busy), CPUPressure: cgroup.ReadPressure("/proc/pressure/cpu")}, now)
	}
	info, _ := meminfo.Read("/") // without it there is nothing to tell
	if info["MemTotal"] > 0 {
		used, workingSet := usedMemory(info)
		n.Memory = &statsv1alpha1.MemoryStats{Time: metav1.NewTime(now), AvailableBytes: new(info["MemAvailable"]), UsageBytes: &used,
			WorkingSetBytes: &workingSet, RSSBytes: new(info["AnonPages"]), PSI: psi(cgroup.ReadPressure("/proc/pressure/memory"))}
		n.Memory.PageFaults, n.Memory.MajorPageFaults = faults()
	}
	if total, ok := info["SwapTotal"]; ok {
		free := info["SwapFree"]
		n.Swap = &statsv1alpha1.SwapStats{Time: metav1.NewTime(now), SwapAvailableBytes: &free, SwapUsageBytes: new(total - free)}
	}
	if onlyCPUAndMemory {
		return n
	}
	n.IO = input(cgroup.ReadPressure("/proc/pressure/io"), now)
	n.Network = nodeInterfaces(s.cfg.NetNS, now)
	if fs, err := FileSystem(s.cfg.RootDir, now); err == nil {
		n.Fs = &fs
	}
	n.Rlimit = processLimit(now)
	return n
}

// usedMemory is how much memory a machine uses, and how much of that cannot simply be taken back, in bytes. Huge pages that are set aside are
// in neither, whether or not somebody uses them, as in the figures of groups; what is available is without them, too.
func usedMemory(info map[string]uint64) (used, workingSet uint64) {
	but := func(free uint64) uint64 {
		taken := info["MemTotal"] - min(free, info["MemTotal"])
		return taken - min(info["Hugetlb"], taken)
	}
	return but(info["MemFree"]), but(info["MemAvailable"])
}

// process is the system container of the kubelet: of this process, which other components may be in. The group that it is in may be that of
// a user's session, with all that runs there.
func (s *Collector) process(now time.Time) (c statsv1alpha1.ContainerStats, ok bool) {
	var used unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &used); err != nil {
		return c, false
	}
	c.Name = statsv1alpha1.SystemContainerKubelet
	if seconds, err := metrics.GetProcessStart(); err == nil {
		c.StartTime = metav1.NewTime(time.Unix(int64(seconds), 0))
	}
	c.CPU = s.cpu(c.Name, cgroup.Stats{CPU: time.Duration(used.Utime.Nano() + used.Stime.Nano())}, now)
	c.Memory = &statsv1alpha1.MemoryStats{Time: metav1.NewTime(now), PageFaults: new(uint64(used.Minflt + used.Majflt)), MajorPageFaults: new(uint64(used.Majflt))}
	if resident, shared, err := residence("/proc/self/statm"); err == nil {
		c.Memory.UsageBytes, c.Memory.WorkingSetBytes, c.Memory.RSSBytes = &resident, &resident, new(resident-min(shared, resident))
	}
	return c, true
}

// residence reads how much memory a process has, and how much of that are files, in bytes.
func residence(file string) (resident, shared uint64, err error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return 0, 0, err
	}
	var size uint64
	if _, err := fmt.Sscan(string(data), &size, &resident, &shared); err != nil {
		return 0, 0, fmt.Errorf("reading %s: %w", file, err)
	}
	page := uint64(os.Getpagesize())
	return resident * page, shared * page, nil
}

// faults are the page faults of the machine since it started, nil if the kernel does not tell.
func faults() (all, major *uint64) {
	data, err := os.ReadFile("/proc/vmstat")
	if err != nil {
		return nil, nil
	}
	for line := range strings.Lines(string(data)) {
		name, text, _ := strings.Cut(strings.TrimSpace(line), " ")
		n, err := strconv.ParseUint(text, 10, 64)
		switch {
		case err != nil:
		case name == "pgfault":
			all = &n
		case name == "pgmajfault":
			major = &n
		}
	}
	return all, major
}

// nodeInterfaces are the counters of the node, nil if they cannot be read.
func nodeInterfaces(netNS string, now time.Time) (found *statsv1alpha1.NetworkStats) {
	_ = namespace.Do(netNS, func() error {
		found = interfaces("/proc/thread-self/net/dev", now)
		return nil
	})
	return found
}

// processLimit tells how many processes and threads there are, and may be.
func processLimit(now time.Time) *statsv1alpha1.RlimitStats {
	r := &statsv1alpha1.RlimitStats{Time: metav1.NewTime(now)}
	for _, file := range []string{"/proc/sys/kernel/pid_max", "/proc/sys/kernel/threads-max"} {
		data, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		n, err := strconv.ParseInt(strings.TrimSpace(string(data)), 10, 64)
		if err == nil && (r.MaxPID == nil || n < *r.MaxPID) {
			r.MaxPID = &n
		}
	}
	if data, err := os.ReadFile("/proc/loadavg"); err == nil {
		if f := strings.Fields(string(data)); len(f) >= 4 {
			_, all, _ := strings.Cut(f[3], "/")
			if n, err := strconv.ParseInt(all, 10, 64); err == nil {
				r.NumOfRunningProcesses = &n
			}
		}
	}
	return r
}

// cpuBusy is the time that all CPUs together were not idle, in nanoseconds; ticks are hundredths of a second.
func cpuBusy() (uint64, bool) {
	data, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, false
	}
	line, _, _ := strings.Cut(string(data), "\n")
	var sum uint64
	for i, f := range strings.Fields(line) {
		if i == 0 || i == 4 || i == 5 || i > 8 { // the name, idle, iowait; guest time is in user time
			continue
		}
		v, err := strconv.ParseUint(f, 10, 64)
		if err != nil {
			return 0, false
		}
		sum += v
	}
	return sum * uint64(time.Second/100), true
}

// BootTime is when the machine was started, zero if it does not say.
func BootTime() time.Time {
	data, err := os.ReadFile("/proc/stat")
	if err != nil {
		return time.Time{}
	}
	for line := range strings.SplitSeq(string(data), "\n") {
		if v, ok := strings.CutPrefix(line, "btime "); ok {
			s, err := strconv.ParseInt(strings.TrimSpace(v), 10, 64)
			if err == nil {
				return time.Unix(s, 0)
			}
		}
	}
	return time.Time{}
}

// interfaces are the counters in a file net/dev, nil if it cannot be read.
func interfaces(file string, now time.Time) *statsv1alpha1.NetworkStats {
	found, err := netdev.Read(file)
	if err != nil {
		return nil
	}
	st := &statsv1alpha1.NetworkStats{Time: metav1.NewTime(now)}
	for _, f := range found {
		i := statsv1alpha1.InterfaceStats{Name: f.Name, RxBytes: &f.Rx.Bytes, RxErrors: &f.Rx.Errors, TxBytes: &f.Tx.Bytes, TxErrors: &f.Tx.Errors}
		if f.Name == "eth0" {
			st.InterfaceStats = i
		}
		st.Interfaces = append(st.Interfaces, i)
	}
	return st
}
