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
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	configv1 "k8s.io/kube-scheduler/config/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"minik8s.io/minik8s/pkg/scheduler/framework"
	"minik8s.io/minik8s/pkg/scheduler/internal/dra"
)

// Handle is a profile without plugins on fixed data.
type Handle struct {
	*framework.Profile
	Fake     *fake.Clientset
	Factory  informers.SharedInformerFactory
	Events   *events.FakeRecorder
	Snapshot *framework.Snapshot
	// Nominees are the pods that wait for room, by node.
	Nominees map[string][]fwk.PodInfo

	mu      sync.Mutex
	watched sets.Set[schema.GroupVersionResource] // guarded by mu
}

// NewHandle returns a handle on nodes whose client holds objects.
func NewHandle(nodes []*framework.NodeInfo, objects ...runtime.Object) *Handle {
	client := fake.NewClientset(objects...)
	h := &Handle{
		Fake:     client,
		Factory:  informers.NewSharedInformerFactory(client, 0),
		Events:   events.NewFakeRecorder(100),
		Snapshot: framework.NewSnapshot(nodes...),
		watched:  sets.New[schema.GroupVersionResource](),
	}
	client.PrependWatchReactor("*", h.watch)
	manager, err := dra.New(context.Background(), h.Factory)
	if err != nil {
		panic(err) // of informers that run already, which these do not
	}
	h.Profile = &framework.Profile{Services: &framework.Services{
		Client:    client,
		Informers: h.Factory,
		Recorder:  recorder{h.Events},
		State:     func() *framework.Snapshot { return h.Snapshot },
		Nominator: nominees{h},
		Awaken:    func(klog.Logger, map[string]*corev1.Pod) {},
		Waiting:   &framework.WaitingPods{},
		Parallel:  16,
		DRA:       manager,
	}}
	return h
}

// Use gives the handle a profile of one plugin, for plugins that run others.
func (h *Handle) Use(tb testing.TB, name string, factory framework.Factory) {
	tb.Helper()
	p, err := h.profile(tb.Context(), name, factory)
	if err != nil {
		tb.Fatalf("building a profile of %s: %v", name, err)
	}
	h.Profile = p
}

func (h *Handle) profile(ctx context.Context, name string, factory framework.Factory) (*framework.Profile, error) {
	registry := framework.Registry{name: factory, stub: func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) { return stubPlugin{}, nil }}
	lists := &configv1.Plugins{MultiPoint: configv1.PluginSet{Enabled: []configv1.Plugin{{Name: name}}}}
	plugin, err := factory(ctx, nil, h)
	if err != nil {
		return nil, err
	}
	if _, ok := plugin.(fwk.QueueSortPlugin); !ok {
		lists.QueueSort.Enabled = []configv1.Plugin{{Name: stub}}
	}
	if _, ok := plugin.(fwk.BindPlugin); !ok {
		lists.Bind.Enabled = []configv1.Plugin{{Name: stub}}
	}
	return framework.NewProfile(ctx, h.Services, registry, configv1.KubeSchedulerProfile{Plugins: lists})
}

// stub is what a profile of one plugin needs besides.
const stub = "Stub"

type stubPlugin struct{}

func (stubPlugin) Name() string                        { return stub }
func (stubPlugin) Less(_, _ fwk.QueuedEntityInfo) bool { return false }
func (stubPlugin) Bind(context.Context, fwk.CycleState, *corev1.Pod, string) *fwk.Status {
	return nil
}

// recorder makes a FakeRecorder one with a logger.
type recorder struct{ *events.FakeRecorder }

func (r recorder) WithLogger(klog.Logger) events.EventRecorderLogger { return r }

// nominees is the read side of a nominator.
type nominees struct{ h *Handle }

func (n nominees) NominatedPodsForNode(node string) []fwk.PodInfo              { return n.h.Nominees[node] }
func (nominees) AddNominatedPod(klog.Logger, fwk.PodInfo, *fwk.NominatingInfo) {}
func (nominees) DeleteNominatedPodIfExists(*corev1.Pod)                        {}
func (nominees) UpdateNominatedPod(klog.Logger, *corev1.Pod, fwk.PodInfo)      {}

func (h *Handle) watch(a clienttesting.Action) (bool, watch.Interface, error) {
	w, err := h.Fake.Tracker().Watch(a.GetResource(), a.GetNamespace(), a.(clienttesting.WatchActionImpl).ListOptions)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.watched.Insert(a.GetResource())
	return true, w, err
}

