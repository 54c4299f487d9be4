// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package rules_test

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"minik8s.io/minik8s/pkg/proxy/backend"
	"minik8s.io/minik8s/pkg/proxy/iptables"
	"minik8s.io/minik8s/pkg/proxy/iptables/fake"
	"minik8s.io/minik8s/pkg/proxy/iptables/rules"
	"minik8s.io/minik8s/pkg/proxy/model"
)

var config = rules.Config{
	Chains: rules.ChainsOf("test"),
	Config: backend.Config{
		Cluster: "test", Family: model.IPv4, MasqueradeMark: 1 << 14,
		ClusterCIDR: netip.MustParsePrefix("10.244.0.0/16"),
		NodeIPs:     []netip.Addr{netip.MustParseAddr("192.168.0.1")},
	},
}

func service(change ...func(*corev1.Service)) *corev1.Service {
	svc := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web"},
		Spec: corev1.ServiceSpec{
			Type:       corev1.ServiceTypeClusterIP,
			ClusterIP:  "10.96.0.5",
			ClusterIPs: []string{"10.96.0.5"},
			Ports:      []corev1.ServicePort{{Name: "http", Port: 80, Protocol: corev1.ProtocolTCP}},
		},
	}
	for _, c := range change {
		c(svc)
	}
	return svc
}

func nodePort(s *corev1.Service) {
	s.Spec.Type = corev1.ServiceTypeNodePort
	s.Spec.Ports[0].NodePort = 30080
}

func loadBalancer(s *corev1.Service) {
	nodePort(s)
	s.Spec.Type = corev1.ServiceTypeLoadBalancer
	s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "5.6.7.8"}}
}

func externalIP(s *corev1.Service) { s.Spec.ExternalIPs = []string{"9.9.9.9"} }

func externalLocal(s *corev1.Service) {
	s.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
}

func internalLocal(s *corev1.Service) {
	local := corev1.ServiceInternalTrafficPolicyLocal
	s.Spec.InternalTrafficPolicy = &local
}

func sourceRanges(r ...string) func(*corev1.Service) {
	return func(s *corev1.Service) { s.Spec.LoadBalancerSourceRanges = r }
}

func affinity(s *corev1.Service) {
	timeout := int32(60)
	s.Spec.SessionAffinity = corev1.ServiceAffinityClientIP
	s.Spec.SessionAffinityConfig = &corev1.SessionAffinityConfig{ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: &timeout}}
}

// endpoints takes "ip@node" strings.
func endpoints(port int32, addrs ...string) *discoveryv1.EndpointSlice {
	name, proto := "http", corev1.ProtocolTCP
	s := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: "ns", Name: "web-1", Labels: map[string]string{discoveryv1.LabelServiceName: "web"}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: &name, Port: &port, Protocol: &proto}},
	}
	for _, a := range addrs {
		ip, node, _ := strings.Cut(a, "@")
		s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{Addresses: []string{ip}, NodeName: &node})
	}
	return s
}

// build returns all that the tables hold with one Service.
func build(config rules.Config, s *model.Service) []rules.Table {
	f, tables := rules.Render(s, config), rules.Base(config)
	for i := range tables {
		table := &tables[i]
		for j := range table.Chains {
			var lines []string
			for _, l := range f.Lines {
				if l.Table == table.Name && l.Chain == table.Chains[j].Name {
					lines = append(lines, l.Rule)
				}
			}
			table.Chains[j].Rules = append(lines, table.Chains[j].Rules...)
		}
		if table.Name == "nat" {
			table.Chains = append(table.Chains, f.Chains...)
		}
	}
	return tables
}

func forward(svc *corev1.Service, slices ...*discoveryv1.EndpointSlice) *model.Service {
	return model.Build(model.IPv4, svc, slices, model.Node{Name: "here"})
}

func dump(tables []rules.Table) string {
	var b strings.Builder
	for _, t := range tables {
		fmt.Fprintf(&b, "*%s\n", t.Name)
		for _, j := range t.Jumps {
			fmt.Fprintf(&b, "%s %s\n", j.Parent, j.Rule)
		}
		for _, c := range t.Chains {
			fmt.Fprintf(&b, ":%s\n", c.Name)
			for _, r := range c.Rules {
				fmt.Fprintf(&b, "%s\n", r)
			}
		}
	}
	return b.String()
}

