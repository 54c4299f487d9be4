// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package metrics counts and times what the kubelet does, in the names of upstream's kubelet, for its /metrics. Touch it to
// measure another thing.
package metrics

import (
	"crypto/tls"
	"crypto/x509"
	"math"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-base/metrics"
	"k8s.io/utils/clock"

	"minik8s.io/minik8s/pkg/zpages"
)

const subsystem = "kubelet"

// Metrics are those of one kubelet. They are safe for concurrent use.
type Metrics struct {
	clock    clock.PassiveClock
	began    time.Time
	registry metrics.KubeRegistry
	decisions
	plugins
	resizes

	operations, operationErrors   *metrics.CounterVec
	operationDuration             *metrics.HistogramVec
	sandboxDuration               *metrics.HistogramVec
	sandboxErrors                 *metrics.CounterVec
	startedPods, startedPodErrors *metrics.Counter
	startedContainers             *metrics.CounterVec
	startedContainerErrors        *metrics.CounterVec
	terminatedContainers          *metrics.CounterVec
	workerDuration                *metrics.HistogramVec
	workerStart                   *metrics.Histogram
	containersPerPod              *metrics.Histogram
	resourceLevels                *metrics.CounterVec
	podStart                      *metrics.Histogram
	podStartTotal, podStartSLI    *metrics.Histogram
	firstNetworkPod               *metrics.Gauge
	firstSeen                     sync.Once // of pods with a network of their own
	statusSync                    *metrics.Histogram
	starts                        starts
	relistDuration                *metrics.Histogram
	relistInterval                *metrics.Histogram
	lastSeen                      *metrics.Gauge
	requests                      *metrics.CounterVec
	inflight                      *metrics.GaugeVec
	requestDuration               *metrics.HistogramVec
}

// startBuckets are upstream's for the time that pods take to start.
var startBuckets = []float64{0.5, 1, 2, 3, 4, 5, 6, 8, 10, 20, 30, 45, 60, 120, 180, 240, 300, 360, 480, 600, 900, 1200, 1800, 2700, 3600}

