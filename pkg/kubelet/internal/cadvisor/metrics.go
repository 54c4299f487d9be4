// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package cadvisor

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"minik8s.io/minik8s/pkg/kubelet/internal/cgroup"
	"minik8s.io/minik8s/pkg/kubelet/internal/netdev"
)

// value is a number with the values of the labels that a metric has beside the usual ones.
type value struct {
	number float64
	labels []string
}

// metric is one family. values returns none where a group does not tell.
type metric struct {
	desc   *prometheus.Desc
	kind   prometheus.ValueType
	values func(c *Collector, s *subject) []value
	// timeless series bear no time of measurement.
	timeless bool
}

var baseLabels = []string{"container", "id", "image", "name", "namespace", "pod"}

func describe(name, help string, extra ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, append(append([]string{}, baseLabels...), extra...), nil)
}

func gauge(name, help string, get func(*subject) *uint64) metric {
	return metric{desc: describe(name, help), kind: prometheus.GaugeValue, values: single(get, 1)}
}

func counter(name, help string, get func(*subject) *uint64) metric {
	return metric{desc: describe(name, help), kind: prometheus.CounterValue, values: single(get, 1)}
}

// seconds is a counter of nanoseconds.
func seconds(name, help string, get func(*subject) *uint64) metric {
	return metric{desc: describe(name, help), kind: prometheus.CounterValue, values: single(get, float64(time.Second))}
}

// spec is a setting.
func spec(name, help string, get func(*subject) *uint64) metric {
	m := gauge(name, help, get)
	m.timeless = true
	return m
}

func single(get func(*subject) *uint64, unit float64) func(*Collector, *subject) []value {
	return func(_ *Collector, s *subject) []value {
		n := get(s)
		if n == nil {
			return nil
		}
		return []value{{number: float64(*n) / unit}}
	}
}

// throttled is a counter that groups without a quota do not have.
func throttled(m metric) metric {
	inner := m.values
	m.values = func(c *Collector, s *subject) []value {
		if s.QuotaMicros == nil {
			return nil
		}
		return inner(c, s)
	}
	return m
}

func network(name, help string, get func(netdev.Interface) uint64) metric {
	return metric{desc: describe(name, help, "interface"), kind: prometheus.CounterValue, values: func(_ *Collector, s *subject) []value {
		var out []value
		for _, i := range s.interfaces {
			out = append(out, value{float64(get(i)), []string{i.Name}})
		}
		return out
	}}
}

func disk(name, help string, get func(cgroup.Disk) uint64) metric {
	return metric{desc: describe(name, help, "device"), kind: prometheus.CounterValue, values: func(c *Collector, s *subject) []value {
		var out []value
		for _, d := range s.Disks {
			if device := c.deviceName(d); device != "" {
				out = append(out, value{float64(get(d)), []string{device}})
			}
		}
		return out
	}}
}

func fileSystem(name, help string, get func(FileSystem) uint64) metric {
	return metric{desc: describe(name, help, "device"), kind: prometheus.GaugeValue, values: func(_ *Collector, s *subject) []value {
		var out []value
		for device, fs := range s.fileSystems {
			out = append(out, value{float64(get(fs)), []string{device}})
		}
		return out
	}}
}

func pressure(name, help string, of func(*subject) *cgroup.Pressure, get func(*cgroup.Pressure) time.Duration) metric {
	return metric{desc: describe(name, help), kind: prometheus.CounterValue, values: func(_ *Collector, s *subject) []value {
		p := of(s)
		if p == nil {
			return nil
		}
		return []value{{number: get(p).Seconds()}}
	}}
}

// metrics are all families with the usual labels, in the words of cAdvisor.
var metrics = [][]metric{cpuMetrics, memoryMetrics, networkMetrics, diskMetrics, fileSystemMetrics, processMetrics, pressureMetrics, timeMetrics}

