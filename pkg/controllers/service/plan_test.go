// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

var small = prefixes("192.0.2.0/29", "2001:db8::/125")

func prefixes(texts ...string) []netip.Prefix {
	var all []netip.Prefix
	for _, t := range texts {
		all = append(all, netip.MustParsePrefix(t))
	}
	return all
}

type option = func(*corev1.Service)

// service is one of type LoadBalancer. Those with a lower age are older.
func service(name string, age int, options ...option) *corev1.Service {
	s := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name), CreationTimestamp: metav1.NewTime(time.Unix(int64(age), 0))},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol}},
	}
	for _, o := range options {
		o(s)
	}
	return s
}

func shows(ips ...string) option {
	return func(s *corev1.Service) {
		for _, ip := range ips {
			s.Status.LoadBalancer.Ingress = append(s.Status.LoadBalancer.Ingress, corev1.LoadBalancerIngress{IP: ip, IPMode: new(corev1.LoadBalancerIPModeVIP)})
		}
	}
}

// has is a Service that was served.
func has(ips ...string) option {
	return func(s *corev1.Service) {
		s.Finalizers = []string{Finalizer}
		shows(ips...)(s)
	}
}

func asks(text string) option  { return func(s *corev1.Service) { s.Spec.LoadBalancerIP = text } }
func class(name string) option { return func(s *corev1.Service) { s.Spec.LoadBalancerClass = &name } }
func kind(t corev1.ServiceType) option {
	return func(s *corev1.Service) { s.Spec.Type = t }
}
func annotated(text string) option {
	return func(s *corev1.Service) { s.Annotations = map[string]string{AnnotationAddresses: text} }
}
func families(f ...corev1.IPFamily) option {
	return func(s *corev1.Service) { s.Spec.IPFamilies = f }
}
func terminating(s *corev1.Service) { s.DeletionTimestamp = new(metav1.NewTime(time.Unix(99, 0))) }
func external(ip string) option     { return func(s *corev1.Service) { s.Spec.ExternalIPs = []string{ip} } }

