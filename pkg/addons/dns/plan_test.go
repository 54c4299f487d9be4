// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package dns

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"minik8s.io/minik8s/pkg/addons/apis/networking/v1alpha1"
	"minik8s.io/minik8s/pkg/addons/dns/internal/hosts"
)

func object(name, host string, addresses ...string) v1alpha1.Dns {
	d := v1alpha1.Dns{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, Generation: 1}, Spec: v1alpha1.DnsSpec{Host: host}}
	d.Status.Addresses = addresses
	status := metav1.ConditionFalse
	if len(addresses) > 0 {
		status = metav1.ConditionTrue
	}
	d.Status.Conditions = []metav1.Condition{{Type: v1alpha1.Programmed, Status: status, Reason: "R"}}
	return d
}

func TestPlan(t *testing.T) {
	t.Parallel()
	leaving, stale := object("a", "shop.test", "192.0.2.1"), object("a", "shop.test", "192.0.2.1")
	leaving.DeletionTimestamp = new(metav1.Unix(1, 0))
	stale.Status.Conditions[0].Status = metav1.ConditionFalse
	line := func(address, name string) hosts.Entry {
		return hosts.Entry{Address: netip.MustParseAddr(address), Name: name}
	}
	held := func(cluster string, address string) map[string]hosts.Holder {
		return map[string]hosts.Holder{"shop.test": {Cluster: cluster, Addresses: []netip.Addr{netip.MustParseAddr(address)}}}
	}
	for _, tc := range []struct {
		name    string
		objects []v1alpha1.Dns
		others  map[string]hosts.Holder
		want    []hosts.Entry
		reasons []string // REASON or REASON: a part of the text
	}{
		{"nothing", nil, nil, nil, nil},
		{"by name, once", []v1alpha1.Dns{object("b", "shop.test", "192.0.2.1"), object("a", "Shop.test", "192.0.2.1"), object("c", "b.test", "192.0.2.1", "2001:db8::1")}, nil,
			[]hosts.Entry{line("192.0.2.1", "b.test"), line("2001:db8::1", "b.test"), line("192.0.2.1", "shop.test")}, []string{"Written", "Written", "Written"}},
		{"not served", []v1alpha1.Dns{object("a", "shop.test"), leaving, stale}, nil, nil, []string{"NotProgrammed", "NotProgrammed", "NotProgrammed"}},
		{"the user's", []v1alpha1.Dns{object("a", "shop.test", "192.0.2.1"), object("b", "b.test", "192.0.2.1")}, held("", "10.0.0.1"),
			[]hosts.Entry{line("192.0.2.1", "b.test")}, []string{"NameTaken: not minik8s's", "Written"}},
		{"another cluster's", []v1alpha1.Dns{object("a", "shop.test", "192.0.2.1")}, held("x", "10.0.0.1"), nil, []string{`NameTaken: cluster "x"`}},
		{"the user's, to the same place", []v1alpha1.Dns{object("a", "shop.test", "192.0.2.1")}, held("", "192.0.2.1"), nil, []string{"Written"}},
		{"no names", []v1alpha1.Dns{object("a", "localhost", "192.0.2.1"), object("b", "a\n127.0.0.1 b", "192.0.2.1"), object("c", "10.0.0.1", "192.0.2.1")}, nil, nil,
			[]string{"NameTaken: no name", "NameTaken: no name", "NameTaken: no name"}},
		{"no address", []v1alpha1.Dns{object("a", "shop.test", "x")}, nil, nil, []string{"NotProgrammed"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			entries, findings := plan(tc.objects, tc.others)
			if diff := cmp.Diff(tc.want, entries, cmpopts.EquateComparable(netip.Addr{})); diff != "" {
				t.Errorf("entries (-want +got):\n%s", diff)
			}
			for i, f := range findings {
				reason, text, _ := strings.Cut(tc.reasons[i], ": ")
				if f.reason != reason || !strings.Contains(f.text, text) || (f.status == metav1.ConditionTrue) != (reason == "Written") {
					t.Errorf("object %d: %+v, want %s", i, f, tc.reasons[i])
				}
			}
		})
	}
}
