// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"strconv"
	"time"

	"k8s.io/component-base/metrics"
)

// Managers are the metrics of what gives CPUs and memory to containers alone. Its methods are safe for concurrent use and do not
// block.
type Managers struct {
	cpuRequests, cpuErrors, memoryRequests, memoryErrors *metrics.Counter
	admissions, refusals                                 *metrics.Counter
	admission                                            *metrics.Histogram
	aligned, unaligned                                   *metrics.CounterVec
	allocations, errors, assignments                     *metrics.CounterVec
}

// Managers makes them, once. cpus tells at any time how many CPUs are shared, and how many of each NUMA node somebody has alone.
func (m *Metrics) Managers(cpus func() (shared int, own map[int]int)) *Managers {
	m.registry.CustomMustRegister(&constants{list: []*metrics.Desc{sharedPool, exclusiveCPUs, exclusiveByNode}, collect: func(ch chan<- metrics.Metric) {
		shared, own := cpus()
		sum := 0
		for node, n := range own {
			sum += n
			ch <- metrics.NewLazyConstMetric(exclusiveByNode, metrics.GaugeValue, float64(n), strconv.Itoa(node))
		}
		ch <- metrics.NewLazyConstMetric(sharedPool, metrics.GaugeValue, float64(shared*1000))
		ch <- metrics.NewLazyConstMetric(exclusiveCPUs, metrics.GaugeValue, float64(sum))
	}})
	g := &Managers{
		cpuRequests:    m.counter("cpu_manager_pinning_requests_total", "The number of cpu core allocations which required pinning."),
		cpuErrors:      m.counter("cpu_manager_pinning_errors_total", "The number of cpu core allocations which required pinning failed."),
		memoryRequests: m.counter("memory_manager_pinning_requests_total", "The number of memory pages allocations which required pinning."),
		memoryErrors:   m.counter("memory_manager_pinning_errors_total", "The number of memory pages allocations which required pinning that failed."),
		admissions:     m.counter("topology_manager_admission_requests_total", "The number of admission requests where resources have to be aligned."),
		refusals:       m.counter("topology_manager_admission_errors_total", "The number of admission request failures where resources could not be aligned."),
		admission:      m.histogram("topology_manager_admission_duration_ms", "Duration in milliseconds to serve a pod admission request.", metrics.ExponentialBuckets(.05, 2, 15)),
		aligned: m.counterVec("container_aligned_compute_resources_count",
			"Cumulative number of aligned compute resources allocated to containers by alignment type.", "scope", "boundary"),
		unaligned: m.counterVec("container_aligned_compute_resources_failure_count",
			"Cumulative number of failures to allocate aligned compute resources to containers by alignment type.", "scope", "boundary"),
		allocations: m.counterVec("resource_manager_allocations_total", "Number of exclusive resource allocations performed by a resource manager.", "resource_name", "source"),
		errors:      m.counterVec("resource_manager_allocation_errors_total", "Number of errors encountered during exclusive resource allocation.", "resource_name", "source"),
		assignments: m.counterVec("resource_manager_container_assignments_total", "Number of containers with a specific type of resource assignment.", "resource_name", "assignment_type"),
	}
	for _, l := range [][]string{{"container", "physical_cpu"}, {"container", "numa_node"}, {"pod", "numa_node"}} {
		g.aligned.WithLabelValues(l...).Add(0)
		g.unaligned.WithLabelValues(l...).Add(0)
	}
	g.aligned.WithLabelValues("container", "uncore_cache").Add(0)
	return g
}

var (
	sharedPool = metrics.NewDesc(metrics.BuildFQName("", subsystem, "cpu_manager_shared_pool_size_millicores"),
		"The size of the shared CPU pool for non-guaranteed QoS pods, in millicores.", nil, nil, metrics.ALPHA, "")
	exclusiveCPUs = metrics.NewDesc(metrics.BuildFQName("", subsystem, "cpu_manager_exclusive_cpu_allocation_count"),
		"The total number of CPUs exclusively allocated to containers running on this node", nil, nil, metrics.ALPHA, "")
	exclusiveByNode = metrics.NewDesc(metrics.BuildFQName("", subsystem, "cpu_manager_allocation_per_numa"),
		"Number of CPUs allocated per NUMA node", []string{"numa_node"}, nil, metrics.ALPHA, "")
)

// CPUs notes that a container wanted CPUs of its own, and has got them unless err says why not.
func (g *Managers) CPUs(err error) {
	g.cpuRequests.Inc()
	if err != nil {
		g.cpuErrors.Inc()
	}
	g.given("cpu", err)
}

// Memory notes that a container wanted memory of certain NUMA nodes, and has got it unless err says why not.
func (g *Managers) Memory(err error) {
	g.memoryRequests.Inc()
	if err != nil {
		g.memoryErrors.Inc()
	}
	g.given("memory", err)
}

func (g *Managers) given(resource string, err error) {
	if err != nil {
		g.errors.WithLabelValues(resource, "node").Inc()
		return
	}
	g.allocations.WithLabelValues(resource, "node").Inc()
	g.assignments.WithLabelValues(resource, "node_exclusive").Inc()
}

// Aligned notes that what a container or a pod has got, which is the scope, lies within a boundary that was to hold, or that it
// could not.
func (g *Managers) Aligned(scope, boundary string, is bool) {
	count := g.aligned
	if !is {
		count = g.unaligned
	}
	count.WithLabelValues(scope, boundary).Inc()
}

// Admitted notes how long it took to decide about a pod, and whether it could not have what it needs where it has to be.
func (g *Managers) Admitted(took time.Duration, refused bool) {
	g.admissions.Inc()
	if refused {
		g.refusals.Inc()
	}
	g.admission.Observe(float64(took.Milliseconds()))
}
