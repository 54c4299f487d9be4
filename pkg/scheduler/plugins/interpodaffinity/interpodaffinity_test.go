// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package interpodaffinity

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
	host := corev1.LabelHostname
	both := pt.NearTo("app", "x", zone)
	both.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution = append(both.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution,
		pt.NearTo("app", "x", host).PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution...)
	everywhere := pt.AwayFrom("app", "x", zone)
	everywhere.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution[0].NamespaceSelector = &metav1.LabelSelector{}
	everywhere.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution[0].Namespaces = []string{pt.Pod("any").Namespace}
	nobody := pt.AwayFrom("app", "x", host)
	nobody.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution[0].LabelSelector = nil
	all := pt.AwayFrom("app", "x", host)
	all.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution[0].LabelSelector = &metav1.LabelSelector{}
	pt.Follows(t, New,
		pt.Pod("plain", pt.Labels("app", "x")),
		pt.Pod("elsewhere", pt.Labels("app", "x"), pt.Namespace("other")),
		pt.Pod("near", pt.Labels("app", "x"), pt.Affinity(pt.NearTo("app", "x", zone))),
		pt.Pod("near twice", pt.Labels("app", "x"), pt.Affinity(both)),
		pt.Pod("away", pt.Labels("app", "y"), pt.Affinity(pt.AwayFrom("app", "x", host))),
		pt.Pod("away by zone", pt.Labels("app", "x"), pt.Affinity(pt.AwayFrom("app", "x", zone))),
		pt.Pod("away everywhere", pt.Labels("app", "z"), pt.Affinity(everywhere)),
		pt.Pod("away from nobody", pt.Labels("app", "x"), pt.Affinity(nobody)),
		pt.Pod("away from all", pt.Labels("app", "x"), pt.Affinity(all)),
		pt.Pod("rather near", pt.Labels("app", "x"), pt.Affinity(preferred(5, 0))),
		pt.Pod("rather not", pt.Labels("app", "y"), pt.Affinity(preferred(3, 7))),
	)
}

const zone = corev1.LabelTopologyZone

func zones() []*corev1.Node {
	return []*corev1.Node{
		pt.Node("a", pt.NodeLabels(zone, "1")),
		pt.Node("b", pt.NodeLabels(zone, "1")),
		pt.Node("c", pt.NodeLabels(zone, "2")),
		pt.Node("none"),
	}
}

func x(name, node string, options ...pt.PodOption) *corev1.Pod {
	return pt.Pod(name, append([]pt.PodOption{pt.On(node), pt.Labels("app", "x")}, options...)...)
}

