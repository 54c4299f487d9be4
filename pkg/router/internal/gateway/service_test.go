// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	discoveryv1 "k8s.io/api/discovery/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// inBrief is what an object has that is not the same of all.
func inBrief(t *testing.T, out *Output) []string {
	t.Helper()
	var all []string
	ours := func(o client.Object) {
		if MadeFor(o) != "uid" || o.GetLabels()[gatewayv1.GatewayNameLabelKey] != "gw" || o.GetNamespace() != "ns" {
			t.Errorf("%s belongs to %v, labels %v", o.GetName(), o.GetOwnerReferences(), o.GetLabels())
		}
	}
	for _, s := range out.Services() {
		ours(s.Service)
		text := s.Name
		for _, p := range s.Spec.Ports {
			text += fmt.Sprintf(" %s=%d/%s:%s", p.Name, p.Port, p.Protocol, p.TargetPort.String())
		}
		all = append(all, text+fmt.Sprint(" ", s.Labels["team"], s.Annotations))
		for _, slice := range s.Slices {
			ours(slice)
			text := fmt.Sprint(slice.Name, " ", slice.AddressType, slice.Endpoints[0].Addresses, " of ", slice.Labels[discoveryv1.LabelServiceName])
			for _, p := range slice.Ports {
				text += fmt.Sprintf(" %s=%d/%s", *p.Name, *p.Port, *p.Protocol)
			}
			all = append(all, text)
		}
	}
	return all
}

func TestServices(t *testing.T) {
	t.Parallel()
	const gateway = "kind: Gateway\nmetadata: {name: %s, uid: uid}\nspec: {%s}"
	for _, tc := range []struct {
		name, gateway, spec string
		want                []string
	}{
		{"one listener", "gw", "listeners: [{name: http, port: 80, protocol: HTTP}]", []string{
			"gw-own tcp-80=80/TCP:8080 map[]", "gw-own-ipv4 IPv4[192.0.2.1] of gw-own tcp-80=8080/TCP", "gw-own-ipv6 IPv6[2001:db8::1] of gw-own tcp-80=8080/TCP",
		}},
		{"several, of which two share a port, and one has no certificate yet", "gw",
			"listeners: [{name: a, port: 80, protocol: HTTP}, {name: b, port: 80, protocol: HTTP, hostname: b.com}, {name: c, port: 443, protocol: HTTPS, tls: {certificateRefs: [{name: later}]}}, " +
				"{name: d, port: 53, protocol: UDP}]", []string{
				"gw-own udp-53=53/UDP:53 tcp-80=80/TCP:8080 tcp-443=443/TCP:443 map[]",
				"gw-own-ipv4 IPv4[192.0.2.1] of gw-own udp-53=53/UDP tcp-80=8080/TCP tcp-443=443/TCP",
				"gw-own-ipv6 IPv6[2001:db8::1] of gw-own udp-53=53/UDP tcp-80=8080/TCP tcp-443=443/TCP",
			}},
		{"labels and annotations, but for those that are the router's", "gw",
			"infrastructure: {labels: {team: a, gateway.networking.k8s.io/gateway-name: other}, annotations: {k: v}}, listeners: [{name: http, port: 81, protocol: HTTP}]", []string{
				"gw-own tcp-81=81/TCP:81 amap[k:v]", "gw-own-ipv4 IPv4[192.0.2.1] of gw-own tcp-81=81/TCP", "gw-own-ipv6 IPv6[2001:db8::1] of gw-own tcp-81=81/TCP",
			}},
		{"a listener that is refused", "gw", "listeners: [{name: x, port: 80, protocol: example.com/x}]", nil},
		{"a Gateway that is refused", "gw", "infrastructure: {parametersRef: {group: x, kind: y, name: z}}, listeners: [{name: http, port: 80, protocol: HTTP}]", nil},
		{"no name of a Service", "gw.example", "listeners: [{name: http, port: 80, protocol: HTTP}]", nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			in := input(t, fmt.Sprintf(gateway, tc.gateway, tc.spec))
			in.Address, in.Twin = netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("2001:db8::1")
			in.Port = func(p int32) uint16 {
				if p == 80 {
					return 8080
				}
				return uint16(p)
			}
			if diff := cmp.Diff(tc.want, inBrief(t, Translate(in))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// The API takes no loopback address for an endpoint.
func TestServices_Loopback(t *testing.T) {
	t.Parallel()
	got := inBrief(t, Translate(input(t, "kind: Gateway\nmetadata: {name: gw, uid: uid}\nspec: {listeners: [{name: http, port: 80, protocol: HTTP}]}")))
	if diff := cmp.Diff([]string{"gw-own tcp-80=80/TCP:80 map[]"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
