// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package podtopologyspread

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	fwk "k8s.io/kube-scheduler/framework"

	pt "minik8s.io/minik8s/pkg/scheduler/plugintest"
)

func TestSuite(t *testing.T) { pt.Run(t, Name, New) }

func TestFollows(t *testing.T) {
	all := func(c *corev1.TopologySpreadConstraint) { c.LabelSelector = &metav1.LabelSelector{} }
	pt.Follows(t, New,
		pt.Pod("plain", pt.Labels("app", "x")),
		pt.Pod("elsewhere", pt.Labels("app", "x"), pt.Namespace("other")),
		pt.Pod("by zone", pt.Labels("app", "x"), by(zone, 1)),
		pt.Pod("by host", pt.Labels("app", "x"), by(corev1.LabelHostname, 2)),
		pt.Pod("rather by zone", pt.Labels("app", "x"), by(zone, 1, soft)),
		pt.Pod("per version", pt.Labels("app", "x", "version", "1"), by(zone, 1, perLabel), by(corev1.LabelHostname, 1, soft)),
		pt.Pod("of all", pt.Labels("app", "y"), by(zone, 1, all)),
		pt.Pod("by both", pt.Labels("app", "x"), by(zone, 1), by(corev1.LabelHostname, 2)),
		pt.Pod("in one zone", pt.Labels("app", "x"), by(corev1.LabelHostname, 1), in("1")),
		pt.Pod("in another", pt.Labels("app", "x"), by(corev1.LabelHostname, 1), in("2")),
		pt.Pod("in any zone", pt.Labels("app", "x"), by(corev1.LabelHostname, 1), in("2"), anywhere),
		pt.Pod("rather in one zone", pt.Labels("app", "x"), by(zone, 1, soft), in("1")),
		pt.Pod("where it is tolerated", pt.Labels("app", "x"), by(corev1.LabelHostname, 1, honorTaints)),
		pt.Pod("as it tolerates", pt.Labels("app", "x"), by(corev1.LabelHostname, 1, honorTaints), pt.Tolerate(corev1.Toleration{Operator: corev1.TolerationOpExists})),
	)
}

// in keeps a pod to a zone, by its node selector; anywhere lets the pods of others count all the same.
func in(z string) pt.PodOption {
	return func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{zone: z} }
}

func anywhere(p *corev1.Pod) {
	p.Spec.TopologySpreadConstraints[0].NodeAffinityPolicy = new(corev1.NodeInclusionPolicyIgnore)
}

func by(topology string, skew int32, options ...func(*corev1.TopologySpreadConstraint)) pt.PodOption {
	c := corev1.TopologySpreadConstraint{MaxSkew: skew, TopologyKey: topology, WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: pt.Select("app", "x")}
	for _, o := range options {
		o(&c)
	}
	return pt.Spread(c)
}

func soft(c *corev1.TopologySpreadConstraint) { c.WhenUnsatisfiable = corev1.ScheduleAnyway }

func minDomains(n int32) func(*corev1.TopologySpreadConstraint) {
	return func(c *corev1.TopologySpreadConstraint) { c.MinDomains = &n }
}

func honorTaints(c *corev1.TopologySpreadConstraint) {
	p := corev1.NodeInclusionPolicyHonor
	c.NodeTaintsPolicy = &p
}

func perLabel(c *corev1.TopologySpreadConstraint) { c.MatchLabelKeys = []string{"version"} }

const zone = corev1.LabelTopologyZone

func x(name, node string, labels ...string) *corev1.Pod {
	return pt.Pod(name, pt.On(node), pt.Labels(append([]string{"app", "x"}, labels...)...))
}

