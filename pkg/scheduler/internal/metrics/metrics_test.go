// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/prometheus/client_golang/prometheus"
	fwk "k8s.io/kube-scheduler/framework"
)

// metric is what users of a metric rely on.
type metric struct {
	Type    string
	Labels  []string
	Buckets []float64
	// Stability is what upstream puts before the text.
	Stability string
}

const (
	counts   = "COUNTER"
	measures = "GAUGE"
	buckets  = "HISTOGRAM"
)

// upstream are the metrics of kube-scheduler 1.37 that are stable or beta: those
// of its subsystem in test/instrumentation/testdata/stable-metrics-list.yaml, which
// is generated from pkg/scheduler/metrics/metrics.go.
var upstream = map[string]metric{
	"scheduler_schedule_attempts_total":                    {counts, []string{"profile", "result"}, nil, stable},
	"scheduler_scheduling_attempt_duration_seconds":        {buckets, []string{"profile", "result"}, prometheus.ExponentialBuckets(0.001, 2, 15), stable},
	"scheduler_scheduling_algorithm_duration_seconds":      {buckets, nil, prometheus.ExponentialBuckets(0.001, 2, 15), beta},
	"scheduler_preemption_victims":                         {buckets, nil, []float64{1, 2, 4, 8, 16, 32, 64}, stable},
	"scheduler_preemption_attempts_total":                  {counts, nil, nil, stable},
	"scheduler_pending_pods":                               {measures, []string{"queue"}, nil, stable},
	"scheduler_goroutines":                                 {measures, []string{"operation"}, nil, beta},
	"scheduler_pod_scheduling_sli_duration_seconds":        {buckets, []string{"attempts"}, prometheus.ExponentialBuckets(0.01, 2, 20), beta},
	"scheduler_pod_scheduling_attempts":                    {buckets, nil, []float64{1, 2, 4, 8, 16}, stable},
	"scheduler_framework_extension_point_duration_seconds": {buckets, []string{"extension_point", "profile", "status"}, prometheus.ExponentialBuckets(0.0001, 2, 12), stable},
	"scheduler_plugin_execution_duration_seconds":          {buckets, []string{"extension_point", "plugin", "status"}, prometheus.ExponentialBuckets(0.00001, 1.5, 20), beta},
	"scheduler_queue_incoming_pods_total":                  {counts, []string{"event", "queue"}, nil, stable},
	"scheduler_permit_wait_duration_seconds":               {buckets, []string{"result"}, prometheus.ExponentialBuckets(0.001, 2, 15), beta},
	"scheduler_unschedulable_pods":                         {measures, []string{"plugin", "profile"}, nil, beta},
	"scheduler_plugin_evaluation_total":                    {counts, []string{"extension_point", "plugin", "profile"}, nil, beta},
}

// further are those that upstream may still change.
var further = map[string]metric{
	"scheduler_pod_scheduled_after_flush_total":               {counts, nil, nil, alpha},
	"scheduler_event_handling_duration_seconds":               {buckets, []string{"event"}, prometheus.ExponentialBuckets(0.0001, 2, 12), alpha},
	"scheduler_queueing_hint_execution_duration_seconds":      {buckets, []string{"event", "hint", "plugin"}, prometheus.ExponentialBuckets(0.00001, 1.5, 20), alpha},
	"scheduler_queue_incoming_entities_total":                 {counts, []string{"event", "queue", "type"}, nil, alpha},
	"scheduler_queued_entities":                               {measures, []string{"queue", "type"}, nil, alpha},
	"scheduler_inflight_events":                               {measures, []string{"event"}, nil, alpha},
	"scheduler_cache_size":                                    {measures, []string{"type"}, nil, alpha},
	"scheduler_preemption_goroutines_duration_seconds":        {buckets, []string{"result"}, prometheus.ExponentialBuckets(0.01, 2, 20), alpha},
	"scheduler_preemption_goroutines_execution_total":         {counts, []string{"result"}, nil, alpha},
	"scheduler_async_api_call_execution_total":                {counts, []string{"call_type", "result"}, nil, alpha},
	"scheduler_async_api_call_execution_duration_seconds":     {buckets, []string{"call_type", "result"}, prometheus.ExponentialBuckets(0.001, 2, 15), alpha},
	"scheduler_pending_async_api_calls":                       {measures, []string{"call_type"}, nil, alpha},
	"scheduler_volume_scheduling_stage_error_total":           {counts, []string{"operation"}, nil, alpha},
	"scheduler_dra_bindingconditions_allocations_total":       {counts, []string{"driver", "profile", "status"}, nil, alpha},
	"scheduler_dra_bindingconditions_wait_duration_seconds":   {buckets, []string{"driver", "profile", "status"}, prometheus.ExponentialBuckets(0.1, 2, 14), alpha},
	"dynamic_resource_allocation_resourceclaim_creates_total": {counts, []string{"admin_access", "owner_api_group", "owner_api_kind", "status"}, nil, alpha},
}

