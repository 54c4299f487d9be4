// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"minik8s.io/minik8s/pkg/machinetest"
	"minik8s.io/minik8s/pkg/proxy/backend"
	"minik8s.io/minik8s/pkg/proxy/model"
)

// featured has what a Service can have.
func featured(f model.Family) *model.Service {
	ip := func(n int) string {
		if f == model.IPv6 {
			return fmt.Sprintf("fd00::%d", n)
		}
		return fmt.Sprintf("10.96.0.%d", n)
	}
	lb := dualService("lb", ip(5), 30080)
	lb.Spec.Type = corev1.ServiceTypeLoadBalancer
	lb.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
	lb.Spec.HealthCheckNodePort = 30081
	lb.Spec.SessionAffinity = corev1.ServiceAffinityClientIP
	lb.Spec.LoadBalancerSourceRanges = []string{"fd02::/64", "192.0.2.0/24"}
	lb.Spec.ExternalIPs = []string{ip(9)}
	lb.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: ip(10)}}
	slice := dualSlice("lb", ip(200), ip(201))
	slice.AddressType = discoveryv1.AddressType(f)
	return model.Build(f, lb, []*discoveryv1.EndpointSlice{slice}, model.Node{Name: "here"})
}

// run runs a program on a node.
func run(t *testing.T, node space, args ...string) string {
	t.Helper()
	var out strings.Builder
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stdout, cmd.Stderr = &out, &out
	node.do(t, cmd.Start)
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v: %v: %s", args, err, out.String())
	}
	return out.String()
}