var cpuMetrics = []metric{
	seconds("container_cpu_user_seconds_total", "Cumulative user cpu time consumed in seconds.", func(s *subject) *uint64 { return s.CPUUser }),
	seconds("container_cpu_system_seconds_total", "Cumulative system cpu time consumed in seconds.", func(s *subject) *uint64 { return s.CPUSystem }),
	{
		desc: describe("container_cpu_usage_seconds_total", "Cumulative cpu time consumed in seconds.", "cpu"), kind: prometheus.CounterValue,
		values: func(_ *Collector, s *subject) []value {
			if s.CPUTotal == nil || *s.CPUTotal == 0 {
				return nil
			}
			return []value{{float64(*s.CPUTotal) / float64(time.Second), []string{"total"}}}
		},
	},
	throttled(counter("container_cpu_cfs_periods_total", "Number of elapsed enforcement period intervals.", func(s *subject) *uint64 { return s.Periods })),
	throttled(counter("container_cpu_cfs_throttled_periods_total", "Number of throttled period intervals.", func(s *subject) *uint64 { return s.ThrottledPeriods })),
	throttled(seconds("container_cpu_cfs_throttled_seconds_total", "Total time duration the container has been throttled.", func(s *subject) *uint64 { return s.Throttled })),
	throttled(counter("container_cpu_cfs_burst_periods_total", "Number of periods when burst occurs.", func(s *subject) *uint64 { return s.BurstPeriods })),
	throttled(seconds("container_cpu_cfs_burst_seconds_total", "Total time duration the container has been bursted.", func(s *subject) *uint64 { return s.Burst })),
	spec("container_spec_cpu_period", "CPU period of the container.", func(s *subject) *uint64 { return s.PeriodMicros }),
	spec("container_spec_cpu_quota", "CPU quota of the container.", func(s *subject) *uint64 { return s.QuotaMicros }),
	spec("container_spec_cpu_shares", "CPU share of the container.", func(s *subject) *uint64 { return s.Shares }),
}

var memoryMetrics = []metric{
	gauge("container_memory_cache", "Number of bytes of page cache memory.", func(s *subject) *uint64 { return s.Cache }),
	gauge("container_memory_rss", "Size of RSS in bytes.", func(s *subject) *uint64 { return s.RSS }),
	gauge("container_memory_kernel_usage", "Size of kernel memory allocated in bytes.", func(s *subject) *uint64 { return s.KernelMemory }),
	gauge("container_memory_mapped_file", "Size of memory mapped files in bytes.", func(s *subject) *uint64 { return s.MappedFile }),
	gauge("container_memory_swap", "Container swap usage in bytes.", func(s *subject) *uint64 { return s.Swap }),
	counter("container_memory_failcnt", "Number of memory usage hits limits", func(s *subject) *uint64 { return s.MemoryFailures }),
	gauge("container_memory_usage_bytes", "Current memory usage in bytes, including all memory regardless of when it was accessed",
		func(s *subject) *uint64 { return s.MemoryUsage }),
	gauge("container_memory_max_usage_bytes", "Maximum memory usage recorded in bytes", func(s *subject) *uint64 { return s.MemoryMaxUsage }),
	gauge("container_memory_working_set_bytes", "Current working set in bytes.", func(s *subject) *uint64 { return s.WorkingSet }),
	gauge("container_memory_total_active_file_bytes", "Current total active file in bytes.", func(s *subject) *uint64 { return s.ActiveFile }),
	gauge("container_memory_total_inactive_file_bytes", "Current total inactive file in bytes.", func(s *subject) *uint64 { return s.InactiveFile }),
	{
		desc: describe("container_memory_failures_total", "Cumulative count of memory allocation failures.", "failure_type", "scope"),
		kind: prometheus.CounterValue,
		values: func(_ *Collector, s *subject) []value {
			var out []value
			for _, f := range []struct {
				own, tree *uint64
				kind      string
			}{{s.OwnPageFaults, s.PageFaults, "pgfault"}, {s.OwnMajorPageFaults, s.MajorPageFaults, "pgmajfault"}} {
				if f.own == nil {
					f.own = f.tree // v2 does not tell them apart, and neither does upstream then
				}
				if f.tree != nil {
					out = append(out, value{float64(*f.own), []string{f.kind, "container"}}, value{float64(*f.tree), []string{f.kind, "hierarchy"}})
				}
			}
			return out
		},
	},
	counter("container_memory_events_high_total", "Cumulative count of memory.high throttle events for the container", func(s *subject) *uint64 { return s.AboveHigh }),
	counter("container_memory_events_max_total", "Cumulative count of memory.max limit hit events for the container", func(s *subject) *uint64 { return s.AtMax }),
	gauge("container_memory_file_dirty_bytes", "Number of bytes of file cache that has been modified but not yet written back to disk.",
		func(s *subject) *uint64 { return s.FileDirty }),
	gauge("container_memory_file_writeback_bytes", "Number of bytes of file cache that is currently being written back to disk.",
		func(s *subject) *uint64 { return s.FileWriteback }),
	counter("container_memory_pgscan_total", "Cumulative number of pages scanned by the page reclaim algorithm.", func(s *subject) *uint64 { return s.Scanned }),
	counter("container_memory_pgsteal_total", "Cumulative number of pages reclaimed by the page reclaim algorithm.", func(s *subject) *uint64 { return s.Stolen }),
	counter("container_memory_workingset_refault_file_total", "Cumulative number of refaults of previously evicted file pages.",
		func(s *subject) *uint64 { return s.FileRefaults }),
	counter("container_memory_workingset_refault_anon_total", "Cumulative number of refaults of previously evicted anonymous pages.",
		func(s *subject) *uint64 { return s.AnonRefaults }),
	counter("container_oom_events_total", "Count of out of memory events observed for the container", func(s *subject) *uint64 { return s.OOMKills }),
	spec("container_spec_memory_limit_bytes", "Memory limit for the container.", func(s *subject) *uint64 { return s.MemoryLimit }),
	spec("container_spec_memory_swap_limit_bytes", "Memory swap limit for the container.", func(s *subject) *uint64 { return s.SwapLimit }),
	spec("container_spec_memory_reservation_limit_bytes", "Memory reservation limit for the container.", func(s *subject) *uint64 { return s.MemoryReservation }),
}

