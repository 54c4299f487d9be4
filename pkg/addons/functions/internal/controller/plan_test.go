// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	v1alpha1 "minik8s.io/minik8s/pkg/addons/apis/functions/v1alpha1"
	"minik8s.io/minik8s/pkg/addons/functions/internal/activator"
	"minik8s.io/minik8s/pkg/addons/functions/internal/scaler"
)

func TestShares(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		traffic []v1alpha1.Traffic
		ready   string
		want    map[string]int
		unknown string
	}{
		{name: "nothing works yet", want: map[string]int{}},
		{name: "nothing said", ready: "b", want: map[string]int{"b": 100}},
		{name: "a split", traffic: []v1alpha1.Traffic{{Revision: "latest", Percent: 10}, {Revision: "a", Percent: 90}}, ready: "b", want: map[string]int{"a": 90, "b": 10}},
		{name: "the same twice", traffic: []v1alpha1.Traffic{{Revision: "latest", Percent: 10}, {Revision: "b", Percent: 90}}, ready: "b", want: map[string]int{"b": 100}},
		{name: "one that is not kept", traffic: []v1alpha1.Traffic{{Revision: "x", Percent: 50}, {Revision: "a", Percent: 50}}, ready: "b", want: map[string]int{"a": 50, "b": 50}, unknown: "x"},
		{name: "none of the requests", traffic: []v1alpha1.Traffic{{Revision: "a", Percent: 0}, {Revision: "b", Percent: 100}}, ready: "b", want: map[string]int{"b": 100}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got, unknown := shares(test.traffic, test.ready, []string{"a", "b"})
			if diff := cmp.Diff(test.want, got); diff != "" || unknown != test.unknown {
				t.Errorf("unknown %q: %s", unknown, diff)
			}
		})
	}
}

func TestDecide(t *testing.T) {
	t.Parallel()
	noon := time.Unix(1_700_000_000, 0)
	spec := &v1alpha1.FunctionSpec{Concurrency: 10, MaxScale: 20, IdleSeconds: 60}
	one := &v1alpha1.FunctionSpec{Concurrency: 10, MinScale: 1, MaxScale: 20, IdleSeconds: 60}
	tests := []struct {
		name string
		s    situation
		want map[string]int
	}{
		{"a first revision is tried", situation{Spec: spec, Latest: "a", Kept: []string{"a"}}, map[string]int{"a": 1}},
		{"a broken one is not", situation{Spec: one, Latest: "a", Kept: []string{"a"}, Broken: map[string]string{"a": "SyntaxError"}}, map[string]int{}},
		{"one that has just been seen to work stays for a while", situation{Spec: spec, Latest: "a", Ready: "a", Kept: []string{"a"}, Has: map[string]int{"a": 1}, Taking: map[string]int{"a": 1}, Since: map[string]time.Time{"a": noon.Add(-time.Second)}}, map[string]int{"a": 1}},
		{"and goes then", situation{Spec: spec, Latest: "a", Ready: "a", Kept: []string{"a"}, Has: map[string]int{"a": 1}, Taking: map[string]int{"a": 1}, Since: map[string]time.Time{"a": noon.Add(-time.Minute)}}, map[string]int{"a": 0}},
		{"found without pods", situation{Spec: spec, Latest: "a", Ready: "a", Kept: []string{"a"}, Since: map[string]time.Time{"a": noon}}, map[string]int{"a": 0}},
		{"always one", situation{Spec: one, Latest: "a", Ready: "a", Kept: []string{"a"}, Since: map[string]time.Time{"a": noon}}, map[string]int{"a": 1}},
		{"a new one beside the old", situation{Spec: spec, Latest: "b", Ready: "a", Kept: []string{"a", "b"}, Stats: map[string]activator.Stats{"a": {Outstanding: 21, Stable: 21, Panic: 21, Last: noon}}, Has: map[string]int{"a": 3}, Taking: map[string]int{"a": 3}}, map[string]int{"a": 3, "b": 1}},
		{"the new one has as many at first", situation{Spec: spec, Latest: "b", Ready: "b", Kept: []string{"a", "b"}, Has: map[string]int{"a": 4, "b": 1}, Taking: map[string]int{"a": 4, "b": 1}, Since: map[string]time.Time{"b": noon}, Scaling: map[string]scaler.State{"a": {Desired: 4}}}, map[string]int{"b": 2}},
		{"what came early", situation{Spec: spec, Latest: "a", Ready: "a", Kept: []string{"a"}, Stats: map[string]activator.Stats{"": {Outstanding: 15, Held: 15, Last: noon}}}, map[string]int{"a": 2}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			test.s.Now = noon
			got, _ := decide(test.s)
			if diff := cmp.Diff(test.want, got.Pods); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestSurplus(t *testing.T) {
	t.Parallel()
	old, young := time.Unix(1, 0), time.Unix(2, 0)
	pods := []*podState{
		{name: "busy", ready: true, outstanding: 3, created: young},
		{name: "old", ready: true, created: old},
		{name: "young", ready: true, created: young},
		{name: "starting", created: old},
	}
	for n, want := range [][]string{{"starting", "young", "old", "busy"}, {"starting", "young", "old"}, {"starting", "young"}, {"starting"}, nil, nil} {
		var got []string
		for _, p := range surplus(pods, n) {
			got = append(got, p.name)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%d are to stay: %s", n, diff)
		}
	}
}

func TestExpired(t *testing.T) {
	t.Parallel()
	all := []string{"a", "b", "c", "d", "e"}
	used := map[string]bool{"a": true, "e": true}
	for limit, want := range [][]string{{"b", "c", "d"}, {"b", "c"}, {"b"}, nil, nil} {
		if diff := cmp.Diff(want, expired(all, used, limit)); diff != "" {
			t.Errorf("limit %d: %s", limit, diff)
		}
	}
}