// TestBackends is what every backend has to do, in either family.
func TestBackends(t *testing.T) {
	machinetest.Root(t, "for network namespaces")
	machinetest.Programs(t, "iptables-restore", "ip6tables-restore", "nft")
	harm := map[Mode]func(t *testing.T, node space, f model.Family){
		IPTables: func(t *testing.T, node space, f model.Family) {
			t.Helper()
			program := map[model.Family]string{model.IPv4: "iptables", model.IPv6: "ip6tables"}[f]
			for line := range strings.Lines(run(t, node, program, "-t", "nat", "-S")) {
				if chain, ok := strings.CutPrefix(line, "-A MK-"); ok && strings.Contains(chain, "-SVL-") {
					name, _, _ := strings.Cut(chain, " ")
					run(t, node, program, "-t", "nat", "-D", "MK-"+name, "1")
					return
				}
			}
			t.Fatal("there is no rule to take away")
		},
		NFTables: func(t *testing.T, node space, f model.Family) {
			t.Helper()
			family := map[model.Family]string{model.IPv4: "ip", model.IPv6: "ip6"}[f]
			run(t, node, "nft", "flush", "chain", family, "minik8s-proxy-suite", "reject-chain")
		},
	}
	for mode, make := range modes {
		for _, f := range []model.Family{model.IPv4, model.IPv6} {
			t.Run(string(mode)+" "+string(f), func(t *testing.T) {
				node := newSpace(t)
				c := backend.Config{Cluster: "suite", Family: f, NetNS: node.path(), MasqueradeMark: 1 << 14, Scheduler: backend.RoundRobin}
				c.ClusterCIDR, c.ServiceCIDR = netip.MustParsePrefix("10.244.0.0/16"), netip.MustParsePrefix("10.96.0.0/16")
				c.NodeIPs = []netip.Addr{netip.MustParseAddr("192.0.2.1")}
				if f == model.IPv6 {
					c.ClusterCIDR, c.ServiceCIDR = netip.MustParsePrefix("fd01::/64"), netip.MustParsePrefix("fd00::/112")
					c.NodeIPs = []netip.Addr{netip.MustParseAddr("fd02::1")}
				}
				intact := func(b backend.Backend, want bool) {
					t.Helper()
					if got, err := b.Check(t.Context()); err != nil || got != want {
						t.Fatalf("intact: %t, %v, want %t", got, err, want)
					}
				}
				apply := func(b backend.Backend, changes backend.Changes, everything bool) {
					t.Helper()
					if err := b.Apply(t.Context(), changes); err != nil {
						t.Fatal(err)
					}
					if got := b.Last().Everything; got != everything {
						t.Errorf("everything was compared: %t, want %t", got, everything)
					}
					intact(b, true)
				}
				first := make(c)
				s := featured(f)
				apply(first, backend.Changes{s.Name: s}, true)
				harm[mode](t, node, f)
				intact(first, false)
				apply(first, nil, true)

				// The same external address twice is somebody's mistake, and no reason to stop.
				twin := *s
				twin.Name.Name, twin.Ports = "twin", append([]model.ServicePort(nil), s.Ports...)
				for i := range twin.Ports {
					twin.Ports[i].Name.Service = "twin"
				}
				apply(first, backend.Changes{twin.Name: &twin}, false)
				apply(first, backend.Changes{s.Name: nil}, false)

				second := make(c) // of a new process
				apply(second, backend.Changes{s.Name: s}, true)
				apply(second, backend.Changes{s.Name: nil}, false)
				for range 2 {
					if err := second.Purge(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
				left := run(t, node, "nft", "list", "ruleset")
				if strings.Contains(left, "MK-") || strings.Contains(left, "minik8s-proxy") {
					t.Errorf("left:\n%s", left)
				}
			})
		}
	}
}

// TestBackends_Shapes: a Service that becomes another kind of Service is in the kernel as one that has always been so.
func TestBackends_Shapes(t *testing.T) {
	machinetest.Root(t, "for network namespaces")
	machinetest.Programs(t, "iptables-restore", "ip6tables-restore")
	endpoints := func(n int, change ...func(*model.ServicePort)) func(*model.ServicePort) {
		return func(p *model.ServicePort) {
			p.Cluster, p.HasEndpoints = nil, n > 0
			for i := range n {
				a := p.ClusterIP.As16()
				a[14], a[15] = 200, byte(i)
				p.Cluster = append(p.Cluster, model.Endpoint{Addr: netip.AddrPortFrom(netip.AddrFrom16(a).Unmap(), 8080)})
			}
			for _, c := range change {
				c(p)
			}
		}
	}
	sticky := func(p *model.ServicePort) { p.AffinitySeconds = 60 }
	shapes := []struct {
		name string
		make func(*model.ServicePort)
	}{
		{"one endpoint", endpoints(1)}, {"three", endpoints(3)}, {"affinity", endpoints(3, sticky)}, {"very many", endpoints(33)}, {"none", endpoints(0)},
		{"two", endpoints(2)}, {"a node port", endpoints(2, func(p *model.ServicePort) { p.NodePort = 30080 })}, {"two again", endpoints(2)},
		{"those here only", endpoints(2, func(p *model.ServicePort) { p.InternalLocal, p.Local = true, p.Cluster[:1] })}, {"thirty-two", endpoints(32)},
	}
	for mode, make := range modes {
		for _, f := range []model.Family{model.IPv4, model.IPv6} {
			t.Run(string(mode)+" "+string(f), func(t *testing.T) {
				node := newSpace(t)
				c := backend.Config{Cluster: "suite", Family: f, NetNS: node.path(), MasqueradeMark: 1 << 14, ClusterCIDR: netip.MustParsePrefix("10.244.0.0/16")}
				port := model.ServicePort{Name: model.PortName{Namespace: "ns", Service: "s", Protocol: corev1.ProtocolTCP}, ClusterIP: netip.MustParseAddr("10.96.0.7"), Port: 80}
				if f == model.IPv6 {
					c.ClusterCIDR, port.ClusterIP = netip.MustParsePrefix("fd01::/64"), netip.MustParseAddr("fd00::7")
				}
				b := make(c)
				for _, shape := range shapes {
					p := port
					shape.make(&p)
					s := &model.Service{Name: model.Name{Namespace: "ns", Name: "s"}, Ports: []model.ServicePort{p}}
					if err := b.Apply(t.Context(), backend.Changes{s.Name: s}); err != nil {
						t.Fatalf("%s: %v", shape.name, err)
					}
					if intact, err := b.Check(t.Context()); err != nil || !intact {
						t.Fatalf("%s: intact %t, %v", shape.name, intact, err)
					}
					apart := newSpace(t)
					c.NetNS = apart.path()
					if err := make(c).Apply(t.Context(), backend.Changes{s.Name: s}); err != nil {
						t.Fatalf("%s: %v", shape.name, err)
					}
					if diff := cmp.Diff(sorted(run(t, apart, "nft", "list", "ruleset")), sorted(run(t, node, "nft", "list", "ruleset"))); diff != "" {
						t.Errorf("%s (-made at once +after changes):\n%s", shape.name, diff)
					}
				}
			})
		}
	}
}

// sorted are the lines and elements of what the nft program prints, which has sets, chains and elements in any order.
func sorted(listing string) string {
	words := strings.FieldsFunc(listing, func(r rune) bool { return r == '\n' || r == ',' })
	for i := range words {
		words[i] = strings.TrimSpace(words[i])
	}
	slices.Sort(words)
	return strings.Join(words, "\n")
}

// TestBackends_NoNamespace: a change for which the namespace could not be entered is not lost.
func TestBackends_NoNamespace(t *testing.T) {
	machinetest.Root(t, "for network namespaces")
	machinetest.Programs(t, "iptables-restore", "nft")
	for mode, make := range modes {
		t.Run(string(mode), func(t *testing.T) {
			node, path := newSpace(t), filepath.Join(t.TempDir(), "net")
			there := func() {
				if err := os.Symlink(node.path(), path); err != nil {
					t.Fatal(err)
				}
			}
			there()
			b := make(backend.Config{Cluster: "suite", Family: model.IPv4, NetNS: path, MasqueradeMark: 1 << 14})
			if err := b.Apply(t.Context(), many(1)); err != nil {
				t.Fatal(err)
			}
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
			if err := b.Apply(t.Context(), many(2)); err == nil {
				t.Fatal("written to nowhere")
			}
			there()
			if err := b.Apply(t.Context(), nil); err != nil {
				t.Fatal(err)
			}
			if rules := run(t, node, "nft", "list", "ruleset"); !strings.Contains(rules, "10.96.0.1") {
				t.Errorf("the change is lost:\n%s", rules)
			}
		})
	}
}

// many are n Services with five endpoints each.
func many(n int) backend.Changes {
	out := backend.Changes{}
	for i := range n {
		p := model.ServicePort{
			Name:      model.PortName{Namespace: "ns", Service: fmt.Sprintf("s%d", i), Protocol: corev1.ProtocolTCP},
			ClusterIP: netip.AddrFrom4([4]byte{10, 96, byte(i >> 8), byte(i)}), Port: 80, HasEndpoints: true,
		}
		for j := range 5 {
			p.Cluster = append(p.Cluster, model.Endpoint{Addr: netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, byte(128 + j), byte(i >> 8), byte(i)}), 8080)})
		}
		s := &model.Service{Name: model.Name{Namespace: "ns", Name: p.Name.Service}, Ports: []model.ServicePort{p}}
		out[s.Name] = s
	}
	return out
}

