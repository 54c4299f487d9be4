// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"

	pt "minik8s.io/minik8s/pkg/scheduler/plugintest"
)

var noon = time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)

// world is what the API knows.
type world struct {
	nodes []*corev1.Node
	pods  []*corev1.Pod
}

func (w world) machine(node string) (string, bool) {
	for _, n := range w.nodes {
		if n.Name == node {
			return n.Status.NodeInfo.BootID, true
		}
	}
	return "", false
}

func (w world) nodeOf(pod types.NamespacedName) (string, bool) {
	for _, p := range w.pods {
		if p.Name == pod.Name {
			return p.Spec.NodeName, true
		}
	}
	return "", false
}

func amounts(cpu, memory string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}
}

func node(name, cpu, memory string) metricsv1beta1.NodeMetrics {
	return metricsv1beta1.NodeMetrics{ObjectMeta: metav1.ObjectMeta{Name: name}, Usage: amounts(cpu, memory)}
}

func pod(name, cpu, memory string) metricsv1beta1.PodMetrics {
	return metricsv1beta1.PodMetrics{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}, Timestamp: metav1.NewTime(noon),
		Containers: []metricsv1beta1.ContainerMetrics{{Usage: amounts(cpu, memory)}},
	}
}

func born(at time.Time) pt.PodOption {
	return func(p *corev1.Pod) { p.CreationTimestamp = metav1.NewTime(at) }
}

// Nodes have 4 CPUs and 8 GiB.
func TestShare(t *testing.T) {
	own := []*corev1.Node{pt.Node("a", pt.Boot("1")), pt.Node("b", pt.Boot("2"))}
	same := []*corev1.Node{pt.Node("a", pt.Boot("1")), pt.Node("b", pt.Boot("1")), pt.Node("small", pt.Boot("1"), pt.Allocatable("cpu", "500m", "memory", "1Gi"))}
	type shares map[string][2]float64 // of CPU and memory; nothing for a node of which nothing is known
	for _, tc := range []struct {
		name  string
		world world
		nodes []metricsv1beta1.NodeMetrics
		pods  []metricsv1beta1.PodMetrics
		want  shares
	}{
		{"nothing is known", world{nodes: own}, nil, nil, shares{}},
		{"machines of their own", world{nodes: own},
			[]metricsv1beta1.NodeMetrics{node("a", "1", "2Gi"), node("b", "3", "1Gi")}, nil,
			shares{"a": {0.25, 0.25}, "b": {0.75, 0.125}}},
		{"pods are part of what their machine uses", world{own, []*corev1.Pod{pt.Pod("p", pt.On("a"))}},
			[]metricsv1beta1.NodeMetrics{node("a", "1", "2Gi"), node("b", "3", "1Gi")}, []metricsv1beta1.PodMetrics{pod("p", "800m", "1Gi")},
			shares{"a": {0.25, 0.25}, "b": {0.75, 0.125}}},
		{"a pod is told to use more than its machine", world{own, []*corev1.Pod{pt.Pod("p", pt.On("a"))}},
			[]metricsv1beta1.NodeMetrics{node("a", "1", "2Gi")}, []metricsv1beta1.PodMetrics{pod("p", "2", "1Gi")},
			shares{"a": {0.5, 0.25}}},
		{"a pod without figures counts as what it requests", world{own, []*corev1.Pod{pt.Pod("p", pt.On("a"), pt.Requests("cpu", "1", "memory", "4Gi"))}},
			[]metricsv1beta1.NodeMetrics{node("a", "1", "2Gi"), node("b", "3", "1Gi")}, nil,
			shares{"a": {0.5, 0.75}, "b": {0.75, 0.125}}},
		{"or as upstream's least", world{own, []*corev1.Pod{pt.Pod("p", pt.On("a"))}},
			[]metricsv1beta1.NodeMetrics{node("a", "1", "2Gi")}, nil,
			shares{"a": {1.1 / 4, (2048.0 + 200) / 8192}}},
		{"figures of a pod of the name that went", world{own, []*corev1.Pod{pt.Pod("p", pt.On("a"), pt.Requests("cpu", "1", "memory", "1Gi"), born(noon.Add(time.Second)))}},
			[]metricsv1beta1.NodeMetrics{node("a", "1", "2Gi")}, []metricsv1beta1.PodMetrics{pod("p", "0", "0")},
			shares{"a": {0.5, 3.0 / 8}}},
		{"a pod that is measured counts as that", world{own, []*corev1.Pod{pt.Pod("p", pt.On("a"), pt.Requests("cpu", "4", "memory", "8Gi"), born(noon.Add(-time.Second)))}},
			[]metricsv1beta1.NodeMetrics{node("a", "1", "2Gi")}, []metricsv1beta1.PodMetrics{pod("p", "500m", "1Gi")},
			shares{"a": {0.25, 0.25}}},
		{"one machine: what is beside pods is everybody's, pods are their node's",
			world{same, []*corev1.Pod{pt.Pod("p", pt.On("b")), pt.Pod("q", pt.On("a"))}},
			[]metricsv1beta1.NodeMetrics{node("a", "3", "4Gi"), node("b", "2900m", "4Gi"), node("small", "2900m", "4Gi")},
			[]metricsv1beta1.PodMetrics{pod("p", "2", "2Gi"), pod("q", "0", "1Gi")},
			shares{"a": {0.25, 0.25}, "b": {0.75, 3.0 / 8}, "small": {2, 1}}},
		{"one machine, of whose nodes one does not answer", world{nodes: same},
			[]metricsv1beta1.NodeMetrics{node("a", "1", "2Gi")}, nil,
			shares{"a": {0.25, 0.25}}},
		{"a node that nobody knows", world{nodes: own[:1]},
			[]metricsv1beta1.NodeMetrics{node("a", "1", "2Gi"), node("x", "1", "2Gi")}, nil,
			shares{"a": {0.25, 0.25}}},
		{"a node that has nothing for pods", world{nodes: []*corev1.Node{pt.Node("a", pt.Allocatable("cpu", "0", "memory", "0"))}},
			[]metricsv1beta1.NodeMetrics{node("a", "1", "2Gi")}, nil, shares{}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := compute(tc.nodes, tc.pods, tc.world)
			got := shares{}
			for _, n := range pt.Nodes(tc.world.nodes, tc.world.pods...) {
				cpu, ok := f.share(n, corev1.ResourceCPU)
				memory, also := f.share(n, corev1.ResourceMemory)
				if ok != also {
					t.Errorf("of %s only one is known", n.Name())
				}
				if ok {
					got[n.Name()] = [2]float64{cpu, memory}
				}
			}
			near := cmp.Comparer(func(a, b float64) bool { return math.Abs(a-b) < 1e-9 })
			if diff := cmp.Diff(tc.want, got, near); diff != "" {
				t.Errorf("shares (-want +got):\n%s", diff)
			}
		})
	}
}
