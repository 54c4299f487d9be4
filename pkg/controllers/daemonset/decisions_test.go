// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package daemonset

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/klog/v2"
)

func TestEligibility(t *testing.T) {
	taint := func(key string, effect corev1.TaintEffect) *corev1.Node {
		return node("n1", corev1.Taint{Key: key, Effect: effect})
	}
	spec := func(change func(*corev1.PodSpec)) *appsv1.DaemonSet {
		return daemonSet(func(ds *appsv1.DaemonSet) { change(&ds.Spec.Template.Spec) })
	}
	affinityTo := func(name string) *appsv1.DaemonSet {
		return spec(func(s *corev1.PodSpec) { s.Affinity = Pin(nil, name) })
	}
	tests := []struct {
		name      string
		ds        *appsv1.DaemonSet
		node      *corev1.Node
		run, keep bool
	}{
		{name: "any", ds: daemonSet(), node: node("n1"), run: true, keep: true},
		{name: "other node by name", ds: spec(func(s *corev1.PodSpec) { s.NodeName = "n2" }), node: node("n1")},
		{name: "node selector fits", ds: spec(func(s *corev1.PodSpec) { s.NodeSelector = map[string]string{"disk": "ssd"} }), node: node("n1"), run: true, keep: true},
		{name: "node selector", ds: spec(func(s *corev1.PodSpec) { s.NodeSelector = map[string]string{"disk": "hdd"} }), node: node("n1")},
		{name: "affinity fits", ds: affinityTo("n1"), node: node("n1"), run: true, keep: true},
		{name: "affinity", ds: affinityTo("n2"), node: node("n1")},
		{name: "no schedule", ds: daemonSet(), node: taint("x", corev1.TaintEffectNoSchedule), keep: true},
		{name: "no execute", ds: daemonSet(), node: taint("x", corev1.TaintEffectNoExecute)},
		{name: "prefer no schedule", ds: daemonSet(), node: taint("x", corev1.TaintEffectPreferNoSchedule), run: true, keep: true},
		{name: "tolerated", ds: spec(func(s *corev1.PodSpec) {
			s.Tolerations = []corev1.Toleration{{Key: "x", Operator: corev1.TolerationOpExists}}
		}), node: taint("x", corev1.TaintEffectNoExecute), run: true, keep: true},
		{name: "not ready", ds: daemonSet(), node: taint(corev1.TaintNodeNotReady, corev1.TaintEffectNoExecute), run: true, keep: true},
		{name: "cordoned", ds: daemonSet(), node: taint(corev1.TaintNodeUnschedulable, corev1.TaintEffectNoSchedule), run: true, keep: true},
		{name: "network unavailable", ds: daemonSet(), node: taint(corev1.TaintNodeNetworkUnavailable, corev1.TaintEffectNoSchedule), keep: true},
		{name: "network unavailable, host network", ds: spec(func(s *corev1.PodSpec) { s.HostNetwork = true }), node: taint(corev1.TaintNodeNetworkUnavailable, corev1.TaintEffectNoSchedule), run: true, keep: true},
		{name: "out of service", ds: daemonSet(), node: taint(corev1.TaintNodeOutOfService, corev1.TaintEffectNoExecute)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if run, keep := NewEligibility(tt.ds).Of(klog.Background(), tt.node); run != tt.run || keep != tt.keep {
				t.Errorf("run %v, keep %v", run, keep)
			}
		})
	}
}

