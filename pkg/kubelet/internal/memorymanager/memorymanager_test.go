// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package memorymanager

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"minik8s.io/minik8s/pkg/kubelet/internal/topology"
)

const (
	mi    = 1 << 20
	pages = corev1.ResourceName("hugepages-2Mi")
)

// config is of a machine with three nodes of 100 MiB, of which 20 MiB are huge pages. 10 MiB of node 0 are reserved.
func config(t *testing.T) Config {
	t.Helper()
	m := &topology.Machine{}
	for id := range 3 {
		m.Nodes = append(m.Nodes, topology.Node{ID: id, Memory: 100 * mi, HugePages: map[uint64]uint64{2 * mi: 10, 1 << 30: 0}})
	}
	return Config{
		Policy: Static, Machine: m, RootDir: t.TempDir(), Count: func(error) {}, Reserved: resource.MustParse("10Mi"),
		ReservedOf: []Reservation{{Node: 0, Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("10Mi")}}},
	}
}

func start(t *testing.T, cfg Config) *Manager {
	t.Helper()
	m, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// newPod has a container for each request of memory and, behind a slash, of huge pages, in MiB; "init: " and "sidecar: " are before
// those of init containers. They are called by their number.
func newPod(uid types.UID, requests ...string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: uid}}
	for i, r := range requests {
		c := corev1.Container{Name: string(rune('0' + i))}
		kind, rest, is := strings.Cut(r, ": ")
		if !is {
			kind, rest = "", r
		}
		memory, huge, _ := strings.Cut(rest, "/")
		list := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1"), corev1.ResourceMemory: resource.MustParse(memory + "Mi")}
		if huge != "" {
			list[pages] = resource.MustParse(huge + "Mi")
		}
		c.Resources = corev1.ResourceRequirements{Requests: list, Limits: list}
		if kind == "sidecar" {
			c.RestartPolicy = new(corev1.ContainerRestartPolicyAlways)
		}
		if kind != "" {
			p.Spec.InitContainers = append(p.Spec.InitContainers, c)
		} else {
			p.Spec.Containers = append(p.Spec.Containers, c)
		}
	}
	return p
}

func give(m *Manager, p *corev1.Pod, near topology.Hint) error {
	for _, list := range [][]corev1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for i := range list {
			if err := m.Allocate(p, &list[i], near); err != nil {
				return err
			}
		}
	}
	return nil
}

// nodes are those of each container.
func nodes(m *Manager, p *corev1.Pod) string {
	var out []string
	for _, list := range [][]corev1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for i := range list {
			out = append(out, m.NUMANodes(p.UID, list[i].Name))
		}
	}
	return strings.Join(out, " ")
}

