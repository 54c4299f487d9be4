// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"

	"minik8s.io/minik8s/pkg/scheduler/framework"
	"minik8s.io/minik8s/pkg/scheduler/internal/queue"
	pt "minik8s.io/minik8s/pkg/scheduler/plugintest"
)

// BenchmarkCycle measures the serial part of scheduling a pod, from the snapshot
// to the assumption: its inverse bounds the pods per second.
func BenchmarkCycle(b *testing.B) {
	pods := map[string]func(name string) *corev1.Pod{
		"plain": func(name string) *corev1.Pod { return pt.Pod(name, pt.Requests("cpu", "1m", "memory", "1Mi")) },
		"spread": func(name string) *corev1.Pod {
			return pt.Pod(name, pt.Requests("cpu", "1m"), pt.Labels("app", "x"), pt.Spread(corev1.TopologySpreadConstraint{
				MaxSkew: 5, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: pt.Select("app", "x")}))
		},
		"away": func(name string) *corev1.Pod {
			return pt.Pod(name, pt.Requests("cpu", "1m"), pt.Affinity(pt.AwayFrom("app", "x", corev1.LabelHostname)))
		},
	}
	for _, nodes := range []int{100, 1000, 5000} {
		for _, kind := range []string{"plain", "spread", "away"} {
			b.Run(fmt.Sprintf("nodes=%d/pod=%s", nodes, kind), func(b *testing.B) {
				client := fake.NewClientset()
				s, err := New(Config{Client: client, Informers: informers.NewSharedInformerFactory(client, 0), Seed: 1})
				if err != nil {
					b.Fatal(err)
				}
				defer s.broadcaster.Shutdown()
				for i := range nodes {
					s.cache.AddNode(pt.Node(fmt.Sprintf("node-%d", i), pt.NodeLabels(corev1.LabelTopologyZone, fmt.Sprint(i%3)), pt.Allocatable("pods", "1000000")))
				}
				ctx := context.Background()
				b.ReportAllocs()
				n := 0
				for b.Loop() {
					n++
					pod := framework.NewPodInfo(pods[kind](fmt.Sprintf("pod-%d", n)))
					s.snapshot.Store(s.cache.Snapshot())
					a := &attempt{pod: &queue.Pod{PodInfo: pod}, profile: s.profiles[corev1.DefaultSchedulerName], state: framework.NewCycleState(pod)}
					node, err := s.place(ctx, a)
					if err != nil {
						b.Fatal(err)
					}
					if err := s.cache.Assume(pod.WithNode(node)); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "pods/s")
			})
		}
	}
}