func TestFilter(t *testing.T) {
	for _, tc := range []struct {
		name  string
		nodes []*corev1.Node
		pods  []*corev1.Pod
		pod   *corev1.Pod
		want  map[string]string
	}{
		{"no terms", zones(), nil, pt.Pod("p"), map[string]string{"a": "", "b": "", "c": "", "none": ""}},
		{"near", zones(), []*corev1.Pod{x("o", "a")}, pt.Pod("p", pt.Affinity(pt.NearTo("app", "x", zone))),
			map[string]string{"a": "", "b": "", "c": ErrReasonAffinity, "none": ErrReasonAffinity}},
		{"near to nobody", zones(), nil, pt.Pod("p", pt.Affinity(pt.NearTo("app", "x", zone))),
			map[string]string{"a": ErrReasonAffinity, "b": ErrReasonAffinity, "c": ErrReasonAffinity, "none": ErrReasonAffinity}},
		{"the first of its kind", zones(), nil, pt.Pod("p", pt.Labels("app", "x"), pt.Affinity(pt.NearTo("app", "x", zone))),
			map[string]string{"a": "", "b": "", "c": "", "none": ErrReasonAffinity}},
		{"near to a pod of another namespace", zones(), []*corev1.Pod{x("o", "a", pt.Namespace("other"))}, pt.Pod("p", pt.Affinity(pt.NearTo("app", "x", zone))),
			map[string]string{"a": ErrReasonAffinity, "b": ErrReasonAffinity, "c": ErrReasonAffinity, "none": ErrReasonAffinity}},
		{"away", zones(), []*corev1.Pod{x("o", "a")}, pt.Pod("p", pt.Affinity(pt.AwayFrom("app", "x", zone))),
			map[string]string{"a": ErrReasonAntiAffinity, "b": ErrReasonAntiAffinity, "c": "", "none": ""}},
		{"kept away by a running pod", zones(), []*corev1.Pod{pt.Pod("o", pt.On("a"), pt.Affinity(pt.AwayFrom("app", "x", zone)))}, pt.Pod("p", pt.Labels("app", "x")),
			map[string]string{"a": ErrReasonExisting, "b": ErrReasonExisting, "c": "", "none": ""}},
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

func TestFilter_NamespaceSelector(t *testing.T) {
	other := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "other", Labels: map[string]string{"team": "t"}}}
	for _, tc := range []struct {
		name     string
		selector *metav1.LabelSelector
		want     string
	}{
		{"own namespace only", nil, ""},
		{"all namespaces", &metav1.LabelSelector{}, ErrReasonAntiAffinity},
		{"matching namespaces", pt.Select("team", "t"), ErrReasonAntiAffinity},
		{"no such namespaces", pt.Select("team", "u"), ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := pt.NewHandle(pt.Nodes(zones(), x("o", "a", pt.Namespace("other"))), other)
			away := pt.AwayFrom("app", "x", zone)
			away.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution[0].NamespaceSelector = tc.selector
			if got := pt.Filter(t, h, pt.NewPlugin(t, h, New), pt.Pod("p", pt.Affinity(away))); got["a"] != tc.want {
				t.Errorf("got %q, want %q", got["a"], tc.want)
			}
		})
	}
}