// New returns the metrics of the kubelet of a node.
func New(node string, c clock.PassiveClock) *Metrics {
	m := &Metrics{clock: c, registry: metrics.NewKubeRegistry(), began: c.Now(), starts: starts{all: map[types.UID]*start{}, seen: map[types.UID]time.Time{}}}
	nodeName := m.gaugeVec("node_name", "The node's name. The count is always 1.", "node")
	m.operations = m.counterVec("runtime_operations_total", "Cumulative number of runtime operations by operation type.", "operation_type")
	m.operationErrors = m.counterVec("runtime_operations_errors_total", "Cumulative number of runtime operation errors by operation type.", "operation_type")
	m.operationDuration = m.histogramVec("runtime_operations_duration_seconds",
		"Duration in seconds of runtime operations. Broken down by operation type.", metrics.ExponentialBuckets(.005, 2.5, 14), "operation_type")
	m.sandboxDuration = m.histogramVec("run_podsandbox_duration_seconds",
		"Duration in seconds of the run_podsandbox operations. Broken down by RuntimeClass.Handler.", metrics.DefBuckets, "runtime_handler")
	m.sandboxErrors = m.counterVec("run_podsandbox_errors_total",
		"Cumulative number of the run_podsandbox operation errors by RuntimeClass.Handler.", "runtime_handler")
	m.startedPods = m.counter("started_pods_total", "Cumulative number of pods started")
	m.startedPodErrors = m.counter("started_pods_errors_total", "Cumulative number of errors when starting pods")
	m.startedContainers = m.counterVec("started_containers_total", "Cumulative number of containers started", "container_type")
	m.startedContainerErrors = m.counterVec("started_containers_errors_total", "Cumulative number of errors when starting containers", "container_type", "code")
	m.terminatedContainers = m.counterVec("terminated_containers_total", "Cumulative number of container terminations.", "container_type", "exit_code", "reason")
	m.workerDuration = m.histogramVec("pod_worker_duration_seconds",
		"Duration in seconds to sync a single pod. Broken down by operation type: create, update, or sync", metrics.DefBuckets, "operation_type")
	m.workerStart = m.histogram("pod_worker_start_duration_seconds", "Duration in seconds from kubelet seeing a pod to starting a worker.", metrics.DefBuckets)
	m.containersPerPod = m.histogram("containers_per_pod_count", "The number of containers per pod.", metrics.ExponentialBuckets(1, 2, 5))
	m.resourceLevels = m.counterVec("pod_level_resources_admission_total", "Total number of pods admitted during Kubelet admission, categorized by "+
		"resource configuration mode (pod_and_container_level, pod_level, container_level, or empty for unconfigured/BestEffort) and QoS class.",
		"config_mode", "qos_class")
	m.podStart = m.histogram("pod_start_duration_seconds",
		"Duration in seconds from kubelet seeing a pod for the first time to the pod starting to run", startBuckets)
	m.podStartTotal = m.histogram("pod_start_total_duration_seconds", "Duration in seconds to start a pod since creation, including time to pull "+
		"images and run init containers, measured from pod creation timestamp to when all its containers are reported as started and observed via watch", startBuckets)
	m.podStartSLI = m.histogram("pod_start_sli_duration_seconds", "Duration in seconds to start a pod, excluding time to pull images and run init "+
		"containers, measured from pod creation timestamp to when all its containers are reported as started and observed via watch", startBuckets)
	m.firstNetworkPod = m.gauge("first_network_pod_start_sli_duration_seconds", "Duration in seconds to start the first network pod, excluding time to "+
		"pull images and run init containers, measured from pod creation timestamp to when all its containers are reported as started and observed via watch")
	m.statusSync = m.histogram("pod_status_sync_duration_seconds", "Duration in seconds to sync a pod status update. Measures time from detection of a "+
		"change to pod status until the API is successfully updated for that pod, even if multiple intevening changes to pod status occur.",
		[]float64{0.010, 0.050, 0.100, 0.500, 1, 5, 10, 20, 30, 45, 60})
	m.relistDuration = m.histogram("pleg_relist_duration_seconds", "Duration in seconds for relisting pods in PLEG.", metrics.DefBuckets)
	m.relistInterval = m.histogram("pleg_relist_interval_seconds", "Interval in seconds between relisting in PLEG.", metrics.DefBuckets)
	m.lastSeen = m.gauge("pleg_last_seen_seconds", "Timestamp in seconds when PLEG was last seen active.")
	requestLabels := []string{"method", "path", "server_type", "long_running"}
	m.requests = m.counterVec("http_requests_total", "Number of the http requests received since the server started", requestLabels...)
	m.inflight = m.gaugeVec("http_inflight_requests", "Number of the inflight http requests", requestLabels...)
	m.requestDuration = m.histogramVec("http_requests_duration_seconds", "Duration in seconds to serve http requests", metrics.DefBuckets, requestLabels...)
	nodeName.WithLabelValues(node).Set(1)
	m.decisions, m.plugins, m.resizes = m.newDecisions(), m.newPlugins(), m.newResizes()
	return m
}

func (m *Metrics) counter(name, help string) *metrics.Counter {
	c := metrics.NewCounter(&metrics.CounterOpts{Subsystem: subsystem, Name: name, Help: help, StabilityLevel: metrics.ALPHA})
	m.registry.MustRegister(c)
	return c
}

func (m *Metrics) counterVec(name, help string, labels ...string) *metrics.CounterVec {
	c := metrics.NewCounterVec(&metrics.CounterOpts{Subsystem: subsystem, Name: name, Help: help, StabilityLevel: metrics.ALPHA}, labels)
	m.registry.MustRegister(c)
	return c
}

func (m *Metrics) gauge(name, help string) *metrics.Gauge {
	g := metrics.NewGauge(&metrics.GaugeOpts{Subsystem: subsystem, Name: name, Help: help, StabilityLevel: metrics.ALPHA})
	m.registry.MustRegister(g)
	return g
}

