// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"errors"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"minik8s.io/minik8s/pkg/scheduler/internal/metrics"
)

// MetricsPath is where the API server serves Metrics. Upstream's kube-scheduler has a port of its own for them, which several clusters
// on one machine could not share. Who may get the path is told by RBAC.
const MetricsPath = "/metrics/scheduler"

// Metrics serves what a scheduler has registered by Config.Registerer.
func Metrics(g prometheus.Gatherer) http.Handler {
	return promhttp.HandlerFor(g, promhttp.HandlerOpts{ErrorHandling: promhttp.HTTPErrorOnError})
}

// register makes the metrics known to who wants them.
func (s *Scheduler) register() error {
	var errs []error
	if s.metrics != nil {
		errs = append(errs, s.metrics.Register(s.cfg.Registerer, s.state))
	}
	if s.metrics != nil && s.groups != nil {
		errs = append(errs, s.metrics.RegisterGroups(s.cfg.Registerer))
	}
	if s.cfg.Resources != nil {
		errs = append(errs, s.cfg.Resources.Register(podResources{s.pods}))
	}
	return errors.Join(errs...)
}

// state is what metrics tell at the moment of a scrape.
func (s *Scheduler) state() metrics.State {
	state := s.queue.State()
	state.Nodes, state.Pods, state.Assumed = s.cache.Counts()
	state.Calls = map[string]int{metrics.StatusPatch: s.statuses.Pending(), metrics.Binding: len(s.slots)}
	return state
}

// attempted counts an attempt.
func (s *Scheduler) attempted(a *attempt, result string) {
	s.metrics.Attempted(result, a.profile.Name(), s.cfg.Clock.Since(a.start))
}

// bound counts an attempt that bound its pod.
func (s *Scheduler) bound(a *attempt) {
	s.attempted(a, "scheduled")
	if initial := a.pod.GetInitialAttemptTimestamp(); initial != nil {
		s.metrics.Bound(a.pod.Attempts, s.cfg.Clock.Since(*initial), a.pod.Flushed)
	}
}