func TestPodTemplate(t *testing.T) {
	ds := daemonSet(func(ds *appsv1.DaemonSet) {
		ds.Annotations = map[string]string{appsv1.DeprecatedTemplateGeneration: "4"}
		ds.Spec.Template.Spec.Tolerations = []corev1.Toleration{
			{Key: "own", Operator: corev1.TolerationOpExists},
			{Key: corev1.TaintNodeNotReady, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: new(int64)},
			{Key: corev1.TaintNodeNotReady, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: new(int64(20))},
		}
	})
	before := ds.DeepCopy()
	got := PodTemplate(ds, "hash")
	if diff := cmp.Diff(map[string]string{"app": "agent", "controller-revision-hash": "hash", "pod-template-generation": "4"}, got.Labels); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	var keys []string
	for _, tol := range got.Spec.Tolerations {
		keys = append(keys, tol.Key)
		if tol.TolerationSeconds != nil {
			t.Errorf("%s is tolerated for a time only", tol.Key)
		}
	}
	want := []string{
		"own", "node.kubernetes.io/not-ready", "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable", "node.kubernetes.io/disk-pressure",
		"node.kubernetes.io/memory-pressure", "node.kubernetes.io/pid-pressure", "node.kubernetes.io/unschedulable",
	}
	if diff := cmp.Diff(want, keys); diff != "" {
		t.Errorf("tolerations (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(before, ds); diff != "" {
		t.Errorf("the DaemonSet has changed (-before +after):\n%s", diff)
	}
}

func TestPin(t *testing.T) {
	preferred := []corev1.PreferredSchedulingTerm{{Weight: 1, Preference: corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "a", Operator: corev1.NodeSelectorOpExists}}}}}
	affinity := &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution:  &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{preferred[0].Preference, preferred[0].Preference}},
		PreferredDuringSchedulingIgnoredDuringExecution: preferred,
	}}
	pinned := Pin(affinity, "n1")
	if diff := cmp.Diff(preferred, pinned.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution); diff != "" {
		t.Errorf("preference (-want +got):\n%s", diff)
	}
	name, err := target(&corev1.Pod{Spec: corev1.PodSpec{Affinity: pinned}})
	if name != "n1" || err != nil || len(affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms) != 2 {
		t.Errorf("target %q, error %v, original %v", name, err, affinity)
	}
	if name, err := target(&corev1.Pod{}); err == nil {
		t.Errorf("a pod that is not pinned goes to %q", name)
	}
}

func names(list []*corev1.Pod) []string {
	var names []string
	for _, p := range list {
		names = append(names, p.Name)
	}
	slices.Sort(names)
	return names
}

func TestManage(t *testing.T) {
	surge := daemonSet(rolling(intstr.FromInt32(0), intstr.FromInt32(1)))
	fit, unfit := Node{Name: "n1", ShouldRun: true, ShouldKeep: true}, Node{Name: "n1"}
	tests := []struct {
		name    string
		ds      *appsv1.DaemonSet
		node    Node
		pods    []*corev1.Pod
		backoff time.Duration
		create  []string
		remove  []string
	}{
		{name: "none yet", node: fit, create: []string{"n1"}},
		{name: "not wanted", node: unfit},
		{name: "there", node: fit, pods: []*corev1.Pod{pod("a", "n1", "h")}},
		{name: "being deleted", node: fit, pods: []*corev1.Pod{pod("a", "n1", "h", deleted)}},
		{name: "ended and being deleted", node: fit, pods: []*corev1.Pod{pod("a", "n1", "h", deleted, phase(corev1.PodFailed))}, create: []string{"n1"}},
		{name: "too many", node: fit, pods: []*corev1.Pod{pod("b", "n1", "h", young), pod("a", "n1", "h"), pod("c", "n1", "h", young)}, remove: []string{"b", "c"}},
		{name: "oldest by name", node: fit, pods: []*corev1.Pod{pod("b", "n1", "h"), pod("a", "n1", "h")}, remove: []string{"b"}},
		{name: "failed", node: fit, pods: []*corev1.Pod{pod("a", "n1", "h", phase(corev1.PodFailed))}, remove: []string{"a"}},
		{name: "failed a moment ago", node: fit, pods: []*corev1.Pod{pod("a", "n1", "h", phase(corev1.PodFailed))}, backoff: time.Second},
		{name: "wanted no more", node: unfit, pods: []*corev1.Pod{pod("a", "n1", "h"), pod("b", "n1", "h", deleted)}, remove: []string{"a"}},
		{name: "surging", ds: surge, node: fit, pods: []*corev1.Pod{pod("old", "n1", "x"), pod("new", "n1", "h", unready)}},
		{name: "surge, new one available", ds: surge, node: fit, pods: []*corev1.Pod{pod("old", "n1", "x"), pod("new", "n1", "h")}, remove: []string{"old"}},
		{name: "surge, neither ready", ds: surge, node: fit, pods: []*corev1.Pod{pod("old", "n1", "x", unready), pod("new", "n1", "h", unready)}, remove: []string{"old"}},
		{name: "surge, too many", ds: surge, node: fit, pods: []*corev1.Pod{pod("old", "n1", "x"), pod("older", "n1", "x", young), pod("new", "n1", "h", unready), pod("newer", "n1", "h", young)}, remove: []string{"newer", "older"}},
		{name: "surge, being deleted", ds: surge, node: fit, pods: []*corev1.Pod{pod("a", "n1", "h", deleted)}, create: []string{"n1"}},
		{name: "surge, being deleted where no more are wanted", ds: surge, node: Node{Name: "n1", ShouldKeep: true}, pods: []*corev1.Pod{pod("a", "n1", "h", deleted)}},
		{name: "surge, failed", ds: surge, node: fit, pods: []*corev1.Pod{pod("a", "n1", "h", phase(corev1.PodFailed))}, create: []string{"n1"}, remove: []string{"a"}},
		{name: "surge, failed a moment ago", ds: surge, node: fit, pods: []*corev1.Pod{pod("a", "n1", "h", phase(corev1.PodFailed))}, backoff: time.Second},
		{name: "node is gone", node: Node{Name: "n2"}, pods: []*corev1.Pod{pod("a", "n1", "h"), pod("b", "", "h", func(p *corev1.Pod) { p.Spec.Affinity = Pin(nil, "n1") })}, remove: []string{"b"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.ds == nil {
				tt.ds = daemonSet()
			}
			got := Manage(tt.ds, []Node{tt.node}, ByNode(tt.pods), "h", func(string) time.Duration { return tt.backoff }, now)
			if diff := cmp.Diff([][]string{tt.create, tt.remove}, [][]string{got.Create, names(got.Delete)}); diff != "" {
				t.Errorf("creates and deletes (-want +got):\n%s", diff)
			}
			if got.Wait != tt.backoff {
				t.Errorf("waits %v", got.Wait)
			}
		})
	}
}

