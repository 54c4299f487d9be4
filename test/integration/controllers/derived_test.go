// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"minik8s.io/minik8s/test/integration/framework"
)

func TestEndpoints_FollowPods(t *testing.T) {
	t.Parallel()
	ns := cluster.Namespace(t)
	_, err := cluster.Client.CoreV1().Services(ns).Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: corev1.ServiceSpec{
			Selector: map[string]string{"app": "web"},
			Ports:    []corev1.ServicePort{{Name: "http", Port: 80, TargetPort: intstr.FromInt32(8080)}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	create(t, ns, framework.Deployment("web", 3))
	rolledOut(t, cluster.Client, ns, "web")
	eventualEndpoints(t, ns, 3, 0)

	pods, err := activePods(cluster.Client, ns)
	if err != nil {
		t.Fatal(err)
	}
	set := func(patch string) {
		t.Helper()
		if _, err := cluster.Client.CoreV1().Pods(ns).Patch(t.Context(), pods[0].Name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	set(`{"metadata":{"annotations":{"` + unready + `":"yes"}}}`)
	eventualEndpoints(t, ns, 2, 1)
	set(`{"metadata":{"annotations":{"` + unready + `":null}}}`)
	eventualEndpoints(t, ns, 3, 0)
	apply(t, cluster.Client, ns, "web", `{"spec":{"replicas":1}}`)
	eventualEndpoints(t, ns, 1, 0)

	if err := cluster.Client.CoreV1().Services(ns).Delete(t.Context(), "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	gone(t, "the endpoints", func() error {
		_, err := cluster.Client.CoreV1().Endpoints(ns).Get(t.Context(), "web", metav1.GetOptions{})
		return err
	})
	framework.Eventually(t, "the slices are gone", func() error {
		slices, err := cluster.Client.DiscoveryV1().EndpointSlices(ns).List(t.Context(), metav1.ListOptions{})
		if err == nil && len(slices.Items) > 0 {
			return fmt.Errorf("%d are there", len(slices.Items))
		}
		return err
	})
}

// eventualEndpoints waits until Endpoints and EndpointSlices agree on the addresses.
func eventualEndpoints(t *testing.T, ns string, ready, notReady int) {
	t.Helper()
	type counts struct{ Ready, NotReady int }
	want := counts{ready, notReady}
	framework.Eventually(t, fmt.Sprintf("endpoints %+v", want), func() error {
		ep, err := cluster.Client.CoreV1().Endpoints(ns).Get(t.Context(), "web", metav1.GetOptions{})
		if err != nil {
			return err
		}
		var old, slices counts
		for _, s := range ep.Subsets {
			old.Ready += len(s.Addresses)
			old.NotReady += len(s.NotReadyAddresses)
			if len(s.Ports) != 1 || s.Ports[0].Port != 8080 || s.Ports[0].Name != "http" {
				return fmt.Errorf("endpoints have the ports %+v", s.Ports)
			}
		}
		list, err := cluster.Client.DiscoveryV1().EndpointSlices(ns).List(t.Context(), metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=web"})
		if err != nil {
			return err
		}
		for _, s := range list.Items {
			for _, e := range s.Endpoints {
				if ptr.Deref(e.Conditions.Ready, false) {
					slices.Ready++
				} else {
					slices.NotReady++
				}
				if e.NodeName == nil || e.TargetRef == nil || e.TargetRef.Kind != "Pod" {
					return fmt.Errorf("incomplete endpoint %+v", e)
				}
			}
		}
		if old != want || slices != want {
			return fmt.Errorf("endpoints have %+v, slices %+v", old, slices)
		}
		return nil
	})
}

func TestNamespace_HasAccountAndRootCA(t *testing.T) {
	t.Parallel()
	created, err := cluster.Client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "fresh-"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	ns := created.Name
	maps, accounts := cluster.Client.CoreV1().ConfigMaps(ns), cluster.Client.CoreV1().ServiceAccounts(ns)
	intact := func() error {
		if _, err := accounts.Get(t.Context(), "default", metav1.GetOptions{}); err != nil {
			return err
		}
		m, err := maps.Get(t.Context(), "kube-root-ca.crt", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if !strings.HasPrefix(m.Data["ca.crt"], "-----BEGIN CERTIFICATE-----") {
			return fmt.Errorf("ca.crt is %q", m.Data["ca.crt"])
		}
		return nil
	}
	framework.Eventually(t, "a new namespace has both", intact)
	if err := accounts.Delete(t.Context(), "default", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := maps.Delete(t.Context(), "kube-root-ca.crt", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	framework.Eventually(t, "what was deleted is back", intact)
	if _, err := maps.Patch(t.Context(), "kube-root-ca.crt", types.MergePatchType, []byte(`{"data":{"ca.crt":"forged"}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	framework.Eventually(t, "what was changed is back", intact)
	if err := cluster.Client.CoreV1().Namespaces().Delete(t.Context(), ns, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	gone(t, "the namespace", func() error {
		_, err := cluster.Client.CoreV1().Namespaces().Get(t.Context(), ns, metav1.GetOptions{})
		return err
	})
}

func TestClusterRole_Aggregates(t *testing.T) {
	t.Parallel()
	roles := cluster.Client.RbacV1().ClusterRoles()
	part := func(name, resource string) *rbacv1.ClusterRole {
		return &rbacv1.ClusterRole{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"example.com/aggregate": "yes"}},
			Rules:      []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{resource}, Verbs: []string{"get"}}},
		}
	}
	whole := &rbacv1.ClusterRole{
		ObjectMeta:      metav1.ObjectMeta{Name: "whole"},
		AggregationRule: &rbacv1.AggregationRule{ClusterRoleSelectors: []metav1.LabelSelector{{MatchLabels: map[string]string{"example.com/aggregate": "yes"}}}},
	}
	for _, role := range []*rbacv1.ClusterRole{part("part-a", "pods"), whole, part("part-b", "secrets")} {
		if _, err := roles.Create(t.Context(), role, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = roles.Delete(context.Background(), role.Name, metav1.DeleteOptions{}) })
	}
	has := func(resources ...string) {
		t.Helper()
		framework.Eventually(t, fmt.Sprintf("rules about %v", resources), func() error {
			role, err := roles.Get(t.Context(), "whole", metav1.GetOptions{})
			if err != nil {
				return err
			}
			var have []string
			for _, rule := range role.Rules {
				have = append(have, rule.Resources...)
			}
			if diff := cmp.Diff(resources, have); diff != "" {
				return fmt.Errorf("(-want +got): %s", diff)
			}
			return nil
		})
	}
	has("pods", "secrets")
	if err := roles.Delete(t.Context(), "part-a", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	has("secrets")
}