func (m *Metrics) gaugeVec(name, help string, labels ...string) *metrics.GaugeVec {
	g := metrics.NewGaugeVec(&metrics.GaugeOpts{Subsystem: subsystem, Name: name, Help: help, StabilityLevel: metrics.ALPHA}, labels)
	m.registry.MustRegister(g)
	return g
}

func (m *Metrics) histogram(name, help string, buckets []float64) *metrics.Histogram {
	h := metrics.NewHistogram(&metrics.HistogramOpts{Subsystem: subsystem, Name: name, Help: help, Buckets: buckets, StabilityLevel: metrics.ALPHA})
	m.registry.MustRegister(h)
	return h
}

func (m *Metrics) histogramVec(name, help string, buckets []float64, labels ...string) *metrics.HistogramVec {
	h := metrics.NewHistogramVec(&metrics.HistogramOpts{Subsystem: subsystem, Name: name, Help: help, Buckets: buckets, StabilityLevel: metrics.ALPHA}, labels)
	m.registry.MustRegister(h)
	return h
}

// Relisted notes a listing of everything: how long it took, and how long after the one before it began; 0 if it was the first.
func (m *Metrics) Relisted(took, since time.Duration) {
	m.relistDuration.Observe(took.Seconds())
	if since > 0 {
		m.relistInterval.Observe(since.Seconds())
	}
	m.lastSeen.Set(float64(m.clock.Now().Unix()))
}

// StatusDelivered notes how long it took until the API server knew the status of a pod.
func (m *Metrics) StatusDelivered(took time.Duration) { m.statusSync.Observe(took.Seconds()) }

// Certificate tells for how many seconds the serving certificate is valid still, as upstream forever if there is none.
func (m *Metrics) Certificate(current func() (*tls.Certificate, error)) {
	m.left(certificateTTL, current)
}

// ClientCertificate tells the same of that by which the kubelet asks the API server.
func (m *Metrics) ClientCertificate(current func() (*tls.Certificate, error)) {
	m.left(clientCertificateTTL, current)
}

func (m *Metrics) left(about *metrics.Desc, current func() (*tls.Certificate, error)) {
	m.registry.CustomMustRegister(&constants{list: []*metrics.Desc{about}, collect: func(ch chan<- metrics.Metric) {
		left := math.Inf(1)
		if cert, err := current(); err == nil && len(cert.Certificate) > 0 {
			if leaf, err := x509.ParseCertificate(cert.Certificate[0]); err == nil {
				left = math.Trunc(leaf.NotAfter.Sub(m.clock.Now()).Seconds())
			}
		}
		ch <- metrics.NewLazyConstMetric(about, metrics.GaugeValue, left)
	}})
}

var (
	certificateTTL = desc("certificate_manager_server_ttl_seconds",
		"Gauge of the shortest TTL (time-to-live) of the Kubelet's serving certificate. The value is in seconds until certificate expiry "+
			"(negative if already expired). If serving certificate is invalid or unused, the value will be +INF.")
	clientCertificateTTL = desc("certificate_manager_client_ttl_seconds",
		"Gauge of the TTL (time-to-live) of the Kubelet's client certificate. The value is in seconds until certificate expiry "+
			"(negative if already expired). If client certificate is invalid or unused, the value will be +INF.")
)

func desc(name, help string, labels ...string) *metrics.Desc {
	return metrics.NewDesc(metrics.BuildFQName("", subsystem, name), help, labels, nil, metrics.ALPHA, "")
}

// constants is a collector of figures that are looked up when they are asked for.
type constants struct {
	metrics.BaseStableCollector
	list    []*metrics.Desc
	collect func(ch chan<- metrics.Metric)
}

func (c *constants) DescribeWithStability(ch chan<- *metrics.Desc) {
	for _, d := range c.list {
		ch <- d
	}
}

func (c *constants) CollectWithStability(ch chan<- metrics.Metric) { c.collect(ch) }

// Gatherer has the kubelet's metrics, and those of the process that any component tells.
func (m *Metrics) Gatherer() prometheus.Gatherer {
	return prometheus.Gatherers{m.registry.Gatherer(), zpages.Process()}
}
