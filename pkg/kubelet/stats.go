// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package kubelet

import (
	"bufio"
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	statsv1alpha1 "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"minik8s.io/minik8s/pkg/kubelet/container"
	"minik8s.io/minik8s/pkg/kubelet/internal/podspec"
)

// rates turns CPU counters into CPU in use, from one reading to the next.
type rates struct {
	mu   sync.Mutex // guards last
	last map[string]reading
}

type reading struct {
	at   time.Time
	cpu  uint64
	rate *uint64
}

// minInterval is the least time over which a rate is computed; sooner the last one is repeated.
const minInterval = 5 * time.Second

func (r *rates) nanoCores(key string, cpu uint64, now time.Time) *uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.last == nil {
		r.last = map[string]reading{}
	}
	old, ok := r.last[key]
	if ok && now.Sub(old.at) < minInterval {
		return old.rate
	}
	n := reading{at: now, cpu: cpu}
	if ok && cpu >= old.cpu {
		n.rate = new(uint64(float64(cpu-old.cpu) / now.Sub(old.at).Seconds()))
	}
	r.last[key] = n
	return n.rate
}

// retain drops the counters of what is gone.
func (r *rates) retain(keep map[string]bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for k := range r.last {
		if !keep[k] {
			delete(r.last, k)
		}
	}
}

func (h *host) Stats(_ context.Context, onlyCPUAndMemory bool) (*statsv1alpha1.Summary, error) {
	engine := h.pleg.Pods()
	now := h.cfg.Clock.Now()
	sum := &statsv1alpha1.Summary{Node: h.nodeStats(now, onlyCPUAndMemory)}
	h.mu.Lock()
	p := h.parts
	h.mu.Unlock()
	if p == nil || p.usage == nil {
		return sum, nil
	}
	keep := map[string]bool{"node": true}
	for _, pod := range h.Pods() {
		obs := engine[pod.UID]
		if obs.Sandbox() == nil && len(obs.Alive()) == 0 {
			continue
		}
		ps := statsv1alpha1.PodStats{PodRef: statsv1alpha1.PodReference{Name: pod.Name, Namespace: pod.Namespace, UID: string(pod.UID)}}
		if pod.Status.StartTime != nil {
			ps.StartTime = *pod.Status.StartTime
		}
		// Without a group of the pod there is none of a container, and asking must not make one.
		u, gerr := p.usage.Pod(pod.UID)
		if gerr == nil {
			key := string(pod.UID)
			keep[key] = true
			ps.CPU, ps.Memory = h.cpu(key, u, now), memory(u, now)
			if !onlyCPUAndMemory {
				ps.ProcessStats = &statsv1alpha1.ProcessStats{ProcessCount: new(u.Processes)}
			}
		}
		for _, c := range obs.Alive() {
			if spec, _ := podspec.Find(pod, c.Name); spec == nil || c.State != container.StateRunning {
				continue
			}
			cs := statsv1alpha1.ContainerStats{Name: c.Name, StartTime: metav1.NewTime(c.StartedAt)}
			if gerr != nil {
				ps.Containers = append(ps.Containers, cs)
				continue
			}
			if u, err := p.usage.Container(pod, c.ID); err == nil {
				keep[c.ID] = true
				cs.CPU, cs.Memory = h.cpu(c.ID, u, now), memory(u, now)
			}
			ps.Containers = append(ps.Containers, cs)
		}
		if sb := obs.Sandbox(); sb != nil && !onlyCPUAndMemory && sb.Network != container.NamespaceNode {
			ps.Network = interfaces("/proc/"+strconv.Itoa(sb.Pid)+"/net/dev", now)
		}
		sum.Pods = append(sum.Pods, ps)
	}
	(*Kubelet)(h).rates.retain(keep)
	return sum, nil
}

func (h *host) cpu(key string, u sample, now time.Time) *statsv1alpha1.CPUStats {
	return &statsv1alpha1.CPUStats{Time: metav1.NewTime(now), UsageCoreNanoSeconds: new(u.CPU),
		UsageNanoCores: (*Kubelet)(h).rates.nanoCores(key, u.CPU, now)}
}

func memory(u sample, now time.Time) *statsv1alpha1.MemoryStats {
	return &statsv1alpha1.MemoryStats{Time: metav1.NewTime(now), UsageBytes: new(u.MemoryUsage), WorkingSetBytes: new(u.WorkingSet),
		RSSBytes: new(u.RSS), PageFaults: new(u.PageFaults), MajorPageFaults: new(u.MajorPageFaults)}
}

// nodeStats reads the machine's own figures from /proc.
func (h *host) nodeStats(now time.Time, onlyCPUAndMemory bool) statsv1alpha1.NodeStats {
	n := statsv1alpha1.NodeStats{NodeName: h.cfg.NodeName, StartTime: metav1.NewTime(bootTime())}
	if busy, ok := cpuBusy(); ok {
		n.CPU = h.cpu("node", sample{CPU: busy}, now)
	}
	info := meminfo()
	if total := info["MemTotal"]; total > 0 {
		available := info["MemAvailable"]
		used := total - info["MemFree"]
		n.Memory = &statsv1alpha1.MemoryStats{Time: metav1.NewTime(now), AvailableBytes: &available, UsageBytes: &used,
			WorkingSetBytes: new(total - available), RSSBytes: new(info["AnonPages"])}
	}
	if onlyCPUAndMemory {
		return n
	}
	n.Network = interfaces("/proc/net/dev", now)
	var fs unix.Statfs_t
	if err := unix.Statfs(h.cfg.RootDir, &fs); err == nil {
		size := uint64(fs.Bsize)
		n.Fs = &statsv1alpha1.FsStats{Time: metav1.NewTime(now), CapacityBytes: new(fs.Blocks * size), AvailableBytes: new(fs.Bavail * size),
			UsedBytes: new((fs.Blocks - fs.Bfree) * size), Inodes: new(fs.Files), InodesFree: new(fs.Ffree), InodesUsed: new(fs.Files - fs.Ffree)}
	}
	return n
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

func bootTime() time.Time {
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

func meminfo() map[string]uint64 {
	out := map[string]uint64{}
	data, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return out
	}
	for line := range strings.SplitSeq(string(data), "\n") {
		if f := strings.Fields(line); len(f) >= 2 {
			if v, err := strconv.ParseUint(f[1], 10, 64); err == nil {
				out[strings.TrimSuffix(f[0], ":")] = v << 10
			}
		}
	}
	return out
}

// interfaces reads counters as the kernel prints them in net/dev of a network namespace.
func interfaces(path string, now time.Time) *statsv1alpha1.NetworkStats {
	f, err := os.Open(filepath.Clean(path))
	if err != nil {
		return nil
	}
	defer f.Close()
	st := &statsv1alpha1.NetworkStats{Time: metav1.NewTime(now)}
	for s := bufio.NewScanner(f); s.Scan(); {
		name, rest, ok := strings.Cut(s.Text(), ":")
		v := strings.Fields(rest)
		if name = strings.TrimSpace(name); !ok || len(v) < 11 || name == "lo" {
			continue
		}
		n := func(i int) *uint64 {
			u, err := strconv.ParseUint(v[i], 10, 64)
			if err != nil {
				return nil
			}
			return &u
		}
		i := statsv1alpha1.InterfaceStats{Name: name, RxBytes: n(0), RxErrors: n(2), TxBytes: n(8), TxErrors: n(10)}
		if name == "eth0" {
			st.InterfaceStats = i
		}
		st.Interfaces = append(st.Interfaces, i)
	}
	return st
}