func TestBuild(t *testing.T) {
	rs := build(config, forward(service(nodePort, affinity), endpoints(8080, "10.244.0.2@here", "10.244.1.2@there")))
	want := `*filter
INPUT -j MK-T6DNB-FIREWALL
INPUT -m conntrack --ctstate NEW -m comment --comment "kubernetes load balancer firewall" -j MK-T6DNB-PROXY-FIREWALL
INPUT -m comment --comment "kubernetes health check service ports" -j MK-T6DNB-NODEPORTS
INPUT -m conntrack --ctstate NEW -m comment --comment "kubernetes externally-visible service portals" -j MK-T6DNB-EXTERNAL-SERVICES
FORWARD -m conntrack --ctstate NEW -m comment --comment "kubernetes load balancer firewall" -j MK-T6DNB-PROXY-FIREWALL
FORWARD -m comment --comment "kubernetes forwarding rules" -j MK-T6DNB-FORWARD
FORWARD -m conntrack --ctstate NEW -m comment --comment "kubernetes service portals" -j MK-T6DNB-SERVICES
FORWARD -m conntrack --ctstate NEW -m comment --comment "kubernetes externally-visible service portals" -j MK-T6DNB-EXTERNAL-SERVICES
OUTPUT -j MK-T6DNB-FIREWALL
OUTPUT -m conntrack --ctstate NEW -m comment --comment "kubernetes load balancer firewall" -j MK-T6DNB-PROXY-FIREWALL
OUTPUT -m conntrack --ctstate NEW -m comment --comment "kubernetes service portals" -j MK-T6DNB-SERVICES
:MK-T6DNB-PROXY-CANARY
:MK-T6DNB-FIREWALL
-m comment --comment "block incoming localnet connections" -d 127.0.0.0/8 ! -s 127.0.0.0/8 -m conntrack ! --ctstate RELATED,ESTABLISHED,DNAT -j DROP
:MK-T6DNB-FORWARD
-m conntrack --ctstate INVALID -j DROP
-m comment --comment "kubernetes forwarding rules" -m mark --mark 0x4000/0x4000 -j ACCEPT
-m comment --comment "kubernetes forwarding conntrack rule" -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
:MK-T6DNB-NODEPORTS
:MK-T6DNB-SERVICES
:MK-T6DNB-EXTERNAL-SERVICES
:MK-T6DNB-PROXY-FIREWALL
*nat
PREROUTING -m comment --comment "kubernetes service portals" -j MK-T6DNB-SERVICES
OUTPUT -m comment --comment "kubernetes service portals" -j MK-T6DNB-SERVICES
POSTROUTING -m comment --comment "kubernetes postrouting rules" -j MK-T6DNB-POSTROUTING
:MK-T6DNB-PROXY-CANARY
:MK-T6DNB-MARK-MASQ
-j MARK --or-mark 0x4000
:MK-T6DNB-POSTROUTING
-m mark ! --mark 0x4000/0x4000 -j RETURN
-j MARK --xor-mark 0x4000
-m comment --comment "kubernetes service traffic requiring SNAT" -j MASQUERADE --random-fully
:MK-T6DNB-NODEPORTS
-m comment --comment "ns/web:http" -p tcp -m tcp --dport 30080 -j MK-T6DNB-EXT-MT3ARQ27CSBIY4B
:MK-T6DNB-SERVICES
-m comment --comment "ns/web:http cluster IP" -p tcp -m tcp -d 10.96.0.5/32 --dport 80 -j MK-T6DNB-SVC-MT3ARQ27CSBIY4B
-m comment --comment "kubernetes service nodeports; NOTE: this must be the last rule in this chain" ! -d 127.0.0.0/8 -m addrtype --dst-type LOCAL -j MK-T6DNB-NODEPORTS
:MK-T6DNB-EXT-MT3ARQ27CSBIY4B
-m comment --comment "masquerade traffic for ns/web:http external destinations" -j MK-T6DNB-MARK-MASQ
-j MK-T6DNB-SVC-MT3ARQ27CSBIY4B
:MK-T6DNB-SVC-MT3ARQ27CSBIY4B
-m comment --comment "ns/web:http cluster IP" -p tcp -m tcp -d 10.96.0.5/32 --dport 80 ! -s 10.244.0.0/16 -j MK-T6DNB-MARK-MASQ
-m comment --comment "ns/web:http -> 10.244.0.2:8080" -m recent --name MK-T6DNB-SEP-VMESF6YHULHPHTR --rcheck --seconds 60 --reap -j MK-T6DNB-SEP-VMESF6YHULHPHTR
-m comment --comment "ns/web:http -> 10.244.1.2:8080" -m recent --name MK-T6DNB-SEP-BWH37GELAPQIET2 --rcheck --seconds 60 --reap -j MK-T6DNB-SEP-BWH37GELAPQIET2
-m comment --comment "ns/web:http -> 10.244.0.2:8080" -m statistic --mode random --probability 0.5000000000 -j MK-T6DNB-SEP-VMESF6YHULHPHTR
-m comment --comment "ns/web:http -> 10.244.1.2:8080" -j MK-T6DNB-SEP-BWH37GELAPQIET2
:MK-T6DNB-SEP-VMESF6YHULHPHTR
-m comment --comment "ns/web:http" -s 10.244.0.2/32 -j MK-T6DNB-MARK-MASQ
-m comment --comment "ns/web:http" -m recent --name MK-T6DNB-SEP-VMESF6YHULHPHTR --set -p tcp -m tcp -j DNAT --to-destination 10.244.0.2:8080
:MK-T6DNB-SEP-BWH37GELAPQIET2
-m comment --comment "ns/web:http" -m recent --name MK-T6DNB-SEP-BWH37GELAPQIET2 --set -p tcp -m tcp -j DNAT --to-destination 10.244.1.2:8080
`
	if diff := cmp.Diff(want, dump(rs)); diff != "" {
		t.Errorf("rules (-want +got):\n%s", diff)
	}
}

