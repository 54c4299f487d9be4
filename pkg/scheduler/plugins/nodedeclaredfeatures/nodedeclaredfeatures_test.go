// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package nodedeclaredfeatures

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	pt "minik8s.io/minik8s/pkg/scheduler/plugintest"
)

func TestSuite(t *testing.T) { pt.Run(t, Name, New, pt.Pod("special", restartsAll)) }

// restartsAll makes a pod one that needs a feature.
func restartsAll(p *corev1.Pod) {
	p.Spec.Containers[0].RestartPolicyRules = []corev1.ContainerRestartRule{{Action: corev1.ContainerRestartRuleActionRestartAllContainers}}
}

func declares(names ...string) pt.NodeOption {
	return func(n *corev1.Node) { n.Status.DeclaredFeatures = names }
}

const feature = "RestartAllContainersOnContainerExits"

func TestFilter(t *testing.T) {
	h := pt.NewHandle(pt.Nodes([]*corev1.Node{pt.Node("old"), pt.Node("new", declares(feature)), pt.Node("newer", declares("OfTomorrow", feature))}))
	p := pt.NewPlugin(t, h, New)
	for _, tc := range []struct {
		name string
		pod  *corev1.Pod
		want map[string]string
	}{
		{"nothing special", pt.Pod("p"), map[string]string{"old": "", "new": "", "newer": ""}},
		{"a feature", pt.Pod("p", restartsAll), map[string]string{"old": ErrReason, "new": "", "newer": ""}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, pt.Filter(t, h, p, tc.pod)); diff != "" {
				t.Errorf("reasons (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRequeue(t *testing.T) {
	node, pod := fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.UpdateNodeDeclaredFeature}, fwk.ClusterEvent{Resource: fwk.TargetPod, ActionType: fwk.UpdatePodLabel}
	for _, tc := range []struct {
		name     string
		event    fwk.ClusterEvent
		old, new any
		want     bool
	}{
		{"a new node", fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Add}, nil, pt.Node("n"), true},
		{"a node declares more", node, pt.Node("n"), pt.Node("n", declares(feature)), true},
		{"a node declares the same", node, pt.Node("n", declares(feature)), pt.Node("n", declares(feature)), false},
		{"the pod needs less", pod, pt.Pod("p", restartsAll), pt.Pod("p"), true},
		{"the pod needs the same", pod, pt.Pod("p", restartsAll), pt.Pod("p", restartsAll, pt.Labels("a", "b")), false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := pt.NewHandle(nil)
			if got := pt.Helps(t, pt.NewPlugin(t, h, New), pt.Pod("p", restartsAll), tc.event, tc.old, tc.new); got != tc.want {
				t.Errorf("helps = %v, want %v", got, tc.want)
			}
		})
	}
}
