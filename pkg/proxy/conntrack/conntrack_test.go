// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package conntrack

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os/exec"
	"slices"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"minik8s.io/minik8s/pkg/machinetest"
	"minik8s.io/minik8s/pkg/network/dump"
	"minik8s.io/minik8s/pkg/network/namespacetest"
	"minik8s.io/minik8s/pkg/proxy/model"
)

func TestView_Stale(t *testing.T) {
	ip := netip.MustParseAddr
	node := ip("192.168.0.1")
	udp := func(name, clusterIP string, serving ...netip.AddrPort) *model.Service {
		return &model.Service{Ports: []model.ServicePort{{
			Name: model.PortName{Service: name, Protocol: corev1.ProtocolUDP}, ClusterIP: ip(clusterIP), Port: 53, Serving: serving,
		}}}
	}
	port := netip.MustParseAddrPort
	dns := udp("dns", "10.96.0.10", port("10.244.0.2:53"), port("10.244.0.4:53"))
	dns.Ports[0].NodePort = 30053
	dns.Ports[0].ExternalIPs = []netip.Addr{ip("9.9.9.9")}
	// The second one terminates, and no new flow goes there.
	dns.Ports[0].Cluster = []model.Endpoint{{Addr: port("10.244.0.2:53")}}
	var v View
	v.Add(dns, false)
	v.Add(udp("empty", "10.96.0.11"), false)
	v.Add(udp("gone", "10.96.0.13", port("10.244.0.2:53")), true)
	v.Add(&model.Service{Ports: []model.ServicePort{{
		Name: model.PortName{Service: "web", Protocol: corev1.ProtocolTCP}, ClusterIP: ip("10.96.0.12"), Port: 80,
		Cluster: []model.Endpoint{{Addr: port("10.244.0.2:80")}},
	}}}, false)
	tests := []struct {
		name      string
		dst       string
		answering string
		want      bool
	}{
		{"endpoint serves", "10.96.0.10:53", "10.244.0.2:53", false},
		{"endpoint terminates and still serves", "10.96.0.10:53", "10.244.0.4:53", false},
		{"endpoint is gone", "10.96.0.10:53", "10.244.0.3:53", true},
		{"the port is another one", "10.96.0.10:53", "10.244.0.2:5353", true},
		{"flow from before the first endpoint", "10.96.0.10:53", "10.96.0.10:53", true},
		{"external IP", "9.9.9.9:53", "10.244.0.3:53", true},
		{"node port", "192.168.0.1:30053", "10.244.0.3:53", true},
		{"node port number on another host", "8.8.8.8:30053", "8.8.8.8:30053", false},
		{"the Service has no endpoints", "10.96.0.11:53", "10.244.0.3:53", true},
		{"the Service is gone", "10.96.0.13:53", "10.244.0.2:53", true},
		{"not UDP", "10.96.0.12:80", "10.244.0.3:80", false},
		{"unrelated", "8.8.8.8:53", "8.8.8.8:53", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := Flow{Destination: netip.MustParseAddrPort(tt.dst), Answering: port(tt.answering)}
			if got := v.Stale(f, func(a netip.Addr) bool { return a == node }); got != tt.want {
				t.Errorf("got %v", got)
			}
		})
	}
}

func TestRetry(t *testing.T) {
	broken := errors.New("broken")
	tests := []struct {
		name    string
		answers []error
		deleted uint
		want    error
	}{
		{"at once", []error{nil}, 1, nil},
		{"interrupted", []error{netlink.ErrDumpInterrupted, netlink.ErrDumpInterrupted, nil}, 3, nil},
		{"interrupted for ever", slices.Repeat([]error{netlink.ErrDumpInterrupted}, dump.Attempts), dump.Attempts, netlink.ErrDumpInterrupted},
		{"fails", []error{broken}, 1, broken},
		{"expired meanwhile", []error{unix.ENOENT}, 1, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			deleted, err := retry(func() (uint, error) {
				next := tt.answers[0]
				tt.answers = tt.answers[1:]
				return 1, next
			})
			if deleted != tt.deleted || !errors.Is(err, tt.want) || (err != nil) != (tt.want != nil) || len(tt.answers) != 0 {
				t.Errorf("deleted %d, %v, %d answers left", deleted, err, len(tt.answers))
			}
		})
	}
}

// A namespace is told to have no flows until it has one, and then that is found.
func TestClean(t *testing.T) {
	machinetest.Root(t, "for a network namespace")
	machinetest.Programs(t, "iptables")
	n := namespacetest.New(t)
	var empty bool
	ask := func() error { empty = none(); return nil }
	if err := n.Do(ask); err != nil || !empty {
		t.Fatalf("a new namespace is empty = %t, %v", empty, err)
	}
	service := netip.MustParseAddrPort("127.0.0.1:53")
	var v View
	v.Add(&model.Service{Ports: []model.ServicePort{{
		Name: model.PortName{Service: "dns", Protocol: corev1.ProtocolUDP}, ClusterIP: service.Addr(), Port: service.Port(), Serving: []netip.AddrPort{service},
	}}}, true)
	clean := func(want uint) {
		t.Helper()
		if got, err := Clean(n.Path(), model.IPv4, &v); err != nil || got != want {
			t.Errorf("%d flows were deleted, want %d: %v", got, want, err)
		}
	}
	clean(0)
	if err := n.Do(func() error {
		// Flows are followed where a rule asks for that.
		if out, err := exec.Command("iptables", "-A", "OUTPUT", "-m", "conntrack", "--ctstate", "INVALID", "-j", "DROP").CombinedOutput(); err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		server, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(service))
		if err != nil {
			return err
		}
		defer server.Close()
		client, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(service))
		if err != nil {
			return err
		}
		defer client.Close()
		_, err = client.Write([]byte("x"))
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if err := n.Do(ask); err != nil || empty {
		t.Errorf("with a flow the namespace is empty = %t, %v", empty, err)
	}
	clean(1)
}