func TestBuild_NoEndpoints(t *testing.T) {
	rs := build(config, forward(service(nodePort)))
	var rejects []string
	for _, c := range rs[0].Chains {
		for _, r := range c.Rules {
			if strings.HasSuffix(r, "REJECT") {
				rejects = append(rejects, r)
			}
		}
	}
	want := []string{
		`-m comment --comment "ns/web:http has no endpoints" -p tcp -m tcp -d 10.96.0.5/32 --dport 80 -j REJECT`,
		`-m comment --comment "ns/web:http has no endpoints" ! -d 127.0.0.0/8 -p tcp -m tcp -m addrtype --dst-type LOCAL --dport 30080 -j REJECT`,
	}
	if diff := cmp.Diff(want, rejects); diff != "" {
		t.Errorf("rejects (-want +got):\n%s", diff)
	}
}

const (
	pod     = "10.244.0.9"
	node    = "192.168.0.1"
	outside = "192.168.0.77"
	local   = "10.244.0.2@here"
	remote  = "10.244.1.2@there"
	toLocal = "DNAT 10.244.0.2:8080"
	toOther = "DNAT 10.244.1.2:8080"
	masq    = " MASQUERADE"
)

type flow struct {
	src, dst string
	port     int
	want     []string
}

func TestTrace(t *testing.T) {
	tests := []struct {
		name   string
		svc    *corev1.Service
		slices []*discoveryv1.EndpointSlice
		seen   []string
		flows  []flow
	}{
		{
			name:   "cluster IP",
			svc:    service(),
			slices: []*discoveryv1.EndpointSlice{endpoints(8080, local, remote)},
			flows: []flow{
				{pod, "10.96.0.5", 80, []string{toLocal, toOther}},
				{node, "10.96.0.5", 80, []string{toLocal + masq, toOther + masq}},
				{outside, "10.96.0.5", 80, []string{toLocal + masq, toOther + masq}},
				{"10.244.0.2", "10.96.0.5", 80, []string{toLocal + masq, toOther}}, // hairpin
				{pod, "10.96.0.5", 81, []string{"PASS"}},
				{pod, "10.96.0.6", 80, []string{"PASS"}},
			},
		},
		{
			name: "no endpoints",
			svc:  service(loadBalancer, externalIP),
			flows: []flow{
				{pod, "10.96.0.5", 80, []string{"REJECT"}},
				{node, "10.96.0.5", 80, []string{"REJECT"}},
				{outside, node, 30080, []string{"REJECT"}},
				{outside, "9.9.9.9", 80, []string{"REJECT"}},
				{outside, "5.6.7.8", 80, []string{"REJECT"}},
			},
		},
		{
			name:   "node port, external IP and load balancer",
			svc:    service(loadBalancer, externalIP),
			slices: []*discoveryv1.EndpointSlice{endpoints(8080, remote)},
			flows: []flow{
				{outside, node, 30080, []string{toOther + masq}},
				{"127.0.0.1", "127.0.0.1", 30080, []string{"PASS"}}, // to package loopback
				{pod, node, 30080, []string{toOther + masq}},
				{outside, "9.9.9.9", 80, []string{toOther + masq}},
				{outside, "5.6.7.8", 80, []string{toOther + masq}},
				{outside, node, 80, []string{"PASS"}},
			},
		},
		{
			name:   "external policy Local",
			svc:    service(loadBalancer, externalLocal),
			slices: []*discoveryv1.EndpointSlice{endpoints(8080, local, remote)},
			flows: []flow{
				{outside, node, 30080, []string{toLocal}},
				{outside, "5.6.7.8", 80, []string{toLocal}},
				{pod, "5.6.7.8", 80, []string{toLocal, toOther}},
				{node, "5.6.7.8", 80, []string{toLocal + masq, toOther + masq}},
				{pod, "10.96.0.5", 80, []string{toLocal, toOther}},
			},
		},
		{
			name:   "external policy Local without a local endpoint",
			svc:    service(loadBalancer, externalLocal),
			slices: []*discoveryv1.EndpointSlice{endpoints(8080, remote)},
			flows: []flow{
				{outside, node, 30080, []string{"DROP"}},
				{outside, "5.6.7.8", 80, []string{"DROP"}},
				{pod, "5.6.7.8", 80, []string{toOther}},
				{node, node, 30080, []string{toOther + masq}},
				{pod, "10.96.0.5", 80, []string{toOther}},
			},
		},
		{
			name:   "internal policy Local",
			svc:    service(internalLocal),
			slices: []*discoveryv1.EndpointSlice{endpoints(8080, local, remote)},
			flows: []flow{
				{pod, "10.96.0.5", 80, []string{toLocal}},
				{node, "10.96.0.5", 80, []string{toLocal + masq}},
			},
		},
		{
			name:   "internal policy Local without a local endpoint",
			svc:    service(internalLocal, nodePort),
			slices: []*discoveryv1.EndpointSlice{endpoints(8080, remote)},
			flows: []flow{
				{pod, "10.96.0.5", 80, []string{"DROP"}},
				{outside, node, 30080, []string{toOther + masq}},
			},
		},
		{
			name:   "source ranges",
			svc:    service(loadBalancer, sourceRanges("192.168.0.64/26")),
			slices: []*discoveryv1.EndpointSlice{endpoints(8080, local)},
			flows: []flow{
				{outside, "5.6.7.8", 80, []string{toLocal + masq}},
				{"192.168.0.2", "5.6.7.8", 80, []string{"DROP"}},
				{"192.168.0.2", node, 30080, []string{toLocal + masq}},
				{"192.168.0.2", "10.96.0.5", 80, []string{toLocal + masq}},
			},
		},
		{
			name:   "source ranges that admit the node",
			svc:    service(loadBalancer, sourceRanges("192.168.0.0/24")),
			slices: []*discoveryv1.EndpointSlice{endpoints(8080, local)},
			flows: []flow{
				{"5.6.7.8", "5.6.7.8", 80, []string{toLocal + masq}},
				{"1.1.1.1", "5.6.7.8", 80, []string{"DROP"}},
			},
		},
		{
			name:   "session affinity",
			svc:    service(affinity),
			slices: []*discoveryv1.EndpointSlice{endpoints(8080, local, remote)},
			seen:   []string{"second"},
			flows:  []flow{{pod, "10.96.0.5", 80, []string{toOther}}},
		},
		{
			name:   "loopback from outside",
			svc:    service(),
			slices: []*discoveryv1.EndpointSlice{endpoints(8080, local)},
			flows:  []flow{{outside, "127.0.0.1", 22, []string{"DROP"}}},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := forward(tt.svc, tt.slices...)
			tables := fake.New()
			if err := iptables.New(tables, config.Config).Apply(t.Context(), backend.Changes{s.Name: s}); err != nil {
				t.Fatal(err)
			}
			var seen []string
			if len(tt.seen) > 0 {
				seen = []string{secondEndpointChain(rules.Render(s, config))}
			}
			for _, f := range tt.flows {
				got, err := tables.Trace(fake.Packet{
					Src: netip.MustParseAddr(f.src), Dst: netip.MustParseAddr(f.dst), Protocol: "tcp", Port: f.port,
					Local: []netip.Addr{netip.MustParseAddr(node)}, Seen: seen,
				})
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(f.want, got); diff != "" {
					t.Errorf("%s → %s:%d (-want +got):\n%s", f.src, f.dst, f.port, diff)
				}
			}
		})
	}
}