var networkMetrics = []metric{
	network("container_network_receive_bytes_total", "Cumulative count of bytes received", func(i netdev.Interface) uint64 { return i.Rx.Bytes }),
	network("container_network_receive_packets_total", "Cumulative count of packets received", func(i netdev.Interface) uint64 { return i.Rx.Packets }),
	network("container_network_receive_packets_dropped_total", "Cumulative count of packets dropped while receiving",
		func(i netdev.Interface) uint64 { return i.Rx.Dropped }),
	network("container_network_receive_errors_total", "Cumulative count of errors encountered while receiving",
		func(i netdev.Interface) uint64 { return i.Rx.Errors }),
	network("container_network_transmit_bytes_total", "Cumulative count of bytes transmitted", func(i netdev.Interface) uint64 { return i.Tx.Bytes }),
	network("container_network_transmit_packets_total", "Cumulative count of packets transmitted", func(i netdev.Interface) uint64 { return i.Tx.Packets }),
	network("container_network_transmit_packets_dropped_total", "Cumulative count of packets dropped while transmitting",
		func(i netdev.Interface) uint64 { return i.Tx.Dropped }),
	network("container_network_transmit_errors_total", "Cumulative count of errors encountered while transmitting",
		func(i netdev.Interface) uint64 { return i.Tx.Errors }),
}

var diskMetrics = []metric{
	disk("container_fs_reads_bytes_total", "Cumulative count of bytes read", func(d cgroup.Disk) uint64 { return d.ReadBytes }),
	disk("container_fs_reads_total", "Cumulative count of reads completed", func(d cgroup.Disk) uint64 { return d.Reads }),
	disk("container_fs_writes_bytes_total", "Cumulative count of bytes written", func(d cgroup.Disk) uint64 { return d.WriteBytes }),
	disk("container_fs_writes_total", "Cumulative count of writes completed", func(d cgroup.Disk) uint64 { return d.Writes }),
	{
		desc: describe("container_blkio_device_usage_total", "Blkio Device bytes usage", "device", "major", "minor", "operation"),
		kind: prometheus.CounterValue,
		values: func(c *Collector, s *subject) []value {
			var out []value
			for _, d := range s.Disks {
				id := []string{c.deviceName(d), strconv.FormatUint(uint64(d.Major), 10), strconv.FormatUint(uint64(d.Minor), 10)}
				out = append(out, value{float64(d.ReadBytes), append(append([]string{}, id...), "Read")},
					value{float64(d.WriteBytes), append(append([]string{}, id...), "Write")})
			}
			return out
		},
	},
}

