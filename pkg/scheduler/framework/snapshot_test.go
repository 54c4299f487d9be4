// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package framework_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"minik8s.io/minik8s/pkg/scheduler/framework"
	pt "minik8s.io/minik8s/pkg/scheduler/plugintest"
)

// The lists of nodes whose pods have terms on others follow what is replaced, as if they were made anew.
func TestSnapshot_Replace(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	nodes := make([]*framework.NodeInfo, 8)
	for i := range nodes {
		nodes[i] = framework.NewNodeInfo(pt.Node(fmt.Sprint("n", i)))
	}
	s := framework.NewSnapshot(nodes...)
	for step := range 500 {
		i := random.IntN(len(nodes))
		n := nodes[i].Clone()
		if on := n.GetPods(); len(on) > 0 && random.IntN(2) == 0 {
			n.Remove(on[random.IntN(len(on))].GetPod().UID)
		} else {
			affinity := []*corev1.Affinity{nil, pt.NearTo("a", "b", corev1.LabelHostname), pt.AwayFrom("a", "b", corev1.LabelHostname)}[random.IntN(3)]
			p := pt.Pod("p", pt.Affinity(affinity))
			p.UID = types.UID(fmt.Sprint(step))
			n.AddPodInfo(framework.NewPodInfo(p))
		}
		nodes[i] = n
		s.Replace([]*framework.NodeInfo{n})
		if diff := cmp.Diff(affine(t, framework.NewSnapshot(nodes...)), affine(t, s)); diff != "" {
			t.Fatalf("step %d (-anew +replaced):\n%s", step, diff)
		}
	}
}

// affine are the nodes on the lists of a snapshot, with what is on them.
func affine(t *testing.T, s *framework.Snapshot) (lists [][]string) {
	t.Helper()
	some, err := s.HavePodsWithAffinityList()
	if err != nil {
		t.Fatal(err)
	}
	anti, err := s.HavePodsWithRequiredAntiAffinityList()
	if err != nil {
		t.Fatal(err)
	}
	for _, list := range [][]fwk.NodeInfo{some, anti} {
		var names []string
		for _, n := range list {
			names = append(names, fmt.Sprint(n.Node().Name, n.GetGeneration()))
		}
		slices.Sort(names)
		lists = append(lists, names)
	}
	return lists
}