func TestPlan(t *testing.T) {
	t.Parallel()
	const v4, v6 = corev1.IPv4Protocol, corev1.IPv6Protocol
	for _, tc := range []struct {
		name     string
		services []*corev1.Service
		// want has a line for each Service that is ours: its name, then its addresses or "freed", then a piece of the problem.
		want []string
	}{
		{"nothing", nil, nil},
		{"the lowest, the oldest first", []*corev1.Service{service("b", 2), service("a", 1)}, []string{"a 192.0.2.1", "b 192.0.2.2"}},
		{"a gap", []*corev1.Service{service("a", 1, has("192.0.2.1")), service("b", 2), service("c", 3, has("192.0.2.3"))},
			[]string{"a 192.0.2.1", "c 192.0.2.3", "b 192.0.2.2"}},
		{"other types", []*corev1.Service{service("a", 1, kind(corev1.ServiceTypeClusterIP)), service("b", 2, kind(corev1.ServiceTypeNodePort))}, nil},
		{"our class", []*corev1.Service{service("a", 1, class(Class))}, []string{"a 192.0.2.1"}},
		{"another class", []*corev1.Service{service("a", 1, class("example.com/lb"))}, nil},
		{"another class has one of ours", []*corev1.Service{service("a", 1, class("example.com/lb"), shows("192.0.2.1")), service("b", 2)}, []string{"b 192.0.2.2"}},
		{"external IPs are not given", []*corev1.Service{service("a", 1, kind(corev1.ServiceTypeClusterIP), external("192.0.2.1")), service("b", 2)}, []string{"b 192.0.2.2"}},
		{"external IPs take nothing", []*corev1.Service{service("a", 1, kind(corev1.ServiceTypeClusterIP), external("192.0.2.1")), service("b", 2, has("192.0.2.1"))}, []string{"b 192.0.2.1"}},

		{"type changed away", []*corev1.Service{service("a", 1, has("192.0.2.1"), kind(corev1.ServiceTypeClusterIP))}, []string{"a freed"}},
		{"deleted", []*corev1.Service{service("a", 1, has("192.0.2.1"), terminating)}, []string{"a freed"}},
		{"deleted, never served", []*corev1.Service{service("a", 1, terminating)}, nil},
		{"what is about to be freed is not free", []*corev1.Service{service("a", 1, has("192.0.2.1"), terminating), service("b", 2)}, []string{"a freed", "b 192.0.2.2"}},

		{"two show the same: the older keeps it", []*corev1.Service{service("b", 2, has("192.0.2.1")), service("a", 1, has("192.0.2.1"))}, []string{"a 192.0.2.1", "b 192.0.2.2"}},
		{"two show the same: who was served keeps it", []*corev1.Service{service("a", 1, shows("192.0.2.1")), service("b", 2, has("192.0.2.1"))}, []string{"b 192.0.2.1", "a 192.0.2.2"}},
		{"status by hand, free", []*corev1.Service{service("a", 1, shows("192.0.2.5"))}, []string{"a 192.0.2.5"}},
		{"status by hand, not of the pool", []*corev1.Service{service("a", 1, has("203.0.113.1"))}, []string{"a 192.0.2.1"}},
		{"two of a family by hand", []*corev1.Service{service("a", 1, has("192.0.2.3", "192.0.2.4")), service("b", 2)}, []string{"a 192.0.2.3", "b 192.0.2.1"}},

		{"asks for a free one", []*corev1.Service{service("a", 1), service("b", 2, asks("192.0.2.1"))}, []string{"a 192.0.2.2", "b 192.0.2.1"}},
		{"asks by annotation, which counts more", []*corev1.Service{service("a", 1, asks("192.0.2.4"), annotated("192.0.2.6"))}, []string{"a 192.0.2.6"}},
		{"asks for another than it has", []*corev1.Service{service("a", 1, has("192.0.2.1"), asks("192.0.2.4")), service("b", 2)}, []string{"a 192.0.2.4", "b 192.0.2.2"}},
		{"asks for what it has", []*corev1.Service{service("a", 1, has("192.0.2.4"), asks("192.0.2.4"))}, []string{"a 192.0.2.4"}},
		{"asks no more", []*corev1.Service{service("a", 1, has("192.0.2.4"))}, []string{"a 192.0.2.4"}},
		{"asks for another's", []*corev1.Service{service("a", 1, asks("192.0.2.1")), service("b", 2, has("192.0.2.1"))},
			[]string{"b 192.0.2.1", `a : 192.0.2.1 belongs to service "ns/b"`}},
		{"asks for another's, and keeps its own", []*corev1.Service{service("a", 1, has("192.0.2.2"), asks("192.0.2.1")), service("b", 2, has("192.0.2.1"))},
			[]string{"a 192.0.2.2: belongs to", "b 192.0.2.1"}},
		{"two ask for the same", []*corev1.Service{service("a", 1, asks("192.0.2.4")), service("b", 2, asks("192.0.2.4"))},
			[]string{"a 192.0.2.4", `b : belongs to service "ns/a"`}},
		{"asks for what the pool has not", []*corev1.Service{service("a", 1, asks("203.0.113.1"))}, []string{"a : not in the pool 192.0.2.0/29"}},
		{"asks for nonsense", []*corev1.Service{service("a", 1, asks("lb"))}, []string{`a : requested address "lb"`}},
		{"asks for another family", []*corev1.Service{service("a", 1, asks("2001:db8::1"))}, []string{"a : family IPv6, which the service has not"}},

		{"both families", []*corev1.Service{service("a", 1, families(v6, v4))}, []string{"a 2001:db8::1 192.0.2.1"}},
		{"asks for both", []*corev1.Service{service("a", 1, families(v4, v6), annotated("192.0.2.3, 2001:db8::3"))}, []string{"a 192.0.2.3 2001:db8::3"}},
		{"a second family comes", []*corev1.Service{service("a", 1, families(v4, v6), has("192.0.2.1"))}, []string{"a 192.0.2.1 2001:db8::1"}},
		{"a second family goes", []*corev1.Service{service("a", 1, has("192.0.2.1", "2001:db8::1"))}, []string{"a 192.0.2.1"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			compare(t, tc.want, plan(tc.services, small))
		})
	}
}

