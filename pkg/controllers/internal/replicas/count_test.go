// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package replicas

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var now = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

func pod(readyFor time.Duration, labels map[string]string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: labels}}
	if readyFor > 0 {
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(now.Add(-readyFor))}}
	}
	return p
}

func TestStep(t *testing.T) {
	tests := []struct {
		name                   string
		active, wanted         int
		wantCreate, wantRemove int
	}{
		{name: "enough", active: 2, wanted: 2},
		{name: "too few", active: 1, wanted: 3, wantCreate: 2},
		{name: "too many", active: 3, wanted: 1, wantRemove: 2},
		{name: "far too few", wanted: 1000, wantCreate: burst},
		{name: "far too many", active: 1000, wantRemove: burst},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if create, remove := Step(tt.active, tt.wanted); create != tt.wantCreate || remove != tt.wantRemove {
				t.Errorf("creates %d and removes %d", create, remove)
			}
		})
	}
}

func TestCount(t *testing.T) {
	template := map[string]string{"app": "web"}
	active := []*corev1.Pod{
		pod(10*time.Second, template),
		pod(4*time.Second, template),
		pod(0, template),
		pod(0, map[string]string{"x": "y"}),
	}
	want := Counts{Replicas: 4, FullyLabeled: 3, Ready: 2, Available: 1, Terminating: 2}
	if diff := cmp.Diff(want, Count(template, active, 2, 10, now)); diff != "" {
		t.Errorf("counts (-want +got):\n%s", diff)
	}
}

func TestWithFailure(t *testing.T) {
	isFailure := func(c string) bool { return c[0] == 'F' }
	failure := "Fnew"
	tests := []struct {
		name    string
		before  []string
		failure *string
		want    []string
	}{
		{name: "nothing"},
		{name: "first failure", before: []string{"other"}, failure: &failure, want: []string{"other", "Fnew"}},
		{name: "same failure again", before: []string{"Fold"}, failure: &failure, want: []string{"Fold"}},
		{name: "success", before: []string{"Fold", "other"}, want: []string{"other"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, WithFailure(tt.before, isFailure, tt.failure)); diff != "" {
				t.Errorf("conditions (-want +got):\n%s", diff)
			}
		})
	}
}
