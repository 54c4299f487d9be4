// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package nodeaffinity

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	pt "minik8s.io/minik8s/pkg/scheduler/plugintest"
)

func TestSuite(t *testing.T) { pt.Run(t, Name, New) }

func require(terms ...corev1.NodeSelectorTerm) pt.PodOption {
	return pt.Affinity(&corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: terms}}})
}

func prefer(weight int32, key, value string) corev1.PreferredSchedulingTerm {
	return corev1.PreferredSchedulingTerm{Weight: weight, Preference: corev1.NodeSelectorTerm{MatchExpressions: in(key, value)}}
}

func in(key string, values ...string) []corev1.NodeSelectorRequirement {
	return []corev1.NodeSelectorRequirement{{Key: key, Operator: corev1.NodeSelectorOpIn, Values: values}}
}

func selector(key, value string) pt.PodOption {
	return func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{key: value} }
}

func TestFilter(t *testing.T) {
	for _, tc := range []struct {
		name  string
		nodes []*corev1.Node
		pods  []*corev1.Pod
		pod   *corev1.Pod
		want  map[string]string
	}{
		{"nothing asked", []*corev1.Node{pt.Node("a")}, nil, pt.Pod("p"), map[string]string{"a": ""}},
		{"nodeSelector", []*corev1.Node{pt.Node("a", pt.NodeLabels("k", "v")), pt.Node("b")}, nil, pt.Pod("p", selector("k", "v")), map[string]string{"a": "", "b": ErrReason}},
		{"terms are alternatives", []*corev1.Node{pt.Node("a", pt.NodeLabels("k", "1")), pt.Node("b", pt.NodeLabels("k", "2")), pt.Node("c")}, nil,
			pt.Pod("p", require(corev1.NodeSelectorTerm{MatchExpressions: in("k", "1")}, corev1.NodeSelectorTerm{MatchExpressions: in("k", "2")})),
			map[string]string{"a": "", "b": "", "c": ErrReason}},
		{"selector and affinity must both match", []*corev1.Node{pt.Node("a", pt.NodeLabels("k", "1")), pt.Node("b", pt.NodeLabels("k", "1", "s", "t"))}, nil,
			pt.Pod("p", selector("s", "t"), require(corev1.NodeSelectorTerm{MatchExpressions: in("k", "1")})),
			map[string]string{"a": ErrReason, "b": ""}},
		{"by name", []*corev1.Node{pt.Node("a"), pt.Node("b")}, nil,
			pt.Pod("p", require(corev1.NodeSelectorTerm{MatchFields: in("metadata.name", "b")})), map[string]string{"a": "excluded", "b": ""}},
		{"names that exclude each other", []*corev1.Node{pt.Node("a"), pt.Node("b")}, nil,
			pt.Pod("p", require(corev1.NodeSelectorTerm{MatchFields: append(in("metadata.name", "a"), in("metadata.name", "b")...)})),
			map[string]string{"a": "pod affinity terms conflict", "b": "pod affinity terms conflict"}},
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
		{"nothing preferred", []*corev1.Node{pt.Node("a")}, nil, pt.Pod("p"), nil},
		{"weights", []*corev1.Node{pt.Node("a", pt.NodeLabels("x", "1", "y", "1")), pt.Node("b", pt.NodeLabels("x", "1")), pt.Node("c")}, nil,
			pt.Pod("p", pt.Affinity(&corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{
				prefer(1, "x", "1"), prefer(3, "y", "1")}}})),
			map[string]int64{"a": 100, "b": 25, "c": 0}},
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
	for _, tc := range []struct {
		name     string
		pod      *corev1.Pod
		event    fwk.ClusterEvent
		old, new any
		want     bool
	}{
		{"a matching node", pt.Pod("p", selector("k", "v")), fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Add}, nil, pt.Node("a", pt.NodeLabels("k", "v")), true},
		{"a node matches now", pt.Pod("p", selector("k", "v")), fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.UpdateNodeLabel}, pt.Node("a"), pt.Node("a", pt.NodeLabels("k", "v")), true},
		{"a node that matched before", pt.Pod("p", selector("k", "v")), fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.UpdateNodeLabel}, pt.Node("a", pt.NodeLabels("k", "v")), pt.Node("a", pt.NodeLabels("k", "v", "l", "w")), false},
		{"another node", pt.Pod("p", selector("k", "v")), fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Add}, nil, pt.Node("a"), false},
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
