// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"fmt"
	"math/rand/v2"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"

	"minik8s.io/minik8s/pkg/scheduler/framework"
	"minik8s.io/minik8s/pkg/scheduler/internal/queue"
	pt "minik8s.io/minik8s/pkg/scheduler/plugintest"
)

// A scheduler that remembers what it found of nodes decides as one that looks at all anew, while nodes and pods come, go and change.
func TestMemory_Follows(t *testing.T) {
	const steps = 3000
	remembers, forgets := idle(t), idle(t)
	random := rand.New(rand.NewPCG(3, 4))
	both := func(f func(s *Scheduler)) {
		f(remembers)
		f(forgets)
	}
	var nodes []string
	var placed []types.UID
	recalled, rejected := 0, 0
	for step := range steps {
		switch random.IntN(8) {
		case 0:
			name := fmt.Sprint("n", random.IntN(150))
			n := anyNode(random, name)
			both(func(s *Scheduler) { s.cache.AddNode(n) })
			nodes = append(nodes, name)
		case 1:
			if len(nodes) > 0 && random.IntN(4) == 0 {
				name := nodes[random.IntN(len(nodes))]
				both(func(s *Scheduler) { s.cache.RemoveNode(name) })
			}
		case 2:
			if i := random.IntN(len(placed) + 1); i < len(placed) {
				both(func(s *Scheduler) { s.cache.RemovePod(placed[i]) })
				placed = append(placed[:i], placed[i+1:]...)
			}
		case 3:
			if len(nodes) > 0 {
				waits, node := anyPod(random, fmt.Sprint("waits", random.IntN(3))), nodes[random.IntN(len(nodes))]
				if random.IntN(2) == 0 {
					node = "" // no longer
				}
				both(func(s *Scheduler) { s.nominated.Set(framework.NewPodInfo(waits), node) })
			}
		}
		pod := anyPod(random, fmt.Sprint("p", step))
		forgets.memory = framework.NewMemory()
		want, _, wantErr := decide(t, forgets, pod)
		got, known, gotErr := decide(t, remembers, pod)
		if got != want || fmt.Sprint(gotErr) != fmt.Sprint(wantErr) {
			t.Fatalf("step %d, %s: %q, %v; looked at anew %q, %v", step, pod.Name, got, gotErr, want, wantErr)
		}
		if known != nil {
			recalled++
		}
		if gotErr != nil {
			rejected++
			continue
		}
		placed = append(placed, pod.UID)
		both(func(s *Scheduler) {
			if err := s.cache.Assume(framework.NewPodInfo(pod).WithNode(got)); err != nil {
				t.Fatal(err)
			}
		})
	}
	if recalled < steps/2 || rejected < 50 || len(placed) < 50 {
		t.Errorf("%d of %d cycles remembered something, %d pods fit nowhere, %d have a node: that is no test", recalled, steps, rejected, len(placed))
	}
}

// idle is a scheduler that schedules nothing by itself.
func idle(t *testing.T) *Scheduler {
	t.Helper()
	client := fake.NewClientset()
	s, err := New(Config{Client: client, Informers: informers.NewSharedInformerFactory(client, 0), Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.broadcaster.Shutdown)
	return s
}

func decide(t *testing.T, s *Scheduler, pod *corev1.Pod) (node string, known *framework.Findings, err error) {
	t.Helper()
	info := framework.NewPodInfo(pod)
	a := s.newAttempt(&queue.Pod{PodInfo: info}, s.profiles[corev1.DefaultSchedulerName])
	s.look()
	node, err = s.place(t.Context(), a)
	return node, a.known, err
}

func anyNode(random *rand.Rand, name string) *corev1.Node {
	options := []pt.NodeOption{pt.NodeLabels(corev1.LabelHostname, name, corev1.LabelTopologyZone, fmt.Sprint(random.IntN(3))),
		pt.Allocatable("cpu", fmt.Sprint(1+random.IntN(4)), "pods", "10")}
	switch random.IntN(7) {
	case 6:
		options = append(options, pt.Allocatable("example.com/x", fmt.Sprint(1+random.IntN(2))))
	case 0:
		options = append(options, pt.Taint("hard", "v", corev1.TaintEffectNoSchedule))
	case 1:
		options = append(options, pt.Taint("soft", "v", corev1.TaintEffectPreferNoSchedule))
	case 2:
		options = append(options, pt.Cordoned())
	case 3:
		options = append(options, pt.Image("image:latest", int64(random.IntN(900))<<20))
	}
	return pt.Node(name, options...)
}

// anyPod is one of a few kinds.
func anyPod(random *rand.Rand, name string) *corev1.Pod {
	zone := func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{corev1.LabelTopologyZone: "1"} }
	kinds := [][]pt.PodOption{
		{pt.Requests("cpu", "100m", "memory", "64Mi")},
		{pt.Requests("cpu", "900m")},
		{pt.Requests("cpu", "3500m")},
		{pt.Requests("cpu", "9")},
		{pt.Requests("example.com/x", "1")},
		{zone},
		{pt.HostPort("", corev1.ProtocolTCP, 80)},
		{pt.Tolerate(corev1.Toleration{Key: "hard", Operator: corev1.TolerationOpExists})},
		{pt.Labels("app", "x"), pt.Affinity(pt.AwayFrom("app", "x", corev1.LabelHostname))},
		{pt.Labels("app", "x"), pt.Spread(corev1.TopologySpreadConstraint{
			MaxSkew: 1, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: pt.Select("app", "x")})},
	}
	pod := pt.Pod(name, append(kinds[random.IntN(len(kinds))], pt.Priority(int32(random.IntN(2))))...)
	pod.UID = types.UID(name)
	return pod
}