// compare compares with lines as TestPlan has them.
func compare(t *testing.T, want []string, got []outcome) {
	t.Helper()
	var lines []string
	for i, o := range got {
		line := o.service.Name + " freed"
		if o.served {
			line = strings.TrimSuffix(o.service.Name+" "+strings.Trim(fmt.Sprint(o.addresses), "[]"), "\n")
		}
		if o.problem != nil {
			line += ": " + o.problem.Error()
			if head, piece, _ := strings.Cut(at(want, i), ": "); strings.HasPrefix(line, head+": ") && piece != "" && strings.Contains(o.problem.Error(), piece) {
				line = want[i]
			}
		}
		lines = append(lines, line)
	}
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Errorf("outcomes (-want +got):\n%s", diff)
	}
}

func at(lines []string, i int) string {
	if i < len(lines) {
		return lines[i]
	}
	return ""
}

func TestPlan_Exhausted(t *testing.T) {
	t.Parallel()
	pool := prefixes("192.0.2.8/31")
	full := []*corev1.Service{service("a", 1, has("192.0.2.8")), service("b", 2, has("192.0.2.9")), service("c", 3)}
	compare(t, []string{"a 192.0.2.8", "b 192.0.2.9", "c : no IPv4 address of the pool 192.0.2.8/31 is free: delete a service of type LoadBalancer"}, plan(full, pool))
	terminating(full[0])
	compare(t, []string{"a freed", "b 192.0.2.9", "c : is free"}, plan(full, pool))
	compare(t, []string{"b 192.0.2.9", "c 192.0.2.8"}, plan(full[1:], pool))
}

func TestPlan_OneFamily(t *testing.T) {
	t.Parallel()
	const v4, v6 = corev1.IPv4Protocol, corev1.IPv6Protocol
	services := []*corev1.Service{service("a", 1, families(v4, v6)), service("b", 2, families(v6))}
	compare(t, []string{"a 192.0.2.1", "b : no address of family [IPv6]"}, plan(services, prefixes("192.0.2.0/29")))
}

// Whatever statuses say, no two Services have the same address, and a second plan on what the first one wrote changes nothing.
func TestPlan_IsUniqueAndStable(t *testing.T) {
	t.Parallel()
	pool := prefixes("192.0.2.0/24")
	var services []*corev1.Service
	for i := range 100 {
		s := service(fmt.Sprintf("s%d", i), i%7)
		switch i % 5 {
		case 0:
			has(fmt.Sprintf("192.0.2.%d", 1+i%11))(s)
		case 1:
			shows(fmt.Sprintf("192.0.2.%d", 1+i%13))(s)
		case 2:
			asks(fmt.Sprintf("192.0.2.%d", 1+i%17))(s)
		}
		services = append(services, s)
	}
	for range 3 { // who moves, moves once; who waited for what was freed gets it
		seen := map[netip.Addr]string{}
		for _, o := range plan(services, pool) {
			for _, ip := range o.addresses {
				if other := seen[ip]; other != "" {
					t.Fatalf("%s and %s have %s", other, o.service.Name, ip)
				}
				seen[ip] = o.service.Name
			}
			o.service.Status.LoadBalancer.Ingress, o.service.Finalizers = o.ingress(), []string{Finalizer}
		}
	}
	for _, o := range plan(services, pool) {
		if !settled(o.service, o.ingress()) {
			t.Errorf("%s changes from %v to %v", o.service.Name, o.service.Status.LoadBalancer.Ingress, o.addresses)
		}
	}
}
