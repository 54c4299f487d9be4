// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package cadvisor

import (
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/klog/v2"
)

var machineLabels = []string{"machine_id", "system_uuid", "boot_id"}

var (
	machineCores  = prometheus.NewDesc("machine_cpu_cores", "Number of logical CPU cores.", machineLabels, nil)
	machineMemory = prometheus.NewDesc("machine_memory_bytes", "Amount of memory installed on the machine.", machineLabels, nil)
	machineSwap   = prometheus.NewDesc("machine_swap_bytes", "Amount of swap memory available on the machine.", machineLabels, nil)
	machineErrors = prometheus.NewDesc("machine_scrape_error", "1 if there was an error while getting machine metrics, 0 otherwise.", nil, nil)
	versionInfo   = prometheus.NewDesc("cadvisor_version_info",
		"A metric with a constant '1' value labeled by kernel version, OS version, docker version, cadvisor version & cadvisor revision.",
		[]string{"kernelVersion", "osVersion", "dockerVersion", "cadvisorVersion", "cadvisorRevision"}, nil)
	containerErrors = prometheus.NewDesc("container_scrape_error", "1 if there was an error while getting container metrics, 0 otherwise", nil, nil)
)

// Collector implements prometheus.Collector. Each Collect reads everything anew. It is safe for concurrent use.
type Collector struct{ cfg Config }

var _ prometheus.Collector = (*Collector)(nil)

// New returns a Collector.
func New(cfg Config) *Collector {
	if cfg.Proc == "" {
		cfg.Proc = "/proc"
	}
	if cfg.Sys == "" {
		cfg.Sys = "/sys"
	}
	return &Collector{cfg: cfg}
}

// Describe implements prometheus.Collector.
func (c *Collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{machineCores, machineMemory, machineSwap, machineErrors, versionInfo, containerErrors} {
		ch <- d
	}
	for _, list := range metrics {
		for _, m := range list {
			ch <- m.desc
		}
	}
}

// Collect implements prometheus.Collector.
func (c *Collector) Collect(ch chan<- prometheus.Metric) {
	c.collectMachine(ch)
	subjects, err := c.subjects()
	failed := 0.0
	if err != nil {
		failed = 1
		klog.Background().Error(err, "Some cgroups are left out of the metrics")
	}
	ch <- prometheus.MustNewConstMetric(containerErrors, prometheus.GaugeValue, failed)
	for i := range subjects {
		s := &subjects[i]
		base := []string{s.container, s.id, s.image, s.name, s.namespace, s.pod}
		for _, list := range metrics {
			for _, m := range list {
				for _, v := range m.values(c, s) {
					out := prometheus.MustNewConstMetric(m.desc, m.kind, v.number, append(append([]string{}, base...), v.labels...)...)
					if !m.timeless {
						out = prometheus.NewMetricWithTimestamp(s.Time, out)
					}
					ch <- out
				}
			}
		}
	}
}

func (c *Collector) collectMachine(ch chan<- prometheus.Metric) {
	m, err := c.cfg.Machine()
	failed := 0.0
	if err != nil {
		failed = 1
		klog.Background().Error(err, "The machine is left out of the metrics")
	}
	ch <- prometheus.MustNewConstMetric(machineErrors, prometheus.GaugeValue, failed)
	if err != nil {
		return
	}
	ids := []string{m.MachineID, m.SystemUUID, m.BootID}
	ch <- prometheus.MustNewConstMetric(machineCores, prometheus.GaugeValue, float64(m.Cores), ids...)
	ch <- prometheus.MustNewConstMetric(machineMemory, prometheus.GaugeValue, float64(m.Memory), ids...)
	ch <- prometheus.MustNewConstMetric(machineSwap, prometheus.GaugeValue, float64(m.Swap), ids...)
	ch <- prometheus.MustNewConstMetric(versionInfo, prometheus.GaugeValue, 1, m.KernelVersion, m.OSVersion, m.EngineVersion, c.cfg.Version, "")
}