// Sync starts the informers that were asked for and waits for their first list, and for their watches: of what is deleted
// in between a client in memory tells nobody.
func (h *Handle) Sync(tb testing.TB) {
	tb.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	tb.Cleanup(func() {
		cancel()
		h.Factory.Shutdown()
	})
	h.Factory.Start(ctx.Done())
	synced := h.Factory.WaitForCacheSync(ctx.Done())
	for kind, ok := range synced {
		if !ok {
			tb.Fatalf("informer of %v did not sync", kind)
		}
	}
	watching := func(context.Context) (bool, error) {
		h.mu.Lock()
		defer h.mu.Unlock()
		return len(h.watched) >= len(synced), nil
	}
	if err := wait.PollUntilContextTimeout(ctx, time.Millisecond, 20*time.Second, true, watching); err != nil {
		tb.Fatalf("waiting for watches: %v", err)
	}
	if manager, ok := h.DRA.(*dra.Manager); ok {
		known := func(context.Context) (bool, error) { return manager.HasSynced(), nil }
		if err := wait.PollUntilContextTimeout(ctx, time.Millisecond, 20*time.Second, true, known); err != nil {
			tb.Fatalf("waiting for claims and devices: %v", err)
		}
	}
}

// NewPlugin builds a plugin and syncs what it watches.
func NewPlugin(tb testing.TB, h *Handle, factory framework.Factory) fwk.Plugin {
	tb.Helper()
	p, err := factory(tb.Context(), nil, h)
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
				info.AddPodInfo(framework.NewPodInfo(p))
			}
		}
		out = append(out, info)
	}
	framework.CountImages(out)
	return out
}

// Filter runs PreFilter and Filter of one plugin on all nodes of the handle. The
// result has the message per node, empty where the pod fits. A pod that PreFilter
// rejects has the same message on all nodes, one that it narrows has "excluded".
func Filter(tb testing.TB, h *Handle, p fwk.Plugin, pod *corev1.Pod) map[string]string {
	tb.Helper()
	out := map[string]string{}
	for name, s := range filter(tb, h, p, pod) {
		out[name] = s.Message()
	}
	return out
}

func filter(tb testing.TB, h *Handle, p fwk.Plugin, pod *corev1.Pod) map[string]*fwk.Status {
	tb.Helper()
	ctx, state, out := tb.Context(), framework.NewCycleState(framework.NewPodInfo(pod)), map[string]*fwk.Status{}
	if pre, ok := p.(fwk.PreFilterPlugin); ok {
		result, s := pre.PreFilter(ctx, state, pod, h.Snapshot.Nodes())
		for _, n := range h.Snapshot.Nodes() {
			switch {
			case s.IsSkip():
				out[n.Node().Name] = nil
			case !s.IsSuccess():
				out[n.Node().Name] = s
			case !result.AllNodes() && !result.NodeNames.Has(n.Node().Name):
				out[n.Node().Name] = fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "excluded")
			}
		}
		if !s.IsSuccess() {
			return out
		}
	}
	f, ok := p.(fwk.FilterPlugin)
	if !ok {
		return out
	}
	var mu sync.Mutex
	var wg sync.WaitGroup
	decided := maps.Clone(out)
	for _, n := range h.Snapshot.Nodes() {
		if decided[n.Node().Name] != nil {
			continue
		}
		wg.Go(func() {
			s := f.Filter(ctx, state, pod, n)
			mu.Lock()
			defer mu.Unlock()
			out[n.Node().Name] = s
		})
	}
	wg.Wait()
	return out
}

// Score runs PreScore, Score and NormalizeScore of one plugin on all nodes. It
// returns nil if PreScore skips the plugin.
func Score(tb testing.TB, h *Handle, p fwk.Plugin, pod *corev1.Pod) map[string]int64 {
	tb.Helper()
	ctx, state := tb.Context(), framework.NewCycleState(framework.NewPodInfo(pod))
	if pre, ok := p.(fwk.PreScorePlugin); ok {
		if s := pre.PreScore(ctx, state, pod, h.Snapshot.Nodes()); s.IsSkip() {
			return nil
		} else if !s.IsSuccess() {
			tb.Fatalf("PreScore: %v", s.AsError())
		}
	}
	scorer, ok := p.(fwk.ScorePlugin)
	if !ok {
		return nil
	}
	scores := make(fwk.NodeScoreList, len(h.Snapshot.Nodes()))
	failed := make([]*fwk.Status, len(scores))
	var wg sync.WaitGroup
	for i, n := range h.Snapshot.Nodes() {
		wg.Go(func() {
			v, s := scorer.Score(ctx, state, pod, n)
			scores[i], failed[i] = fwk.NodeScore{Name: n.Node().Name, Score: v}, s
		})
	}
	wg.Wait()
	if i := slices.IndexFunc(failed, func(s *fwk.Status) bool { return !s.IsSuccess() }); i >= 0 {
		tb.Fatalf("Score on %s: %v", scores[i].Name, failed[i].AsError())
	}
	if e := scorer.ScoreExtensions(); e != nil {
		if s := e.NormalizeScore(ctx, state, pod, scores); !s.IsSuccess() {
			tb.Fatalf("NormalizeScore: %v", s.AsError())
		}
	}
	out := map[string]int64{}
	for _, s := range scores {
		out[s.Name] = s.Score
	}
	return out
}

