// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package servicecidr

import (
	"testing"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"minik8s.io/minik8s/pkg/registry/registrytest"
)

func TestResource(t *testing.T) {
	cidrs := func(list ...string) func(*networkingv1.ServiceCIDR) {
		return func(c *networkingv1.ServiceCIDR) { c.Spec.CIDRs = list }
	}
	registrytest.Run(t, Resource, registrytest.Case[*networkingv1.ServiceCIDR]{
		AddToScheme: networkingv1.AddToScheme,
		Valid: func() *networkingv1.ServiceCIDR {
			return &networkingv1.ServiceCIDR{
				ObjectMeta: metav1.ObjectMeta{Name: "c"},
				Spec:       networkingv1.ServiceCIDRSpec{CIDRs: []string{"10.0.0.0/24"}},
			}
		},
		Update: cidrs("10.0.0.0/24", "2001:db8::/64"),
		StatusUpdate: func(c *networkingv1.ServiceCIDR) {
			c.Status.Conditions = []metav1.Condition{{Type: networkingv1.ServiceCIDRConditionReady, Status: metav1.ConditionTrue, LastTransitionTime: metav1.NewTime(time.Unix(1, 0)), Reason: "R"}}
		},
		Invalid: []registrytest.Invalid[*networkingv1.ServiceCIDR]{
			{Name: "none", Mutate: cidrs(), Field: "spec.cidrs"},
			{Name: "three", Mutate: cidrs("10.0.0.0/24", "2001:db8::/64", "10.1.0.0/24"), Field: "spec.cidrs"},
			{Name: "one family", Mutate: cidrs("10.0.0.0/24", "10.1.0.0/24"), Field: "spec.cidrs"},
			{Name: "no CIDR", Mutate: cidrs("x"), Field: "spec.cidrs[0]"},
			{Name: "host bits", Mutate: cidrs("10.0.0.1/24"), Field: "spec.cidrs[0]"},
		},
		InvalidUpdates: []registrytest.InvalidUpdate[*networkingv1.ServiceCIDR]{
			{Name: "another", Mutate: cidrs("10.1.0.0/24"), Field: "spec.cidrs[0]"},
			{Name: "none left", Mutate: cidrs(), Field: "spec.cidrs"},
			{Name: "one family", Mutate: cidrs("10.0.0.0/24", "10.1.0.0/24"), Field: "spec.cidrs"},
			{Name: "fewer", From: cidrs("10.0.0.0/24", "2001:db8::/64"), Mutate: cidrs("10.0.0.0/24"), Field: "spec.cidrs"},
		},
		Row: []any{"c", "10.0.0.0/24"},
	})
}

func TestIsReady(t *testing.T) {
	said := func(s metav1.ConditionStatus) networkingv1.ServiceCIDRStatus {
		return networkingv1.ServiceCIDRStatus{Conditions: []metav1.Condition{{Type: networkingv1.ServiceCIDRConditionReady, Status: s}}}
	}
	now := metav1.Now()
	for _, tc := range []struct {
		name string
		cidr networkingv1.ServiceCIDR
		want bool
	}{
		{"nobody said", networkingv1.ServiceCIDR{}, true},
		{"ready", networkingv1.ServiceCIDR{Status: said(metav1.ConditionTrue)}, true},
		{"not ready", networkingv1.ServiceCIDR{Status: said(metav1.ConditionFalse)}, false},
		{"unknown", networkingv1.ServiceCIDR{Status: said(metav1.ConditionUnknown)}, false},
		{"going", networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &now}, Status: said(metav1.ConditionTrue)}, false},
	} {
		if got := IsReady(&tc.cidr); got != tc.want {
			t.Errorf("%s: %v, want %v", tc.name, got, tc.want)
		}
	}
}
