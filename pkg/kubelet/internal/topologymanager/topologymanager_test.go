// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package topologymanager

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"minik8s.io/minik8s/pkg/kubelet/internal/podworker"
	"minik8s.io/minik8s/pkg/kubelet/internal/status"
	"minik8s.io/minik8s/pkg/kubelet/internal/topology"
)

func TestMerge(t *testing.T) {
	t.Parallel()
	on := topology.NodesOf
	type list = []topology.Hint
	for _, tc := range []struct {
		name  string
		hints []hints
		// near and admitted are those of best-effort, restricted and single-numa-node.
		near     [3]topology.Nodes
		admitted [3]bool
	}{
		{name: "nobody cares", hints: []hints{nil, {"a": nil}}, near: [3]topology.Nodes{on(0, 1, 2), on(0, 1, 2), 0}, admitted: [3]bool{true, true, true}},
		{name: "not enough", hints: []hints{{"a": list{}}}, near: [3]topology.Nodes{on(0, 1, 2), on(0, 1, 2), 0}, admitted: [3]bool{true, false, false}},
		{
			name:  "both prefer the same",
			hints: []hints{{"a": list{{Nodes: on(0), Preferred: true}, {Nodes: on(1), Preferred: true}, {Nodes: on(0, 1), Preferred: false}}}, {"b": list{{Nodes: on(1), Preferred: true}, {Nodes: on(0, 1), Preferred: false}}}},
			near:  [3]topology.Nodes{on(1), on(1), on(1)}, admitted: [3]bool{true, true, true},
		},
		{
			name:  "they prefer others",
			hints: []hints{{"a": list{{Nodes: on(0), Preferred: true}, {Nodes: on(0, 1), Preferred: false}}, "b": list{{Nodes: on(1), Preferred: true}, {Nodes: on(0, 1), Preferred: false}}}},
			near:  [3]topology.Nodes{on(0), on(0), 0}, admitted: [3]bool{true, false, false},
		},
		{
			name:  "two nodes are needed",
			hints: []hints{{"a": list{{Nodes: on(0, 1), Preferred: true}, {Nodes: on(0, 1, 2), Preferred: false}}}, {"b": list{{Nodes: on(0), Preferred: true}, {Nodes: on(0, 1), Preferred: true}}}},
			near:  [3]topology.Nodes{on(0, 1), on(0, 1), 0}, admitted: [3]bool{true, true, false},
		},
		{
			name:  "nodes that are close to each other",
			hints: []hints{{"a": list{{Nodes: on(0, 1), Preferred: true}, {Nodes: on(0, 2), Preferred: true}, {Nodes: on(1, 2), Preferred: true}}}},
			near:  [3]topology.Nodes{on(1, 2), on(1, 2), 0}, admitted: [3]bool{true, true, false},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			nodes := []topology.Node{{ID: 0, Distances: []uint64{10, 30, 30}}, {ID: 1, Distances: []uint64{30, 10, 20}}, {ID: 2, Distances: []uint64{30, 20, 10}}}
			for i, policy := range []string{BestEffort, Restricted, SingleNUMANode} {
				near, admit := merger{policy: policy, nodes: nodes, closest: true}.merge(tc.hints)
				if near.Nodes != tc.near[i] || admit != tc.admitted[i] {
					t.Errorf("%s: near %v, admitted %v; want %v, %v", policy, near.Nodes.IDs(), admit, tc.near[i].IDs(), tc.admitted[i])
				}
			}
		})
	}
}

func TestParseOptions(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		values map[string]string
		want   Options
		err    string
	}{
		{want: Options{MaxNodes: 8}},
		{values: map[string]string{"prefer-closest-numa-nodes": "true", "max-allowable-numa-nodes": "9"}, want: Options{PreferClosest: true, MaxNodes: 9}},
		{values: map[string]string{"max-allowable-numa-nodes": "7"}, err: "should not be less than 8"},
		{values: map[string]string{"max-allowable-numa-nodes": "x"}, err: "unable to convert policy option to integer"},
		{values: map[string]string{"prefer-closest-numa-nodes": "x"}, err: "bad value for option"},
		{values: map[string]string{"x": "true"}, err: `unknown Topology Manager Policy option: "x"`},
	} {
		got, err := ParseOptions(tc.values)
		if tc.err != "" {
			if err == nil || !strings.Contains(err.Error(), tc.err) {
				t.Errorf("%v: %v, want %q", tc.values, err, tc.err)
			}
		} else if err != nil || got != tc.want {
			t.Errorf("%v: %+v, %v", tc.values, got, err)
		}
	}
}

// slots is a provider with two nodes that have one thing each.
type slots struct {
	owner   [2]string // pod/container
	saved   [2]string
	saves   int
	saveErr error
}

func (s *slots) Hints(*corev1.Pod, *corev1.Container) hints { return s.hints(1) }

func (s *slots) PodHints(p *corev1.Pod) hints { return s.hints(len(p.Spec.Containers)) }

