// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package cpumanager

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/cpuset"

	"minik8s.io/minik8s/pkg/kubelet/internal/topology"
)

// machine has sockets of nodes of caches of cores of two threads. The threads of core c are c and c + the number of cores.
func machine(sockets, nodes, caches, cores int) *topology.Machine {
	m := &topology.Machine{CPUs: map[int]topology.CPU{}}
	all := sockets * nodes * caches * cores
	for c := range all {
		cpu := topology.CPU{Core: c, Cache: c / cores * cores, Node: c / (cores * caches), Socket: c / (cores * caches * nodes)}
		m.CPUs[c], m.CPUs[c+all] = cpu, cpu
	}
	for id := range sockets * nodes {
		m.Nodes = append(m.Nodes, topology.Node{ID: id})
	}
	return m
}

func set(t *testing.T, text string) cpuset.CPUSet {
	t.Helper()
	s, err := cpuset.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestChoose(t *testing.T) {
	t.Parallel()
	small, large := machine(2, 1, 1, 3), machine(2, 2, 2, 2) // 0-2,6-8 and 3-5,9-11; nodes of 0-3,16-19 and so on, caches of 0-1,16-17
	for _, tc := range []struct {
		name    string
		machine *topology.Machine
		free    string
		n       int
		options Options
		want    string // "": there are not enough
	}{
		{name: "none", machine: small, free: "0-11", n: 0, want: "none"},
		{name: "one thread", machine: small, free: "0-11", n: 1, want: "0"},
		{name: "one of the core that is in use", machine: small, free: "1-11", n: 1, want: "6"},
		{name: "a core", machine: small, free: "0-11", n: 2, want: "0,6"},
		{name: "a core before two halves", machine: small, free: "0-4,7,10", n: 2, want: "4,10"},
		{name: "a socket", machine: small, free: "0-11", n: 6, want: "0-2,6-8"},
		{name: "the socket with fewer free", machine: small, free: "1-11", n: 4, want: "1-2,7-8"},
		{name: "a socket and a core", machine: small, free: "0-11", n: 8, want: "0-3,6-9"},
		{name: "all", machine: small, free: "0-11", n: 12, want: "0-11"},
		{name: "too many", machine: small, free: "0-10", n: 12},
		{name: "cores apart", machine: small, free: "0-11", n: 3, options: Options{DistributeAcrossCores: true}, want: "0-2"},
		{name: "a cache", machine: large, free: "1-31", n: 4, options: Options{PreferAlignByCache: true}, want: "2-3,18-19"},
		{name: "a cache and part of another", machine: large, free: "1-31", n: 5, options: Options{PreferAlignByCache: true}, want: "2-3,16,18-19"},
		{name: "whatever caches", machine: large, free: "1-31", n: 5, want: "1-2,16-18"},
		{name: "one node is enough", machine: large, free: "0-31", n: 8, options: Options{DistributeAcrossNUMA: true}, want: "0-3,16-19"},
		{name: "as many of each", machine: large, free: "0-31", n: 10, options: Options{DistributeAcrossNUMA: true}, want: "0-2,4-6,16-17,20-21"},
		{name: "whole cores of each", machine: large, free: "0-31", n: 10, options: Options{DistributeAcrossNUMA: true, FullPhysicalCPUsOnly: true}, want: "0-2,4-5,16-18,20-21"},
		{
			name: "as many of each, of one socket", machine: large, free: "3-31", n: 10,
			options: Options{DistributeAcrossNUMA: true, AlignBySocket: true}, want: "8-10,12-14,24-25,28-29",
		},
		{name: "no way to be even", machine: small, free: "0,3-5,9-11", n: 7, options: Options{DistributeAcrossNUMA: true}, want: "0,3-5,9-11"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			got, err := choose(tc.machine, set(t, tc.free), tc.n, tc.options)
			want := strings.TrimSuffix(tc.want, "none")
			if (err != nil) != (tc.want == "") || got.String() != want {
				t.Errorf("got %s, %v, want %s", got, err, tc.want)
			}
		})
	}
}

func requirements(cpu string) corev1.ResourceRequirements {
	list := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse("1Mi")}
	return corev1.ResourceRequirements{Requests: list, Limits: list}
}

