// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package job

import (
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// rise returns by how much do lets a counter grow.
func rise(c prometheus.Counter, do func()) float64 {
	before := testutil.ToFloat64(c)
	do()
	return testutil.ToFloat64(c) - before
}

func TestCountChange(t *testing.T) {
	indexed := batchv1.IndexedCompletion
	job := func(succeeded, failed int32, completed string) *batchv1.Job {
		j := &batchv1.Job{Status: batchv1.JobStatus{Succeeded: succeeded, Failed: failed, CompletedIndexes: completed}}
		if completed != "" {
			j.Spec.CompletionMode, j.Spec.Completions = &indexed, new(int32(10))
		}
		return j
	}
	for _, tc := range []struct {
		name          string
		before, after *batchv1.Job
		mode, result  string
		want          float64
	}{
		{"succeeded", job(1, 0, ""), job(3, 0, ""), "NonIndexed", "succeeded", 2},
		{"failed", job(1, 1, ""), job(1, 2, ""), "NonIndexed", "failed", 1},
		{"nothing", job(1, 1, ""), job(1, 1, ""), "NonIndexed", "failed", 0},
		{"fewer are no event", job(3, 0, ""), job(1, 0, ""), "NonIndexed", "succeeded", 0},
		{"indexes, whatever the counter says", job(0, 0, "1"), job(9, 0, "1-4"), "Indexed", "succeeded", 3},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := rise(finishedPods.WithLabelValues(tc.mode, tc.result), func() { countChange(tc.after, countedIn(tc.before)) })
			if got != tc.want {
				t.Errorf("%v more, want %v", got, tc.want)
			}
		})
	}
}

func TestCountTracked(t *testing.T) {
	pod := func(phase corev1.PodPhase, finalizers ...string) client.Object {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Finalizers: finalizers}, Status: corev1.PodStatus{Phase: phase}}
	}
	runs, ended, counted := pod(corev1.PodRunning, batchv1.JobTrackingFinalizer), pod(corev1.PodFailed, batchv1.JobTrackingFinalizer), pod(corev1.PodFailed)
	for _, tc := range []struct {
		name          string
		before, after client.Object
		event         string
	}{
		{"ends", runs, ended, "add"},
		{"is counted", ended, counted, "delete"},
		{"is gone", ended, nil, "delete"},
		{"is found", nil, ended, "add"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for _, event := range []string{"add", "delete"} {
				want := 0.0
				if event == tc.event {
					want = 1
				}
				if got := rise(trackedEnds.WithLabelValues(event), func() { countTracked(tc.before, tc.after) }); got != want {
					t.Errorf("%s: %v more, want %v", event, got, want)
				}
			}
		})
	}
}

func TestCountCreated(t *testing.T) {
	job := &batchv1.Job{}
	only := &batchv1.Job{Spec: batchv1.JobSpec{PodReplacementPolicy: new(batchv1.Failed)}}
	for _, tc := range []struct {
		name   string
		state  state
		reason string
	}{
		{"first", state{job: job}, "new"},
		{"after a failure", state{job: job, failed: 1}, "recreate_terminating_or_failed"},
		{"beside one that goes", state{job: job, terminating: 1}, "recreate_terminating_or_failed"},
		{"failed only", state{job: only, failed: 1}, "recreate_failed"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var made, failed atomic.Int64
			made.Store(2)
			if got := rise(createdPods.WithLabelValues(tc.reason, "succeeded"), func() { countCreated(&tc.state, &made, &failed) }); got != 2 {
				t.Errorf("%v more, want 2", got)
			}
		})
	}
}
