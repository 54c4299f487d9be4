// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package nodeipam

import (
	"context"
	"fmt"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"minik8s.io/minik8s/pkg/controllers/controllertest"
)

func prefixes(texts ...string) []netip.Prefix {
	var all []netip.Prefix
	for _, s := range texts {
		all = append(all, netip.MustParsePrefix(s))
	}
	return all
}

func node(name string, cidrs ...string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{PodCIDRs: cidrs}}
	if len(cidrs) > 0 {
		n.Spec.PodCIDR = cidrs[0]
	}
	return n
}

func TestChoose(t *testing.T) {
	for name, tt := range map[string]struct {
		clusters, services, used, want []string
		wantErr                        bool
	}{
		"first":              {clusters: []string{"10.244.0.0/16"}, want: []string{"10.244.0.0/24"}},
		"gap":                {clusters: []string{"10.244.0.0/16"}, used: []string{"10.244.0.0/24", "10.244.2.0/24"}, want: []string{"10.244.1.0/24"}},
		"services":           {clusters: []string{"10.244.0.0/16"}, services: []string{"10.244.0.0/20"}, want: []string{"10.244.16.0/24"}},
		"smaller, by people": {clusters: []string{"10.244.0.0/16"}, used: []string{"10.244.0.128/25"}, want: []string{"10.244.1.0/24"}},
		"larger, by people":  {clusters: []string{"10.244.0.0/16"}, used: []string{"10.244.0.0/22"}, want: []string{"10.244.4.0/24"}},
		"carry":              {clusters: []string{"10.0.255.0/22"}, used: []string{"10.0.252.0/24", "10.0.253.0/24", "10.0.254.0/24"}, want: []string{"10.0.255.0/24"}},
		"none left":          {clusters: []string{"10.244.0.0/23"}, used: []string{"10.244.0.0/24", "10.244.1.0/24"}, wantErr: true},
		"none left at all":   {clusters: []string{"255.255.255.0/24"}, used: []string{"255.255.255.0/24"}, wantErr: true},
		"both families":      {clusters: []string{"10.244.0.0/16", "fd00::/56"}, used: []string{"10.244.0.0/24", "fd00::/64"}, want: []string{"10.244.1.0/24", "fd00:0:0:1::/64"}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := choose(prefixes(tt.clusters...), taken([]*corev1.Node{node("n", tt.used...)}, prefixes(tt.services...)))
			if (err != nil) != tt.wantErr {
				t.Fatal(err)
			}
			if diff := cmp.Diff(fmt.Sprint(prefixes(tt.want...)), fmt.Sprint(got)); diff != "" {
				t.Errorf("chosen (-want +got):\n%s", diff)
			}
		})
	}
}

func TestCheck(t *testing.T) {
	for prefix, ok := range map[string]bool{"10.0.0.0/4": true, "10.0.0.0/24": true, "10.0.0.0/25": false, "fd00::/48": true, "fd00::/47": false} {
		if err := check(netip.MustParsePrefix(prefix)); (err == nil) != ok {
			t.Errorf("%s: %v", prefix, err)
		}
	}
}

var key = reconcile.Request{NamespacedName: types.NamespacedName{Name: "n"}}

func TestReconcile(t *testing.T) {
	controllertest.Run(t, controllertest.Case{
		Objects: []client.Object{node("n"), node("a", "10.244.0.0/24")},
		Request: key,
		New: func(c client.Client) reconcile.Reconciler {
			return &Reconciler{Client: c, Events: &record.FakeRecorder{}, ClusterCIDRs: prefixes("10.244.0.0/16")}
		},
		Want: func(ctx context.Context, c client.Client) error {
			var got corev1.Node
			if err := c.Get(ctx, key.NamespacedName, &got); err != nil {
				return err
			}
			if !cmp.Equal(got.Spec.PodCIDRs, []string{"10.244.1.0/24"}) || got.Spec.PodCIDR != "10.244.1.0/24" {
				return fmt.Errorf("ranges %v, first %q", got.Spec.PodCIDRs, got.Spec.PodCIDR)
			}
			return nil
		},
	})
}

// Every heartbeat of a node that has its ranges makes a pass; those look at no other node.
func TestReconcile_LooksAtItsOwn(t *testing.T) {
	var others []client.Object
	for i := range 20 {
		others = append(others, node(fmt.Sprintf("other-%d", i), fmt.Sprintf("10.244.%d.0/24", 10+i)))
	}
	controllertest.Bystanders(t, controllertest.Case{
		Objects: []client.Object{node("n", "10.244.0.0/24")},
		Request: key,
		New: func(c client.Client) reconcile.Reconciler {
			return &Reconciler{Client: c, Events: &record.FakeRecorder{}, ClusterCIDRs: prefixes("10.244.0.0/16")}
		},
		Want: func(context.Context, client.Client) error { return nil },
	}, others...)
}

func TestReconcile_Leaves(t *testing.T) {
	events := record.NewFakeRecorder(1)
	c := fake.NewClientBuilder().WithObjects(node("n", "192.168.0.0/24"), node("m", "10.244.0.0/24"), node("poor")).Build()
	r := &Reconciler{Client: c, Events: events, ClusterCIDRs: prefixes("10.244.0.0/24")}
	if _, err := r.Reconcile(t.Context(), key); err != nil {
		t.Error(err)
	}
	var got corev1.Node
	if err := c.Get(t.Context(), key.NamespacedName, &got); err != nil || got.Spec.PodCIDR != "192.168.0.0/24" {
		t.Errorf("a node that brought its range has %q, %v", got.Spec.PodCIDR, err)
	}
	if _, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Name: "poor"}}); err == nil {
		t.Error("no error though no range is left")
	}
	if got, want := <-events.Events, "Normal CIDRNotAvailable Node poor status is now: CIDRNotAvailable"; got != want {
		t.Errorf("event %q, want %q", got, want)
	}
}