// newPod has a container for each CPU request, "init: " and "sidecar: " before those of init containers; they are called by
// their number.
func newPod(uid types.UID, cpus ...string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: uid}}
	for i, cpu := range cpus {
		c := corev1.Container{Name: string(rune('0' + i))}
		if rest, is := strings.CutPrefix(cpu, "sidecar: "); is {
			c.Resources, c.RestartPolicy = requirements(rest), new(corev1.ContainerRestartPolicyAlways)
			p.Spec.InitContainers = append(p.Spec.InitContainers, c)
		} else if rest, is := strings.CutPrefix(cpu, "init: "); is {
			c.Resources = requirements(rest)
			p.Spec.InitContainers = append(p.Spec.InitContainers, c)
		} else {
			c.Resources = requirements(cpu)
			p.Spec.Containers = append(p.Spec.Containers, c)
		}
	}
	return p
}

// counts notes what it is told.
type counts struct{ told []string }

func (c *counts) CPUs(err error) { c.told = append(c.told, fmt.Sprint("CPUs: ", err)) }

func (c *counts) Aligned(scope, boundary string, is bool) {
	c.told = append(c.told, fmt.Sprintf("%s %s: %v", scope, boundary, is))
}

func config(t *testing.T) Config {
	t.Helper()
	return Config{
		Policy: Static, Machine: machine(2, 1, 1, 2), Reserved: resource.MustParse("1"), ReservedCPUs: cpuset.New(0), RootDir: t.TempDir(), Changed: func() {}, Counts: &counts{},
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

// give allocates for all containers and returns who has what.
func give(m *Manager, p *corev1.Pod, near topology.Nodes) (map[string]string, error) {
	out := map[string]string{}
	for _, c := range containers(p) {
		if err := m.Allocate(p, c, topology.Hint{Nodes: near}); err != nil {
			return out, err
		}
		if own := m.Own(p.UID, c.Name); !own.IsEmpty() {
			out[c.Name] = own.String()
		}
	}
	return out, nil
}

// The machine has the cores 0,4 and 1,5 in one socket, 2,6 and 3,7 in the other. CPU 0 is reserved.
func TestAllocate(t *testing.T) {
	t.Parallel()
	burstable := newPod("p", "2")
	burstable.Spec.Containers[0].Resources.Limits = nil
	podLevel := newPod("p", "2")
	podLevel.Spec.Resources = new(requirements("2"))
	for _, tc := range []struct {
		name    string
		options Options
		pod     *corev1.Pod
		near    topology.Nodes
		want    map[string]string
		shared  string
		err     string
	}{
		{name: "not Guaranteed", pod: burstable, shared: "0-7"},
		{name: "resources of the pod", pod: podLevel, shared: "0-7"},
		{name: "not whole", pod: newPod("p", "1500m", "1"), want: map[string]string{"1": "4"}, shared: "0-3,5-7"},
		{name: "two containers", pod: newPod("p", "2", "1"), want: map[string]string{"0": "1,5", "1": "4"}, shared: "0,2-3,6-7"},
		{name: "close to a node", pod: newPod("p", "2"), near: topology.NodesOf(1), want: map[string]string{"0": "2,6"}, shared: "0-1,3-5,7"},
		{name: "more than a node has", pod: newPod("p", "5"), near: topology.NodesOf(1), want: map[string]string{"0": "2-4,6-7"}, shared: "0-1,5"},
		{
			name: "what init containers leave is used again, but for sidecars'", pod: newPod("p", "init: 3", "sidecar: 1", "init: 2", "2", "1"),
			want: map[string]string{"0": "1,4-5", "1": "4", "2": "1,5", "3": "1,5", "4": "2"}, shared: "0,3,6-7",
		},
		{name: "too many", pod: newPod("p", "8"), err: "not enough cpus available to satisfy request: requested=8, available=7"},
		{name: "half a core", options: Options{FullPhysicalCPUsOnly: true}, pod: newPod("p", "3"), err: "SMT Alignment Error: requested 3 cpus not multiple cpus per core = 2"},
		{
			name: "not so many whole cores", options: Options{FullPhysicalCPUsOnly: true}, pod: newPod("p", "8"),
			err: "SMT Alignment Error: not enough free physical CPUs: available physical CPUs = 6, requested CPUs = 8, CPUs per core = 2",
		},
		{name: "the reserved ones are not shared", options: Options{StrictReservation: true}, pod: newPod("p", "2"), want: map[string]string{"0": "1,5"}, shared: "2-4,6-7"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			cfg := config(t)
			cfg.Options = tc.options
			m := start(t, cfg)
			got, err := give(m, tc.pod, tc.near)
			if tc.err != "" {
				if err == nil || err.Error() != tc.err {
					t.Errorf("got error %v, want %s", err, tc.err)
				}
				return
			}
			if tc.want == nil {
				tc.want = map[string]string{}
			}
			if err != nil || !cmp.Equal(tc.want, got) || m.CPUs("other", "c").String() != tc.shared {
				t.Errorf("got %v, %v, shared %s; want %v, shared %s", got, err, m.CPUs("other", "c"), tc.want, tc.shared)
			}
			m.Release("p")
			if want := m.policy.usable(); !m.CPUs("other", "c").Equals(want) {
				t.Errorf("shared %s after the end, want %s", m.CPUs("other", "c"), want)
			}
		})
	}
}

// What was decided is there after a restart, and containers are moved when it is on disk, and only then.
func TestRestart(t *testing.T) {
	t.Parallel()
	cfg, moved := config(t), 0
	cfg.Changed = func() { moved++ }
	m := start(t, cfg)
	p := newPod("p", "2")
	want, err := give(m, p, 0)
	if err != nil || moved > 0 {
		t.Fatalf("%v, moved %d", err, moved)
	}
	if err := m.Save(); err != nil || moved != 1 {
		t.Fatalf("%v, moved %d", err, moved)
	}
	if err := m.Save(); err != nil || moved != 1 {
		t.Fatalf("again: %v, moved %d", err, moved)
	}
	m = start(t, cfg)
	if got, err := give(m, p, topology.NodesOf(1)); err != nil || !cmp.Equal(want, got) || !m.Exclusive("p") {
		t.Errorf("got %v, %v, want %v", got, err, want)
	}
	m.Retain(func(types.UID) bool { return false })
	if err := m.Save(); err != nil || m.Exclusive("p") || moved != 2 {
		t.Errorf("%v, moved %d", err, moved)
	}
	if m = start(t, cfg); m.Exclusive("p") || m.CPUs("p", "0").String() != "0-7" {
		t.Errorf("shared: %s", m.CPUs("p", "0"))
	}
}

func TestSave_DiskFails(t *testing.T) {
	t.Parallel()
	cfg, moved := config(t), 0
	cfg.Changed = func() { moved++ }
	m := start(t, cfg)
	path := filepath.Join(cfg.RootDir, "cpu_manager_state")
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := give(m, newPod("p", "2"), 0); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := m.Save(); err == nil || moved > 0 {
			t.Fatalf("%v, moved %d", err, moved)
		}
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := m.Save(); err != nil || moved != 1 || start(t, cfg).Own("p", "0").String() != "1,5" {
		t.Errorf("%v, moved %d", err, moved)
	}
}

func TestNew(t *testing.T) {
	t.Parallel()
	const one = `"entries":{"p":{"c":"1"}}`
	for _, tc := range []struct {
		name  string
		state string
		cfg   func(*Config)
		err   string
	}{
		{name: "as it was", state: `{"policyName":"static","defaultCpuSet":"0,2-7",` + one + `}`},
		{name: "another policy", state: `{"policyName":"none","defaultCpuSet":""}`, err: `configured policy "static" differs from state checkpoint policy "none"; please drain the node and remove `},
		{name: "no policy", state: `{"policyName":"none"}`, cfg: func(c *Config) { c.Policy = None }},
		{name: "no policy now", state: `{"policyName":"static","defaultCpuSet":"0-7"}`, cfg: func(c *Config) { c.Policy = None }, err: `configured policy "none" differs from state checkpoint policy "static"`},
		{name: "half a file", state: `{"policyName":"sta`, err: "unexpected end of JSON input"},
		{name: "no CPUs", state: `{"policyName":"static","defaultCpuSet":"x"}`, err: `could not parse default CPU set "x"`},
		{name: "no CPUs of a container", state: `{"policyName":"static","defaultCpuSet":"0","entries":{"p":{"c":"x"}}}`, err: `could not parse cpuset "x" for container "c" in pod "p"`},
		{name: "CPUs have come", state: `{"policyName":"static","defaultCpuSet":"0,2-6",` + one + `}`, err: `current set of available CPUs "0-7" doesn't match with CPUs in state "0-6"`},
		{name: "twice", state: `{"policyName":"static","defaultCpuSet":"0-7",` + one + `}`, err: `pod: p, container: c cpuset: "1" overlaps with default cpuset "0-7"`},
		{name: "others are reserved", state: `{"policyName":"static","defaultCpuSet":"0,2-7",` + one + `}`, cfg: func(c *Config) { c.ReservedCPUs = cpuset.New(1) }, err: `not all reserved cpus: "1" are present in defaultCpuSet: "0,2-7"`},
		{name: "strictly", state: `{"policyName":"static","defaultCpuSet":"0-7"}`, cfg: func(c *Config) { c.Options.StrictReservation = true }, err: `some of strictly reserved cpus: "0" are present in defaultCpuSet: "0-7"`},
		{name: "nothing reserved", cfg: func(c *Config) { c.Reserved = resource.Quantity{} }, err: "requires systemreserved.cpu + kubereserved.cpu to be greater than zero"},
		{name: "CPUs that are not there", cfg: func(c *Config) { c.ReservedCPUs = cpuset.New(8) }, err: "unable to reserve the required amount of CPUs"},
		{name: "more than there are", cfg: func(c *Config) { c.ReservedCPUs, c.Reserved = cpuset.New(), resource.MustParse("9") }, err: "unable to reserve the required amount of CPUs"},
		{name: "sockets and single nodes", cfg: func(c *Config) { c.Options.AlignBySocket, c.SingleNode = true, true }, err: "single-numa-node policy is incompatible"},
		{name: "sockets", cfg: func(c *Config) { c.Options.AlignBySocket = true }},
		{name: "no such policy", cfg: func(c *Config) { c.Policy = "x" }, err: `unknown policy: "x"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			cfg := config(t)
			if tc.cfg != nil {
				tc.cfg(&cfg)
			}
			if tc.state != "" {
				if err := os.WriteFile(filepath.Join(cfg.RootDir, "cpu_manager_state"), []byte(tc.state), 0o600); err != nil {
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

// Without CPUs that are named, the lowest cores are reserved; part of a CPU is one.
func TestReserved(t *testing.T) {
	t.Parallel()
	cfg := config(t)
	cfg.ReservedCPUs, cfg.Reserved = cpuset.New(), resource.MustParse("1100m")
	if got := start(t, cfg).Allocatable().String(); got != "1-3,5-7" {
		t.Errorf("allocatable: %s", got)
	}
}

func TestHints(t *testing.T) {
	t.Parallel()
	on := topology.NodesOf
	both := map[corev1.ResourceName][]topology.Hint{"cpu": {{Nodes: on(0), Preferred: true}, {Nodes: on(1), Preferred: true}, {Nodes: on(0, 1)}}}
	for _, tc := range []struct {
		name      string
		pod       *corev1.Pod
		given     int // so many containers have their CPUs, of node 1
		container int
		bySocket  bool
		want, all map[corev1.ResourceName][]topology.Hint
	}{
		{name: "nothing", pod: newPod("p", "1500m")},
		{name: "any node", pod: newPod("p", "2"), want: both, all: both},
		{
			name: "together", pod: newPod("p", "2", "2"), want: both,
			all: map[corev1.ResourceName][]topology.Hint{"cpu": {{Nodes: on(1), Preferred: true}, {Nodes: on(0, 1)}}},
		},
		{
			name: "not enough", pod: newPod("p", "8"),
			want: map[corev1.ResourceName][]topology.Hint{"cpu": {}}, all: map[corev1.ResourceName][]topology.Hint{"cpu": {}},
		},
		{
			name: "what it has", pod: newPod("p", "2"), given: 1, want: map[corev1.ResourceName][]topology.Hint{"cpu": {{Nodes: on(1), Preferred: true}, {Nodes: on(0, 1)}}},
			all: map[corev1.ResourceName][]topology.Hint{"cpu": {{Nodes: on(1), Preferred: true}, {Nodes: on(0, 1)}}},
		},
		{
			name: "what an init container leaves", pod: newPod("p", "init: 2", "2"), given: 1, container: 1,
			want: map[corev1.ResourceName][]topology.Hint{"cpu": {{Nodes: on(1), Preferred: true}, {Nodes: on(0, 1)}}},
			all:  map[corev1.ResourceName][]topology.Hint{"cpu": {{Nodes: on(1), Preferred: true}, {Nodes: on(0, 1)}}},
		},
		{
			name: "the sockets count", pod: newPod("p", "5"), bySocket: true,
			want: map[corev1.ResourceName][]topology.Hint{"cpu": {{Nodes: on(0, 1), Preferred: true}}}, all: map[corev1.ResourceName][]topology.Hint{"cpu": {{Nodes: on(0, 1), Preferred: true}}},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			cfg := config(t)
			cfg.Options.AlignBySocket = tc.bySocket
			m := start(t, cfg)
			for _, c := range containers(tc.pod)[:tc.given] {
				if err := m.Allocate(tc.pod, c, topology.Hint{Nodes: on(1)}); err != nil {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff(tc.want, m.Hints(tc.pod, containers(tc.pod)[tc.container])); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(tc.all, m.PodHints(tc.pod)); diff != "" {
				t.Errorf("pod: %s", diff)
			}
		})
	}
}

func TestPodWanted(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		pod  *corev1.Pod
		want int
	}{
		{newPod("p", "1", "2"), 3}, {newPod("p", "init: 4", "1", "2"), 4}, {newPod("p", "sidecar: 1", "init: 3", "2"), 4},
		{newPod("p", "init: 3", "sidecar: 1", "2"), 3}, {newPod("p", "sidecar: 1", "sidecar: 2", "500m"), 3},
	} {
		if got := podWanted(tc.pod); got != tc.want {
			t.Errorf("%+v: %d, want %d", tc.pod.Spec, got, tc.want)
		}
	}
}

func TestParseOptions(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		values map[string]string
		want   Options
		err    string
	}{
		{},
		{values: map[string]string{"full-pcpus-only": "true", "distribute-cpus-across-numa": "1", "align-by-socket": "false", "strict-cpu-reservation": "true"}, want: Options{FullPhysicalCPUsOnly: true, DistributeAcrossNUMA: true, StrictReservation: true}},
		{values: map[string]string{"x": "true"}, err: `unknown CPU Manager Policy option: "x"`},
		{values: map[string]string{"full-pcpus-only": "x"}, err: `bad value for option "full-pcpus-only"`},
		{values: map[string]string{"full-pcpus-only": "true", "distribute-cpus-across-cores": "true"}, err: "static policy options full-pcpus-only and distribute-cpus-across-cores can not be used at the same time"},
		{values: map[string]string{"prefer-align-cpus-by-uncorecache": "true", "distribute-cpus-across-numa": "true"}, err: "can not be used at the same time"},
	} {
		got, err := ParseOptions(tc.values)
		if tc.err == "" && (err != nil || got != tc.want) || tc.err != "" && (err == nil || !strings.Contains(err.Error(), tc.err)) {
			t.Errorf("%v: %+v, %v", tc.values, got, err)
		}
	}
}

// TestCounts is what is told of containers that want CPUs of their own, and how many are in use then.
func TestCounts(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name    string
		options Options
		pod     *corev1.Pod
		told    []string
		shared  int
		own     map[int]int
	}{
		{name: "shared", pod: newPod("a", "500m"), shared: 7, own: map[int]int{0: 0, 1: 0}},
		{name: "one", pod: newPod("a", "1"), told: []string{"CPUs: <nil>", "container uncore_cache: true"}, shared: 6, own: map[int]int{0: 1, 1: 0}},
		{name: "two", pod: newPod("a", "2", "1"), told: []string{
			"CPUs: <nil>", "container uncore_cache: true", "CPUs: <nil>", "container uncore_cache: true",
		}, shared: 4, own: map[int]int{0: 3, 1: 0}},
		{name: "too many", pod: newPod("a", "8"), told: []string{"CPUs: not enough cpus available to satisfy request: requested=8, available=7"}, shared: 7, own: map[int]int{0: 0, 1: 0}},
		{name: "half a core", options: Options{FullPhysicalCPUsOnly: true}, pod: newPod("a", "1"), told: []string{
			"CPUs: SMT Alignment Error: requested 1 cpus not multiple cpus per core = 2", "container physical_cpu: false",
		}, shared: 7, own: map[int]int{0: 0, 1: 0}},
		{name: "a core", options: Options{FullPhysicalCPUsOnly: true}, pod: newPod("a", "2"), told: []string{
			"CPUs: <nil>", "container physical_cpu: true", "container uncore_cache: true",
		}, shared: 5, own: map[int]int{0: 2, 1: 0}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			c := &counts{}
			cfg := config(t)
			cfg.Options, cfg.Counts = tc.options, c
			m := start(t, cfg)
			_, _ = give(m, tc.pod, 0) // what comes of it is counted
			if diff := cmp.Diff(tc.told, c.told); diff != "" {
				t.Errorf("told (-want +got):\n%s", diff)
			}
			shared, own := m.Usage()
			if diff := cmp.Diff(tc.own, own); diff != "" || shared != tc.shared {
				t.Errorf("%d are shared, want %d; alone (-want +got):\n%s", shared, tc.shared, diff)
			}
		})
	}
}
