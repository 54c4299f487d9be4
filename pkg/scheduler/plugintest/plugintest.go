// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package plugintest is the suite every scheduler plugin passes, and what their
// tests are made of: builders of pods and nodes and a handle without a
// scheduler. Touch it when plugins get another duty in common.
package plugintest

import (
	"context"
	"maps"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/events"

	"minik8s.io/minik8s/pkg/scheduler/framework"
)

// Handle is a framework.Handle on fixed data.
type Handle struct {
	ClientSet *fake.Clientset
	Factory   informers.SharedInformerFactory
	Events    *events.FakeRecorder
	State     *framework.Snapshot
	Plugins   *framework.Profile
	Nominees  map[string][]*framework.PodInfo
}

var _ framework.Handle = (*Handle)(nil)

// NewHandle returns a handle with all features on whose client holds objects.
func NewHandle(nodes []*framework.NodeInfo, objects ...runtime.Object) *Handle {
	client := fake.NewClientset(objects...)
	return &Handle{
		ClientSet: client,
		Factory:   informers.NewSharedInformerFactory(client, 0),
		Events:    events.NewFakeRecorder(100),
		State:     framework.NewSnapshot(nodes...),
	}
}

// Client implements framework.Handle.
func (h *Handle) Client() kubernetes.Interface { return h.ClientSet }

// Informers implements framework.Handle.
func (h *Handle) Informers() informers.SharedInformerFactory { return h.Factory }

// Recorder implements framework.Handle.
func (h *Handle) Recorder() events.EventRecorder { return h.Events }

// Snapshot implements framework.Handle.
func (h *Handle) Snapshot() *framework.Snapshot { return h.State }

// Profile implements framework.Handle.
func (h *Handle) Profile() *framework.Profile { return h.Plugins }

// Nominated implements framework.Handle.
func (h *Handle) Nominated(node string) []*framework.PodInfo { return h.Nominees[node] }

// Sync starts the informers that were asked for and waits for their first list.
func (h *Handle) Sync(tb testing.TB) {
	tb.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	tb.Cleanup(func() {
		cancel()
		h.Factory.Shutdown()
	})
	h.Factory.Start(ctx.Done())
	for kind, ok := range h.Factory.WaitForCacheSync(ctx.Done()) {
		if !ok {
			tb.Fatalf("informer of %v did not sync", kind)
		}
	}
}

// NewPlugin builds a plugin and syncs what it watches.
func NewPlugin(tb testing.TB, h *Handle, factory framework.Factory) framework.Plugin {
	tb.Helper()
	p, err := factory(h)
	if err != nil {
		tb.Fatalf("creating the plugin: %v", err)
	}
	h.Sync(tb)
	return p
}

// Nodes puts pods on the nodes they name.
func Nodes(nodes []*corev1.Node, pods ...*corev1.Pod) []*framework.NodeInfo {
	out := make([]*framework.NodeInfo, 0, len(nodes))
	for _, n := range nodes {
		info := framework.NewNodeInfo(n)
		for _, p := range pods {
			if p.Spec.NodeName == n.Name {
				info.AddPod(framework.NewPodInfo(p))
			}
		}
		out = append(out, info)
	}
	return out
}

// Filter runs PreFilter and Filter of one plugin on all nodes of the handle. The
// result has the message per node, empty where the pod fits. A pod that PreFilter
// rejects has the same message on all nodes, one that it narrows has "excluded".
func Filter(tb testing.TB, h *Handle, p framework.Plugin, pod *corev1.Pod) map[string]string {
	tb.Helper()
	out := map[string]string{}
	for name, s := range filter(tb, h, p, framework.NewPodInfo(pod)) {
		out[name] = s.Message()
	}
	return out
}

func filter(tb testing.TB, h *Handle, p framework.Plugin, pod *framework.PodInfo) map[string]*framework.Status {
	tb.Helper()
	ctx, state, out := tb.Context(), framework.NewCycleState(), map[string]*framework.Status{}
	if pre, ok := p.(framework.PreFilterPlugin); ok {
		nodes, s := pre.PreFilter(ctx, state, pod, h.State)
		for _, n := range h.State.Nodes {
			switch {
			case s.IsSkip():
				out[n.Name()] = nil
			case !s.IsSuccess():
				out[n.Name()] = s
			case nodes != nil && !nodes.Has(n.Name()):
				out[n.Name()] = framework.NewStatus(framework.UnschedulableAndUnresolvable, "excluded")
			}
		}
		if !s.IsSuccess() {
			return out
		}
	}
	f, ok := p.(framework.FilterPlugin)
	if !ok {
		return out
	}
	var mu sync.Mutex
	var wg sync.WaitGroup
	decided := maps.Clone(out)
	for _, n := range h.State.Nodes {
		if decided[n.Name()] != nil {
			continue
		}
		wg.Go(func() {
			s := f.Filter(ctx, state, pod, n)
			mu.Lock()
			defer mu.Unlock()
			out[n.Name()] = s
		})
	}
	wg.Wait()
	return out
}

