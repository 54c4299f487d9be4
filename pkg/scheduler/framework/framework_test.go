// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	configv1 "k8s.io/kube-scheduler/config/v1"
	fwk "k8s.io/kube-scheduler/framework"
)

func TestFitError(t *testing.T) {
	statuses := NewNodeStatuses(fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "absent"))
	statuses.Set("a", fwk.NewStatus(fwk.Unschedulable, "Insufficient cpu", "Insufficient memory"))
	statuses.Set("b", fwk.NewStatus(fwk.Unschedulable, "Insufficient cpu"))
	for _, tc := range []struct {
		name string
		err  FitError
		want string
	}{
		{"reasons are counted and sorted", FitError{NumAllNodes: 2, Statuses: statuses}, "0/2 nodes are available: 1 Insufficient memory, 2 Insufficient cpu."},
		{"nodes that were not looked at", FitError{NumAllNodes: 4, Statuses: statuses}, "0/4 nodes are available: 1 Insufficient memory, 2 Insufficient cpu, 2 absent."},
		{"prefilter", FitError{NumAllNodes: 2, Statuses: statuses, PreFilterMsg: `persistentvolumeclaim "x" not found`}, `0/2 nodes are available: persistentvolumeclaim "x" not found.`},
		{"postfilter", FitError{NumAllNodes: 2, PreFilterMsg: "a", PostFilterMsg: "preemption: b."}, "0/2 nodes are available: a. preemption: b."},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := tc.err.Error(); got != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
		})
	}
}

func TestForEach(t *testing.T) {
	for _, n := range []int{0, 1, serialBelow, 1000} {
		seen := make([]atomic.Int32, n)
		Parallelizer(16).ForEach(n, func(i int) bool {
			seen[i].Add(1)
			return true
		})
		for i := range seen {
			if c := seen[i].Load(); c != 1 {
				t.Fatalf("%d pieces: piece %d was done %d times", n, i, c)
			}
		}
	}
	for _, workers := range []Parallelizer{1, 16} {
		var done, last atomic.Int32
		end := workers.ForEach(100_000, func(i int) bool {
			for n := last.Load(); int32(i) > n && !last.CompareAndSwap(n, int32(i)); n = last.Load() {
			}
			return done.Add(1) < 10
		})
		if n := done.Load(); n < 10 || n >= 10+16 {
			t.Errorf("%d pieces were done after the stop at 10", n)
		}
		if end <= int(last.Load()) || end == 100_000 {
			t.Errorf("piece %d was done, and none from %d on", last.Load(), end)
		}
	}
}

func TestPodActions(t *testing.T) {
	base := func() *corev1.Pod {
		p := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{}}}}
		p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2")}
		p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "g"}, {Name: "h"}}
		return p
	}
	for _, tc := range []struct {
		name   string
		change func(*corev1.Pod)
		want   fwk.ActionType
	}{
		{"nothing", func(*corev1.Pod) {}, 0},
		{"status", func(p *corev1.Pod) { p.Status.Message = "x" }, 0},
		{"labels", func(p *corev1.Pod) { p.Labels = map[string]string{"a": "b"} }, fwk.UpdatePodLabel},
		{"one gate less", func(p *corev1.Pod) { p.Spec.SchedulingGates = p.Spec.SchedulingGates[:1] }, 0},
		{"no gate any more", func(p *corev1.Pod) { p.Spec.SchedulingGates = nil }, fwk.UpdatePodSchedulingGatesEliminated},
		{"toleration", func(p *corev1.Pod) { p.Spec.Tolerations = []corev1.Toleration{{}} }, fwk.UpdatePodToleration},
		{"less CPU", func(p *corev1.Pod) {
			p.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("1")
		}, fwk.UpdatePodScaleDown},
		{"more CPU", func(p *corev1.Pod) {
			p.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("3")
		}, fwk.UpdatePodScaleUp},
	} {
		t.Run(tc.name, func(t *testing.T) {
			changed := base()
			tc.change(changed)
			if got := PodActions(base(), changed); got != tc.want {
				t.Errorf("got %b, want %b", got, tc.want)
			}
		})
	}
}

type fake struct{ name string }

func (f fake) Name() string                                                        { return f.name }
func (fake) Less(_, _ fwk.QueuedEntityInfo) bool                                   { return false }
func (fake) Bind(context.Context, fwk.CycleState, *corev1.Pod, string) *fwk.Status { return nil }
func (fake) Filter(context.Context, fwk.CycleState, *corev1.Pod, fwk.NodeInfo) *fwk.Status {
	return nil
}