func TestFilter(t *testing.T) {
	for _, tc := range []struct {
		name  string
		nodes []*corev1.Node
		pods  []*corev1.Pod
		pod   *corev1.Pod
		want  map[string]string
	}{
		{"skew by zone", []*corev1.Node{pt.Node("a", pt.NodeLabels(zone, "1")), pt.Node("b", pt.NodeLabels(zone, "2")), pt.Node("c")},
			[]*corev1.Pod{x("o", "a")}, pt.Pod("p", pt.Labels("app", "x"), by(zone, 1)),
			map[string]string{"a": ErrReason, "b": "", "c": ErrReasonMissingLabel}},
		{"a larger skew is allowed", []*corev1.Node{pt.Node("a", pt.NodeLabels(zone, "1")), pt.Node("b", pt.NodeLabels(zone, "2"))},
			[]*corev1.Pod{x("o", "a")}, pt.Pod("p", pt.Labels("app", "x"), by(zone, 2)), map[string]string{"a": "", "b": ""}},
		{"a pod that does not match itself", []*corev1.Node{pt.Node("a", pt.NodeLabels(zone, "1")), pt.Node("b", pt.NodeLabels(zone, "2"))},
			[]*corev1.Pod{x("o", "a")}, pt.Pod("p", by(zone, 1)), map[string]string{"a": "", "b": ""}},
		{"too few domains count as empty ones", []*corev1.Node{pt.Node("a", pt.NodeLabels(zone, "1")), pt.Node("b", pt.NodeLabels(zone, "2"))},
			[]*corev1.Pod{x("o", "a"), x("o2", "b")}, pt.Pod("p", pt.Labels("app", "x"), by(zone, 1, minDomains(3))), map[string]string{"a": ErrReason, "b": ErrReason}},
		{"pods of other namespaces do not count", []*corev1.Node{pt.Node("a", pt.NodeLabels(zone, "1")), pt.Node("b", pt.NodeLabels(zone, "2"))},
			[]*corev1.Pod{pt.Pod("o", pt.On("a"), pt.Labels("app", "x"), pt.Namespace("other"))}, pt.Pod("p", pt.Labels("app", "x"), by(zone, 1)), map[string]string{"a": "", "b": ""}},
		{"nodes outside of the affinity do not count", []*corev1.Node{pt.Node("a"), pt.Node("b", pt.NodeLabels("k", "v"))},
			[]*corev1.Pod{x("o", "b")}, pt.Pod("p", pt.Labels("app", "x"), by(corev1.LabelHostname, 1), func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"k": "v"} }),
			map[string]string{"a": "", "b": ""}},
		{"tainted nodes count by default", []*corev1.Node{pt.Node("a", pt.Taint("t", "", corev1.TaintEffectNoSchedule)), pt.Node("b")},
			[]*corev1.Pod{x("o", "b")}, pt.Pod("p", pt.Labels("app", "x"), by(corev1.LabelHostname, 1)), map[string]string{"a": "", "b": ErrReason}},
		{"tainted nodes do not count if taints are honoured", []*corev1.Node{pt.Node("a", pt.Taint("t", "", corev1.TaintEffectNoSchedule)), pt.Node("b")},
			[]*corev1.Pod{x("o", "b")}, pt.Pod("p", pt.Labels("app", "x"), by(corev1.LabelHostname, 1, honorTaints)), map[string]string{"a": "", "b": ""}},
		{"only pods of the same version count", []*corev1.Node{pt.Node("a"), pt.Node("b")},
			[]*corev1.Pod{x("o", "a", "version", "1")}, pt.Pod("p", pt.Labels("app", "x", "version", "2"), by(corev1.LabelHostname, 1, perLabel)), map[string]string{"a": "", "b": ""}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := pt.NewHandle(pt.Nodes(tc.nodes, tc.pods...))
			got := pt.Filter(t, h, pt.NewPlugin(t, h, New), tc.pod)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("reasons (-want +got):\n%s", diff)
			}
		})
	}
}

func TestScore(t *testing.T) {
	for _, tc := range []struct {
		name  string
		nodes []*corev1.Node
		pods  []*corev1.Pod
		pod   *corev1.Pod
		want  map[string]int64
	}{
		{"no soft constraint", []*corev1.Node{pt.Node("a")}, nil, pt.Pod("p", by(zone, 1)), nil},
		{"fewer pods are better", []*corev1.Node{pt.Node("a"), pt.Node("b"), pt.Node("c")}, []*corev1.Pod{x("1", "a"), x("2", "a"), x("3", "b")},
			pt.Pod("p", pt.Labels("app", "x"), by(corev1.LabelHostname, 1, soft)), map[string]int64{"a": 0, "b": 33, "c": 100}},
		{"nodes without the label are ignored", []*corev1.Node{pt.Node("a", pt.NodeLabels(zone, "1")), pt.Node("b")}, nil,
			pt.Pod("p", pt.Labels("app", "x"), by(zone, 1, soft)), map[string]int64{"a": 100, "b": 0}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := pt.NewHandle(pt.Nodes(tc.nodes, tc.pods...))
			got := pt.Score(t, h, pt.NewPlugin(t, h, New), tc.pod)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("scores (-want +got):\n%s", diff)
			}
		})
	}
}