// Helps tells whether a plugin says that an event may help a pod it rejected.
func Helps(tb testing.TB, p fwk.Plugin, pod *corev1.Pod, event fwk.ClusterEvent, old, new any) bool {
	tb.Helper()
	declared, err := p.(fwk.EnqueueExtensions).EventsToRegister(tb.Context())
	if err != nil {
		tb.Fatalf("EventsToRegister: %v", err)
	}
	for _, e := range declared {
		if !framework.Matches(e.Event, event) {
			continue
		}
		if e.QueueingHintFn == nil {
			return true
		}
		hint, err := e.QueueingHintFn(klog.FromContext(tb.Context()), pod, old, new)
		if err != nil {
			tb.Fatalf("queueing hint: %v", err)
		}
		if hint == fwk.Queue {
			return true
		}
	}
	return false
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
	if _, err := h.profile(t.Context(), name, factory); err != nil {
		t.Errorf("the plugin cannot be part of a profile: %v", err)
	}
	if r, ok := p.(fwk.EnqueueExtensions); ok {
		events, err := r.EventsToRegister(t.Context())
		if err != nil {
			t.Errorf("EventsToRegister: %v", err)
		}
		for _, e := range events {
			if e.Event.Resource == "" || e.Event.ActionType == 0 {
				t.Errorf("the plugin declares an event that never happens: %+v", e.Event)
			}
		}
	}
	for _, pod := range append(mixedPods(), pods...) {
		t.Run(pod.Name, func(t *testing.T) { check(t, h, p, pod) })
	}
	t.Run("local", func(t *testing.T) { checkLocal(t, factory, slices.Concat(mixedPods(), kinds(), pods)) })
}

func check(t *testing.T, h *Handle, p fwk.Plugin, pod *corev1.Pod) {
	t.Helper()
	podBefore := pod.DeepCopy()
	var nodesBefore []*corev1.Node
	var sums []string
	for _, n := range h.Snapshot.Nodes() {
		nodesBefore = append(nodesBefore, n.Node().DeepCopy())
		sums = append(sums, n.String())
	}

	first := filter(t, h, p, pod)
	for node, s := range first {
		if !s.IsSuccess() && !s.IsRejected() {
			t.Errorf("Filter on %s failed: %v", node, s.AsError())
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
		if v < fwk.MinScore || v > fwk.MaxScore {
			t.Errorf("score of %s is %d, want it within %d and %d", node, v, fwk.MinScore, fwk.MaxScore)
		}
	}
	if diff := cmp.Diff(scores, Score(t, h, p, pod)); diff != "" {
		t.Errorf("Score is not deterministic (-first +later):\n%s", diff)
	}
	checkDelta(t, h, p, pod)

	if diff := cmp.Diff(podBefore, pod); diff != "" {
		t.Errorf("the plugin modified the pod:\n%s", diff)
	}
	for i, n := range h.Snapshot.Nodes() {
		if diff := cmp.Diff(nodesBefore[i], n.Node()); diff != "" {
			t.Errorf("the plugin modified node %s:\n%s", n.Node().Name, diff)
		}
		if diff := cmp.Diff(sums[i], n.String()); diff != "" {
			t.Errorf("the plugin modified the sums of node %s:\n%s", n.Node().Name, diff)
		}
	}
}

// checkDelta: a pod that is added and removed again leaves no trace, and the
// state a clone was made from does not see it at all.
func checkDelta(t *testing.T, h *Handle, p fwk.Plugin, pod *corev1.Pod) {
	t.Helper()
	pre, ok := p.(fwk.PreFilterPlugin)
	if !ok || pre.PreFilterExtensions() == nil {
		return
	}
	d := pre.PreFilterExtensions()
	ctx, state := t.Context(), framework.NewCycleState(framework.NewPodInfo(pod))
	if _, s := pre.PreFilter(ctx, state, pod, h.Snapshot.Nodes()); !s.IsSuccess() {
		return
	}
	f := p.(fwk.FilterPlugin)
	verdicts := func(state fwk.CycleState) (out []string) {
		for _, n := range h.Snapshot.Nodes() {
			out = append(out, f.Filter(ctx, state, pod, n).Message())
		}
		return out
	}
	want := verdicts(state)
	other := framework.NewPodInfo(pod.DeepCopy())
	other.Pod.UID = "other"
	for _, n := range h.Snapshot.Nodes() {
		clone := state.Clone()
		if s := d.AddPod(ctx, clone, pod, other, n); !s.IsSuccess() {
			t.Fatalf("AddPod: %v", s.AsError())
		}
		if diff := cmp.Diff(want, verdicts(state)); diff != "" {
			t.Fatalf("AddPod on a clone changed the original state:\n%s", diff)
		}
		if s := d.RemovePod(ctx, clone, pod, other, n); !s.IsSuccess() {
			t.Fatalf("RemovePod: %v", s.AsError())
		}
		if diff := cmp.Diff(want, verdicts(clone)); diff != "" {
			t.Fatalf("AddPod and RemovePod on %s left a trace:\n%s", n.Node().Name, diff)
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
		Pod("on-b", On("b"), Labels("app", "x"), Affinity(AwayFrom("app", "y", corev1.LabelTopologyZone)), HostPort("127.0.0.1", corev1.ProtocolTCP, 90)),
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
