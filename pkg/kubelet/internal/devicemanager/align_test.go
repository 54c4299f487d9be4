// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package devicemanager

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	devicepluginv1beta1 "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"minik8s.io/minik8s/pkg/kubelet/internal/topology"
)

// at are healthy devices: "a0" is close to node 0, "ab01" to both, "x" to none.
func at(names string) []*devicepluginv1beta1.Device {
	out := list(names)
	for _, d := range out {
		d.Topology = nil
		for _, r := range d.GetID() {
			if r >= '0' && r <= '9' {
				if d.Topology == nil {
					d.Topology = &devicepluginv1beta1.TopologyInfo{}
				}
				d.Topology.Nodes = append(d.Topology.Nodes, &devicepluginv1beta1.NUMANode{ID: int64(r - '0')})
			}
		}
	}
	return out
}

func devicesAt(names string) *devices {
	d := &devices{known: map[string]*devicepluginv1beta1.Device{}}
	for _, dev := range at(names) {
		d.known[dev.GetID()] = dev
	}
	return d
}

func TestAlign(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name        string
		reuse, free string
		need        int
		near        topology.Nodes
		must, may   string
	}{
		{name: "any node", free: "a0 b1", need: 1, may: "a0 b1"},
		{name: "no device says", free: "x y", need: 1, near: topology.NodesOf(1), may: "x y"},
		{name: "more than enough", free: "a0 b1 c1 x", need: 1, near: topology.NodesOf(1), may: "b1 c1"},
		{name: "just enough", free: "a0 b1 d01", need: 2, near: topology.NodesOf(1), must: "b1 d01", may: "a0"},
		{name: "not enough", free: "a0 b1 x e2", need: 3, near: topology.NodesOf(1), must: "b1", may: "a0 e2 x"},
		{name: "with what is used again", reuse: "a0", free: "b1 c1", need: 2, near: topology.NodesOf(1), must: "a0", may: "b1 c1"},
		{name: "that is enough", reuse: "a0", free: "b1", need: 1, near: topology.NodesOf(1), must: "a0", may: "b1"},
	} {
		must, may := devicesAt(tc.reuse+" "+tc.free).align(strings.Fields(tc.reuse), strings.Fields(tc.free), tc.need, tc.near)
		if strings.Join(must, " ") != tc.must || strings.Join(may, " ") != tc.may {
			t.Errorf("%s: %v, %v", tc.name, must, may)
		}
	}
}

func TestHints(t *testing.T) {
	t.Parallel()
	on := topology.NodesOf
	both := []topology.Hint{{Nodes: on(0), Preferred: true}, {Nodes: on(1), Preferred: true}, {Nodes: on(0, 1)}}
	for _, tc := range []struct {
		name       string
		known      string
		own, reuse []string
		need       int
		want       []topology.Hint
	}{
		{name: "no device says", known: "x y", need: 1},
		{name: "one", known: "a0 b1", need: 1, want: both},
		{name: "two", known: "a0 b1", need: 2, want: []topology.Hint{{Nodes: on(0, 1), Preferred: true}}},
		{name: "one of both", known: "ab01", need: 1, want: both},
		{name: "too many", known: "a0 b1", need: 3, want: []topology.Hint{}},
		{name: "those it has", known: "a0 b1", own: []string{"a0"}, need: 1, want: []topology.Hint{{Nodes: on(0), Preferred: true}, {Nodes: on(0, 1)}}},
		{name: "it has others", known: "a0 b1", own: []string{"a0"}, need: 2, want: []topology.Hint{}},
		{name: "a node that the machine has not", known: "a7 x", need: 1, want: []topology.Hint{}},
	} {
		s := state{resources: map[string]*devices{res: devicesAt(tc.known)}}
		if diff := cmp.Diff(tc.want, s.hints(res, tc.own, tc.reuse, tc.need, []int{0, 1})); diff != "" {
			t.Errorf("%s: %s", tc.name, diff)
		}
	}
}

// What is held for a container is what it gets, but for what the plugin prefers among those that are as close; nobody else gets it
// meanwhile, also while a plugin fails to answer.
func TestProvider(t *testing.T) {
	t.Parallel()
	n := start(t, t.TempDir())
	defer n.stop()
	n.cfg.NUMANodes = []int{0, 1}
	p := n.plug(t, res, &fakePlugin{options: &devicepluginv1beta1.DevicePluginOptions{GetPreferredAllocationAvailable: true}, prefers: []string{"a0", "d1"}}, at("a0 b1 c1 d1"))
	provider := Provider{n.Manager}
	u, v := pod("u", asks("x", "2")), pod("v", asks("x", "1"))
	want := map[corev1.ResourceName][]topology.Hint{res: {{Nodes: topology.NodesOf(1), Preferred: true}, {Nodes: topology.NodesOf(0, 1)}}}
	if diff := cmp.Diff(want, provider.Hints(u, &u.Spec.Containers[0])); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(want, provider.PodHints(u)); diff != "" {
		t.Error(diff)
	}
	if err := provider.Allocate(u, &u.Spec.Containers[0], topology.Hint{Nodes: topology.NodesOf(1)}); err != nil {
		t.Fatal(err)
	}
	if err := provider.Allocate(v, &v.Spec.Containers[0], topology.Hint{Nodes: topology.NodesOf(1)}); err != nil {
		t.Fatal(err)
	}
	if got := n.ids("v", "x", res); !cmp.Equal(got, []string{"d1"}) || len(p.allocated) > 0 {
		t.Errorf("v: %v, %v", got, p.allocated)
	}
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	if err := n.allocate(canceled, u); !errors.Is(err, context.Canceled) || len(n.ids("u", "x", res)) != 2 {
		t.Errorf("%v: %v", err, n.ids("u", "x", res))
	}
	if err := n.allocate(t.Context(), u); err != nil || !cmp.Equal(n.ids("u", "x", res), []string{"b1", "c1"}) {
		t.Errorf("%v: %v", err, n.ids("u", "x", res))
	}
	provider.Release("v")
	provider.Release("u") // what is allocated is not only held
	if n.ids("v", "x", res) != nil || len(n.ids("u", "x", res)) != 2 {
		t.Errorf("v: %v, u: %v", n.ids("v", "x", res), n.ids("u", "x", res))
	}
	w := pod("w", asks("x", "3"))
	if err := provider.Allocate(w, &w.Spec.Containers[0], topology.Hint{}); err == nil || !strings.Contains(err.Error(), "Requested: 3, Available: 2") {
		t.Errorf("w: %v", err)
	}
}