// Score runs PreScore, Score and NormalizeScore of one plugin on all nodes. It
// returns nil if PreScore skips the plugin.
func Score(tb testing.TB, h *Handle, p framework.Plugin, pod *corev1.Pod) map[string]int64 {
	tb.Helper()
	ctx, state, info := tb.Context(), framework.NewCycleState(), framework.NewPodInfo(pod)
	if pre, ok := p.(framework.PreScorePlugin); ok {
		if s := pre.PreScore(ctx, state, info, h.State.Nodes); s.IsSkip() {
			return nil
		} else if !s.IsSuccess() {
			tb.Fatalf("PreScore: %v", s.Err())
		}
	}
	scorer, ok := p.(framework.ScorePlugin)
	if !ok {
		return nil
	}
	scores := make([]framework.NodeScore, len(h.State.Nodes))
	failed := make([]*framework.Status, len(scores))
	var wg sync.WaitGroup
	for i, n := range h.State.Nodes {
		wg.Go(func() {
			v, s := scorer.Score(ctx, state, info, n)
			scores[i], failed[i] = framework.NodeScore{Name: n.Name(), Score: v}, s
		})
	}
	wg.Wait()
	if i := slices.IndexFunc(failed, func(s *framework.Status) bool { return !s.IsSuccess() }); i >= 0 {
		tb.Fatalf("Score on %s: %v", scores[i].Name, failed[i].Err())
	}
	if n, ok := p.(framework.NormalizePlugin); ok {
		if s := n.NormalizeScore(ctx, state, info, scores); !s.IsSuccess() {
			tb.Fatalf("NormalizeScore: %v", s.Err())
		}
	}
	out := map[string]int64{}
	for _, s := range scores {
		out[s.Name] = s.Score
	}
	return out
}

// Run is the suite. The plugin must keep it on a mixed cluster for each kind of
// pod in it and for the given ones.
func Run(t *testing.T, name string, factory framework.Factory, pods ...*corev1.Pod) {
	t.Helper()
	h := NewHandle(mixedCluster(), &corev1.Namespace{})
	p := NewPlugin(t, h, factory)
	if p.Name() == "" || p.Name() != name {
		t.Errorf("the plugin calls itself %q, want its listed name %q", p.Name(), name)
	}
	if _, err := framework.NewProfile(h, []framework.Entry{{Name: name, New: factory}}); err != nil {
		t.Errorf("the plugin cannot be part of a profile: %v", err)
	}
	if r, ok := p.(framework.RequeuePlugin); ok {
		for _, e := range r.Requeue() {
			if e.Event.Resource == "" || e.Event.Action == 0 {
				t.Errorf("the plugin declares an event that never happens: %+v", e.Event)
			}
		}
	}
	for _, pod := range append(mixedPods(), pods...) {
		t.Run(pod.Name, func(t *testing.T) { check(t, h, p, pod) })
	}
}

func check(t *testing.T, h *Handle, p framework.Plugin, pod *corev1.Pod) {
	t.Helper()
	podBefore := pod.DeepCopy()
	var nodesBefore []*corev1.Node
	var sums []framework.Resource
	for _, n := range h.State.Nodes {
		nodesBefore = append(nodesBefore, n.Node.DeepCopy())
		sums = append(sums, n.Requested.Clone())
	}

	first := filter(t, h, p, framework.NewPodInfo(pod))
	for node, s := range first {
		if !s.IsSuccess() && !s.IsRejected() {
			t.Errorf("Filter on %s failed: %v", node, s.Err())
		}
		if s.IsRejected() && (len(s.Reasons()) == 0 || s.Message() == "") {
			t.Errorf("Filter rejects %s without a reason", node)
		}
	}
	want := Filter(t, h, p, pod)
	for range 3 {
		if diff := cmp.Diff(want, Filter(t, h, p, pod)); diff != "" {
			t.Fatalf("Filter is not deterministic (-first +later):\n%s", diff)
		}
	}
	scores := Score(t, h, p, pod)
	for node, v := range scores {
		if v < framework.MinNodeScore || v > framework.MaxNodeScore {
			t.Errorf("score of %s is %d, want it within %d and %d", node, v, framework.MinNodeScore, framework.MaxNodeScore)
		}
	}
	if diff := cmp.Diff(scores, Score(t, h, p, pod)); diff != "" {
		t.Errorf("Score is not deterministic (-first +later):\n%s", diff)
	}
	checkDelta(t, h, p, pod)

	if diff := cmp.Diff(podBefore, pod); diff != "" {
		t.Errorf("the plugin modified the pod:\n%s", diff)
	}
	for i, n := range h.State.Nodes {
		if diff := cmp.Diff(nodesBefore[i], n.Node); diff != "" {
			t.Errorf("the plugin modified node %s:\n%s", n.Name(), diff)
		}
		if diff := cmp.Diff(sums[i], n.Requested); diff != "" {
			t.Errorf("the plugin modified the sums of node %s:\n%s", n.Name(), diff)
		}
	}
}

