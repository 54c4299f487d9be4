// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"minik8s.io/minik8s/pkg/registry/registrytest"
)

func TestResource(t *testing.T) {
	registrytest.Run(t, Resource, registrytest.Case[*corev1.Node]{
		AddToScheme: corev1.AddToScheme,
		Valid: func() *corev1.Node {
			return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{"node-role.kubernetes.io/worker": ""}}}
		},
		Update:       func(n *corev1.Node) { n.Spec.Unschedulable = true },
		StatusUpdate: func(n *corev1.Node) { n.Status.NodeInfo.KubeletVersion = "v1" },
		Invalid: []registrytest.Invalid[*corev1.Node]{
			{Name: "taint without effect", Mutate: func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{{Key: "k"}} }, Field: "metadata.taints[0].effect"},
			{Name: "unknown effect", Mutate: func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{{Key: "k", Effect: "x"}} }, Field: "metadata.taints[0].effect"},
			{Name: "same taint twice", Mutate: func(n *corev1.Node) {
				n.Spec.Taints = []corev1.Taint{{Key: "k", Effect: "NoExecute"}, {Key: "k", Effect: "NoExecute", Value: "v"}}
			}, Field: "metadata.taints[1]"},
			{Name: "bad CIDR", Mutate: func(n *corev1.Node) { n.Spec.PodCIDRs = []string{"x"} }, Field: "spec.podCIDRs[0]"},
			{Name: "two CIDRs of a family", Mutate: func(n *corev1.Node) { n.Spec.PodCIDRs = []string{"10.0.0.0/24", "10.0.1.0/24"} }, Field: "spec.podCIDRs"},
			{Name: "negative capacity", Mutate: func(n *corev1.Node) {
				n.Status.Capacity = corev1.ResourceList{"cpu": resource.MustParse("-1")}
			}, Field: "status.capacity.cpu"},
		},
		InvalidUpdates: []registrytest.InvalidUpdate[*corev1.Node]{
			{
				Name:   "podCIDRs once set",
				From:   func(n *corev1.Node) { n.Spec.PodCIDRs = []string{"10.0.0.0/24"} },
				Mutate: func(n *corev1.Node) { n.Spec.PodCIDR = "10.0.1.0/24"; n.Spec.PodCIDRs = []string{"10.0.1.0/24"} },
				Field:  "spec.podCIDRs",
			},
			{
				Name:   "providerID once set",
				From:   func(n *corev1.Node) { n.Spec.ProviderID = "a" },
				Mutate: func(n *corev1.Node) { n.Spec.ProviderID = "b" },
				Field:  "spec.providerID",
			},
		},
		Row: []any{"n", "Unknown", "worker"},
	})
}

func TestKubeletURL(t *testing.T) {
	addresses := []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.0.0.1"}, {Type: corev1.NodeHostName, Address: "host"}}
	tests := []struct {
		name      string
		addresses []corev1.NodeAddress
		port      int32
		preferred []corev1.NodeAddressType
		want      string
	}{
		{name: "default order", addresses: addresses, preferred: DefaultAddressTypes, want: "https://host:10250"},
		{name: "own order and port", addresses: addresses, port: 7, preferred: []corev1.NodeAddressType{corev1.NodeInternalIP}, want: "https://10.0.0.1:7"},
		{name: "IPv6", addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "fd00::1"}}, preferred: DefaultAddressTypes, want: "https://[fd00::1]:10250"},
		{name: "none", addresses: addresses, preferred: []corev1.NodeAddressType{corev1.NodeExternalIP}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			n := &corev1.Node{Status: corev1.NodeStatus{Addresses: tc.addresses}}
			n.Status.DaemonEndpoints.KubeletEndpoint.Port = tc.port
			got, err := kubeletURL(n, tc.preferred)
			if tc.want == "" {
				if err == nil {
					t.Fatalf("got %s, want an error", got)
				}
				return
			}
			if err != nil || got.String() != tc.want {
				t.Errorf("got %v, %v, want %s", got, err, tc.want)
			}
		})
	}
}

func TestRow(t *testing.T) {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{
		"node-role.kubernetes.io/control-plane": "", "kubernetes.io/role": "b", "other": "x",
	}}}
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	n.Spec.Unschedulable = true
	cells := row(n)
	if cells[1] != "Ready,SchedulingDisabled" || cells[2] != "b,control-plane" || cells[5] != none {
		t.Errorf("cells = %v", cells)
	}
	if len(cells) != len(columns) {
		t.Errorf("%d cells for %d columns", len(cells), len(columns))
	}
}
