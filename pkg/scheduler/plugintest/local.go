// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package plugintest

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"minik8s.io/minik8s/pkg/scheduler/framework"
)

// checkLocal: what a node-local plugin finds of a node is a matter of that node, and the same for all pods of a signature, in which
// nothing is that it does not look at.
func checkLocal(t *testing.T, factory framework.Factory, pods []*corev1.Pod) {
	t.Helper()
	h := NewHandle(mixedCluster(), &corev1.Namespace{})
	p, ok := NewPlugin(t, h, factory).(framework.NodeLocal)
	if !ok {
		return
	}
	bySignature := map[string]*corev1.Pod{}
	found := map[string]map[string]string{}
	for _, pod := range pods {
		all := findings(t, h.Snapshot, p, pod)
		for _, n := range h.Snapshot.Nodes() {
			h.Snapshot = framework.NewSnapshot(n.(*framework.NodeInfo))
			if diff := cmp.Diff(all[n.Node().Name], findings(t, h.Snapshot, p, pod)[n.Node().Name]); diff != "" {
				t.Errorf("%s: other nodes matter to what is found of %s (-with +without):\n%s", pod.Name, n.Node().Name, diff)
			}
		}
		h.Snapshot = framework.NewSnapshot(mixedCluster()...)

		signature, ok := p.AppendSignature(nil, framework.NewPodInfo(pod))
		if !ok {
			continue
		}
		if other := bySignature[string(signature)]; other == nil {
			bySignature[string(signature)], found[string(signature)] = pod, all
		} else if diff := cmp.Diff(found[string(signature)], all); diff != "" {
			t.Errorf("%s and %s have the same signature, but not the same findings:\n%s", other.Name, pod.Name, diff)
		}
		twin := pod.DeepCopy()
		twin.Name, twin.UID, twin.Labels = "twin", "twin", map[string]string{"pod-template-hash": "twin"}
		if again, ok := p.AppendSignature(nil, framework.NewPodInfo(twin)); !ok || string(again) != string(signature) {
			t.Errorf("the signature of %s has in it who it is: %q, and of another %q", pod.Name, signature, again)
		}
	}
	if len(bySignature) < 2 {
		t.Errorf("all pods have the same signature")
	}
}

// findings are what a plugin finds of each node for a pod, as text.
func findings(t *testing.T, nodes *framework.Snapshot, p fwk.Plugin, pod *corev1.Pod) map[string]string {
	t.Helper()
	ctx, state, out := t.Context(), framework.NewCycleState(framework.NewPodInfo(pod)), map[string]string{}
	filters, scores := true, true
	if pre, ok := p.(fwk.PreFilterPlugin); ok {
		_, s := pre.PreFilter(ctx, state, pod, nodes.Nodes())
		filters = s.IsSuccess()
	}
	if pre, ok := p.(fwk.PreScorePlugin); ok {
		scores = pre.PreScore(ctx, state, pod, nodes.Nodes()).IsSuccess()
	}
	for _, n := range nodes.Nodes() {
		text := ""
		if f, ok := p.(fwk.FilterPlugin); ok && filters {
			s := f.Filter(ctx, state, pod, n)
			text = fmt.Sprintf("%v %q", s.Code(), s.Message())
		}
		if f, ok := p.(fwk.ScorePlugin); ok && scores {
			v, s := f.Score(ctx, state, pod, n)
			text += fmt.Sprintf(" %d %v", v, s.Code())
		}
		out[n.Node().Name] = text
	}
	return out
}

// kinds are pods that differ in what a plugin may look at, two by two in one thing.
func kinds() []*corev1.Pod {
	selected := func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{corev1.LabelTopologyZone: "z1"} }
	term := func(zone string) corev1.NodeSelectorTerm {
		return corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{
			{Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpIn, Values: []string{zone}}}}
	}
	required := func(zone string) *corev1.Affinity {
		return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{term(zone)}}}}
	}
	preferred := func(weight int32) *corev1.Affinity {
		return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{Weight: weight, Preference: term("z2")}}}}
	}
	return []*corev1.Pod{
		Pod("named a", On("a")), Pod("named b", On("b")),
		Pod("selects", selected), Pod("requires z1", Affinity(required("z1"))), Pod("requires z2", Affinity(required("z2"))),
		Pod("prefers a little", Affinity(preferred(1))), Pod("prefers much", Affinity(preferred(50))),
		Pod("tolerates soft", Tolerate(corev1.Toleration{Key: "soft", Operator: corev1.TolerationOpExists})),
		Pod("tolerates hard", Tolerate(corev1.Toleration{Key: "hard", Operator: corev1.TolerationOpEqual, Value: "v"})),
		Pod("tolerates another", Tolerate(corev1.Toleration{Key: "hard", Operator: corev1.TolerationOpEqual, Value: "w"})),
		Pod("tolerates all", Tolerate(corev1.Toleration{Operator: corev1.TolerationOpExists})),
		Pod("tcp", HostPort("", corev1.ProtocolTCP, 80)), Pod("udp", HostPort("", corev1.ProtocolUDP, 80)),
		Pod("an address", HostPort("127.0.0.1", corev1.ProtocolTCP, 90)), Pod("another port", HostPort("", corev1.ProtocolTCP, 81)),
		Pod("another address", HostPort("127.0.0.2", corev1.ProtocolTCP, 90)),
		Pod("cpu", Requests("cpu", "1")), Pod("more cpu", Requests("cpu", "3500m")), Pod("memory", Requests("memory", "1Gi")),
		Pod("more memory", Requests("memory", "7Gi")), Pod("both", Requests("cpu", "1", "memory", "7Gi")),
		Pod("as much as is assumed", Requests("cpu", "100m", "memory", "200Mi")),
		Pod("of two", func(p *corev1.Pod) { p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "second"}) }),
		Pod("storage", Requests("ephemeral-storage", "1Ti")), Pod("thing", Requests("example.com/thing", "1")),
		Pod("another image", func(p *corev1.Pod) { p.Spec.Containers[0].Image = "another" }),
		Pod("urgent", Priority(1000)),
	}
}
