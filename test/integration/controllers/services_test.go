// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"minik8s.io/minik8s/test/integration/framework"
)

// mirrors waits until the slices of a Service that mirror Endpoints have these addresses.
func mirrors(t *testing.T, ns string, want ...string) []discoveryv1.EndpointSlice {
	t.Helper()
	var list *discoveryv1.EndpointSliceList
	framework.Eventually(t, fmt.Sprintf("slices have the addresses %v", want), func() error {
		var err error
		list, err = cluster.Client.DiscoveryV1().EndpointSlices(ns).List(context.Background(), metav1.ListOptions{
			LabelSelector: "kubernetes.io/service-name=db,endpointslice.kubernetes.io/managed-by=endpointslicemirroring-controller.k8s.io",
		})
		if err != nil {
			return err
		}
		var got []string
		for _, s := range list.Items {
			for _, e := range s.Endpoints {
				got = append(got, e.Addresses...)
			}
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			return fmt.Errorf("%d slices have %v", len(list.Items), got)
		}
		return nil
	})
	return list.Items
}

func TestEndpointSliceMirroring(t *testing.T) {
	t.Parallel()
	ctx, ns := t.Context(), cluster.Namespace(t)
	services, endpoints := cluster.Client.CoreV1().Services(ns), cluster.Client.CoreV1().Endpoints(ns)
	subset := func(ips ...string) []corev1.EndpointSubset {
		s := corev1.EndpointSubset{Ports: []corev1.EndpointPort{{Name: "sql", Port: 5432}}}
		for _, ip := range ips {
			s.Addresses = append(s.Addresses, corev1.EndpointAddress{IP: ip})
		}
		return []corev1.EndpointSubset{s}
	}
	e, err := endpoints.Create(ctx, &corev1.Endpoints{
		ObjectMeta: metav1.ObjectMeta{Name: "db", Labels: map[string]string{"tier": "data"}}, Subsets: subset("192.0.2.1", "2001:db8::1"),
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = services.Create(ctx, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "db"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "sql", Port: 5432}}}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	made := mirrors(t, ns, "192.0.2.1", "2001:db8::1")
	if len(made) != 2 {
		t.Errorf("%d slices, one of each family is wanted", len(made))
	}
	for _, s := range made {
		if s.Labels["tier"] != "data" || len(s.OwnerReferences) != 1 || s.OwnerReferences[0].UID != e.UID || *s.Ports[0].Port != 5432 {
			t.Errorf("slice is %+v", s)
		}
	}
	e.Subsets = subset("192.0.2.2")
	if _, err := endpoints.Update(ctx, e, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	kept := mirrors(t, ns, "192.0.2.2")
	if !slices.ContainsFunc(made, func(s discoveryv1.EndpointSlice) bool { return s.UID == kept[0].UID }) {
		t.Error("the slice was replaced, not changed")
	}

	// Who changes a mirror by hand does not get far.
	if err := cluster.Client.DiscoveryV1().EndpointSlices(ns).Delete(ctx, kept[0].Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	again := mirrors(t, ns, "192.0.2.2")
	patch := []byte(`{"endpoints":[{"addresses":["192.0.2.66"]}]}`)
	if _, err := cluster.Client.DiscoveryV1().EndpointSlices(ns).Patch(ctx, again[0].Name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	mirrors(t, ns, "192.0.2.2")

	label := func(patch string) {
		t.Helper()
		if _, err := endpoints.Patch(ctx, "db", types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	label(`{"metadata":{"labels":{"endpointslice.kubernetes.io/skip-mirror":"true"}}}`)
	mirrors(t, ns)
	label(`{"metadata":{"labels":{"endpointslice.kubernetes.io/skip-mirror":null}}}`)
	mirrors(t, ns, "192.0.2.2")
	if _, err := services.Patch(ctx, "db", types.MergePatchType, []byte(`{"spec":{"selector":{"app":"db"}}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	mirrors(t, ns)
}

// TestServiceCIDR has a cluster of its own: the addresses of other tests' Services would come from its ranges.
func TestServiceCIDR(t *testing.T) {
	t.Parallel()
	c := framework.Start(t, framework.Options{Controllers: []string{"service-cidr-controller"}})
	ctx, cidrs, services := t.Context(), c.Client.NetworkingV1().ServiceCIDRs(), c.Client.CoreV1().Services("default")
	ready := func(name string, want metav1.ConditionStatus, reason string) {
		t.Helper()
		framework.Eventually(t, fmt.Sprintf("%s is ready: %s", name, want), func() error {
			got, err := cidrs.Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			condition := meta.FindStatusCondition(got.Status.Conditions, networkingv1.ServiceCIDRConditionReady)
			if condition == nil || condition.Status != want || condition.Reason != reason || !slices.Contains(got.Finalizers, "networking.k8s.io/service-cidr-finalizer") {
				return fmt.Errorf("finalizers %v, status %+v", got.Finalizers, got.Status)
			}
			return nil
		})
	}
	add := func(name, prefix string) {
		t.Helper()
		_, err := cidrs.Create(ctx, &networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: networkingv1.ServiceCIDRSpec{CIDRs: []string{prefix}}}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		ready(name, metav1.ConditionTrue, "")
	}
	ready("kubernetes", metav1.ConditionTrue, "")
	add("more", "198.18.0.0/24")
	add("unused", "198.18.1.0/24")
	add("freed", "198.18.2.0/24")
	for name, ip := range map[string]string{"web": "198.18.0.7", "db": "198.18.2.7"} {
		framework.Eventually(t, "a Service gets an address of the new range", func() error {
			_, err := services.Create(ctx, &corev1.Service{
				ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.ServiceSpec{ClusterIP: ip, Ports: []corev1.ServicePort{{Port: 80}}},
			}, metav1.CreateOptions{})
			return err
		})
	}
	for _, name := range []string{"more", "unused", "freed"} {
		if err := cidrs.Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	ready("more", metav1.ConditionFalse, networkingv1.ServiceCIDRReasonTerminating)
	ready("freed", metav1.ConditionFalse, networkingv1.ServiceCIDRReasonTerminating)
	if err := services.Delete(ctx, "db", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	get := func(name string) func() error {
		return func() error {
			_, err := cidrs.Get(ctx, name, metav1.GetOptions{})
			return err
		}
	}
	gone(t, "the range that nobody uses", get("unused"))
	gone(t, "the range that nobody uses any more", get("freed"))
	if err := get("more")(); err != nil {
		t.Errorf("the range in use: %v", err)
	}
	// A larger range takes care of the address.
	add("larger", "198.18.0.0/20")
	gone(t, "the range that is part of another", get("more"))
	events, err := c.Client.CoreV1().Events("").List(ctx, metav1.ListOptions{FieldSelector: "reason=KubernetesServiceCIDRError"})
	if err != nil || len(events.Items) > 0 {
		t.Errorf("complaints: %+v, %v", events, err)
	}
}

func TestNode_TTL(t *testing.T) {
	t.Parallel()
	framework.Eventually(t, "nodes know how long they may keep what they have read", func() error {
		for _, name := range []string{"node-a", "node-b"} {
			n, err := cluster.Client.CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			if n.Annotations["node.alpha.kubernetes.io/ttl"] != "0" {
				return fmt.Errorf("%s has the annotations %v", name, n.Annotations)
			}
		}
		return nil
	})
}

func TestNode_PodCIDRs(t *testing.T) {
	t.Parallel()
	c := framework.Start(t, framework.Options{
		Controllers: []string{"nodeipam"}, ClusterCIDRs: []netip.Prefix{netip.MustParsePrefix("10.244.0.0/22"), netip.MustParsePrefix("fd00:10:244::/56")},
	})
	ctx, nodes := t.Context(), c.Client.CoreV1().Nodes()
	brought := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "own"}, Spec: corev1.NodeSpec{PodCIDR: "10.244.1.0/24", PodCIDRs: []string{"10.244.1.0/24"}}}
	if _, err := nodes.Create(ctx, brought, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		if _, err := nodes.Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("node-%d", i)}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	framework.Eventually(t, "every node has ranges of its own", func() error {
		list, err := nodes.List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		of := map[string]string{}
		for _, n := range list.Items {
			if n.Name != "own" && len(n.Spec.PodCIDRs) != 2 {
				return fmt.Errorf("%s has %v", n.Name, n.Spec.PodCIDRs)
			}
			for _, p := range n.Spec.PodCIDRs {
				if of[p] != "" {
					t.Fatalf("%s and %s share %s", n.Name, of[p], p)
				}
				of[p] = n.Name
			}
		}
		return nil
	})
	if _, err := nodes.Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "late"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	framework.Eventually(t, "people learn that no range is left", func() error {
		events, err := c.Client.CoreV1().Events("").List(ctx, metav1.ListOptions{FieldSelector: "reason=CIDRNotAvailable"})
		if err == nil && (len(events.Items) == 0 || events.Items[0].InvolvedObject.Name != "late") {
			return fmt.Errorf("events are %+v", events.Items)
		}
		return err
	})
	if err := nodes.Delete(ctx, "node-1", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	framework.Eventually(t, "the range of a node that left goes to the next", func() error {
		n, err := nodes.Get(ctx, "late", metav1.GetOptions{})
		if err == nil && len(n.Spec.PodCIDRs) != 2 {
			return fmt.Errorf("it has %v", n.Spec.PodCIDRs)
		}
		return err
	})
}