func TestScore_Default(t *testing.T) {
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "s", Namespace: "default"}, Spec: corev1.ServiceSpec{Selector: map[string]string{"app": "x"}}}
	h := pt.NewHandle(pt.Nodes([]*corev1.Node{pt.Node("a"), pt.Node("b")}, x("o", "a")), service)
	p := pt.NewPlugin(t, h, New)
	got := pt.Score(t, h, p, pt.Pod("p", pt.Labels("app", "x")))
	if got["b"] <= got["a"] {
		t.Errorf("pods of a service are not spread: %v", got)
	}
	if got := pt.Score(t, h, p, pt.Pod("alone")); got != nil {
		t.Errorf("a pod of no service is scored: %v", got)
	}
}

func TestRequeue(t *testing.T) {
	labelled := fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.UpdateNodeLabel}
	tainted := fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.UpdateNodeTaint}
	for _, tc := range []struct {
		name     string
		pod      *corev1.Pod
		event    fwk.ClusterEvent
		old, new any
		want     bool
	}{
		{"a counted pod", pt.Pod("p", by(zone, 1)), fwk.ClusterEvent{Resource: fwk.AssignedPod, ActionType: fwk.Delete}, x("o", "a"), nil, true},
		{"another pod", pt.Pod("p", by(zone, 1)), fwk.ClusterEvent{Resource: fwk.AssignedPod, ActionType: fwk.Delete}, pt.Pod("o", pt.On("a")), nil, false},
		{"a pod counts no more", pt.Pod("p", by(zone, 1)), fwk.ClusterEvent{Resource: fwk.AssignedPod, ActionType: fwk.UpdatePodLabel}, x("o", "a"), pt.Pod("o", pt.On("a")), true},
		{"a pod counts as before", pt.Pod("p", by(zone, 1)), fwk.ClusterEvent{Resource: fwk.AssignedPod, ActionType: fwk.UpdatePodLabel}, x("o", "a"), x("o", "a", "k", "v"), false},
		{"a node in a domain", pt.Pod("p", by(zone, 1)), fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Add}, nil, pt.Node("a", pt.NodeLabels(zone, "1")), true},
		{"a node in none", pt.Pod("p", by(zone, 1)), fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Add}, nil, pt.Node("a"), false},
		{"a node of a domain is gone", pt.Pod("p", by(zone, 1)), fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Delete}, pt.Node("a", pt.NodeLabels(zone, "1")), nil, true},
		{"a node of none is gone", pt.Pod("p", by(zone, 1)), fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Delete}, pt.Node("a"), nil, false},
		{"a node leaves its domain", pt.Pod("p", by(zone, 1)), labelled, pt.Node("a", pt.NodeLabels(zone, "1")), pt.Node("a"), true},
		{"a node changes its domain", pt.Pod("p", by(zone, 1)), labelled, pt.Node("a", pt.NodeLabels(zone, "1")), pt.Node("a", pt.NodeLabels(zone, "2")), true},
		{"a node stays in its domain", pt.Pod("p", by(zone, 1)), labelled, pt.Node("a", pt.NodeLabels(zone, "1")), pt.Node("a", pt.NodeLabels(zone, "1", "k", "v")), false},
		{"the pods of a node count no more", pt.Pod("p", by(zone, 1), func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"k": "v"} }), labelled,
			pt.Node("a", pt.NodeLabels(zone, "1", "k", "v")), pt.Node("a", pt.NodeLabels(zone, "1")), true},
		{"taints of a node in a domain", pt.Pod("p", by(zone, 1)), tainted, pt.Node("a", pt.NodeLabels(zone, "1")), pt.Node("a", pt.NodeLabels(zone, "1"), pt.Taint("k", "", corev1.TaintEffectNoSchedule)), true},
		{"taints of a node in none", pt.Pod("p", by(zone, 1)), tainted, pt.Node("a"), pt.Node("a", pt.Taint("k", "", corev1.TaintEffectNoSchedule)), false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := pt.NewHandle(nil)
			got := pt.Helps(t, pt.NewPlugin(t, h, New), tc.pod, tc.event, tc.old, tc.new)
			if got != tc.want {
				t.Errorf("helps = %v, want %v", got, tc.want)
			}
		})
	}
}