// BenchmarkBackends measures 5,000 Services with five endpoints each: all of them at first, then one change, then a new Service and its
// end (two changes), then the removal of all.
func BenchmarkBackends(b *testing.B) {
	machinetest.Root(b, "for network namespaces")
	for _, mode := range []Mode{NFTables, IPTables} {
		node := newSpace(b)
		config := backend.Config{
			Cluster: "bench", Family: model.IPv4, NetNS: node.path(), MasqueradeMark: 1 << 14, ClusterCIDR: netip.MustParsePrefix("10.128.0.0/9"),
		}
		table := modes[mode](config)
		apply := func(b *testing.B, c backend.Changes) {
			b.Helper()
			if err := table.Apply(b.Context(), c); err != nil {
				b.Fatal(err)
			}
		}
		all := many(5000)
		b.Run(string(mode)+"/first", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				b.StopTimer()
				if err := table.Purge(b.Context()); err != nil {
					b.Fatal(err)
				}
				table = modes[mode](config)
				b.StartTimer()
				apply(b, all)
			}
		})
		name := model.Name{Namespace: "ns", Name: "s77"}
		b.Run(string(mode)+"/endpoint", func(b *testing.B) {
			b.ReportAllocs()
			for n := 0; b.Loop(); n++ {
				s := *all[name]
				s.Ports = []model.ServicePort{s.Ports[0]}
				s.Ports[0].Cluster = s.Ports[0].Cluster[:4+n%2]
				apply(b, backend.Changes{name: &s})
			}
		})
		b.Run(string(mode)+"/service", func(b *testing.B) {
			b.ReportAllocs()
			fresh := many(5001)[model.Name{Namespace: "ns", Name: "s5000"}]
			for b.Loop() {
				apply(b, backend.Changes{fresh.Name: fresh})
				apply(b, backend.Changes{fresh.Name: nil})
			}
		})
		b.Run(string(mode)+"/purge", func(b *testing.B) {
			for b.Loop() {
				if err := table.Purge(b.Context()); err != nil {
					b.Fatal(err)
				}
				b.StopTimer()
				apply(b, nil)
				b.StartTimer()
			}
		})
	}
}