// ofGroups are those that upstream has with the gate GenericWorkload only.
var ofGroups = map[string]metric{
	"scheduler_podgroup_schedule_attempts_total":               {counts, []string{"profile", "result"}, nil, alpha},
	"scheduler_podgroup_scheduling_attempt_duration_seconds":   {buckets, []string{"profile", "result"}, prometheus.ExponentialBuckets(0.001, 2, 15), alpha},
	"scheduler_podgroup_scheduling_algorithm_duration_seconds": {buckets, nil, prometheus.ExponentialBuckets(0.001, 2, 15), alpha},
	"scheduler_workload_preemption_attempts_total":             {counts, []string{"result"}, nil, alpha},
	"scheduler_workload_preemption_victims":                    {buckets, nil, prometheus.ExponentialBuckets(1, 2, 11), alpha},
	"scheduler_preemption_workload_disruptions":                {buckets, []string{"preemptor"}, prometheus.ExponentialBuckets(1, 2, 11), alpha},
	"scheduler_preemption_evaluation_duration_seconds":         {buckets, []string{"preemptor", "result"}, prometheus.ExponentialBuckets(0.001, 2, 16), alpha},
	"scheduler_preemption_execution_duration_seconds":          {buckets, []string{"preemptor", "result"}, prometheus.ExponentialBuckets(0.001, 2, 16), alpha},
	"scheduler_preemption_pdb_violations_total":                {counts, []string{"preemptor"}, nil, alpha},
}

// use counts everything once.
func use(m *Metrics) {
	now := time.Now()
	m.Placed(time.Millisecond)
	m.Attempted("scheduled", "default-scheduler", time.Millisecond)
	m.Bound(3, time.Second, true)
	m.Handled("NodeAdd", now)
	m.Hinted("NodeName", "NodeAdd", "Queue", time.Microsecond)
	m.Queued("active", "NodeAdd", "pod")
	m.Queued("active", "NodeAdd", "")
	m.PermitWaited("Success", now)
	m.Running("binding", 1)
	m.Preempting()
	m.Victims(2, 1)
	m.Preempted(fwk.PodKeyType, errors.New("refused"), now)
	m.Evaluated(fwk.PodKeyType, fwk.Success, now)
	m.GroupPlaced(time.Millisecond)
	m.GroupAttempted("scheduled", "default-scheduler", time.Millisecond)
	m.PreemptingForGroup("Success")
	m.GroupVictims(2, 1, 1)
	m.Called(Binding, nil, now)
	m.VolumesFailed(VolumesBound)
	m.ClaimCreated(nil)
	m.DeviceAwaited("default-scheduler", "d", DevicesReady, time.Second, true)
	m.Point("Filter", "default-scheduler").Observe(fwk.Success, time.Millisecond)
	m.Plugin("NodeName", "Filter").Observe(fwk.Unschedulable, time.Millisecond)
	if c := m.Evaluations("NodeName", "Filter", "default-scheduler"); c != nil {
		c.Inc()
	}
}

func state() State {
	return State{
		Pending:  map[string]int{"active": 1, "gated": 2},
		Entities: map[Entity]int{{Queue: "active", Type: "podgroup"}: 1},
		Rejected: map[Rejection]int{{Plugin: "NodeName", Profile: "default-scheduler"}: 3},
		Events:   map[string]int{"PodPopped": 1},
		Nodes:    1, Pods: 2, Assumed: 3,
		Calls: map[string]int{Binding: 0},
	}
}

func TestNames(t *testing.T) {
	registry := prometheus.NewRegistry()
	m := New()
	if err := m.Register(registry, state); err != nil {
		t.Fatal(err)
	}
	use(m)
	compare(t, registry, upstream, further)
}

// TestNames_Groups has the metrics of pods that are scheduled as groups.
func TestNames_Groups(t *testing.T) {
	registry := prometheus.NewRegistry()
	m := New()
	if err := m.RegisterGroups(registry); err != nil {
		t.Fatal(err)
	}
	use(m)
	compare(t, registry, ofGroups)
}

// compare compares what a registry has with what it is to have.
func compare(t *testing.T, registry *prometheus.Registry, lists ...map[string]metric) {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]metric{}
	for _, f := range families {
		one := metric{Type: f.GetType().String()}
		for _, l := range f.GetMetric()[0].GetLabel() {
			one.Labels = append(one.Labels, l.GetName())
		}
		slices.Sort(one.Labels)
		for _, b := range f.GetMetric()[0].GetHistogram().GetBucket() {
			one.Buckets = append(one.Buckets, b.GetUpperBound())
		}
		for _, s := range []string{alpha, beta, stable} {
			if len(f.GetHelp()) > len(s) && f.GetHelp()[:len(s)] == s {
				one.Stability = s
			}
		}
		got[f.GetName()] = one
	}
	want := map[string]metric{}
	for _, list := range lists {
		maps.Copy(want, list)
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateApprox(0, 1e-9)); diff != "" {
		t.Errorf("metrics differ from upstream's (-upstream +ours):\n%s", diff)
	}
}

// Who has no metrics calls all the same.
func TestNil(*testing.T) {
	var m *Metrics
	use(m)
	var s *fwk.Status
	m.Point("Filter", "p").Since(time.Now(), &s)
}

func TestAttemptsLabel(t *testing.T) {
	for _, tc := range []struct {
		n    int
		want string
	}{{1, "1"}, {14, "14"}, {15, "15+"}, {100, "15+"}} {
		if got := attemptsLabel(tc.n); got != tc.want {
			t.Errorf("%d attempts: got %q, want %q", tc.n, got, tc.want)
		}
	}
}

// A call of a plugin is timed without memory of its own.
func TestTimer_AllocatesNothing(t *testing.T) {
	timer := New().Plugin("NodeName", "Filter")
	timer.Observe(fwk.Success, time.Millisecond)
	var s *fwk.Status
	if n := testing.AllocsPerRun(100, func() {
		timer.Observe(fwk.Success, time.Millisecond)
		timer.Since(time.Now(), &s)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
