// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestKubelets(t *testing.T) {
	node := func(name string, addresses ...corev1.NodeAddress) corev1.Node {
		n := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.NodeStatus{Addresses: addresses}}
		n.Status.DaemonEndpoints.KubeletEndpoint.Port = 10250
		return n
	}
	got := kubelets([]corev1.Node{
		node("a", corev1.NodeAddress{Type: corev1.NodeHostName, Address: "a"}, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: "192.0.2.1"}),
		node("new"),
		node("b", corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: "2001:db8::1"}, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: "192.0.2.2"}),
	})
	want := []group{
		{Targets: []string{"192.0.2.1:10250"}, Labels: map[string]string{"node": "a"}},
		{Targets: []string{"[2001:db8::1]:10250"}, Labels: map[string]string{"node": "b"}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
