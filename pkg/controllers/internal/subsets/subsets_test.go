// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package subsets

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// addresses reads "IP" and "IP/UID".
func addresses(all ...string) []corev1.EndpointAddress {
	var parsed []corev1.EndpointAddress
	for _, one := range all {
		ip, uid, ok := strings.Cut(one, "/")
		a := corev1.EndpointAddress{IP: ip}
		if ok {
			a.TargetRef = &corev1.ObjectReference{Kind: "Pod", UID: types.UID(uid)}
		}
		parsed = append(parsed, a)
	}
	return parsed
}

// ports reads numbers.
func ports(numbers ...int32) []corev1.EndpointPort {
	var all []corev1.EndpointPort
	for _, n := range numbers {
		all = append(all, corev1.EndpointPort{Name: fmt.Sprintf("p%d", n), Port: n, Protocol: corev1.ProtocolTCP})
	}
	return all
}

// show writes a subset as "ready|notReady:ports".
func show(s corev1.EndpointSubset) string {
	list := func(all []corev1.EndpointAddress) string {
		var ips []string
		for _, a := range all {
			ip := a.IP
			if a.TargetRef != nil {
				ip += "/" + string(a.TargetRef.UID)
			}
			ips = append(ips, ip)
		}
		return strings.Join(ips, ",")
	}
	var numbers []string
	for _, p := range s.Ports {
		numbers = append(numbers, fmt.Sprint(p.Port))
	}
	return fmt.Sprintf("%s|%s:%s", list(s.Addresses), list(s.NotReadyAddresses), strings.Join(numbers, ","))
}

// The order is what upstream's RepackSubsets has answered for the same, but for the last one: it compares pointers there.
func TestRepack(t *testing.T) {
	type subset = corev1.EndpointSubset
	web := []corev1.EndpointPort{{Name: "web", Port: 80, Protocol: corev1.ProtocolTCP, AppProtocol: new("http")}}
	again := []corev1.EndpointPort{{Name: "web", Port: 80, Protocol: corev1.ProtocolTCP, AppProtocol: new("http")}}
	tests := []struct {
		name  string
		given []subset
		want  []string
	}{
		{name: "nothing"},
		{name: "without ports", given: []subset{{Addresses: addresses("1.2.3.4"), NotReadyAddresses: addresses("1.2.3.5")}}, want: []string{"1.2.3.4|1.2.3.5:"}},
		{name: "twice", given: []subset{{Addresses: addresses("1.2.3.4", "1.2.3.4"), Ports: ports(1, 1)}}, want: []string{"1.2.3.4|:1"}},
		{name: "ready and not", given: []subset{{Addresses: addresses("1.2.3.4"), NotReadyAddresses: addresses("1.2.3.4"), Ports: ports(1)}}, want: []string{"|1.2.3.4:1"}},
		{name: "sorted", given: []subset{{Addresses: addresses("1.2.3.4", "1.2.3.10", "1.2.3.4/b", "1.2.3.4/a"), Ports: ports(1)}}, want: []string{"1.2.3.10,1.2.3.4,1.2.3.4/a,1.2.3.4/b|:1"}},
		{
			name: "many ports", given: []subset{{Addresses: addresses("1.2.3.4"), Ports: ports(1, 2, 3, 4, 5, 6)}},
			want: []string{"1.2.3.4|:6,1,5,2,4,3"},
		},
		{
			name: "one pod has fewer ports", given: []subset{{Addresses: addresses("1.2.3.4"), Ports: ports(1, 2)}, {Addresses: addresses("1.2.3.5"), Ports: ports(1)}},
			want: []string{"1.2.3.4,1.2.3.5|:1", "1.2.3.4|:2"},
		},
		{
			name: "numbers by pod", given: []subset{
				{Addresses: addresses("1.2.3.4"), Ports: ports(1)}, {Addresses: addresses("1.2.3.5"), Ports: ports(2)},
				{Addresses: addresses("1.2.3.6"), Ports: ports(3)}, {NotReadyAddresses: addresses("1.2.3.7"), Ports: ports(3)},
				{Addresses: addresses("1.2.3.8"), Ports: ports(4)},
			},
			want: []string{"1.2.3.6|1.2.3.7:3", "1.2.3.5|:2", "1.2.3.4|:1", "1.2.3.8|:4"},
		},
		{name: "with and without ports", given: []subset{{Addresses: addresses("1.2.3.4"), Ports: ports(1)}, {Addresses: addresses("1.2.3.4")}}, want: []string{"1.2.3.4|:1"}},
		{name: "application protocol", given: []subset{{Addresses: addresses("1.2.3.4"), Ports: web}, {Addresses: addresses("1.2.3.5"), Ports: again}}, want: []string{"1.2.3.4,1.2.3.5|:80"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			for _, s := range Repack(tt.given) {
				got = append(got, show(s))
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("subsets (-want +got):\n%s", diff)
			}
		})
	}
}