func (s *slots) hints(n int) hints {
	free := func(set topology.Nodes) (n int) {
		for _, id := range set.IDs() {
			if s.owner[id] == "" {
				n++
			}
		}
		return n
	}
	return hints{"slot": topology.Hints([]int{0, 1},
		func(set topology.Nodes) bool { return set.Count() >= n }, func(set topology.Nodes) bool { return free(set) >= n })}
}

type noRoom struct{}

func (noRoom) Error() string  { return "no room" }
func (noRoom) Reason() string { return "NoRoom" }

func (s *slots) Allocate(p *corev1.Pod, c *corev1.Container, near topology.Hint) error {
	if c.Name == "odd" {
		return errors.New("it is odd")
	}
	for i := range s.owner {
		if s.owner[i] == "" && (near.Nodes == 0 || near.Nodes.Has(i)) {
			s.owner[i] = string(p.UID) + "/" + c.Name
			return nil
		}
	}
	return noRoom{}
}

func (s *slots) Retain(present func(types.UID) bool) {
	for i, o := range s.owner {
		if uid, _, _ := strings.Cut(o, "/"); o != "" && !present(types.UID(uid)) {
			s.owner[i] = ""
		}
	}
}

func (s *slots) Release(pod types.UID) { s.Retain(func(uid types.UID) bool { return uid != pod }) }

func (s *slots) Save() error {
	if s.saveErr != nil {
		return s.saveErr
	}
	s.saved, s.saves = s.owner, s.saves+1
	return nil
}

// inner is the life below. Nothing may be made that is not saved.
type inner struct {
	podworker.Life
	slots *slots
	made  map[types.UID]bool
	stuck error
}

func (l *inner) Sync(_ context.Context, p *corev1.Pod) (podworker.Result, error) {
	if l.slots.saved != l.slots.owner {
		return podworker.Result{}, fmt.Errorf("saved %v, given %v", l.slots.saved, l.slots.owner)
	}
	l.made[p.UID] = true
	return podworker.Result{}, nil
}

func (l *inner) Terminate(_ context.Context, p *corev1.Pod, _ time.Duration) error {
	if l.stuck == nil {
		delete(l.made, p.UID)
	}
	return l.stuck
}

func pod(uid types.UID, containers ...string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: uid}}
	for _, name := range containers {
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: name})
	}
	return p
}

type node struct {
	podworker.Life
	manager *Manager
	slots   *slots
	inner   *inner
	known   map[types.UID]bool
	failed  map[types.UID]status.Failure
	counts  counts
}

// counts notes what it is told.
type counts struct{ told []string }

func (c *counts) Admitted(_ time.Duration, refused bool) {
	c.told = append(c.told, fmt.Sprintf("refused: %v", refused))
}

func (c *counts) Aligned(scope, boundary string, is bool) {
	c.told = append(c.told, fmt.Sprintf("%s %s: %v", scope, boundary, is))
}

func newNode(t *testing.T, policy, scope string) *node {
	t.Helper()
	n := &node{slots: &slots{}, known: map[types.UID]bool{}, failed: map[types.UID]status.Failure{}}
	n.inner = &inner{slots: n.slots, made: map[types.UID]bool{}}
	m, err := New(Config{
		Policy: policy, Scope: scope, Options: Options{MaxNodes: 8}, Machine: &topology.Machine{Nodes: []topology.Node{{ID: 0}, {ID: 1}}},
		Providers: []Provider{n.slots}, Known: func(uid types.UID) bool { return n.known[uid] }, Made: func(uid types.UID) bool { return n.inner.made[uid] },
		Clock: clock.RealClock{}, Counts: &n.counts,
	})
	if err != nil {
		t.Fatal(err)
	}
	n.manager = m
	n.Life = m.Life(n.inner, func(_ context.Context, p *corev1.Pod, f status.Failure) { n.failed[p.UID] = f })
	return n
}

