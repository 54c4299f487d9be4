// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	nodes "minik8s.io/minik8s/pkg/node"
)

func TestKeepNodes(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name                string
		there, before, want int
		result              int // 0: refused
	}{
		{"none but the first", 0, 1, 1, 1},
		{"a control plane", 0, 0, 0, 0},
		{"more", 1, 2, 4, 4},
		{"as before", 2, 3, 3, 3},
		{"one was added and the process killed", 2, 2, 2, 3},
		{"fewer", 2, 3, 2, 0},
		{"no node at all", 2, 3, 0, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			before := Config{Name: "c", DataDir: t.TempDir(), Nodes: &tc.before}
			for range tc.there {
				list, err := nodesDir(before).List()
				if err != nil {
					t.Fatal(err)
				}
				ip, err := nodes.NextIP(netip.MustParsePrefix("10.196.0.0/24"), list)
				if err != nil {
					t.Fatal(err)
				}
				if err := nodesDir(before).Write(nodes.Node{Name: nodes.NextName("c", list), IP: ip}); err != nil {
					t.Fatal(err)
				}
			}
			after := before
			after.Nodes = &tc.want
			got, err := keepNodes(before, after)
			refused := tc.result == 0 && tc.there > 0
			if (err != nil) != refused || refused != isProblem(err) || !refused && got.NodeCount() != tc.result {
				t.Errorf("got %d, %v", got.NodeCount(), err)
			}
		})
	}
}

func TestOf(t *testing.T) {
	t.Parallel()
	c := Config{Name: "c", DataDir: "/data", Kubelet: KubeletConfig{NodeName: "machine", MaxPods: 50}}
	n := nodes.Node{Name: "c-2", IP: netip.MustParseAddr("10.196.0.2"), PodCIDR: "10.244.1.0/24", Size: nodes.Size{Pods: 5}}
	own := c.of(n)
	got := []string{kubeletDir(own), cgroupRootOf(own), own.Kubelet.NodeName, own.Kubelet.PodCIDR}
	if diff := cmp.Diff([]string{"/data/nodes/c-2/kubelet", cgroupRoot(c) + ".c-2", "c-2", "10.244.1.0/24"}, got); diff != "" || own.Kubelet.MaxPods != 5 {
		t.Errorf("%d pods, (-want +got):\n%s", own.Kubelet.MaxPods, diff)
	}
	if cgroupRootOf(own) == cgroupRoot(Config{Name: "c-2"}) {
		t.Error("a node shares its cgroup with another cluster")
	}
}

func TestDrainable(t *testing.T) {
	t.Parallel()
	pod := func(name string, change func(*corev1.Pod)) corev1.Pod {
		p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}}
		change(&p)
		return p
	}
	owned := func(kind string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.OwnerReferences = []metav1.OwnerReference{{Kind: kind, Controller: new(true)}}
		}
	}
	got := drainable([]corev1.Pod{
		pod("alone", func(*corev1.Pod) {}),
		pod("replica", owned("ReplicaSet")),
		pod("daemon", owned("DaemonSet")),
		pod("mirror", func(p *corev1.Pod) { p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"} }),
		pod("ended", func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }),
	})
	if diff := cmp.Diff([]string{"ns/alone", "ns/replica"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
