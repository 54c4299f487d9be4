// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"math/rand/v2"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	fwk "k8s.io/kube-scheduler/framework"

	"minik8s.io/minik8s/pkg/scheduler/internal/metrics"
)

// sampleEvery is the share of the cycles in which the calls of single plugins are
// timed, one in so many, as upstream's: there is a call per plugin and node.
const sampleEvery = 10

// Sample chooses whether to time the calls of single plugins.
func Sample() bool { return rand.IntN(sampleEvery) == 0 }

// timers time the extension points of a profile, with all plugins.
type timers struct {
	preEnqueue, preFilter, filter, postFilter, preScore, score, reserve, unreserve, permit, preFlight, preBind, bind, postBind *metrics.Timer
}

// method is one of a plugin's methods at an extension point.
type method int

const (
	main method = iota
	// second is AddPod, NormalizeScore, Unreserve or PreBindPreFlight.
	second
	// third is RemovePod.
	third
	methods
)

// calls is what is counted of a plugin at an extension point; nil counts nothing.
type calls struct {
	runs  prometheus.Counter // nil where upstream does not count
	times [methods]*metrics.Timer
}

// began is the time if the call is to be timed.
func (c *calls) began(sampled bool) (start time.Time) {
	if c != nil && sampled {
		start = time.Now()
	}
	return start
}

// ended times a call that began at start, the zero time if it is not to be timed.
func (c *calls) ended(m method, start time.Time, status *fwk.Status) {
	if !start.IsZero() {
		c.times[m].Observe(status.Code(), time.Since(start))
	}
}

// ran counts a call.
func (c *calls) ran() {
	if c != nil && c.runs != nil {
		c.runs.Inc()
	}
}

// count makes the counters of the profile, if somebody wants to know.
func (p *Profile) count() {
	m := p.Metrics
	if m == nil {
		return
	}
	point := func(name string) *metrics.Timer { return m.Point(name, p.name) }
	p.timers = timers{
		preEnqueue: point("PreEnqueue"), preFilter: point("PreFilter"), filter: point("Filter"), postFilter: point("PostFilter"),
		preScore: point("PreScore"), score: point("Score"), reserve: point("Reserve"), unreserve: point("Unreserve"), permit: point("Permit"),
		preFlight: point("PreBindPreFlight"), preBind: point("PreBind"), bind: point("Bind"), postBind: point("PostBind"),
	}
	countCalls(p, p.preEnqueue, false, "PreEnqueue")
	countCalls(p, p.preFilter, true, "PreFilter", "PreFilterExtensionAddPod", "PreFilterExtensionRemovePod")
	countCalls(p, p.filter, true, "Filter")
	countCalls(p, p.postFilter, false, "PostFilter")
	countCalls(p, p.preScore, true, "PreScore")
	countCalls(p, p.score, true, "Score", "ScoreExtensionNormalize")
	countCalls(p, p.reserve, false, "Reserve", "Unreserve")
	countCalls(p, p.permit, false, "Permit")
	countCalls(p, p.preBind, false, "PreBind", "PreBindPreFlight")
	countCalls(p, p.bind, false, "Bind")
	countCalls(p, p.postBind, false, "PostBind")
	countCalls(p, p.groupPostFilter, false, "PodGroupPostFilter")
}

// countCalls makes the counters of the plugins of one extension point, whose
// methods go by the given names.
func countCalls[T fwk.Plugin](p *Profile, plugins []named[T], runs bool, names ...string) {
	for i := range plugins {
		x := &plugins[i]
		x.calls = &calls{}
		for n, name := range names {
			x.calls.times[n] = p.Metrics.Plugin(x.name, name)
		}
		if runs {
			x.calls.runs = p.Metrics.Evaluations(x.name, names[main], p.name)
		}
	}
}

// Filtered tells how long it took to filter the nodes of a cycle, all of them:
// RunFilterPlugins is about one. It is made for defer.
func (p *Profile) Filtered(start time.Time, status **fwk.Status) {
	p.timers.filter.Since(start, status)
}
