// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"minik8s.io/minik8s/pkg/scheduler/framework"
	pt "minik8s.io/minik8s/pkg/scheduler/plugintest"
)

func names(s *framework.Snapshot) (out []string) {
	for _, n := range s.Nodes {
		out = append(out, n.Name())
	}
	return out
}

func TestSnapshot_ZonesTakeTurns(t *testing.T) {
	c := New()
	for name, zone := range map[string]string{"a": "1", "b": "1", "c": "1", "d": "2", "e": "3"} {
		c.AddNode(pt.Node(name, pt.NodeLabels(corev1.LabelTopologyZone, zone)))
	}
	if diff := cmp.Diff([]string{"a", "d", "e", "b", "c"}, names(c.Snapshot())); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
	c.RemoveNode("a")
	if diff := cmp.Diff([]string{"b", "d", "e", "c"}, names(c.Snapshot())); diff != "" {
		t.Errorf("order without a (-want +got):\n%s", diff)
	}
}

func TestSnapshot_IsImmutable(t *testing.T) {
	c := New()
	c.AddNode(pt.Node("a"))
	c.AddNode(pt.Node("b"))
	before := c.Snapshot()
	c.AddPod(pt.Pod("p", pt.On("a"), pt.Requests("cpu", "1"), pt.HostPort("", corev1.ProtocolTCP, 80), pt.Affinity(pt.AwayFrom("k", "v", "z"))))
	after := c.Snapshot()
	if n := before.Get("a"); len(n.Pods) != 0 || n.Requested.MilliCPU != 0 || len(n.UsedPorts) != 0 || len(before.WithRequiredAntiAffinity) != 0 {
		t.Error("an older snapshot changed")
	}
	if n := after.Get("a"); len(n.Pods) != 1 || n.Requested.MilliCPU != 1000 || len(n.UsedPorts) != 1 || len(after.WithRequiredAntiAffinity) != 1 {
		t.Error("the new snapshot misses the pod")
	}
	if before.Get("b") != after.Get("b") {
		t.Error("an unchanged node was copied")
	}
	c.RemovePod("p")
	if n := c.Snapshot().Get("a"); len(n.Pods) != 0 || n.Requested.MilliCPU != 0 || len(n.UsedPorts) != 0 || len(c.Snapshot().WithAffinity) != 0 {
		t.Error("the removed pod left a trace")
	}
}

func TestAssume(t *testing.T) {
	pending := framework.NewPodInfo(pt.Pod("p", pt.Requests("cpu", "1")))
	for _, tc := range []struct {
		name string
		then func(c *Cache)
		// CPU in use on a and b, and assumed pods
		a, b    int64
		assumed int
	}{
		{"nothing", func(*Cache) {}, 1000, 0, 1},
		{"forgotten", func(c *Cache) { c.Forget("p") }, 0, 0, 0},
		{"confirmed", func(c *Cache) { c.AddPod(pt.Pod("p", pt.On("a"), pt.Requests("cpu", "1"))) }, 1000, 0, 0},
		{"confirmed, forgotten too late", func(c *Cache) {
			c.AddPod(pt.Pod("p", pt.On("a"), pt.Requests("cpu", "1")))
			c.Forget("p")
		}, 1000, 0, 0},
		{"bound elsewhere", func(c *Cache) { c.AddPod(pt.Pod("p", pt.On("b"), pt.Requests("cpu", "1"))) }, 0, 1000, 0},
		{"deleted", func(c *Cache) { c.RemovePod("p") }, 0, 0, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := New()
			c.AddNode(pt.Node("a"))
			c.AddNode(pt.Node("b"))
			if err := c.Assume(pending.WithNode("a")); err != nil {
				t.Fatal(err)
			}
			if err := c.Assume(pending.WithNode("b")); err == nil {
				t.Error("a pod was assumed twice")
			}
			tc.then(c)
			s := c.Snapshot()
			_, _, assumed := c.Counts()
			got := [3]int64{s.Get("a").Requested.MilliCPU, s.Get("b").Requested.MilliCPU, int64(assumed)}
			if want := [3]int64{tc.a, tc.b, int64(tc.assumed)}; got != want {
				t.Errorf("got %v, want %v", got, want)
			}
		})
	}
	if pending.Pod.Spec.NodeName != "" {
		t.Error("assuming changed the pending pod")
	}
}

func TestPodBeforeNode(t *testing.T) {
	c := New()
	c.AddPod(pt.Pod("p", pt.On("a"), pt.Requests("cpu", "1")))
	if len(c.Snapshot().Nodes) != 0 {
		t.Error("an unknown node is in the snapshot")
	}
	c.AddNode(pt.Node("a"))
	if n := c.Snapshot().Get("a"); n == nil || n.Requested.MilliCPU != 1000 {
		t.Error("the pod that came first is not on its node")
	}
	c.RemoveNode("a")
	c.RemovePod("p")
	if len(c.nodes) != 0 {
		t.Error("a removed node without pods is kept")
	}
}
