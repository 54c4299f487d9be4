// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package pernode_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"minik8s.io/minik8s/pkg/scheduler/framework"
	"minik8s.io/minik8s/pkg/scheduler/internal/pernode"
)

func TestMemory(t *testing.T) {
	node := func(name string) *framework.NodeInfo {
		return framework.NewNodeInfo(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	a, b := node("a"), node("b")
	fuller := a.Clone()
	fuller.AddPodInfo(framework.NewPodInfo(&corev1.Pod{}))
	var looked, changes []string
	m := pernode.New(func(n fwk.NodeInfo) string {
		name := n.Node().Name
		if len(n.GetPods()) > 0 {
			name += "+"
		}
		looked = append(looked, name)
		return name
	}, func(before, now string) { changes = append(changes, before+">"+now) })
	for _, step := range []struct {
		name            string
		nodes           []fwk.NodeInfo
		looked, changes []string
	}{
		{"for the first time", []fwk.NodeInfo{a, b}, []string{"a", "b"}, []string{">a", ">b"}},
		{"as before", []fwk.NodeInfo{a, b}, nil, nil},
		{"a copy is the same", []fwk.NodeInfo{a.Clone(), b}, nil, nil},
		{"one has changed", []fwk.NodeInfo{fuller, b}, []string{"a+"}, []string{"a>a+"}},
		{"and is as it was", []fwk.NodeInfo{a, b}, []string{"a"}, []string{"a+>a"}},
		{"another order", []fwk.NodeInfo{b, a}, []string{"b", "a"}, []string{"a>b", "b>a"}},
		{"one is gone", []fwk.NodeInfo{b}, nil, []string{"a>"}},
		{"one of the same name", []fwk.NodeInfo{node("b")}, []string{"b"}, []string{"b>b"}},
		{"none", nil, nil, []string{"b>"}},
	} {
		looked, changes = nil, nil
		m.Look(step.nodes)
		if diff := cmp.Diff([][]string{step.looked, step.changes}, [][]string{looked, changes}); diff != "" {
			t.Errorf("%s: looked at, and changes (-want +got):\n%s", step.name, diff)
		}
		for i, n := range step.nodes {
			if got := m.Of(i)[:1]; got != n.Node().Name {
				t.Errorf("%s: place %d has %s, want %s", step.name, i, got, n.Node().Name)
			}
		}
	}
}