func secondEndpointChain(f *rules.Fragment) string {
	for _, c := range f.Chains {
		for _, r := range c.Rules {
			if strings.HasSuffix(r, toOther[len("DNAT "):]) && strings.Contains(r, "DNAT") {
				return c.Name
			}
		}
	}
	return ""
}

func TestBuild_IPv6(t *testing.T) {
	svc := service(nodePort)
	svc.Spec.ClusterIPs = append(svc.Spec.ClusterIPs, "fd00::5")
	slice := endpoints(8080, "fd01::2@here")
	slice.AddressType = discoveryv1.AddressTypeIPv6
	c := config
	c.Family, c.ClusterCIDR = model.IPv6, netip.MustParsePrefix("fd01::/64")
	text := dump(build(c, model.Build(model.IPv6, svc, []*discoveryv1.EndpointSlice{slice}, model.Node{Name: "here"})))
	for _, want := range []string{
		"-d fd00::5/128 --dport 80 ! -s fd01::/64 -j MK-T6DNB-MARK-MASQ",
		"--to-destination [fd01::2]:8080",
		"! -d ::1/128 -m addrtype --dst-type LOCAL",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if strings.Contains(text, "10.96.0.5") || strings.Contains(text, "127.0.0.0") {
		t.Errorf("IPv4 in IPv6 rules:\n%s", text)
	}
}

func TestChains(t *testing.T) {
	a, b := rules.ChainsOf("a"), rules.ChainsOf("b")
	if !a.Owns(a.Canary()) || a.Owns(b.Canary()) || a.Owns(strings.TrimSuffix(a.Canary(), "PROXY-CANARY")+"NETWORK") {
		t.Errorf("ownership of %q and %q is wrong", a.Canary(), b.Canary())
	}
	for _, table := range build(config, forward(service(loadBalancer, externalLocal, sourceRanges("1.0.0.0/8")), endpoints(8080, local, remote))) {
		for _, c := range table.Chains {
			if len(c.Name) > 28 {
				t.Errorf("chain name %q is longer than the kernel's 28 characters", c.Name)
			}
			if !config.Chains.Owns(c.Name) {
				t.Errorf("chain %q would not be purged", c.Name)
			}
		}
	}
}

func TestRender_RoundRobin(t *testing.T) {
	c := config
	c.Scheduler = backend.RoundRobin
	f := rules.Render(forward(service(), endpoints(8080, local, remote, "10.244.1.3@there")), c)
	var got []string
	for _, r := range f.Chains[0].Rules {
		_, after, _ := strings.Cut(r, "-m statistic ")
		before, _, _ := strings.Cut(after, " -j")
		got = append(got, before)
	}
	// Each third; of the others each second; all others.
	if diff := cmp.Diff([]string{"", "--mode nth --every 3 --packet 0", "--mode nth --every 2 --packet 0", ""}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestBase_NodePortAddresses(t *testing.T) {
	c := config
	c.NodePortCIDRs = []netip.Prefix{netip.MustParsePrefix("192.168.0.0/24"), netip.MustParsePrefix("127.0.0.0/8")}
	text := dump(rules.Base(c))
	for _, p := range c.NodePortCIDRs {
		if !strings.Contains(text, "-d "+p.String()+" -m addrtype --dst-type LOCAL -j MK-T6DNB-NODEPORTS\n") {
			t.Errorf("no rule for %s in\n%s", p, text)
		}
	}
	if strings.Contains(text, "! -d 127.0.0.0/8 -m addrtype") {
		t.Errorf("all addresses answer:\n%s", text)
	}
}

func TestTrace_ServiceRange(t *testing.T) {
	c := config.Config
	c.ServiceCIDR = netip.MustParsePrefix("10.96.0.0/16")
	tables := fake.New()
	s := forward(service(), endpoints(8080, local))
	if err := iptables.New(tables, c).Apply(t.Context(), backend.Changes{s.Name: s}); err != nil {
		t.Fatal(err)
	}
	for src, want := range map[string]string{pod: "REJECT", node: "REJECT", outside: "PASS"} {
		for _, dst := range []string{"10.96.0.5", "10.96.0.6"} {
			got, err := tables.Trace(fake.Packet{
				Src: netip.MustParseAddr(src), Dst: netip.MustParseAddr(dst), Protocol: "tcp", Port: 81, Local: []netip.Addr{netip.MustParseAddr(node)},
			})
			if err != nil || len(got) != 1 || got[0] != want {
				t.Errorf("%s → %s:81: %v, %v, want %s", src, dst, got, err, want)
			}
		}
	}
}
