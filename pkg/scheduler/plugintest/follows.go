// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package plugintest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"minik8s.io/minik8s/pkg/scheduler/framework"
)

// Follows checks that what a plugin remembers of a cluster follows its changes: with
// nodes and pods that come, go and change it decides on the given pods, of which there
// are also some on the nodes, as one does that has never seen the cluster before.
func Follows(t *testing.T, factory framework.Factory, pods ...*corev1.Pod) {
	t.Helper()
	const steps, most = 300, 6
	h := NewHandle(nil, &corev1.Namespace{})
	old := NewPlugin(t, h, factory)
	random := rand.New(rand.NewPCG(1, 2))
	domain := func() string { return fmt.Sprint(random.IntN(3)) }
	node := func(name string) *corev1.Node {
		options := []NodeOption{NodeLabels(corev1.LabelHostname, name)}
		if d := domain(); d != "0" {
			options = []NodeOption{NodeLabels(corev1.LabelHostname, name, corev1.LabelTopologyZone, d)}
		}
		if random.IntN(3) == 0 {
			options = append(options, Taint("tainted", "", corev1.TaintEffectNoSchedule))
		}
		return Node(name, options...)
	}
	var nodes []*framework.NodeInfo
	for step := range steps {
		switch at := random.IntN(most); {
		case at >= len(nodes):
			nodes = slices.Insert(nodes, random.IntN(len(nodes)+1), framework.NewNodeInfo(node(fmt.Sprint("n", step))))
		case random.IntN(10) == 0:
			nodes = slices.Delete(nodes, at, at+1)
		default:
			n := nodes[at].Clone() // as in a snapshot, whose nodes never change
			switch on := n.GetPods(); {
			case random.IntN(5) == 0:
				n.SetNode(node(n.Name()))
			case len(on) > 0 && random.IntN(2) == 0:
				n.Remove(on[random.IntN(len(on))].GetPod().UID)
			default:
				p := pods[random.IntN(len(pods))].DeepCopy()
				p.UID, p.Spec.NodeName = types.UID(fmt.Sprint(step)), n.Name()
				p.Labels["unique"] = fmt.Sprint(step)
				n.AddPodInfo(framework.NewPodInfo(p))
			}
			nodes[at] = n
		}
		h.Snapshot = framework.NewSnapshot(nodes...)
		fresh, err := factory(t.Context(), nil, h)
		if err != nil {
			t.Fatal(err)
		}
		pod := pods[random.IntN(len(pods))]
		if diff := cmp.Diff(Filter(t, h, fresh, pod), Filter(t, h, old, pod)); diff != "" {
			t.Fatalf("step %d: what is filtered for %s (-anew +remembered):\n%s", step, pod.Name, diff)
		}
		if diff := cmp.Diff(Score(t, h, fresh, pod), Score(t, h, old, pod)); diff != "" {
			t.Fatalf("step %d: scores of %s (-anew +remembered):\n%s", step, pod.Name, diff)
		}
	}
}
