// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/cpuset"
)

// tree writes files below a new root.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// twoSockets are two sockets, each a node, of two cores with two threads; the threads of core c are c and c+4. CPU 7 is offline.
func twoSockets() map[string]string {
	files := map[string]string{cpuDir + "/online": "0-6"}
	for cpu := range 7 {
		dir := fmt.Sprintf("%s/cpu%d/", cpuDir, cpu)
		core, socket := cpu%4, cpu%4/2
		files[dir+"topology/thread_siblings_list"] = fmt.Sprintf("%d,%d", core, core+4)
		files[dir+"topology/physical_package_id"] = fmt.Sprint(socket)
		files[dir+"topology/core_siblings_list"] = fmt.Sprintf("%d-%d,%d-%d", socket*2, socket*2+1, socket*2+4, socket*2+5)
		files[dir+"cache/index2/level"], files[dir+"cache/index2/shared_cpu_list"] = "2", fmt.Sprint(cpu)
		if socket == 1 { // whose cores have a cache each
			files[dir+"cache/index3/level"], files[dir+"cache/index3/shared_cpu_list"] = "3", fmt.Sprintf("%d,%d", core, core+4)
		}
	}
	for node, cpus := range []string{"0-1,4-5", "2-3,6"} {
		dir := fmt.Sprintf("%s/node%d/", nodeDir, node)
		files[dir+"cpulist"] = cpus
		files[dir+"meminfo"] = fmt.Sprintf("Node %d MemTotal:       %d kB\nNode %d MemFree: 1 kB", node, 1000+node, node)
		files[dir+"distance"] = []string{"10 21", "21 10"}[node]
		files[dir+"hugepages/hugepages-2048kB/nr_hugepages"] = fmt.Sprint(3 * node)
	}
	return files
}

func TestRead(t *testing.T) {
	t.Parallel()
	pages := uint64(2 << 20)
	full := &Machine{
		CPUs: map[int]CPU{
			0: {Core: 0, Cache: 0}, 4: {Core: 0, Cache: 0}, 1: {Core: 1, Cache: 0}, 5: {Core: 1, Cache: 0},
			2: {Core: 2, Cache: 2, Socket: 1, Node: 1}, 6: {Core: 2, Cache: 2, Socket: 1, Node: 1}, 3: {Core: 3, Cache: 3, Socket: 1, Node: 1},
		},
		Nodes: []Node{
			{ID: 0, Memory: 1000 << 10, HugePages: map[uint64]uint64{pages: 0}, Distances: []uint64{10, 21}},
			{ID: 1, Memory: 1001 << 10, HugePages: map[uint64]uint64{pages: 3}, Distances: []uint64{21, 10}},
		},
	}
	for _, tc := range []struct {
		name  string
		files map[string]string
		want  *Machine
		err   string
	}{
		{name: "two sockets", files: twoSockets(), want: full},
		{
			name: "a machine that tells next to nothing",
			files: map[string]string{
				cpuDir + "/online": "0-1", "proc/meminfo": "MemTotal: 7 kB", hugePagesDir + "/hugepages-2048kB/nr_hugepages": "2",
				cpuDir + "/cpu1/topology/physical_package_id": "-1",
			},
			want: &Machine{
				CPUs:  map[int]CPU{0: {}, 1: {Core: 1, Cache: 1}},
				Nodes: []Node{{Memory: 7 << 10, HugePages: map[uint64]uint64{pages: 2}, Distances: []uint64{10}}},
			},
		},
		{name: "no CPUs", files: map[string]string{cpuDir + "/online": ""}, err: "could not detect number of cpus"},
		{name: "nothing", err: "no such file"},
		{name: "no list", files: map[string]string{cpuDir + "/online": "x"}, err: "reading which CPUs there are"},
		{
			name:  "a node without memory",
			files: map[string]string{cpuDir + "/online": "0", nodeDir + "/node0/cpulist": "0", nodeDir + "/node0/meminfo": ""}, err: "no MemTotal",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			got, err := Read(tree(t, tc.files))
			if err != nil || tc.err != "" {
				if err == nil || tc.err == "" || !strings.Contains(err.Error(), tc.err) {
					t.Fatalf("got error %v, want %q", err, tc.err)
				}
				return
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// The machine that the tests run on can be read.
func TestRead_Real(t *testing.T) {
	t.Parallel()
	m, err := Read("/")
	if err != nil {
		t.Fatal(err)
	}
	if len(m.CPUs) == 0 || len(m.Nodes) == 0 || m.Nodes[0].Memory == 0 {
		t.Errorf("%+v", m)
	}
}

func TestMachine(t *testing.T) {
	t.Parallel()
	m, err := Read(tree(t, twoSockets()))
	if err != nil {
		t.Fatal(err)
	}
	if got := m.In(Core, 0, 3).String(); got != "0,3-4" {
		t.Errorf("CPUs of two cores: %s", got)
	}
	if got := m.IDs(Cache, cpuset.New(6, 3, 0)); !cmp.Equal(got, []int{0, 2, 3}) {
		t.Errorf("caches: %v", got)
	}
	if got := m.Per(Socket); got != 3 {
		t.Errorf("CPUs of a socket: %d", got)
	}
}

func TestNodes(t *testing.T) {
	t.Parallel()
	s := NodesOf(3, 0, 64, -1)
	if !cmp.Equal(s.IDs(), []int{0, 3}) || s.Count() != 2 || !s.Has(3) || s.Has(1) || s.Has(64) {
		t.Errorf("%b", s)
	}
	for _, tc := range []struct {
		a, b     Nodes
		narrower bool
	}{
		{NodesOf(3), NodesOf(0, 1), true}, {NodesOf(0, 1), NodesOf(3), false}, {NodesOf(0), NodesOf(1), true}, {NodesOf(1), NodesOf(1), false},
	} {
		if got := tc.a.Narrower(tc.b); got != tc.narrower {
			t.Errorf("%v narrower than %v: %v", tc.a.IDs(), tc.b.IDs(), got)
		}
	}
}

func TestHints(t *testing.T) {
	t.Parallel()
	// Three nodes with two of something each; none is left on the first.
	in := func(s Nodes, each []int) int {
		n := 0
		for _, id := range s.IDs() {
			n += each[id]
		}
		return n
	}
	for _, tc := range []struct {
		need int
		want []Hint
	}{
		{need: 2, want: []Hint{
			{NodesOf(1), true}, {NodesOf(2), true}, {NodesOf(0, 1), false}, {NodesOf(0, 2), false}, {NodesOf(1, 2), false}, {NodesOf(0, 1, 2), false},
		}},
		{need: 3, want: []Hint{{NodesOf(1, 2), true}, {NodesOf(0, 1, 2), false}}},
		{need: 5, want: []Hint{}},
	} {
		got := Hints([]int{0, 1, 2},
			func(s Nodes) bool { return in(s, []int{2, 2, 2}) >= tc.need }, func(s Nodes) bool { return in(s, []int{0, 2, 2}) >= tc.need })
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%d: %s", tc.need, diff)
		}
	}
}