// baseOnly extends no point.
type baseOnly struct{ fwk.Plugin }

func TestNewProfile(t *testing.T) {
	named := func(name string) Factory {
		return func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) { return fake{name}, nil }
	}
	registry := Registry{"a": named("a"), "b": named("b"), "c": named("c"), "liar": named("b"),
		"none": func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) {
			return baseOnly{fake{"none"}}, nil
		}}
	list := func(names ...string) (out []configv1.Plugin) {
		for _, n := range names {
			out = append(out, configv1.Plugin{Name: n})
		}
		return out
	}
	sorted := configv1.PluginSet{Enabled: list("a"), Disabled: list("*")}
	for _, tc := range []struct {
		name    string
		plugins configv1.Plugins
		filters []string
		want    string
	}{
		{"all points", configv1.Plugins{MultiPoint: configv1.PluginSet{Enabled: list("a", "b")}, QueueSort: sorted}, []string{"a", "b"}, ""},
		{"one is disabled", configv1.Plugins{MultiPoint: configv1.PluginSet{Enabled: list("a", "b")}, QueueSort: sorted,
			Filter: configv1.PluginSet{Disabled: list("a")}}, []string{"b"}, ""},
		{"all are disabled but one", configv1.Plugins{MultiPoint: configv1.PluginSet{Enabled: list("a", "b")}, QueueSort: sorted,
			Filter: configv1.PluginSet{Enabled: list("c"), Disabled: list("*")}}, []string{"c"}, ""},
		{"named at the point first", configv1.Plugins{MultiPoint: configv1.PluginSet{Enabled: list("a", "b")}, QueueSort: sorted,
			Filter: configv1.PluginSet{Enabled: list("c", "b")}}, []string{"b", "c", "a"}, ""},
		{"not registered", configv1.Plugins{MultiPoint: configv1.PluginSet{Enabled: list("x")}}, nil, `plugin "x" is not registered`},
		{"wrong name", configv1.Plugins{MultiPoint: configv1.PluginSet{Enabled: list("liar")}}, nil, `plugin "liar" calls itself "b"`},
		{"not of the point", configv1.Plugins{Filter: configv1.PluginSet{Enabled: list("none")}}, nil, `profile "": plugin "none" does not extend Filter plugin`},
		{"two sorts", configv1.Plugins{MultiPoint: configv1.PluginSet{Enabled: list("a", "b")}}, nil, `only one queue sort plugin required for profile with scheduler name "", but got 2`},
		{"no bind", configv1.Plugins{QueueSort: sorted}, nil, `at least one bind plugin is needed for profile with scheduler name ""`},
		{"groups", configv1.Plugins{MultiPoint: configv1.PluginSet{Enabled: list("a")}, PlacementScore: configv1.PluginSet{Enabled: list("b")}}, nil,
			`profile "": plugin "b": groups are placed in one way only by this scheduler`},
		{"a way out for groups", configv1.Plugins{MultiPoint: configv1.PluginSet{Enabled: list("a")}, PodGroupPostFilter: configv1.PluginSet{Enabled: list("b")}}, nil,
			`profile "": plugin "b" does not extend PodGroupPostFilter plugin`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p, err := NewProfile(t.Context(), &Services{}, registry, configv1.KubeSchedulerProfile{Plugins: &tc.plugins})
			if tc.want != "" {
				if err == nil || err.Error() != tc.want {
					t.Errorf("got %v, want %s", err, tc.want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, f := range p.filter {
				got = append(got, f.name)
			}
			if diff := cmp.Diff(tc.filters, got); diff != "" {
				t.Errorf("filters (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWaitingPods(t *testing.T) {
	pod := &corev1.Pod{}
	pod.UID = "u"
	for _, tc := range []struct {
		name string
		do   func(fwk.WaitingPod)
		want fwk.Code
	}{
		{"allowed by all", func(p fwk.WaitingPod) { p.Allow("x"); p.Allow("y") }, fwk.Success},
		{"rejected by one", func(p fwk.WaitingPod) { p.Allow("x"); p.Reject("y", "no") }, fwk.Unschedulable},
		{"time is up", func(fwk.WaitingPod) {}, fwk.Unschedulable},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := &Profile{Services: &Services{Waiting: &WaitingPods{}}}
			d := time.Hour
			if tc.name == "time is up" {
				d = time.Millisecond
			}
			p.Waiting.add(newWaitingPod(pod, map[string]time.Duration{"x": d, "y": d}))
			tc.do(p.GetWaitingPod("u"))
			if got := p.WaitOnPermit(t.Context(), pod); got.Code() != tc.want {
				t.Errorf("got %v, want %v", got.Code(), tc.want)
			}
			if p.GetWaitingPod("u") != nil {
				t.Error("the pod waits still")
			}
		})
	}
}

// before is a PreFilter plugin that says what a test wants.
type before struct {
	name string
	code fwk.Code
}

func (b before) Name() string                               { return b.name }
func (before) PreFilterExtensions() fwk.PreFilterExtensions { return nil }
func (b before) PreFilter(context.Context, fwk.CycleState, *corev1.Pod, []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	return nil, fwk.NewStatus(b.code, "because")
}

func TestRunPreFilter(t *testing.T) {
	for _, tc := range []struct {
		name    string
		first   fwk.Code
		code    fwk.Code
		skipped bool // the last plugin was asked, and has nothing to do
	}{
		{"success", fwk.Success, fwk.Success, true},
		{"preemption may help", fwk.Unschedulable, fwk.Unschedulable, true},
		{"preemption is no help", fwk.UnschedulableAndUnresolvable, fwk.UnschedulableAndUnresolvable, false},
		{"failure", fwk.Error, fwk.Error, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := &Profile{Services: &Services{}}
			for _, x := range []before{{"first", tc.first}, {"last", fwk.Skip}} {
				p.preFilter = append(p.preFilter, named[fwk.PreFilterPlugin]{name: x.name, plugin: x})
			}
			pod := &corev1.Pod{}
			state := NewCycleState(NewPodInfo(pod))
			_, _, status := p.RunPreFilter(t.Context(), state, pod, nil)
			if status.Code() != tc.code || tc.code != fwk.Success && status.Plugin() != "first" {
				t.Errorf("%v of plugin %q, want %v of the first", status.Code(), status.Plugin(), tc.code)
			}
			if got := state.GetSkipFilterPlugins().Has("last"); got != tc.skipped {
				t.Errorf("the last plugin was asked = %v, want %v", got, tc.skipped)
			}
		})
	}
}

// after is a PostFilter plugin that nominates to the node of its name.
type after struct {
	name string
	code fwk.Code
}

func (a after) Name() string { return a.name }
func (a after) PostFilter(context.Context, fwk.CycleState, *corev1.Pod, fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status) {
	return &fwk.PostFilterResult{NominatingInfo: &fwk.NominatingInfo{NominatingMode: fwk.ModeOverride, NominatedNodeName: a.name}}, fwk.NewStatus(a.code, a.name+" says so")
}

func TestRunPostFilter(t *testing.T) {
	for _, tc := range []struct {
		name    string
		codes   []fwk.Code // of plugins "a" and "b"
		code    fwk.Code
		message string
		result  string // the node, "-" for no result
	}{
		{"no plugin: the pod waits for no node any more", nil, fwk.Unschedulable, "", ""},
		{"the first success", []fwk.Code{fwk.Unschedulable, fwk.Success}, fwk.Success, "b says so", "b"},
		{"the last of those that found no way out", []fwk.Code{fwk.Unschedulable, fwk.Unschedulable}, fwk.Unschedulable, "a says so, b says so", "b"},
		{"one knows that there is none", []fwk.Code{fwk.UnschedulableAndUnresolvable, fwk.Success}, fwk.UnschedulableAndUnresolvable, "a says so", "a"},
		{"one knows that there is none, after another", []fwk.Code{fwk.Unschedulable, fwk.UnschedulableAndUnresolvable}, fwk.UnschedulableAndUnresolvable, "b says so", "b"},
		{"failure", []fwk.Code{fwk.Unschedulable, fwk.Error}, fwk.Error, "b says so", "-"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := &Profile{Services: &Services{}}
			for i, code := range tc.codes {
				x := after{[]string{"a", "b"}[i], code}
				p.postFilter = append(p.postFilter, named[fwk.PostFilterPlugin]{name: x.name, plugin: x})
			}
			pod := &corev1.Pod{}
			result, status := p.RunPostFilter(t.Context(), NewCycleState(NewPodInfo(pod)), pod, nil)
			if status.Code() != tc.code || status.Message() != tc.message {
				t.Errorf("%v %q, want %v %q", status.Code(), status.Message(), tc.code, tc.message)
			}
			got := "-"
			if result != nil {
				got = result.NominatedNodeName
			}
			if got != tc.result {
				t.Errorf("nominated to %q, want %q", got, tc.result)
			}
		})
	}
}

func TestSingle(t *testing.T) {
	for _, tc := range []struct {
		name string
		set  fwk.ActionType
		want []fwk.ActionType
	}{
		{"nothing", 0, nil},
		{"one", fwk.UpdateNodeLabel, []fwk.ActionType{fwk.UpdateNodeLabel}},
		{"each has a name", fwk.UpdateNodeTaint | fwk.UpdateNodeAllocatable, []fwk.ActionType{fwk.UpdateNodeAllocatable, fwk.UpdateNodeTaint}},
		{"what has no name", fwk.Update, []fwk.ActionType{fwk.Update}},
	} {
		if got := slices.Collect(Single(tc.set)); !slices.Equal(got, tc.want) {
			t.Errorf("%s: %v, want %v", tc.name, got, tc.want)
		}
	}
}

func TestNodeActions_Cordon(t *testing.T) {
	open, cordoned := &corev1.Node{}, &corev1.Node{Spec: corev1.NodeSpec{Unschedulable: true}}
	if got := NodeActions(open, cordoned); got != 0 {
		t.Errorf("cordoned: %v, want nothing that could help a pod", got)
	}
	if got := NodeActions(cordoned, open); got != fwk.UpdateNodeTaint {
		t.Errorf("uncordoned: %v, want %v", got, fwk.UpdateNodeTaint)
	}
}

func TestNodeActions_PreemptionPolicy(t *testing.T) {
	with := &corev1.Node{Spec: corev1.NodeSpec{PodPreemptionPolicy: &corev1.NodePodPreemptionPolicy{}}}
	if got := NodeActions(with, &corev1.Node{}); got != fwk.UpdateNodePreemptionPolicy {
		t.Errorf("got %v, want %v", got, fwk.UpdateNodePreemptionPolicy)
	}
	if got := NodeActions(with, with); got != 0 {
		t.Errorf("nothing has changed: %v", got)
	}
}

func TestMatches_Update(t *testing.T) {
	for _, tc := range []struct {
		name               string
		declared, happened fwk.ActionType
		want               bool
	}{
		{"what has a name, for who wants it", fwk.UpdatePodLabel, fwk.UpdatePodLabel, true},
		{"what has a name, for who wants all", fwk.Update, fwk.UpdatePodLabel, true},
		{"what has no name, for who wants all", fwk.Update, fwk.Update, true},
		{"what has no name, for who wants everything", fwk.All, fwk.Update, true},
		{"what has no name, for who wants something", fwk.UpdatePodLabel | fwk.Add, fwk.Update, false},
	} {
		declared, happened := fwk.ClusterEvent{Resource: fwk.Pod, ActionType: tc.declared}, fwk.ClusterEvent{Resource: fwk.TargetPod, ActionType: tc.happened}
		if got := Matches(declared, happened); got != tc.want {
			t.Errorf("%s: matches = %v", tc.name, got)
		}
	}
}

func TestWaitingPodActions(t *testing.T) {
	pod := func(change func(*corev1.Pod)) *corev1.Pod {
		p := &corev1.Pod{}
		change(p)
		return p
	}
	for _, tc := range []struct {
		name string
		new  *corev1.Pod
		want fwk.ActionType
	}{
		{"nothing", pod(func(*corev1.Pod) {}), 0},
		{"a label", pod(func(p *corev1.Pod) { p.Labels = map[string]string{"a": "b"} }), fwk.UpdatePodLabel},
		{"an annotation", pod(func(p *corev1.Pod) { p.Annotations = map[string]string{"a": "b"} }), fwk.Update},
		{"what the scheduler writes", pod(func(p *corev1.Pod) {
			p.ResourceVersion, p.Status.NominatedNodeName = "2", "n"
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled}}
		}), 0},
		{"another condition", pod(func(p *corev1.Pod) {
			p.Status.Conditions = []corev1.PodCondition{{Type: "example.com/ready"}}
		}), fwk.Update},
	} {
		if got := WaitingPodActions(&corev1.Pod{}, tc.new); got != tc.want {
			t.Errorf("%s: %v, want %v", tc.name, got, tc.want)
		}
	}
}