// checkDelta: a pod that is added and removed again leaves no trace, and the
// state a clone was made from does not see it at all.
func checkDelta(t *testing.T, h *Handle, p framework.Plugin, pod *corev1.Pod) {
	t.Helper()
	d, ok := p.(framework.PodDeltaPlugin)
	if !ok {
		return
	}
	ctx, state, info := t.Context(), framework.NewCycleState(), framework.NewPodInfo(pod)
	pre, ok := p.(framework.PreFilterPlugin)
	if !ok {
		t.Fatal("a PodDeltaPlugin must be a PreFilterPlugin")
	}
	if _, s := pre.PreFilter(ctx, state, info, h.State); !s.IsSuccess() {
		return
	}
	f := p.(framework.FilterPlugin)
	verdicts := func(state *framework.CycleState) (out []string) {
		for _, n := range h.State.Nodes {
			out = append(out, f.Filter(ctx, state, info, n).Message())
		}
		return out
	}
	want := verdicts(state)
	other := framework.NewPodInfo(pod.DeepCopy())
	other.Pod.UID = "other"
	for _, n := range h.State.Nodes {
		clone := state.Clone()
		if s := d.AddPod(ctx, clone, info, other, n); !s.IsSuccess() {
			t.Fatalf("AddPod: %v", s.Err())
		}
		if diff := cmp.Diff(want, verdicts(state)); diff != "" {
			t.Fatalf("AddPod on a clone changed the original state:\n%s", diff)
		}
		if s := d.RemovePod(ctx, clone, info, other, n); !s.IsSuccess() {
			t.Fatalf("RemovePod: %v", s.Err())
		}
		if diff := cmp.Diff(want, verdicts(clone)); diff != "" {
			t.Fatalf("AddPod and RemovePod on %s left a trace:\n%s", n.Name(), diff)
		}
	}
}

func mixedCluster() []*framework.NodeInfo {
	return Nodes([]*corev1.Node{
		Node("a", NodeLabels(corev1.LabelTopologyZone, "z1"), Image("image:latest", 500<<20)),
		Node("b", NodeLabels(corev1.LabelTopologyZone, "z2"), Taint("soft", "", corev1.TaintEffectPreferNoSchedule)),
		Node("c", Taint("hard", "v", corev1.TaintEffectNoSchedule), Allocatable("cpu", "0", "memory", "0")),
		Node("d", Cordoned(), NodeLabels(corev1.LabelTopologyZone, "z2")),
	},
		Pod("on-a", On("a"), Labels("app", "x"), Requests("cpu", "1", "memory", "1Gi"), HostPort("", corev1.ProtocolTCP, 80)),
		Pod("on-b", On("b"), Labels("app", "x"), Affinity(AwayFrom("app", "y", corev1.LabelTopologyZone))),
	)
}

func mixedPods() []*corev1.Pod {
	return []*corev1.Pod{
		Pod("plain"),
		Pod("requests", Requests("cpu", "3500m", "memory", "2Gi", "example.com/thing", "1")),
		Pod("port", HostPort("", corev1.ProtocolTCP, 80)),
		Pod("near", Labels("app", "x"), Affinity(NearTo("app", "x", corev1.LabelTopologyZone))),
		Pod("away", Labels("app", "y"), Affinity(AwayFrom("app", "x", corev1.LabelHostname))),
		Pod("spread", Labels("app", "x"), Spread(
			corev1.TopologySpreadConstraint{MaxSkew: 1, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: Select("app", "x")},
			corev1.TopologySpreadConstraint{MaxSkew: 1, TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.ScheduleAnyway, LabelSelector: Select("app", "x")})),
		Pod("claim", Claim("missing")),
	}
}