func (n *node) sync(t *testing.T, p *corev1.Pod) podworker.Result {
	t.Helper()
	n.known[p.UID] = true
	r, err := n.Sync(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestLife(t *testing.T) {
	t.Parallel()
	locality := status.Failure{Reason: "TopologyAffinityError", Message: "Resources cannot be allocated with Topology locality", Final: true}
	for _, tc := range []struct {
		policy, scope string
		pod           *corev1.Pod
		owner         [2]string
		failure       status.Failure
	}{
		{None, Container, pod("p", "a", "b"), [2]string{"p/a", "p/b"}, status.Failure{}},
		{None, Container, pod("p", "a", "b", "c"), [2]string{}, status.Failure{Reason: "NoRoom", Message: "no room", Final: true}},
		{None, Pod, pod("p", "a", "odd"), [2]string{}, status.Failure{Reason: "UnexpectedAdmissionError", Message: "Allocate failed due to it is odd, which is unexpected", Final: true}},
		{SingleNUMANode, Container, pod("p", "a", "b"), [2]string{"p/a", "p/b"}, status.Failure{}},
		{SingleNUMANode, Pod, pod("p", "a"), [2]string{"p/a", ""}, status.Failure{}},
		{SingleNUMANode, Pod, pod("p", "a", "b"), [2]string{}, locality},
		{Restricted, Pod, pod("p", "a", "b"), [2]string{"p/a", "p/b"}, status.Failure{}},
		{Restricted, Container, pod("p", "a", "b", "c"), [2]string{}, locality},
		{BestEffort, Container, pod("p", "a", "b", "c"), [2]string{}, status.Failure{Reason: "NoRoom", Message: "no room", Final: true}},
	} {
		n := newNode(t, tc.policy, tc.scope)
		r := n.sync(t, tc.pod)
		refused := tc.failure != status.Failure{}
		if n.slots.owner != tc.owner || n.failed["p"] != tc.failure || r.Terminate != refused || n.inner.made["p"] == refused {
			t.Errorf("%s, %s, %d containers: %v, failure %+v, %+v", tc.policy, tc.scope, len(tc.pod.Spec.Containers), n.slots.owner, n.failed["p"], r)
		}
		if refused {
			continue
		}
		if n.sync(t, tc.pod); n.slots.saves != 1 {
			t.Errorf("saved %d times", n.slots.saves)
		}
		n.inner.stuck = errors.New("it does not end")
		if err := n.Terminate(t.Context(), tc.pod, 0); err == nil || n.slots.owner != tc.owner {
			t.Errorf("while it runs: %v, %v", err, n.slots.owner)
		}
		n.inner.stuck = nil
		if err := n.Terminate(t.Context(), tc.pod, 0); err != nil || n.slots.saved != [2]string{} {
			t.Errorf("after its end: %v, %v", err, n.slots.saved)
		}
	}
}

// TestCounts is what is told of decisions about pods.
func TestCounts(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		policy, scope string
		pod           *corev1.Pod
		told          []string
	}{
		{None, Container, pod("p", "a", "b"), []string{"refused: false"}},
		{None, Container, pod("p", "a", "b", "c"), []string{"refused: false"}},
		{BestEffort, Container, pod("p", "a", "b", "c"), []string{"refused: true"}},
		{Restricted, Container, pod("p", "a", "b", "c"), []string{"refused: true"}},
		{SingleNUMANode, Container, pod("p", "a", "b"), []string{"container numa_node: true", "container numa_node: true", "refused: false"}},
		{SingleNUMANode, Pod, pod("p", "a"), []string{"pod numa_node: true", "refused: false"}},
		{SingleNUMANode, Pod, pod("p", "a", "b"), []string{"pod numa_node: false", "refused: true"}},
	} {
		n := newNode(t, tc.policy, tc.scope)
		n.sync(t, tc.pod)
		if !slices.Equal(n.counts.told, tc.told) {
			t.Errorf("%s, %s, %d containers: told %q, want %q", tc.policy, tc.scope, len(tc.pod.Spec.Containers), n.counts.told, tc.told)
		}
	}
}

// A disk that fails delays the pod, and what it has been given is written before it runs.
func TestLife_DiskFails(t *testing.T) {
	t.Parallel()
	n := newNode(t, None, Container)
	n.slots.saveErr = errors.New("disk full")
	if _, err := n.Sync(t.Context(), pod("p", "a")); !errors.Is(err, n.slots.saveErr) || n.inner.made["p"] {
		t.Fatalf("%v, made %v", err, n.inner.made)
	}
	n.slots.saveErr = nil
	if n.sync(t, pod("p", "a")); !n.inner.made["p"] || n.slots.saved != [2]string{"p/a", ""} {
		t.Errorf("%v", n.slots.saved)
	}
}

// What pods have that are gone is given to others; what an earlier process has made runs on with what it has.
func TestLife_Restart(t *testing.T) {
	t.Parallel()
	n := newNode(t, None, Container)
	n.slots.owner, n.inner.made["made"] = [2]string{"made/a", "gone/a"}, true
	n.slots.saved = n.slots.owner
	if n.sync(t, pod("made", "a", "b", "c")); len(n.failed) > 0 {
		t.Errorf("%v", n.failed)
	}
	if n.sync(t, pod("new", "a")); n.slots.saved != [2]string{"made/a", "new/a"} {
		t.Errorf("%v, %v", n.slots.saved, n.failed)
	}
}

func TestTidy(t *testing.T) {
	t.Parallel()
	n := newNode(t, None, Container)
	n.slots.owner, n.inner.made["made"] = [2]string{"made/a", "gone/a"}, true
	if err := n.manager.Tidy(); err != nil || n.slots.saved != [2]string{"made/a", ""} {
		t.Errorf("%v, %v", n.slots.saved, err)
	}
	n.slots.saveErr = errors.New("disk full")
	if err := n.manager.Tidy(); !errors.Is(err, n.slots.saveErr) {
		t.Errorf("got %v", err)
	}
}

func TestNew(t *testing.T) {
	t.Parallel()
	nodes := make([]topology.Node, 9)
	for policy, ok := range map[string]bool{None: true, Restricted: false} {
		_, err := New(Config{Policy: policy, Options: Options{MaxNodes: 8}, Machine: &topology.Machine{Nodes: nodes}})
		if (err == nil) != ok {
			t.Errorf("%s: %v", policy, err)
		}
	}
}