var fileSystemMetrics = []metric{
	fileSystem("container_fs_inodes_free", "Number of available Inodes", func(f FileSystem) uint64 { return f.InodesFree }),
	fileSystem("container_fs_inodes_total", "Number of Inodes", func(f FileSystem) uint64 { return f.Inodes }),
	fileSystem("container_fs_limit_bytes", "Number of bytes that can be consumed by the container on this filesystem.",
		func(f FileSystem) uint64 { return f.Limit }),
	fileSystem("container_fs_usage_bytes", "Number of bytes that are consumed by the container on this filesystem.",
		func(f FileSystem) uint64 { return f.Used }),
}

var processMetrics = []metric{
	gauge("container_processes", "Number of processes running inside the container.", func(s *subject) *uint64 {
		if s.PIDs == nil {
			return nil
		}
		return new(uint64(len(s.PIDs)))
	}),
	gauge("container_file_descriptors", "Number of open file descriptors for the container.", func(s *subject) *uint64 { return s.files }),
	gauge("container_sockets", "Number of open sockets for the container.", func(s *subject) *uint64 { return s.sockets }),
	{
		desc: describe("container_ulimits_soft", "Soft ulimit values for the container root process. Unlimited if -1, except priority and nice", "ulimit"),
		kind: prometheus.GaugeValue,
		values: func(_ *Collector, s *subject) []value {
			if s.maxFiles == nil {
				return nil
			}
			return []value{{float64(*s.maxFiles), []string{"max_open_files"}}}
		},
	},
	gauge("container_threads", "Number of threads running inside the container", func(s *subject) *uint64 { return s.Threads }),
	gauge("container_threads_max", "Maximum number of threads allowed inside the container, infinity if value is zero",
		func(s *subject) *uint64 { return s.MaxThreads }),
}

var pressureMetrics = []metric{
	pressure("container_pressure_cpu_stalled_seconds_total", "Total time duration no tasks in the container could make progress due to CPU congestion.",
		func(s *subject) *cgroup.Pressure { return s.CPUPressure }, full),
	pressure("container_pressure_cpu_waiting_seconds_total", "Total time duration tasks in the container have waited due to CPU congestion.",
		func(s *subject) *cgroup.Pressure { return s.CPUPressure }, some),
	pressure("container_pressure_memory_stalled_seconds_total", "Total time duration no tasks in the container could make progress due to memory congestion.",
		func(s *subject) *cgroup.Pressure { return s.MemoryPressure }, full),
	pressure("container_pressure_memory_waiting_seconds_total", "Total time duration tasks in the container have waited due to memory congestion.",
		func(s *subject) *cgroup.Pressure { return s.MemoryPressure }, some),
	pressure("container_pressure_io_stalled_seconds_total", "Total time duration no tasks in the container could make progress due to IO congestion.",
		func(s *subject) *cgroup.Pressure { return s.IOPressure }, full),
	pressure("container_pressure_io_waiting_seconds_total", "Total time duration tasks in the container have waited due to IO congestion.",
		func(s *subject) *cgroup.Pressure { return s.IOPressure }, some),
}

func some(p *cgroup.Pressure) time.Duration { return p.Some.Total }
func full(p *cgroup.Pressure) time.Duration { return p.Full.Total }

var timeMetrics = []metric{
	{
		desc: describe("container_last_seen", "Last time a container was seen by the exporter"), kind: prometheus.GaugeValue,
		values: func(_ *Collector, s *subject) []value { return []value{{number: float64(s.Time.Unix())}} },
	},
	{
		desc: describe("container_start_time_seconds", "Start time of the container since unix epoch in seconds."), kind: prometheus.GaugeValue, timeless: true,
		values: func(_ *Collector, s *subject) []value { return moment(s.started, s.created, s.Created) },
	},
	{
		desc: describe("container_creation_time_seconds", "Container creation time since unix epoch in seconds."), kind: prometheus.GaugeValue, timeless: true,
		values: func(_ *Collector, s *subject) []value { return moment(s.created, s.Created) },
	},
}

// moment is the first of these times that is known.
func moment(times ...time.Time) []value {
	for _, t := range times {
		if !t.IsZero() {
			return []value{{number: float64(t.Unix())}}
		}
	}
	return nil
}