func preferred(near, away int32) *corev1.Affinity {
	term := func(w int32) []corev1.WeightedPodAffinityTerm {
		if w == 0 {
			return nil
		}
		return []corev1.WeightedPodAffinityTerm{{Weight: w, PodAffinityTerm: corev1.PodAffinityTerm{LabelSelector: pt.Select("app", "x"), TopologyKey: zone}}}
	}
	return &corev1.Affinity{
		PodAffinity:     &corev1.PodAffinity{PreferredDuringSchedulingIgnoredDuringExecution: term(near)},
		PodAntiAffinity: &corev1.PodAntiAffinity{PreferredDuringSchedulingIgnoredDuringExecution: term(away)},
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
		{"nobody has terms", zones(), []*corev1.Pod{x("o", "a")}, pt.Pod("p"), nil},
		{"rather near", zones(), []*corev1.Pod{x("o", "a")}, pt.Pod("p", pt.Affinity(preferred(5, 0))), map[string]int64{"a": 100, "b": 100, "c": 0, "none": 0}},
		{"rather away", zones(), []*corev1.Pod{x("o", "a")}, pt.Pod("p", pt.Affinity(preferred(0, 5))), map[string]int64{"a": 0, "b": 0, "c": 100, "none": 100}},
		{"a running pod would rather have it near", zones(), []*corev1.Pod{pt.Pod("o", pt.On("c"), pt.Affinity(preferred(5, 0)))}, pt.Pod("p", pt.Labels("app", "x")), map[string]int64{"a": 0, "b": 0, "c": 100, "none": 0}},
		{"a running pod must have one near", zones(), []*corev1.Pod{pt.Pod("o", pt.On("c"), pt.Affinity(pt.NearTo("app", "x", zone)))}, pt.Pod("p", pt.Labels("app", "x")), map[string]int64{"a": 0, "b": 0, "c": 100, "none": 0}},
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

func TestRequeue(t *testing.T) {
	near, away := pt.Pod("p", pt.Affinity(pt.NearTo("app", "x", zone))), pt.Pod("p", pt.Affinity(pt.AwayFrom("app", "x", zone)))
	relabelled := fwk.ClusterEvent{Resource: fwk.AssignedPod, ActionType: fwk.UpdatePodLabel}
	labelled := fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.UpdateNodeLabel}
	both := pt.NearTo("app", "x", zone)
	both.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution = append(both.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution,
		pt.NearTo("tier", "y", zone).PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution...)
	for _, tc := range []struct {
		name     string
		pod      *corev1.Pod
		event    fwk.ClusterEvent
		old, new any
		want     bool
	}{
		{"a wanted pod", pt.Pod("p", pt.Affinity(pt.NearTo("app", "x", zone))), fwk.ClusterEvent{Resource: fwk.AssignedPod, ActionType: fwk.Add}, nil, x("o", "a"), true},
		{"a wanted pod as before", near, relabelled, x("o", "a"), pt.Pod("o", pt.On("a"), pt.Labels("app", "x", "k", "v")), false},
		{"a wanted pod by its new label", near, relabelled, pt.Pod("o", pt.On("a")), x("o", "a"), true},
		{"the last wanted pod is gone", near, fwk.ClusterEvent{Resource: fwk.AssignedPod, ActionType: fwk.Delete}, x("o", "a"), nil, true},
		{"one of two wanted labels", pt.Pod("p", pt.Affinity(both)), fwk.ClusterEvent{Resource: fwk.AssignedPod, ActionType: fwk.Add}, nil, x("o", "a"), false},
		{"an unwanted pod", away, fwk.ClusterEvent{Resource: fwk.AssignedPod, ActionType: fwk.Add}, nil, x("o", "a"), false},
		{"an unwanted pod is gone", away, fwk.ClusterEvent{Resource: fwk.AssignedPod, ActionType: fwk.Delete}, x("o", "a"), nil, true},
		{"a pod is unwanted no more", away, relabelled, x("o", "a"), pt.Pod("o", pt.On("a")), true},
		{"a pod is unwanted now", away, relabelled, pt.Pod("o", pt.On("a")), x("o", "a"), false},
		{"a node in a domain", near, fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Add}, nil, pt.Node("a", pt.NodeLabels(zone, "1")), true},
		{"a node in none", near, fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Add}, nil, pt.Node("a"), false},
		{"a node in none, away from others", away, fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Add}, nil, pt.Node("a"), true},
		{"a node enters a domain", near, labelled, pt.Node("a"), pt.Node("a", pt.NodeLabels(zone, "1")), true},
		{"a node leaves a domain", near, labelled, pt.Node("a", pt.NodeLabels(zone, "1")), pt.Node("a"), false},
		{"a node enters a domain of others", away, labelled, pt.Node("a"), pt.Node("a", pt.NodeLabels(zone, "1")), false},
		{"a node leaves the domain of others", away, labelled, pt.Node("a", pt.NodeLabels(zone, "1")), pt.Node("a"), true},
		{"a node changes its domain", away, labelled, pt.Node("a", pt.NodeLabels(zone, "1")), pt.Node("a", pt.NodeLabels(zone, "2")), true},
		{"another label of a node", near, labelled, pt.Node("a", pt.NodeLabels(zone, "1")), pt.Node("a", pt.NodeLabels(zone, "1", "k", "v")), false},
		{"any label of a node, for a pod that others keep away", pt.Pod("p"), labelled, pt.Node("a"), pt.Node("a", pt.NodeLabels("k", "v")), true},
		{"an indifferent pod", pt.Pod("p", pt.Affinity(pt.NearTo("app", "x", zone))), fwk.ClusterEvent{Resource: fwk.AssignedPod, ActionType: fwk.Add}, nil, pt.Pod("o", pt.On("a")), false},
		{"a pod that kept it away is gone", pt.Pod("p", pt.Labels("app", "x")), fwk.ClusterEvent{Resource: fwk.AssignedPod, ActionType: fwk.Delete}, pt.Pod("o", pt.Affinity(pt.AwayFrom("app", "x", zone))), nil, true},
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
