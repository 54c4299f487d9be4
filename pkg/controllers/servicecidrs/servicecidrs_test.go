// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package servicecidrs

import (
	"context"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"minik8s.io/minik8s/pkg/controllers/controllertest"
)

var deleted = time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)

func parse[T any](t *testing.T, parse func(string) (T, error), texts []string) []T {
	t.Helper()
	var all []T
	for _, s := range texts {
		v, err := parse(s)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, v)
	}
	return all
}

func TestOrphans(t *testing.T) {
	for name, tt := range map[string]struct {
		going, others, used []string
		want                bool
	}{
		"empty":                        {going: []string{"10.0.0.0/24"}},
		"in use":                       {going: []string{"10.0.0.0/24"}, used: []string{"10.0.0.7"}, want: true},
		"address of another range":     {going: []string{"10.0.0.0/24"}, others: []string{"10.1.0.0/24"}, used: []string{"10.1.0.7"}},
		"part of a larger one":         {going: []string{"10.0.0.0/24"}, others: []string{"10.0.0.0/16"}, used: []string{"10.0.0.7"}},
		"the same again":               {going: []string{"10.0.0.0/24"}, others: []string{"10.0.0.0/24"}, used: []string{"10.0.0.7"}},
		"all that is used in a part":   {going: []string{"10.0.0.0/24"}, others: []string{"10.0.0.0/28"}, used: []string{"10.0.0.7"}},
		"used outside the part":        {going: []string{"10.0.0.0/24"}, others: []string{"10.0.0.0/28"}, used: []string{"10.0.0.7", "10.0.0.77"}, want: true},
		"last address of the part":     {going: []string{"10.0.0.0/24"}, others: []string{"10.0.0.0/28"}, used: []string{"10.0.0.15"}, want: true},
		"last address of all":          {going: []string{"255.255.255.0/24"}, used: []string{"255.255.255.255"}},
		"only one family has another":  {going: []string{"10.0.0.0/24", "fd00::/112"}, others: []string{"10.0.0.0/16"}, used: []string{"10.0.0.7", "fd00::7"}, want: true},
		"IPv6 gives out its last one":  {going: []string{"fd00::/112"}, used: []string{"fd00::ffff"}, want: true},
		"but never its first one":      {going: []string{"fd00::/112"}, used: []string{"fd00::"}},
		"both families have others":    {going: []string{"10.0.0.0/24", "fd00::/112"}, others: []string{"10.0.0.0/16", "fd00::/108"}, used: []string{"10.0.0.7", "fd00::7"}},
		"an address of neither family": {going: []string{"10.0.0.0/24"}, used: []string{"fd00::7"}},
	} {
		t.Run(name, func(t *testing.T) {
			going, others := parse(t, netip.ParsePrefix, tt.going), parse(t, netip.ParsePrefix, tt.others)
			if got := orphans(going, others, parse(t, netip.ParseAddr, tt.used)); got != tt.want {
				t.Errorf("orphans: %t, want %t", got, tt.want)
			}
		})
	}
}

func cidr(name, prefix string, gone bool) *networkingv1.ServiceCIDR {
	c := &networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: networkingv1.ServiceCIDRSpec{CIDRs: []string{prefix}}}
	if gone {
		c.DeletionTimestamp, c.Finalizers = &metav1.Time{Time: deleted}, []string{Finalizer}
	}
	return c
}

func address(ip string, labels map[string]string) *networkingv1.IPAddress {
	return &networkingv1.IPAddress{ObjectMeta: metav1.ObjectMeta{Name: ip, Labels: labels}}
}

var (
	ofService = map[string]string{networkingv1.LabelManagedBy: allocator}
	key       = reconcile.Request{NamespacedName: types.NamespacedName{Name: "r"}}
)

func reconciler(after time.Duration) func(client.Client) reconcile.Reconciler {
	return func(c client.Client) reconcile.Reconciler {
		return &Reconciler{Client: c, Events: &record.FakeRecorder{}, Clock: clocktesting.NewFakePassiveClock(deleted.Add(after))}
	}
}

func TestReconcile_Conditions(t *testing.T) {
	for _, tt := range []struct {
		name    string
		objects []client.Object
		want    metav1.Condition
	}{
		{
			"new", []client.Object{cidr("r", "10.0.0.0/24", false)},
			metav1.Condition{Type: "Ready", Status: "True", Message: "Kubernetes Service CIDR is ready"},
		},
		{
			"needed", []client.Object{cidr("r", "10.0.0.0/24", true), address("10.0.0.7", ofService)},
			metav1.Condition{Type: "Ready", Status: "False", Reason: "Terminating", Message: "There are still IPAddresses referencing the ServiceCIDR, please remove them or create a new ServiceCIDR"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			controllertest.Run(t, controllertest.Case{
				Applies: true,
				Objects: tt.objects,
				Request: key,
				New:     reconciler(time.Minute),
				Want: func(ctx context.Context, c client.Client) error {
					var got networkingv1.ServiceCIDR
					if err := c.Get(ctx, key.NamespacedName, &got); err != nil {
						return err
					}
					if len(got.Status.Conditions) != 1 || !cmp.Equal(got.Finalizers, []string{Finalizer}) {
						return fmt.Errorf("finalizers %v, status %+v", got.Finalizers, got.Status)
					}
					got.Status.Conditions[0].LastTransitionTime = metav1.Time{}
					if diff := cmp.Diff(tt.want, got.Status.Conditions[0]); diff != "" {
						return fmt.Errorf("condition (-want +got):\n%s", diff)
					}
					return nil
				},
			})
		})
	}
}

func TestReconcile_LetsGo(t *testing.T) {
	for name, others := range map[string][]client.Object{
		"unused":                nil,
		"in a larger one":       {cidr("larger", "10.0.0.0/16", false), address("10.0.0.7", ofService)},
		"address of no concern": {address("10.0.0.7", nil)},
	} {
		t.Run(name, func(t *testing.T) {
			controllertest.Run(t, controllertest.Case{
				Applies: true,
				Objects: append(others, cidr("r", "10.0.0.0/24", true)),
				Request: key,
				New:     reconciler(grace),
				Want: func(ctx context.Context, c client.Client) error {
					if err := c.Get(ctx, key.NamespacedName, &networkingv1.ServiceCIDR{}); !apierrors.IsNotFound(err) {
						return fmt.Errorf("getting the range: %w", err)
					}
					return nil
				},
			})
		})
	}
}

func TestReconcile_Grace(t *testing.T) {
	c := fake.NewClientBuilder().WithObjects(cidr("r", "10.0.0.0/24", true)).Build()
	result, err := reconciler(3*time.Second)(c).Reconcile(t.Context(), key)
	if err != nil || result.RequeueAfter != 7*time.Second {
		t.Errorf("comes back after %v, %v", result.RequeueAfter, err)
	}
}

func TestDeleted(t *testing.T) {
	c := fake.NewClientBuilder().WithObjects(cidr("r", "10.0.0.0/24", true), cidr("s", "10.1.0.0/24", false)).Build()
	if diff := cmp.Diff([]reconcile.Request{key}, (&Reconciler{Client: c}).deleted(t.Context(), nil)); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}