func TestAllocate(t *testing.T) {
	t.Parallel()
	on := topology.NodesOf
	burstable := newPod("p", "10")
	burstable.Spec.Containers[0].Resources.Limits = nil
	podLevel := newPod("p", "10")
	podLevel.Spec.Resources = &corev1.ResourceRequirements{Requests: burstable.Spec.Containers[0].Resources.Requests, Limits: burstable.Spec.Containers[0].Resources.Requests}
	for _, tc := range []struct {
		name  string
		taken []*corev1.Pod // before
		pod   *corev1.Pod
		near  topology.Hint
		want  string         // nodes of each container
		of    topology.Nodes // node 0 by default
		left  uint64         // of these nodes, in MiB
		err   string
	}{
		{name: "not Guaranteed", pod: burstable, left: 70},
		{name: "resources of the pod", pod: podLevel, left: 70},
		{name: "one node", pod: newPod("p", "10", "20"), want: "0 0", left: 40},
		{name: "the second when the first is full", pod: newPod("p", "60", "20/2"), want: "0 1", left: 10},
		{name: "two nodes", pod: newPod("p", "120"), want: "0,1", of: on(0, 1), left: 30},
		{name: "huge pages decide", pod: newPod("p", "10/22"), want: "0,1", of: on(0, 1), left: 140},
		{name: "a hint", pod: newPod("p", "10"), near: topology.Hint{Nodes: on(2), Preferred: true}, want: "2", left: 70},
		{name: "a hint that is too small", pod: newPod("p", "100"), near: topology.Hint{Nodes: on(2)}, want: "0,2", of: on(0, 2), left: 50},
		{
			name: "a node that others have alone is in no group", taken: []*corev1.Pod{newPod("q", "1")}, pod: newPod("p", "120"), want: "1,2", left: 69,
		},
		{name: "nodes of a group are not used alone", taken: []*corev1.Pod{newPod("q", "100")}, pod: newPod("p", "10"), want: "2", of: on(0, 1), left: 50},
		{
			name: "what init containers leave is used again, but for sidecars'", pod: newPod("p", "init: 50", "sidecar: 10", "init: 45", "20", "15"),
			want: "0 0 0 0 0", left: 15, // 55 are used while the second init container runs
		},
		{name: "more than there is", pod: newPod("p", "300"), err: "[memorymanager] failed to get the default NUMA affinity, no NUMA nodes with enough memory is available"},
		{name: "no such pages", pod: func() *corev1.Pod {
			p := newPod("p", "1")
			p.Spec.Containers[0].Resources.Requests["hugepages-1Gi"] = resource.MustParse("1Gi")
			p.Spec.Containers[0].Resources.Limits["hugepages-1Gi"] = resource.MustParse("1Gi")
			return p
		}(), err: "no NUMA nodes with enough memory"},
		{
			name: "not as few nodes as are preferred", taken: []*corev1.Pod{newPod("q", "60"), newPod("r", "70"), newPod("s", "70")}, pod: newPod("p", "20"),
			near: topology.Hint{Preferred: true}, err: "[memorymanager] failed to get the default NUMA affinity",
		},
		{
			name: "not with other nodes", taken: []*corev1.Pod{newPod("q", "60")}, pod: newPod("p", "20"), near: topology.Hint{Nodes: on(0), Preferred: true},
			err: "[memorymanager] failed to find NUMA nodes to extend the current topology hint",
		},
		{
			name: "not more nodes than are preferred", pod: newPod("p", "60", "20"), near: topology.Hint{Nodes: on(0, 1), Preferred: true}, want: "0,1 0,1", of: on(0, 1), left: 70,
		},
		{
			name: "not in a group of others", taken: []*corev1.Pod{newPod("q", "1")}, pod: newPod("p", "20"), near: topology.Hint{Nodes: on(0, 1)},
			err: "[memorymanager] preferred hint violates NUMA node allocation",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			m := start(t, config(t))
			for _, q := range tc.taken {
				if err := give(m, q, topology.Hint{}); err != nil {
					t.Fatal(err)
				}
			}
			err := give(m, tc.pod, tc.near)
			if tc.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.err) {
					t.Errorf("got error %v, want %s", err, tc.err)
				}
				return
			}
			if err != nil || strings.TrimSpace(nodes(m, tc.pod)) != tc.want {
				t.Errorf("got %q, %v, want %q", nodes(m, tc.pod), err, tc.want)
			}
			if tc.of == 0 {
				tc.of = on(0)
			}
			if left := m.table.free(m.state, corev1.ResourceMemory, tc.of) / mi; left != tc.left {
				t.Errorf("%d MiB are left, want %d", left, tc.left)
			}
			for _, q := range append(tc.taken, tc.pod) {
				m.Release(q.UID)
			}
			if left := m.table.free(m.state, corev1.ResourceMemory, on(0)) / mi; left != 70 {
				t.Errorf("%d MiB are left at the end", left)
			}
		})
	}
}

func TestHints(t *testing.T) {
	t.Parallel()
	m := start(t, config(t))
	if err := give(m, newPod("q", "60"), topology.Hint{}); err != nil {
		t.Fatal(err)
	}
	h := func(preferred bool, ids ...int) topology.Hint {
		return topology.Hint{Nodes: topology.NodesOf(ids...), Preferred: preferred}
	}
	p := newPod("p", "20", "90")
	want := []topology.Hint{h(true, 1), h(true, 2), h(false, 1, 2)}
	if diff := cmp.Diff(map[corev1.ResourceName][]topology.Hint{"memory": want}, m.Hints(p, &p.Spec.Containers[0])); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(map[corev1.ResourceName][]topology.Hint{"memory": {h(true, 1, 2)}}, m.PodHints(p)); diff != "" {
		t.Error(diff)
	}
	p = newPod("p", "20/2")
	if diff := cmp.Diff(map[corev1.ResourceName][]topology.Hint{"memory": want, pages: want}, m.PodHints(p)); diff != "" {
		t.Error(diff)
	}
	if got := m.PodHints(newPod("p", "300")); got != nil {
		t.Errorf("%v", got)
	}
}

func TestPodWanted(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		pod  *corev1.Pod
		want uint64
	}{
		{newPod("p", "1", "2"), 3}, {newPod("p", "init: 4", "1", "2"), 4}, {newPod("p", "sidecar: 1", "init: 3", "2"), 4}, {newPod("p", "init: 3", "sidecar: 1", "2"), 3},
	} {
		if got := podWanted(tc.pod)[corev1.ResourceMemory]; got != tc.want*mi {
			t.Errorf("%+v: %d, want %d", tc.pod.Spec, got/mi, tc.want)
		}
	}
}

