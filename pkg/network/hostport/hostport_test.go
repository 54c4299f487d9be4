// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package hostport

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"minik8s.io/minik8s/pkg/machinetest"
)

func TestRules(t *testing.T) {
	tests := []struct {
		name  string
		ip    string
		ports []corev1.ContainerPort
		want  []string
	}{
		{name: "no host port", ip: "10.0.0.2", ports: []corev1.ContainerPort{{ContainerPort: 80}}},
		{name: "any address", ip: "10.0.0.2", ports: []corev1.ContainerPort{{ContainerPort: 80, HostPort: 8080}}, want: []string{
			"DNAT -p tcp -m addrtype --dst-type LOCAL -m comment --comment \"pod u\" -m tcp --dport 8080 -j DNAT --to-destination 10.0.0.2:80",
			"MASQ -s 10.0.0.2/32 -d 10.0.0.2/32 -p tcp -m comment --comment \"pod u\" -m tcp --dport 80 -j MASQUERADE",
			"MASQ -s 127.0.0.0/8 -d 10.0.0.2/32 -p tcp -m comment --comment \"pod u\" -m tcp --dport 80 -j MASQUERADE",
		}},
		{name: "one address, udp", ip: "10.0.0.2", ports: []corev1.ContainerPort{{ContainerPort: 53, HostPort: 53, HostIP: "192.0.2.1", Protocol: corev1.ProtocolUDP}}, want: []string{
			"DNAT -d 192.0.2.1/32 -p udp -m comment --comment \"pod u\" -m udp --dport 53 -j DNAT --to-destination 10.0.0.2:53",
			"MASQ -s 10.0.0.2/32 -d 10.0.0.2/32 -p udp -m comment --comment \"pod u\" -m udp --dport 53 -j MASQUERADE",
			"MASQ -s 127.0.0.0/8 -d 10.0.0.2/32 -p udp -m comment --comment \"pod u\" -m udp --dport 53 -j MASQUERADE",
		}},
		{name: "two ports that lead to one", ip: "10.0.0.2", ports: []corev1.ContainerPort{{ContainerPort: 80, HostPort: 8080}, {ContainerPort: 80, HostPort: 8081}}, want: []string{
			"DNAT -p tcp -m addrtype --dst-type LOCAL -m comment --comment \"pod u\" -m tcp --dport 8080 -j DNAT --to-destination 10.0.0.2:80",
			"MASQ -s 10.0.0.2/32 -d 10.0.0.2/32 -p tcp -m comment --comment \"pod u\" -m tcp --dport 80 -j MASQUERADE",
			"MASQ -s 127.0.0.0/8 -d 10.0.0.2/32 -p tcp -m comment --comment \"pod u\" -m tcp --dport 80 -j MASQUERADE",
			"DNAT -p tcp -m addrtype --dst-type LOCAL -m comment --comment \"pod u\" -m tcp --dport 8081 -j DNAT --to-destination 10.0.0.2:80",
		}},
		{name: "address of the other family", ip: "fd00::2", ports: []corev1.ContainerPort{{ContainerPort: 53, HostPort: 53, HostIP: "192.0.2.1"}}},
		{name: "ipv6", ip: "fd00::2", ports: []corev1.ContainerPort{{ContainerPort: 80, HostPort: 8080}}, want: []string{
			"DNAT ! -d ::1/128 -p tcp -m addrtype --dst-type LOCAL -m comment --comment \"pod u\" -m tcp --dport 8080 -j DNAT --to-destination [fd00::2]:80",
			"MASQ -s fd00::2/128 -d fd00::2/128 -p tcp -m comment --comment \"pod u\" -m tcp --dport 80 -j MASQUERADE",
		}},
		{name: "loopback of ipv6", ip: "fd00::2", ports: []corev1.ContainerPort{{ContainerPort: 80, HostPort: 8080, HostIP: "::1"}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			for _, r := range (Chains{DNAT: "DNAT", Masquerade: "MASQ"}).Rules("u", netip.MustParseAddr(tt.ip), tt.ports) {
				got = append(got, r.Chain+" "+r.Spec)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestReplace(t *testing.T) {
	c := Chains{DNAT: "DNAT", Masquerade: "MASQ"}
	rule := func(pod, port string) Rule {
		return Rule{"DNAT", `-m comment --comment "pod ` + pod + `" --dport ` + port + " -j DNAT"}
	}
	whole := kernel{there: c.all(), from: append(c.jumps(), Rule{"OUTPUT", "-j DOCKER"})}
	with := func(rules ...Rule) kernel {
		k := whole
		k.rules = rules
		return k
	}
	jumps := []string{
		`-I PREROUTING 1 -m addrtype --dst-type LOCAL -m comment --comment "minik8s host ports" -j DNAT`,
		`-I OUTPUT 1 -m addrtype --dst-type LOCAL -m comment --comment "minik8s host ports" -j DNAT`,
		`-I POSTROUTING 1 -m comment --comment "minik8s host ports" -j MASQ`,
	}
	added, removed := `-A DNAT -m comment --comment "pod a" --dport 1 -j DNAT`, `-D DNAT -m comment --comment "pod a" --dport 2 -j DNAT`
	for _, tt := range []struct {
		name  string
		have  kernel
		want  []Rule
		lines []string
		rules []Rule
	}{
		{name: "nothing is wanted of nothing"},
		{name: "nothing is there", want: []Rule{rule("a", "1")}, lines: slices.Concat([]string{":DNAT - [0:0]", ":MASQ - [0:0]"}, jumps, []string{added}), rules: []Rule{rule("a", "1")}},
		{name: "all is right", have: with(rule("a", "1")), want: []Rule{rule("a", "1")}},
		{name: "no jumps", have: kernel{there: c.all(), rules: []Rule{rule("a", "1")}}, want: []Rule{rule("a", "1")}, lines: jumps},
		{name: "another port", have: with(rule("b", "3"), rule("a", "2")), want: []Rule{rule("a", "1")}, lines: []string{added, removed}, rules: []Rule{rule("a", "1"), rule("a", "2")}},
		{name: "none any more", have: with(rule("b", "3"), rule("a", "2")), lines: []string{removed}, rules: []Rule{rule("a", "2")}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := c.replace(tt.have, func(uid types.UID) bool { return uid == "a" }, tt.want)
			if diff := cmp.Diff(tt.lines, got.lines); diff != "" {
				t.Errorf("lines (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.rules, got.rules); diff != "" {
				t.Errorf("rules (-want +got):\n%s", diff)
			}
		})
	}
}

// udpFollows checks that a client which goes on sending from one port reaches the pod of now.
func udpFollows(t *testing.T, m *Manager) {
	t.Helper()
	for _, ip := range []string{"10.9.0.2", "10.9.0.3"} {
		pc, err := net.ListenPacket("udp", ip+":53")
		if err != nil {
			t.Fatal(err)
		}
		defer pc.Close()
		go func() {
			b := make([]byte, 16)
			for {
				_, from, err := pc.ReadFrom(b)
				if err != nil {
					return
				}
				_, _ = pc.WriteTo([]byte(ip), from)
			}
		}()
	}
	client, err := net.ListenPacket("udp", "192.0.2.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	answer := func() string {
		to := &net.UDPAddr{IP: net.ParseIP("192.0.2.1"), Port: 5353}
		if _, err := client.WriteTo([]byte("?"), to); err != nil {
			return ""
		}
		_ = client.SetReadDeadline(time.Now().Add(500 * time.Millisecond))
		b := make([]byte, 16)
		n, _, err := client.ReadFrom(b)
		if err != nil {
			return ""
		}
		return string(b[:n])
	}
	udp := []corev1.ContainerPort{{ContainerPort: 53, HostPort: 5353, Protocol: corev1.ProtocolUDP}}
	if got := answer(); got != "" {
		t.Fatalf("nobody is there, and %q answers", got)
	}
	for _, step := range []struct {
		what string
		do   func() error
		want string
	}{
		{"the first pod", func() error { return m.Set("udp1", []string{"10.9.0.2"}, udp) }, "10.9.0.2"},
		{"the same again", func() error { return m.Set("udp1", []string{"10.9.0.2"}, udp) }, "10.9.0.2"},
		{"it goes", func() error { return m.Remove("udp1") }, ""},
		{"the next one comes", func() error { return m.Set("udp2", []string{"10.9.0.3"}, udp) }, "10.9.0.3"},
		{"it was gone when nobody looked", func() error { return m.Retain(map[types.UID]bool{"a": true, "b": true}) }, ""},
		{"a third", func() error { return m.Set("udp3", []string{"10.9.0.2"}, udp) }, "10.9.0.2"},
	} {
		if err := step.do(); err != nil {
			t.Fatal(err)
		}
		if got := answer(); got != step.want {
			t.Errorf("%s: %q answers, want %q", step.what, got, step.want)
		}
	}
	// A process that is killed, or a kernel that refuses, between the rules and the flows.
	flows := m.flows
	m.flows = func(int, uint16) error { return errors.New("refused") }
	if err := m.Remove("udp3"); err == nil {
		t.Error("flows are not forgotten and nobody is told")
	}
	if err := m.Set("udp4", []string{"10.9.0.3"}, udp); err == nil {
		t.Error("flows are not forgotten and nobody is told")
	}
	m.flows = flows
	again, err := New("test", "")
	if err != nil {
		t.Fatal(err)
	}
	for name, m := range map[string]*Manager{"another process": again, "the same": m} {
		answer() // a flow from before
		if err := m.Set("udp4", []string{"10.9.0.3"}, udp); err != nil {
			t.Fatal(err)
		}
		if got := answer(); got != "10.9.0.3" {
			t.Errorf("%s: %q answers", name, got)
		}
	}
	if err := again.Remove("udp4"); err != nil {
		t.Fatal(err)
	}
}

const inNamespace = "MINIK8S_TEST_NETNS"

// loopbackOfIPv6 checks that who connects to ::1 reaches what listens there, or is refused at once, whatever port a pod has, and that the rules
// are known again.
func loopbackOfIPv6(t *testing.T, m *Manager) {
	t.Helper()
	if len(m.families) != 2 {
		t.Fatal("there are no tables of IPv6")
	}
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		t.Fatal(err)
	}
	addr, err := netlink.ParseAddr("fd00:9::2/128")
	if err != nil {
		t.Fatal(err)
	}
	addr.Flags = unix.IFA_F_NODAD
	if err := netlink.AddrAdd(lo, addr); err != nil {
		t.Fatal(err)
	}
	pod, err := net.Listen("tcp", "[fd00:9::2]:80")
	if err != nil {
		t.Fatal(err)
	}
	defer pod.Close()
	connects := func(to string) error {
		c, err := net.DialTimeout("tcp", to, 2*time.Second)
		if err == nil {
			err = c.Close()
		}
		return err
	}
	for range 2 {
		if err := m.Set("six", []string{"fd00:9::2"}, []corev1.ContainerPort{{ContainerPort: 80, HostPort: 8086}}); err != nil {
			t.Fatal(err)
		}
		delete(m.published, "six") // is looked at again
	}
	if err := connects("[fd00:9::2]:8086"); err != nil {
		t.Errorf("at another address of the node: %v", err)
	}
	if err := connects("[::1]:8086"); !errors.Is(err, unix.ECONNREFUSED) {
		t.Errorf("at ::1: %v, want a refusal", err)
	}
	out, err := exec.Command("ip6tables-save", "-t", "nat").CombinedOutput()
	if n := strings.Count(string(out), "--dport 8086"); err != nil || n != 1 {
		t.Errorf("%d rules of the port, %v", n, err)
	}
	if err := m.Remove("six"); err != nil {
		t.Error(err)
	}
}

// TestTables works with the kernel's tables, in a network namespace of its own.
func TestTables(t *testing.T) {
	machinetest.Root(t, "for a network namespace")
	machinetest.Programs(t, "iptables", "ip6tables", "unshare")
	if os.Getenv(inNamespace) == "" {
		cmd := exec.CommandContext(t.Context(), "unshare", "--net", os.Args[0], "-test.run=^TestTables$", "-test.timeout=1m")
		cmd.Env = append(os.Environ(), inNamespace+"=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("in the namespace: %v\n%s", err, out)
		}
		return
	}
	// The "pod" is an address of the far end of a link whose other namespace is left out: what counts is where the
	// kernel sends packets, so the pod's address is one of this namespace's own.
	lo, err := netlink.LinkByName("lo")
	if err == nil {
		err = netlink.LinkSetUp(lo)
	}
	if err == nil {
		for _, a := range []string{"10.9.0.2/32", "10.9.0.3/32", "192.0.2.1/32"} {
			addr, perr := netlink.ParseAddr(a)
			if perr != nil {
				t.Fatal(perr)
			}
			if err = netlink.AddrAdd(lo, addr); err != nil {
				break
			}
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "10.9.0.2:80")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = c.Write([]byte("pod"))
			_ = c.Close()
		}
	}()
	reach := func(addr string) error {
		c, err := net.DialTimeout("tcp", addr, 2*time.Second)
		if err != nil {
			return err
		}
		defer c.Close()
		b, err := io.ReadAll(c)
		if err == nil && string(b) != "pod" {
			err = fmt.Errorf("answer %q", b)
		}
		return err
	}
	rules := func() string {
		out, err := exec.Command("iptables-save", "-t", "nat").CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		var keep []string
		for line := range strings.SplitSeq(string(out), "\n") {
			if strings.HasPrefix(line, "-A") {
				keep = append(keep, line)
			}
		}
		return strings.Join(keep, "\n")
	}

	m, err := New("test", "")
	if err != nil {
		t.Fatal(err)
	}
	a := []corev1.ContainerPort{{ContainerPort: 80, HostPort: 8080}}
	if err := m.Set("a", []string{"10.9.0.2"}, a); err != nil {
		t.Fatal(err)
	}
	first := rules()
	for _, addr := range []string{"192.0.2.1:8080", "127.0.0.1:8080"} {
		if err := reach(addr); err != nil {
			t.Errorf("%s: %v\n%s", addr, err, first)
		}
	}
	if err := m.Set("a", []string{"10.9.0.2"}, a); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(first, rules()); diff != "" {
		t.Errorf("setting twice changed rules:\n%s", diff)
	}
	// Somebody throws the rules away; that is seen at the next look.
	if out, err := exec.Command("iptables", "-t", "nat", "-F", "PREROUTING").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	p := m.published["a"]
	p.seen = time.Now().Add(-lookAgain)
	m.published["a"] = p
	if err := m.Set("a", []string{"10.9.0.2"}, a); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(first, rules()); diff != "" {
		t.Errorf("rules that were thrown away are not there again:\n%s", diff)
	}
	// A pod whose link has gone: its address is behind the default route, and that interface keeps what is set on it.
	outside := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "outside"}, PeerName: "peer"}
	if err := netlink.LinkAdd(outside); err != nil {
		t.Fatal(err)
	}
	peer, err := netlink.LinkByName("peer")
	if err != nil {
		t.Fatal(err)
	}
	for _, link := range []netlink.Link{outside, peer} {
		if err := netlink.LinkSetUp(link); err != nil {
			t.Fatal(err)
		}
	}
	if err := netlink.RouteAdd(&netlink.Route{LinkIndex: outside.Attrs().Index, Gw: net.ParseIP("192.0.2.254"), Flags: int(netlink.FLAG_ONLINK)}); err != nil {
		t.Fatal(err)
	}
	if err := m.Set("gone", []string{"10.9.0.99"}, a); err == nil || !strings.Contains(err.Error(), "no interface leads to") {
		t.Errorf("a pod whose link has gone: %v", err)
	}
	if localnet, err := os.ReadFile("/proc/sys/net/ipv4/conf/outside/route_localnet"); err != nil || strings.TrimSpace(string(localnet)) != "0" {
		t.Errorf("route_localnet of the interface to the outside is %s, %v", localnet, err)
	}
	if err := m.Set("b", []string{"10.9.0.2"}, []corev1.ContainerPort{{ContainerPort: 80, HostPort: 9090}}); err != nil {
		t.Fatal(err)
	}
	if err := m.Set("b", []string{"10.9.0.2"}, []corev1.ContainerPort{{ContainerPort: 80, HostPort: 9091}}); err != nil {
		t.Fatal(err)
	}
	if err := reach("192.0.2.1:9091"); err != nil {
		t.Errorf("changed port: %v", err)
	}
	if err := reach("192.0.2.1:9090"); err == nil {
		t.Error("the old port still works")
	}
	udpFollows(t, m)
	loopbackOfIPv6(t, m)
	if err := m.Retain(map[types.UID]bool{"b": true}); err != nil {
		t.Fatal(err)
	}
	if err := reach("192.0.2.1:8080"); err == nil {
		t.Error("the port of a pod that was not retained still works")
	}
	if err := m.Remove("b"); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("iptables", "-t", "nat", "-A", "OUTPUT", "-p", "tcp", "-j", m.chains.DNAT).CombinedOutput(); err != nil { // a user's
		t.Fatalf("%v: %s", err, out)
	}
	if r := rules(); strings.Contains(r, "pod b") {
		t.Errorf("rules after removal:\n%s", r)
	}
	for range 2 {
		if err := m.Purge(); err != nil {
			t.Fatal(err)
		}
	}
	out, err := exec.Command("iptables-save", "-t", "nat").CombinedOutput()
	if err != nil || strings.Contains(string(out), "MINIK8S") {
		t.Errorf("after purge: %v\n%s", err, out)
	}
}

// listing is a table with one rule of each of some pods, which counts how often programs run, and may fail.
type listing struct {
	pods         []string
	looks, wrote int
	fails        error
}

func (l *listing) Rules(_ context.Context, _, chain string) (rules []string, there bool, err error) {
	l.looks++
	for _, p := range l.pods {
		rules = append(rules, "-A "+chain+` -m comment --comment "pod `+p+`" -j DNAT`)
	}
	return rules, true, l.fails
}

func (l *listing) Has(context.Context, string, string, string) (bool, error) { return false, l.fails }

func (l *listing) Restore(_ context.Context, text string) error {
	l.wrote++
	l.pods = slices.DeleteFunc(l.pods, func(p string) bool { return strings.Contains(text, "-D ") && strings.Contains(text, `"pod `+p+`"`) })
	return nil
}

// foreign is a table of which iptables shows only chains of ours, for somebody has made rules by another program. It has all jumps, and counts
// those that are made.
type foreign struct {
	listing
	made int
}

func (f *foreign) Rules(ctx context.Context, table, chain string) ([]string, bool, error) {
	if !strings.HasPrefix(chain, "MINIK8S-") {
		return nil, false, nil
	}
	return f.listing.Rules(ctx, table, chain)
}

func (f *foreign) Has(context.Context, string, string, string) (bool, error) { return true, nil }

func (f *foreign) Restore(ctx context.Context, text string) error {
	f.made += strings.Count(text, "-I ")
	return f.listing.Restore(ctx, text)
}

// Jumps that are there and not shown are not made again with each pod.
func TestSet_Foreign(t *testing.T) {
	tables := &foreign{}
	m := &Manager{
		chains: ChainsOf("test"), families: []family{{unix.AF_INET, tables}}, published: map[types.UID]publication{}, stale: map[flowsTo]bool{},
		localnet: func(netip.Addr) error { return nil }, generation: func() (uint32, bool) { return 0, false },
	}
	for _, uid := range []types.UID{"a", "b"} {
		if err := m.Set(uid, []string{"10.0.0.2"}, []corev1.ContainerPort{{ContainerPort: 80, HostPort: 8080}}); err != nil {
			t.Fatal(err)
		}
	}
	if tables.made != 0 || tables.wrote != 2 {
		t.Errorf("%d jumps made in %d writes", tables.made, tables.wrote)
	}
}

// As long as nobody can say whether there are tables of IPv6, ports of IPv4 are published all the same; then those of IPv6 are, too.
func TestSet_Undecided(t *testing.T) {
	four, six := &listing{}, &listing{fails: errors.New("somebody holds the lock")}
	m := &Manager{
		chains: ChainsOf("test"), families: []family{{unix.AF_INET, four}}, six: six, published: map[types.UID]publication{}, stale: map[flowsTo]bool{},
		localnet: func(netip.Addr) error { return nil }, generation: func() (uint32, bool) { return 1, true },
	}
	ports := []corev1.ContainerPort{{ContainerPort: 80, HostPort: 8080}}
	if err := m.Set("four", []string{"10.0.0.2"}, ports); err != nil || four.wrote != 1 {
		t.Errorf("of IPv4: %d writes, %v", four.wrote, err)
	}
	both := []string{"10.0.0.3", "fd00::3"}
	if err := m.Set("both", both, ports); !errors.Is(err, six.fails) {
		t.Errorf("of both: %v", err)
	}
	six.pods = []string{"gone"} // of an earlier process
	if err := m.Retain(map[types.UID]bool{"four": true, "both": true}); err != nil {
		t.Error(err)
	}
	six.fails = nil
	if err := m.Set("both", both, ports); err != nil || four.wrote != 2 || six.wrote != 1 {
		t.Errorf("of both, at last: %d and %d writes, %v", four.wrote, six.wrote, err)
	}
	if err := m.Retain(map[types.UID]bool{"four": true, "both": true}); err != nil || len(six.pods) != 0 {
		t.Errorf("left of pods that have gone: %v, %v", six.pods, err)
	}
}

// What nobody has changed is not looked at again, but for a pod that has gone since, and after a failure.
func TestRetain(t *testing.T) {
	tables, generation, numbered := &listing{pods: []string{"a", "b"}}, uint32(1), true
	m := &Manager{
		chains: ChainsOf("test"), families: []family{{unix.AF_INET, tables}}, published: map[types.UID]publication{}, stale: map[flowsTo]bool{},
		generation: func() (uint32, bool) { return generation, numbered },
	}
	keep := map[types.UID]bool{"a": true, "b": true}
	for _, step := range []struct {
		name  string
		do    func()
		looks int // at two chains each
		err   bool
		left  string
	}{
		{name: "the first time", looks: 2, left: "a b"},
		{name: "as it was", left: "a b"},
		{name: "somebody has changed something", do: func() { generation++ }, looks: 2, left: "a b"},
		{name: "a look fails", do: func() { generation++; tables.fails = errors.New("locked") }, looks: 1, err: true, left: "a b"},
		{name: "it is repeated", do: func() { tables.fails = nil }, looks: 2, left: "a b"},
		{name: "a pod has gone", do: func() { delete(keep, "b") }, looks: 2, left: "a"},
		{name: "that was a change", do: func() { generation++ }, looks: 2, left: "a"},
		{name: "at rest", left: "a"},
		{name: "nobody numbers rules", do: func() { numbered = false }, looks: 2, left: "a"},
	} {
		if step.do != nil {
			step.do()
		}
		tables.looks = 0
		if err := m.Retain(keep); (err != nil) != step.err {
			t.Errorf("%s: %v", step.name, err)
		}
		if got := strings.Join(tables.pods, " "); tables.looks != step.looks || got != step.left {
			t.Errorf("%s: %d looks, want %d; left %q, want %q", step.name, tables.looks, step.looks, got, step.left)
		}
	}
	tables.looks, tables.wrote = 0, 0
	for uid, programs := range map[types.UID]int{"never": 0, "a": 3} {
		if err := m.Remove(uid); err != nil {
			t.Error(err)
		}
		if got := tables.looks + tables.wrote; got != programs {
			t.Errorf("to remove pod %s, %d programs ran, want %d", uid, got, programs)
		}
		tables.looks, tables.wrote = 0, 0
	}
}
