// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package conntrack

import (
	"net/netip"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"minik8s.io/minik8s/pkg/proxy/model"
)

func TestView_Stale(t *testing.T) {
	ip := netip.MustParseAddr
	node := ip("192.168.0.1")
	v := NewView(&model.Snapshot{Ports: []model.ServicePort{
		{
			Name: model.PortName{Service: "dns", Protocol: corev1.ProtocolUDP}, ClusterIP: ip("10.96.0.10"), Port: 53, NodePort: 30053,
			ExternalIPs: []netip.Addr{ip("9.9.9.9")},
			Cluster:     []model.Endpoint{{Addr: netip.MustParseAddrPort("10.244.0.2:53")}},
		},
		{Name: model.PortName{Service: "empty", Protocol: corev1.ProtocolUDP}, ClusterIP: ip("10.96.0.11"), Port: 53},
		{
			Name: model.PortName{Service: "web", Protocol: corev1.ProtocolTCP}, ClusterIP: ip("10.96.0.12"), Port: 80,
			Cluster: []model.Endpoint{{Addr: netip.MustParseAddrPort("10.244.0.2:80")}},
		},
	}})
	tests := []struct {
		name      string
		dst       string
		answering string
		want      bool
	}{
		{"endpoint serves", "10.96.0.10:53", "10.244.0.2", false},
		{"endpoint is gone", "10.96.0.10:53", "10.244.0.3", true},
		{"flow from before the first endpoint", "10.96.0.10:53", "10.96.0.10", true},
		{"external IP", "9.9.9.9:53", "10.244.0.3", true},
		{"node port", "192.168.0.1:30053", "10.244.0.3", true},
		{"node port number on another host", "8.8.8.8:30053", "8.8.8.8", false},
		{"nobody could take it", "10.96.0.11:53", "10.244.0.3", false},
		{"not UDP", "10.96.0.12:80", "10.244.0.3", false},
		{"unrelated", "8.8.8.8:53", "8.8.8.8", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := Flow{Destination: netip.MustParseAddrPort(tt.dst), Answering: ip(tt.answering)}
			if got := v.Stale(f, func(a netip.Addr) bool { return a == node }); got != tt.want {
				t.Errorf("got %v", got)
			}
		})
	}
}