func TestRestart(t *testing.T) {
	t.Parallel()
	cfg := config(t)
	m := start(t, cfg)
	p := newPod("p", "init: 50", "20/4")
	if err := give(m, p, topology.Hint{Nodes: topology.NodesOf(1)}); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(cfg.RootDir, "memory_manager_state")
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := m.Save(); err == nil {
			t.Fatal("it is saved on a disk that fails")
		}
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := m.Save(); err != nil {
		t.Fatal(err)
	}
	again := start(t, cfg)
	if diff := cmp.Diff(m.state, again.state, cmp.AllowUnexported(state{})); diff != "" || nodes(again, p) != "1 1" {
		t.Errorf("%s %s", nodes(again, p), diff)
	}
	again.Retain(func(types.UID) bool { return false })
	if err := again.Save(); err != nil || len(start(t, cfg).state.own) > 0 {
		t.Errorf("%v", err)
	}
}

func TestNew(t *testing.T) {
	t.Parallel()
	entry := func(block string) string { return `{"policyName":"Static","entries":{"p":{"c":[` + block + `]}}}` }
	for _, tc := range []struct {
		name  string
		state string
		cfg   func(*Config)
		err   string
	}{
		{name: "as it was", state: entry(`{"numaAffinity":[0,1],"type":"memory","size":100}`)},
		{name: "another policy", state: `{"policyName":"None"}`, err: `configured policy "Static" differs from state checkpoint policy "None"; please drain the node and remove `},
		{name: "no policy now", state: `{"policyName":"Static"}`, cfg: func(c *Config) { c.Policy = None }, err: `configured policy "None" differs`},
		{name: "no policy", cfg: func(c *Config) { c.Policy, c.Machine = None, &topology.Machine{} }},
		{name: "half a file", state: `{"poli`, err: "unexpected end of JSON input"},
		{name: "a node has gone", state: entry(`{"numaAffinity":[3],"type":"memory","size":1}`), err: "(pod: p, container: c) the memory assignment uses the NUMA that does not exist"},
		{name: "pages have gone", state: entry(`{"numaAffinity":[0],"type":"hugepages-64Ki","size":1}`), err: "uses memory resource that does not exist"},
		{name: "memory has gone", state: entry(`{"numaAffinity":[0],"type":"memory","size":100000000}`), err: "the expected machine state is different from the real one"},
		{name: "no such policy", cfg: func(c *Config) { c.Policy = "static" }, err: `unknown policy: "static"`},
		{name: "nothing reserved", cfg: func(c *Config) { c.ReservedOf, c.Reserved = nil, resource.Quantity{} }, err: "you should specify the system reserved memory"},
		{name: "less reserved", cfg: func(c *Config) { c.Reserved = resource.MustParse("11Mi") }, err: `the total amount "10Mi" of type "memory" is not equal to the value "11Mi" determined by Node Allocatable feature`},
		{name: "pages reserved", cfg: func(c *Config) { c.ReservedOf[0].Limits[pages] = resource.MustParse("2Mi") }, err: `the total amount "2Mi" of type "hugepages-2Mi" is not equal to the value "0"`},
		{name: "of no node", cfg: func(c *Config) { c.ReservedOf[0].Node = 7 }, err: "references a NUMA node 7 that does not exist on this machine"},
		{name: "more than a node has", cfg: func(c *Config) {
			c.ReservedOf[0].Limits[corev1.ResourceMemory], c.Reserved = resource.MustParse("81Mi"), resource.MustParse("81Mi")
		}, err: "NUMA node 0 has not the 81Mi of memory that are reserved"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			cfg := config(t)
			if tc.cfg != nil {
				tc.cfg(&cfg)
			}
			if tc.state != "" {
				if err := os.WriteFile(filepath.Join(cfg.RootDir, "memory_manager_state"), []byte(tc.state), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			_, err := New(cfg)
			if tc.err == "" && err != nil || tc.err != "" && (err == nil || !strings.Contains(err.Error(), tc.err)) {
				t.Errorf("got error %v, want %q", err, tc.err)
			}
		})
	}
}

func TestAllocatable(t *testing.T) {
	t.Parallel()
	cfg := config(t)
	cfg.Machine.Nodes = cfg.Machine.Nodes[:1]
	want := []Block{{[]int{0}, pages, 20 * mi}, {[]int{0}, corev1.ResourceMemory, 70 * mi}}
	if diff := cmp.Diff(want, start(t, cfg).Allocatable()); diff != "" {
		t.Error(diff)
	}
}
