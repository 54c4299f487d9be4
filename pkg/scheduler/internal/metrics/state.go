// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"maps"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
)

// State is what is told at the moment of a scrape, and not kept in between.
type State struct {
	// Pending counts waiting pods by queue: active, backoff, unschedulable, gated, incomplete, pending.
	Pending map[string]int
	// Entities counts what is tried as one by queue.
	Entities map[Entity]int
	// Rejected counts waiting pods by who rejected them.
	Rejected map[Rejection]int
	// Events counts what is remembered for pods in flight by event, and the pods themselves as PodPopped.
	Events map[string]int
	// Nodes, Pods and Assumed are what the cache has.
	Nodes, Pods, Assumed int
	// Calls counts calls of the API that wait, by kind.
	Calls map[string]int
}

// Entity is what is tried as one in a queue: a "pod", or a "podgroup" for all its pods.
type Entity struct{ Queue, Type string }

// Rejection is a plugin of a profile that refused a pod.
type Rejection struct{ Plugin, Profile string }

// gauges tells State.
type gauges struct{ state func() State }

func gauge(stability, name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("scheduler_"+name, stability+help, labels, nil)
}

var (
	pendingPods = gauge(stable, "pending_pods", "Number of pending pods, by the queue type. 'active' means number of pods in activeQ; 'backoff' means number of pods in backoffQ; 'unschedulable' means number of pods in unschedulableEntities that the scheduler attempted to schedule and failed; 'gated' is the number of unschedulable pods that the scheduler never attempted to schedule because they are gated; 'incomplete' means number of pods in incompletePodGroupPods; 'pending' means number of pods in pendingPodGroupPods.", "queue")
	queued      = gauge(alpha, "queued_entities", "Number of queued scheduling entities ('pod' or 'podgroup'; 'pod' stands for individual pods that are not members of any podgroup) by the queue type. 'active' means number of entities in activeQ; 'backoff' means number of entities in backoffQ; 'unschedulable' means number of entities in unschedulableEntities that the scheduler attempted to schedule and failed; 'gated' is the number of unschedulable entities that the scheduler never attempted to schedule because they are gated.", "queue", "type")
	rejected    = gauge(beta, "unschedulable_pods", "The number of unschedulable pods broken down by plugin name. A pod will increment the gauge for all plugins that caused it to not schedule and so this metric have meaning only when broken down by plugin.", "plugin", "profile")
	inFlight    = gauge(alpha, "inflight_events", "Number of events currently tracked in the scheduling queue.", "event")
	cacheSize   = gauge(alpha, "cache_size", "Number of nodes, pods, and assumed (bound) pods in the scheduler cache.", "type")
	callsWait   = gauge(alpha, "pending_async_api_calls", "Number of API calls currently pending in the async queue.", "call_type")
)

// Describe implements prometheus.Collector.
func (gauges) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{pendingPods, queued, rejected, inFlight, cacheSize, callsWait} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (g gauges) Collect(out chan<- prometheus.Metric) {
	s := g.state()
	tell := func(d *prometheus.Desc, n int, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(n), labels...)
	}
	for _, queue := range slices.Sorted(maps.Keys(s.Pending)) {
		tell(pendingPods, s.Pending[queue], queue)
	}
	for e, n := range s.Entities {
		tell(queued, n, e.Queue, e.Type)
	}
	for by, n := range s.Rejected {
		tell(rejected, n, by.Plugin, by.Profile)
	}
	for event, n := range s.Events {
		tell(inFlight, n, event)
	}
	tell(cacheSize, s.Nodes, "nodes")
	tell(cacheSize, s.Pods, "pods")
	tell(cacheSize, s.Assumed, "assumed_pods")
	for kind, n := range s.Calls {
		tell(callsWait, n, kind)
	}
}