func TestRoll(t *testing.T) {
	fit := func(names ...string) []Node {
		var list []Node
		for _, n := range names {
			list = append(list, Node{Name: n, ShouldRun: true, ShouldKeep: true})
		}
		return list
	}
	four := fit("n1", "n2", "n3", "n4")
	n := intstr.FromInt32
	tests := []struct {
		name               string
		unavailable, surge intstr.IntOrString
		minReadySeconds    int32
		nodes              []Node
		pods               []*corev1.Pod
		create             []string
		remove             []string
	}{
		{name: "first step", unavailable: n(1), nodes: four, pods: []*corev1.Pod{pod("a", "n1", "x"), pod("b", "n2", "x"), pod("c", "n3", "h"), pod("d", "n4", "h")}, remove: []string{"a"}},
		{name: "percentage rounds up", unavailable: intstr.FromString("30%"), nodes: four, pods: []*corev1.Pod{pod("a", "n1", "x"), pod("b", "n2", "x"), pod("c", "n3", "x"), pod("d", "n4", "x")}, remove: []string{"a", "b"}},
		{name: "new one not ready", unavailable: n(1), nodes: four, pods: []*corev1.Pod{pod("a", "n1", "h", unready), pod("b", "n2", "x"), pod("c", "n3", "x"), pod("d", "n4", "x")}},
		{name: "new one not long enough ready", unavailable: n(1), minReadySeconds: 7200, nodes: fit("n1", "n2"), pods: []*corev1.Pod{pod("a", "n1", "h"), pod("b", "n2", "h")}},
		{name: "node without pod", unavailable: n(1), nodes: fit("n1", "n2"), pods: []*corev1.Pod{pod("a", "n1", "x")}},
		{name: "being deleted", unavailable: n(1), nodes: fit("n1", "n2"), pods: []*corev1.Pod{pod("a", "n1", "x", deleted), pod("b", "n2", "x")}},
		{name: "old ones not ready go first", unavailable: n(1), nodes: fit("n1", "n2"), pods: []*corev1.Pod{pod("a", "n1", "x"), pod("b", "n2", "x", unready)}, remove: []string{"b"}},
		{name: "old ones not ready are unavailable", unavailable: n(2), nodes: four, pods: []*corev1.Pod{pod("a", "n1", "x"), pod("b", "n2", "x", unready), pod("c", "n3", "x"), pod("d", "n4", "x")}, remove: []string{"a", "b"}},
		{name: "no limit set", unavailable: n(0), surge: n(0), nodes: fit("n1", "n2"), pods: []*corev1.Pod{pod("a", "n1", "x"), pod("b", "n2", "x")}, remove: []string{"a"}},
		{name: "done", unavailable: n(1), nodes: fit("n1"), pods: []*corev1.Pod{pod("a", "n1", "h")}},
		{name: "surge", surge: n(1), unavailable: n(0), nodes: fit("n1", "n2"), pods: []*corev1.Pod{pod("a", "n1", "x"), pod("b", "n2", "x")}, create: []string{"n1"}},
		{name: "surge is used up", surge: n(1), unavailable: n(0), nodes: fit("n1", "n2"), pods: []*corev1.Pod{pod("a", "n1", "x"), pod("a2", "n1", "h", unready), pod("b", "n2", "x")}},
		{name: "surge, next", surge: n(1), unavailable: n(0), nodes: fit("n1", "n2"), pods: []*corev1.Pod{pod("a", "n1", "x"), pod("a2", "n1", "h"), pod("b", "n2", "x")}, create: []string{"n2"}, remove: []string{"a"}},
		{name: "surge where the old one is not ready", surge: n(1), unavailable: n(0), nodes: fit("n1", "n2"), pods: []*corev1.Pod{pod("a", "n1", "x"), pod("b", "n2", "x", unready)}, create: []string{"n1", "n2"}},
		{
			name: "surge, leaving a node", surge: n(1), unavailable: n(0), nodes: append(fit("n1"), Node{Name: "n2", ShouldKeep: true}),
			pods: []*corev1.Pod{pod("a", "n1", "h"), pod("b", "n2", "x")}, remove: []string{"b"},
		},
		{
			name: "surge, leaving a node too early", surge: n(1), unavailable: n(0), nodes: append(fit("n1"), Node{Name: "n2", ShouldKeep: true}),
			pods: []*corev1.Pod{pod("a", "n1", "h", unready), pod("b", "n2", "x")},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			ds := daemonSet(rolling(tt.unavailable, tt.surge), func(ds *appsv1.DaemonSet) { ds.Spec.MinReadySeconds = tt.minReadySeconds })
			got, err := Roll(ds, tt.nodes, ByNode(tt.pods), "h", now)
			if err != nil {
				t.Fatal(err)
			}
			slices.Sort(got.Create)
			if diff := cmp.Diff([][]string{tt.create, tt.remove}, [][]string{got.Create, names(got.Delete)}); diff != "" {
				t.Errorf("creates and deletes (-want +got):\n%s", diff)
			}
		})
	}
}

