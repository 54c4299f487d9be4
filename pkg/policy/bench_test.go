// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"net/netip"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"minik8s.io/minik8s/pkg/machinetest"
	"minik8s.io/minik8s/pkg/policy/model"
	"minik8s.io/minik8s/pkg/policy/nftables"
	"minik8s.io/minik8s/pkg/policy/rules"
)

// BenchmarkChange is one pod's change of labels, from objects to the kernel, in a cluster of 5,000 pods and 200 policies of
// which 100 and 100 are of this node.
func BenchmarkChange(b *testing.B) {
	machinetest.Root(b, "to make a network namespace")
	runtime.LockOSThread() // the thread ends with the benchmark
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		machinetest.Lacks(b, "needs a network namespace: %v", err)
	}
	var pods []*corev1.Pod
	var namespaces []*corev1.Namespace
	var policies []*networkingv1.NetworkPolicy
	addr := netip.MustParseAddr("10.0.0.1")
	for i := range 50 {
		ns := fmt.Sprint("n", i)
		namespaces = append(namespaces, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns, Labels: map[string]string{"team": fmt.Sprint(i % 5)}}})
		for k := range 100 {
			p := podObject(fmt.Sprintf("%s/p%d", ns, k), []netip.Addr{addr})
			p.Labels = map[string]string{"app": fmt.Sprint("a", k%20), "role": fmt.Sprint(k % 2)}
			if k >= 2 {
				p.Spec.NodeName = "elsewhere"
			}
			pods, addr = append(pods, p), addr.Next()
		}
		for k := range 4 {
			policies = append(policies, &networkingv1.NetworkPolicy{
				ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: fmt.Sprint("p", k)},
				Spec: networkingv1.NetworkPolicySpec{
					PodSelector: metav1.LabelSelector{MatchLabels: map[string]string{"app": fmt.Sprint("a", k)}},
					Ingress: []networkingv1.NetworkPolicyIngressRule{{
						From: []networkingv1.NetworkPolicyPeer{
							{PodSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"role": "1"}}},
							{NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"team": fmt.Sprint(k)}}, PodSelector: &metav1.LabelSelector{}},
						},
						Ports: []networkingv1.NetworkPolicyPort{{Port: new(intstr.FromString("serve-80-tcp"))}, {Port: new(intstr.FromInt32(443))}},
					}},
				},
			})
		}
	}
	table := nftables.New("", rules.TableName("bench"))
	n := 0
	for b.Loop() {
		n++
		pods[0].Labels["role"] = fmt.Sprint(n % 2)
		if err := table.Apply(rules.Build(model.Build("here", model.Cluster{Policies: policies, Pods: pods, Namespaces: namespaces}), rules.Config{})); err != nil {
			b.Fatal(err)
		}
	}
}
