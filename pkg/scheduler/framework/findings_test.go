// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package framework_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	configv1 "k8s.io/kube-scheduler/config/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"minik8s.io/minik8s/pkg/scheduler/framework"
	pt "minik8s.io/minik8s/pkg/scheduler/plugintest"
)

// plain filters and scores by the nodes that are even, and counts what it is asked.
type plain struct {
	name  string
	asked map[string]int
}

func (p *plain) Name() string                                                        { return p.name }
func (*plain) Less(_, _ fwk.QueuedEntityInfo) bool                                   { return false }
func (*plain) Bind(context.Context, fwk.CycleState, *corev1.Pod, string) *fwk.Status { return nil }
func (*plain) ScoreExtensions() fwk.ScoreExtensions                                  { return nil }

func (p *plain) Filter(_ context.Context, _ fwk.CycleState, pod *corev1.Pod, node fwk.NodeInfo) *fwk.Status {
	p.asked["filter "+pod.Name+" "+node.Node().Name]++
	if node.Node().Labels["no"] == p.name {
		return fwk.NewStatus(fwk.Unschedulable, p.name+" says no")
	}
	return nil
}

func (p *plain) Score(_ context.Context, _ fwk.CycleState, pod *corev1.Pod, node fwk.NodeInfo) (int64, *fwk.Status) {
	p.asked["score "+pod.Name+" "+node.Node().Name]++
	return int64(len(node.GetPods())), nil
}

// local is a plain one that looks at the pod's labels at most.
type local struct{ plain }

func (*local) AppendSignature(to []byte, pod *framework.PodInfo) ([]byte, bool) {
	return append(to, pod.Pod.Labels["kind"]...), pod.Pod.Labels["kind"] != "unknown"
}

// remembering is a profile of plugins in an order, all of which count in asked.
func remembering(t *testing.T, asked map[string]int, plugins ...fwk.Plugin) *framework.Profile {
	t.Helper()
	registry, lists := framework.Registry{}, &configv1.Plugins{}
	for _, p := range plugins {
		registry[p.Name()] = func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) { return p, nil }
		lists.Filter.Enabled = append(lists.Filter.Enabled, configv1.Plugin{Name: p.Name()})
		lists.Score.Enabled = append(lists.Score.Enabled, configv1.Plugin{Name: p.Name()})
	}
	registry["rest"] = func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) {
		return &plain{"rest", asked}, nil
	}
	lists.QueueSort.Enabled = []configv1.Plugin{{Name: "rest"}}
	lists.Bind.Enabled = []configv1.Plugin{{Name: "rest"}}
	p, err := framework.NewProfile(t.Context(), pt.NewHandle(nil).Services, registry, configv1.KubeSchedulerProfile{Plugins: lists})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// decide does what a cycle does: it filters and scores nodes by what is known of them.
func decide(t *testing.T, m *framework.Memory, p *framework.Profile, pod *corev1.Pod, nodes ...*framework.NodeInfo) (verdicts []string, scores []int64) {
	t.Helper()
	info := framework.NewPodInfo(pod)
	state, snapshot := framework.NewCycleState(info), framework.NewSnapshot(nodes...)
	if _, _, s := p.RunPreFilter(t.Context(), state, pod, snapshot.Nodes()); !s.IsSuccess() {
		t.Fatal(s.AsError())
	}
	known := m.Recall(p, info)
	known.Begin(snapshot)
	scores = make([]int64, len(nodes))
	for i, n := range nodes {
		var s *fwk.Status
		if known != nil {
			s = p.FilterAt(t.Context(), state, pod, known, i)
		} else {
			s = p.RunFilterPlugins(t.Context(), state, pod, n)
		}
		verdict := ""
		if !s.IsSuccess() {
			verdict = s.Plugin() + ":" + s.Message()
		}
		verdicts = append(verdicts, verdict)
		known.Keep(i)
	}
	if s := p.Score(t.Context(), state, pod, known, snapshot.Nodes(), scores); !s.IsSuccess() {
		t.Fatal(s.AsError())
	}
	return verdicts, scores
}