func TestStatus(t *testing.T) {
	ds := daemonSet(func(ds *appsv1.DaemonSet) { ds.Spec.MinReadySeconds = 10 })
	recently := func(p *corev1.Pod) {
		p.Status.Conditions[0].LastTransitionTime = metav1.NewTime(now.Add(-4 * time.Second))
	}
	nodes := []Node{{Name: "n1", ShouldRun: true}, {Name: "n2", ShouldRun: true}, {Name: "n3", ShouldRun: true}, {Name: "n4", ShouldRun: true}, {Name: "n5"}, {Name: "n6"}}
	got, recheck := Status(ds, nodes, ByNode([]*corev1.Pod{
		pod("a", "n1", "h"), pod("younger", "n1", "h", young, unready),
		pod("b", "n2", "x", recently), pod("c", "n3", "h", unready), pod("e", "n5", "h"),
	}), "h", now)
	want := appsv1.DaemonSetStatus{
		DesiredNumberScheduled: 4, CurrentNumberScheduled: 3, NumberReady: 2, NumberAvailable: 1, NumberUnavailable: 3,
		UpdatedNumberScheduled: 2, NumberMisscheduled: 1, ObservedGeneration: 2,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("status (-want +got):\n%s", diff)
	}
	if recheck != 6*time.Second {
		t.Errorf("rechecks in %v, want 6s", recheck)
	}
}
