// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	"minik8s.io/minik8s/pkg/cluster"
	"minik8s.io/minik8s/pkg/cluster/lifecycle"
)

func TestDescribe(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name  string
		entry cluster.Entry
		alive bool
		want  string
	}{
		{"running", cluster.Entry{State: lifecycle.Running}, true, "running"},
		{"on its way", cluster.Entry{State: lifecycle.Beginning}, true, "starting"},
		{"down", cluster.Entry{State: lifecycle.Stopped}, false, "stopped"},
		{"cut off", cluster.Entry{State: lifecycle.Starting}, false, "stopped (a start was cut off)"},
		{"killed", cluster.Entry{State: lifecycle.Running}, false, "stopped (not by down)"},
		{"a node", cluster.Entry{State: lifecycle.Running, Agent: true}, true, "running, a node of a cluster on another machine"},
		{"a node, stopped", cluster.Entry{State: lifecycle.Stopped, Agent: true}, false, "stopped, a node of a cluster on another machine"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if got := describe(tc.entry, tc.alive); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}