func TestMemory(t *testing.T) {
	asked := map[string]int{}
	p := remembering(t, asked, &local{plain{"local", asked}}, &plain{"all", asked})
	a := framework.NewNodeInfo(pt.Node("a", pt.NodeLabels("no", "local")))
	b := framework.NewNodeInfo(pt.Node("b", pt.NodeLabels("no", "all")))
	changed := a.Clone()
	changed.SetNode(pt.Node("a"))
	changed.AddPodInfo(framework.NewPodInfo(pt.Pod("x")))
	m := framework.NewMemory()
	pod := func(name, kind string) *corev1.Pod { return pt.Pod(name, pt.Labels("kind", kind)) }

	refused := []string{"local:local says no", "all:all says no"}
	for i, tc := range []struct {
		name     string
		pod      *corev1.Pod
		nodes    []*framework.NodeInfo
		verdicts []string
		scores   []int64
		asked    map[string]int
	}{
		{"the first of its kind", pod("p1", "x"), []*framework.NodeInfo{a, b}, refused, []int64{0, 0},
			map[string]int{"filter p1 a": 1, "filter p1 b": 2, "score p1 a": 2, "score p1 b": 2}},
		{"the second is remembered", pod("p2", "x"), []*framework.NodeInfo{a, b}, refused, []int64{0, 0},
			map[string]int{"filter p2 a": 1, "filter p2 b": 2, "score p2 a": 2, "score p2 b": 2}},
		{"of the third only the plugin is asked that looks at more", pod("p3", "x"), []*framework.NodeInfo{a, b}, refused, []int64{0, 0},
			map[string]int{"filter p3 b": 1, "score p3 a": 1, "score p3 b": 1}},
		{"a node that has changed is looked at", pod("p4", "x"), []*framework.NodeInfo{changed, b}, []string{"", refused[1]}, []int64{2, 0},
			map[string]int{"filter p4 a": 2, "filter p4 b": 1, "score p4 a": 2, "score p4 b": 1}},
		{"nodes that have changed places are", pod("p5", "x"), []*framework.NodeInfo{b, changed}, []string{refused[1], ""}, []int64{0, 2},
			map[string]int{"filter p5 a": 2, "filter p5 b": 2, "score p5 a": 2, "score p5 b": 2}},
		{"all are when there is another", pod("p6", "x"), []*framework.NodeInfo{b}, []string{refused[1]}, []int64{0},
			map[string]int{"filter p6 b": 2, "score p6 b": 2}},
		{"another kind", pod("p7", "y"), []*framework.NodeInfo{a, b}, refused, []int64{0, 0},
			map[string]int{"filter p7 a": 1, "filter p7 b": 2, "score p7 a": 2, "score p7 b": 2}},
		{"of which nothing is known of this number of nodes", pod("p8", "x"), []*framework.NodeInfo{a, b}, refused, []int64{0, 0},
			map[string]int{"filter p8 a": 1, "filter p8 b": 2, "score p8 a": 2, "score p8 b": 2}},
		{"a pod that cannot be described", pod("p9", "unknown"), []*framework.NodeInfo{a, b}, refused, []int64{0, 0},
			map[string]int{"filter p9 a": 1, "filter p9 b": 2, "score p9 a": 2, "score p9 b": 2}},
		{"nor its like", pod("p10", "unknown"), []*framework.NodeInfo{a, b}, refused, []int64{0, 0},
			map[string]int{"filter p10 a": 1, "filter p10 b": 2, "score p10 a": 2, "score p10 b": 2}},
	} {
		clear(asked)
		verdicts, scores := decide(t, m, p, tc.pod, tc.nodes...)
		if diff := cmp.Diff(tc.verdicts, verdicts); diff != "" {
			t.Errorf("%d, %s: verdicts (-want +got):\n%s", i, tc.name, diff)
		}
		if diff := cmp.Diff(tc.scores, scores); diff != "" {
			t.Errorf("%d, %s: scores (-want +got):\n%s", i, tc.name, diff)
		}
		if diff := cmp.Diff(tc.asked, asked); diff != "" {
			t.Errorf("%d, %s: what plugins are asked (-want +got):\n%s", i, tc.name, diff)
		}
	}
}

// Where a filter that looks at more comes first, it is the one that tells why.
func TestMemory_Order(t *testing.T) {
	asked := map[string]int{}
	p := remembering(t, asked, &plain{"all", asked}, &local{plain{"local", asked}})
	a := framework.NewNodeInfo(pt.Node("a", pt.NodeLabels("no", "local")))
	m := framework.NewMemory()
	for i := range 3 {
		clear(asked)
		pod := pt.Pod(fmt.Sprint("p", i))
		if verdicts, _ := decide(t, m, p, pod, a); verdicts[0] != "local:local says no" {
			t.Errorf("verdict %q", verdicts[0])
		}
		if n := asked["filter "+pod.Name+" a"]; n != 2 {
			t.Errorf("%d filters were asked, want both", n)
		}
	}
}

// Parts of signatures do not run into each other.
func TestMemory_Signature(t *testing.T) {
	first, second := &split{plain{"first", map[string]int{}}, "a"}, &split{plain{"second", map[string]int{}}, "b"}
	p := remembering(t, map[string]int{}, first, second)
	m := framework.NewMemory()
	for _, tc := range []struct {
		a, b  string
		known bool
	}{
		{"x", "yz", false}, {"xy", "z", false}, {"", "xyz", false}, {"xyz", "", false}, {"x", "yz", true}, {"xyz", "", true},
	} {
		if known := m.Recall(p, framework.NewPodInfo(pt.Pod("p", pt.Labels("a", tc.a, "b", tc.b)))) != nil; known != tc.known {
			t.Errorf("%q and %q: known is %v, want %v", tc.a, tc.b, known, tc.known)
		}
	}
}

// split looks at a label.
type split struct {
	plain
	label string
}

func (s *split) AppendSignature(to []byte, pod *framework.PodInfo) ([]byte, bool) {
	return append(to, pod.Pod.Labels[s.label]...), true
}
