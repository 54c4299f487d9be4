// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package ptp

import (
	"bufio"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"minik8s.io/minik8s/pkg/machinetest"
	"minik8s.io/minik8s/pkg/network"
	"minik8s.io/minik8s/pkg/network/bandwidth"
	"minik8s.io/minik8s/pkg/network/namespace"
	"minik8s.io/minik8s/pkg/network/namespacetest"
)

func TestChains(t *testing.T) {
	pods := []netip.Prefix{netip.MustParsePrefix("10.1.2.0/24"), netip.MustParsePrefix("fd00:1:2::/64")}
	cluster := []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16"), netip.MustParsePrefix("fd00:1::/48")}
	var got []string
	for _, six := range []bool{false, true} {
		for _, c := range chains("c", pods, cluster, six) {
			name := strings.TrimSuffix(c.Name, hash("c", 8))
			for _, r := range c.Rules {
				got = append(got, c.Table+" "+name+" "+strings.Join(r, " "))
			}
			for _, r := range c.Jumps {
				got = append(got, c.Table+" "+c.From+" "+strings.ReplaceAll(strings.Join(r, " "), c.Name, name))
			}
			if len(c.Name) > 28 {
				t.Errorf("%s is longer than iptables allows", c.Name)
			}
		}
	}
	want := []string{
		"filter MINIK8S-FWD- -s 10.1.0.0/16 -j ACCEPT", "filter MINIK8S-FWD- -d 10.1.0.0/16 -j ACCEPT",
		"filter MINIK8S-FWD- -s 10.1.2.0/24 -j ACCEPT", "filter MINIK8S-FWD- -d 10.1.2.0/24 -j ACCEPT",
		"filter FORWARD -m comment --comment minik8s:c -j MINIK8S-FWD-",
		"nat MINIK8S-MASQ- -d 10.1.0.0/16 -j RETURN", "nat MINIK8S-MASQ- -d 10.1.2.0/24 -j RETURN",
		"nat MINIK8S-MASQ- -d 224.0.0.0/4 -j RETURN", "nat MINIK8S-MASQ- -j MASQUERADE",
		"nat POSTROUTING -s 10.1.2.0/24 -m comment --comment minik8s:c -j MINIK8S-MASQ-",
		"filter MINIK8S-FWD- -s fd00:1::/48 -j ACCEPT", "filter MINIK8S-FWD- -d fd00:1::/48 -j ACCEPT",
		"filter MINIK8S-FWD- -s fd00:1:2::/64 -j ACCEPT", "filter MINIK8S-FWD- -d fd00:1:2::/64 -j ACCEPT",
		"filter FORWARD -m comment --comment minik8s:c -j MINIK8S-FWD-",
		"nat MINIK8S-MASQ- -d fd00:1::/48 -j RETURN", "nat MINIK8S-MASQ- -d fd00:1:2::/64 -j RETURN",
		"nat MINIK8S-MASQ- -d ff00::/8 -j RETURN", "nat MINIK8S-MASQ- -j MASQUERADE",
		"nat POSTROUTING -s fd00:1:2::/64 -m comment --comment minik8s:c -j MINIK8S-MASQ-",
		"raw MINIK8S-SRC- -m rpfilter --invert -j DROP",
		"raw PREROUTING -i " + linksOf("c") + "+ -m comment --comment minik8s:c -j MINIK8S-SRC-",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := chains("c", pods[:1], cluster[:1], true); got != nil {
		t.Errorf("IPv6 rules without IPv6 ranges: %v", got)
	}
}

func TestConfigErrors(t *testing.T) {
	four, six := netip.MustParsePrefix("10.1.0.0/24"), netip.MustParsePrefix("fd00::/64")
	for _, test := range []struct {
		name   string
		config Config
	}{
		{"no name", Config{StateDir: "s", PodCIDRs: []netip.Prefix{four}}},
		{"no directory", Config{Name: "c", PodCIDRs: []netip.Prefix{four}}},
		{"no range", Config{Name: "c", StateDir: "s"}},
		{"two of a family", Config{Name: "c", StateDir: "s", PodCIDRs: []netip.Prefix{four, four}}},
		{"three", Config{Name: "c", StateDir: "s", PodCIDRs: []netip.Prefix{four, six, four}}},
		{"zero range", Config{Name: "c", StateDir: "s", PodCIDRs: []netip.Prefix{{}}}},
	} {
		if _, err := New(test.config); err == nil {
			t.Errorf("%s: no error", test.name)
		}
	}
}

func TestLinkNames(t *testing.T) {
	a, b := &Plugin{config: Config{Name: "a"}}, &Plugin{config: Config{Name: "b"}}
	if got := a.linkName("x"); len(got) > 15 || !strings.HasPrefix(got, a.linkPrefix()) || strings.HasPrefix(got, b.linkPrefix()) {
		t.Errorf("got %q", got)
	}
}

// TestSetUp_NodesOwn: the namespace of a pod is found by a process id, which may be another process's by then.
func TestSetUp_NodesOwn(t *testing.T) {
	p, err := New(Config{Name: "own", StateDir: t.TempDir(), PodCIDRs: []netip.Prefix{netip.MustParsePrefix("10.1.2.0/24")}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.SetUp(t.Context(), network.Pod{SandboxID: "s"}, "/proc/thread-self/ns/net"); err == nil || !strings.Contains(err.Error(), "is the node's own") {
		t.Errorf("error %v", err)
	}
	if got := p.Addresses("s"); got != nil {
		t.Errorf("a sandbox that is not connected has addresses: %v", got)
	}
}

// TestPlumbing runs its body in a child with a network namespace of its own, which stands for the node.
func TestPlumbing(t *testing.T) {
	machinetest.Root(t, "for a network namespace")
	machinetest.Mounts(t)
	machinetest.Programs(t, "iptables")
	if os.Getenv("PTP_TEST_ROLE") != "node" {
		cmd := exec.Command("/proc/self/exe", "-test.run=^TestPlumbing$", "-test.v")
		cmd.Env = append(os.Environ(), "PTP_TEST_ROLE=node")
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	plumbing(t)
}

// inside runs f in a network namespace.
func inside[T any](t *testing.T, ns string, f func() (T, error)) (T, error) {
	t.Helper()
	var v T
	err := namespace.Do(ns, func() (err error) {
		v, err = f()
		return err
	})
	return v, err
}

// listen serves the caller's address, until the test ends.
func listen(t *testing.T, ns, address string) {
	t.Helper()
	l, err := inside(t, ns, func() (net.Listener, error) { return net.Listen("tcp", address) })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			host, _, _ := net.SplitHostPort(c.RemoteAddr().String())
			_, _ = fmt.Fprintln(c, host) // the client reads it, or fails
			_ = c.Close()
		}
	}()
}

// ask returns the source address that a server saw.
func ask(t *testing.T, ns, address string) (string, error) {
	t.Helper()
	c, err := inside(t, ns, func() (net.Conn, error) { return net.DialTimeout("tcp", address, 5*time.Second) })
	if err != nil {
		return "", err
	}
	defer c.Close()
	line, err := bufio.NewReader(c).ReadString('\n')
	return strings.TrimSpace(line), err
}

func iptablesSave(t *testing.T) string {
	t.Helper()
	var all string
	for _, command := range []string{"iptables-save", "ip6tables-save"} {
		out, err := exec.Command(command).Output()
		if err != nil {
			t.Fatal(err)
		}
		all += string(out)
	}
	return all
}

// addressOrigin tells where the hardware address of a link of this namespace is from.
func addressOrigin(t *testing.T, link string) string {
	t.Helper()
	sys := t.TempDir()
	if err := syscall.Mount("sysfs", sys, "sysfs", syscall.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := syscall.Unmount(sys, 0); err != nil {
			t.Error(err)
		}
	}()
	origin, err := os.ReadFile(filepath.Join(sys, "class/net", link, "addr_assign_type"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(origin))
}

func plumbing(t *testing.T) {
	t.Helper()
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		t.Fatal(err)
	}
	if err := netlink.LinkSetUp(lo); err != nil {
		t.Fatal(err)
	}
	if err := addAddr(nil, lo, netip.MustParseAddr("fd00:9::1"), 128); err != nil {
		t.Fatal(err)
	}
	// The node forwards nothing by itself, as Docker arranges it.
	if err := setSysctl("net/ipv4/ip_forward", "0"); err != nil {
		t.Fatal(err)
	}
	for _, command := range []string{"iptables", "ip6tables"} {
		if out, err := exec.Command(command, "-P", "FORWARD", "DROP").CombinedOutput(); err != nil {
			t.Fatalf("%v %s", err, out)
		}
	}
	// The outside is another namespace, on a link of the node's.
	outside := namespacetest.New(t).Path()
	outsideAddr, nodeAddr := netip.MustParseAddr("192.0.2.2"), netip.MustParseAddr("192.0.2.1")
	connectOutside(t, outside, nodeAddr, outsideAddr)

	dir := t.TempDir()
	config := Config{
		Name: "test", StateDir: filepath.Join(dir, "state"), RunDir: dir,
		PodCIDRs:     []netip.Prefix{netip.MustParsePrefix("10.244.1.0/24"), netip.MustParsePrefix("fd10:244:1::/64")},
		ClusterCIDRs: []netip.Prefix{netip.MustParsePrefix("10.244.0.0/16"), netip.MustParsePrefix("fd10:244::/48")},
	}
	p, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	if err := p.Start(ctx); err != nil {
		t.Fatal(err)
	}
	rules := iptablesSave(t)
	for range 2 {
		if err := p.ensure(); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(rulesOnly(rules), rulesOnly(iptablesSave(t))); diff != "" {
		t.Errorf("rules change when they are ensured again:\n%s", diff)
	}

	a, b := namespacetest.New(t).Path(), namespacetest.New(t).Path()
	addrsA, err := p.SetUp(ctx, network.Pod{SandboxID: "a"}, a)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff("[10.244.1.2 fd10:244:1::2]", fmt.Sprint(addrsA)); diff != "" {
		t.Error(diff)
	}
	addrsB, err := p.SetUp(ctx, network.Pod{SandboxID: "b"}, b)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // a restarted kubelet repeats itself
		if again, err := p.SetUp(ctx, network.Pod{SandboxID: "b"}, b); err != nil || fmt.Sprint(again) != fmt.Sprint(addrsB) {
			t.Errorf("again: %v, %v", again, err)
		}
	}
	if got := addressOrigin(t, p.linkName("b")); got != "3" { // NET_ADDR_SET: udev leaves it alone
		t.Errorf("addr_assign_type of the node's end is %q", got)
	}
	for i := range 2 {
		listen(t, b, netip.AddrPortFrom(addrsB[i], 80).String())
	}
	listen(t, b, "127.0.0.1:81")
	listen(t, outside, "192.0.2.2:80")
	listen(t, "/proc/self/ns/net", "192.0.2.1:80")

	node := "/proc/self/ns/net"
	for _, test := range []struct {
		name, from, to, want string
	}{
		{"pod to pod", a, netip.AddrPortFrom(addrsB[0], 80).String(), "10.244.1.2"},
		{"pod to pod by IPv6", a, netip.AddrPortFrom(addrsB[1], 80).String(), "fd10:244:1::2"},
		{"pod to itself", b, netip.AddrPortFrom(addrsB[0], 80).String(), "10.244.1.3"},
		{"pod's loopback", b, "127.0.0.1:81", "127.0.0.1"},
		{"node to pod", node, netip.AddrPortFrom(addrsB[0], 80).String(), "192.0.2.1"},
		{"pod to node", a, "192.0.2.1:80", "10.244.1.2"},
		{"pod to the outside", a, "192.0.2.2:80", "192.0.2.1"},
		{"outside to pod", outside, netip.AddrPortFrom(addrsB[0], 80).String(), "192.0.2.2"},
	} {
		if got, err := ask(t, test.from, test.to); err != nil || got != test.want {
			t.Errorf("%s: the source was %q, %v; want %q", test.name, got, err, test.want)
		}
	}
	if _, err := ask(t, a, "10.244.1.99:80"); err == nil || !strings.Contains(err.Error(), "no route to host") {
		t.Errorf("to an address that no pod has: %v", err)
	}
	spoofing(t, a, node, "192.0.2.1", "10.244.1.2", "10.244.9.9")
	spoofing(t, a, node, "fd00:9::1", "fd10:244:1::2", "fd10:244:9::9")
	mtu, err := inside(t, a, func() (int, error) {
		i, err := net.InterfaceByName("eth0")
		if err != nil {
			return 0, err
		}
		return i.MTU, nil
	})
	if err != nil || mtu != 1400 {
		t.Errorf("MTU %d, %v", mtu, err)
	}

	// Somebody, such as a Docker daemon that starts, throws the rules away.
	for _, args := range []string{"-F FORWARD", "-t nat -F POSTROUTING", "-t nat -F MINIK8S-MASQ-" + hash("test", 8)} {
		if out, err := exec.Command("iptables", strings.Fields(args)...).CombinedOutput(); err != nil {
			t.Fatalf("%v %s", err, out)
		}
	}
	if err := p.ensure(); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(rulesOnly(rules), rulesOnly(iptablesSave(t))); diff != "" {
		t.Errorf("rules are not restored:\n%s", diff)
	}

	// A new process knows what the old one did. Another cluster's links are spared.
	other, err := New(Config{Name: "other", StateDir: filepath.Join(dir, "other"), RunDir: dir, PodCIDRs: []netip.Prefix{netip.MustParsePrefix("10.99.0.0/24")}})
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Start(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := other.SetUp(ctx, network.Pod{SandboxID: "c"}, namespacetest.New(t).Path()); err != nil {
		t.Fatal(err)
	}
	if p, err = New(config); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(fmt.Sprint(addrsB), fmt.Sprint(p.Addresses("b"))); diff != "" {
		t.Error(diff)
	}
	if err := p.Retain(ctx, map[string]bool{"b": true}); err != nil {
		t.Fatal(err)
	}
	if p.Addresses("a") != nil || linkExists(t, p.linkName("a")) || !linkExists(t, p.linkName("b")) {
		t.Error("Retain removed the wrong things")
	}
	replaced, err := p.SetUp(ctx, network.Pod{SandboxID: "a2"}, a)
	if err != nil || replaced[0] != netip.MustParseAddr("10.244.1.4") {
		t.Errorf("after Retain: %v, %v", replaced, err)
	}
	for range 2 {
		if err := p.TearDown(ctx, "b"); err != nil {
			t.Fatal(err)
		}
	}
	limited(t, p)
	for range 2 {
		if err := p.Purge(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if linkExists(t, p.linkName("a2")) || linkExists(t, shaper(p.linkName("limited again"))) {
		t.Error("a link is left after a purge")
	}
	if left := iptablesSave(t); strings.Contains(left, hash("test", 8)) {
		t.Errorf("rules are left after a purge:\n%s", left)
	}
	if _, err := os.Stat(config.StateDir); !os.IsNotExist(err) {
		t.Errorf("the state directory is left after a purge: %v", err)
	}
	routes, err := netlink.RouteListFiltered(netlink.FAMILY_ALL, &netlink.Route{Protocol: routeProtocol}, netlink.RT_FILTER_PROTOCOL)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range routes {
		if !strings.HasPrefix(r.Dst.String(), "10.99.") {
			t.Errorf("a route is left after a purge: %v", r)
		}
	}
	if !linkExists(t, other.linkName("c")) {
		t.Error("a purge took another cluster's link")
	}
	if err := p.ensure(); err != nil || strings.Contains(iptablesSave(t), hash("test", 8)) {
		t.Errorf("rules came back after a purge: %v", err)
	}
	if got, err := readSysctl("net/ipv4/ip_forward"); err != nil || got != "1" {
		t.Errorf("while another cluster has pods: ip_forward is %q, %v", got, err)
	}
	if got, err := readSysctl("net/ipv6/conf/all/forwarding"); err != nil || got != "0" {
		t.Errorf("while another cluster has pods, of IPv4 only: forwarding of IPv6 is %q, %v", got, err)
	}
	if err := other.Purge(ctx); err != nil {
		t.Error(err)
	}
	expectForwarding(t, "after the last cluster", "0")
	if _, err := os.Stat(p.leftFile()); !os.IsNotExist(err) {
		t.Errorf("the record of those that have gone is left: %v", err)
	}
	restoring(t, config)
	toldRoutes(t, config)
	rememberedConnections(t, config)
	stubborn(t, config)
	alone(t, config)
}

// limited checks that what limits a pod goes with it, and with the plugin.
func limited(t *testing.T, p *Plugin) {
	t.Helper()
	pod := network.Pod{SandboxID: "limited", Bandwidth: bandwidth.Limits{Ingress: 1_000_000, Egress: 1_000_000}}
	ns, device := namespacetest.New(t).Path(), shaper(p.linkName("limited"))
	for range 2 { // a restarted kubelet repeats itself
		if _, err := p.SetUp(t.Context(), pod, ns); err != nil {
			t.Fatal(err)
		}
	}
	if !linkExists(t, device) {
		t.Error("the pod's limits are nowhere")
	}
	if err := p.TearDown(t.Context(), "limited"); err != nil {
		t.Fatal(err)
	}
	if linkExists(t, device) {
		t.Error("a device is left of a limited pod")
	}
	if _, err := p.SetUp(t.Context(), network.Pod{SandboxID: "limited again", Bandwidth: pod.Bandwidth}, namespacetest.New(t).Path()); err != nil {
		t.Fatal(err)
	}
}

// spoofing checks that a pod with all rights within its namespace reaches the node by its own address only.
func spoofing(t *testing.T, pod, node, to, own, foreign string) {
	t.Helper()
	_, err := inside(t, pod, func() (any, error) {
		link, err := netlink.LinkByName(podLink)
		if err != nil {
			return nil, err
		}
		a := netip.MustParseAddr(foreign)
		return nil, addAddr(nil, link, a, a.BitLen())
	})
	if err != nil {
		t.Fatal(err)
	}
	server, err := inside(t, node, func() (net.PacketConn, error) { return net.ListenPacket("udp", net.JoinHostPort(to, "99")) })
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	for _, from := range []string{foreign, own} { // in this order, so that what arrives tells of both
		client, err := inside(t, pod, func() (net.Conn, error) {
			return net.DialUDP("udp", &net.UDPAddr{IP: net.ParseIP(from)}, &net.UDPAddr{IP: net.ParseIP(to), Port: 99})
		})
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		if _, err := client.Write([]byte(from)); err != nil {
			t.Fatal(err)
		}
	}
	if err := server.SetReadDeadline(time.Now().Add(5 * time.Second)); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 64)
	n, _, err := server.ReadFrom(b)
	if err != nil || string(b[:n]) != own {
		t.Errorf("first came %q, %v", b[:n], err)
	}
}

// restoring checks that a purge gives the node back as it was found, whenever the process was killed.
func restoring(t *testing.T, config Config) {
	t.Helper()
	forwarding := []string{"net/ipv4/ip_forward", "net/ipv6/conf/all/forwarding"}
	set := func(value string) {
		t.Helper()
		for _, name := range forwarding {
			if err := setSysctl(name, value); err != nil {
				t.Fatal(err)
			}
		}
	}
	fresh := func() *Plugin {
		t.Helper()
		p, err := New(config)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	for _, test := range []struct{ name, before, meanwhile, after string }{
		{"it was no router", "0", "", "0"},
		{"it was one", "1", "", "1"},
		{"somebody else made it one no more", "0", "0", "0"},
		{"it was one, and somebody switched it off and on", "1", "1", "1"},
	} {
		set(test.before)
		for range 2 { // the second time is another process, which finds the work of the first
			if err := fresh().prepare(); err != nil {
				t.Fatalf("%s: %v", test.name, err)
			}
		}
		expectForwarding(t, test.name, "1")
		if test.meanwhile != "" {
			set(test.meanwhile)
		}
		for range 2 {
			if err := fresh().Purge(t.Context()); err != nil {
				t.Errorf("%s: %v", test.name, err)
			}
		}
		expectForwarding(t, test.name, test.after)
		if _, err := os.Stat(config.StateDir); !os.IsNotExist(err) {
			t.Errorf("%s: the state directory is left after a purge: %v", test.name, err)
		}
	}
	// Killed after the record was written, and before the setting was.
	set("0")
	p := fresh()
	if err := replaceFile(p.recordFile(), []byte(`{"net/ipv4/ip_forward":{"Before":"0","Since":"1"}}`)); err != nil {
		t.Fatal(err)
	}
	if err := p.Purge(t.Context()); err != nil {
		t.Error(err)
	}
	expectForwarding(t, "killed in between", "0")
}

// toldRoutes checks that a machine goes on listening to its routers when it forwards packets itself, for as long as it does.
func toldRoutes(t *testing.T, config Config) {
	t.Helper()
	link, err := netlink.LinkByName("up0")
	if err != nil {
		t.Fatal(err)
	}
	// As the kernel notes what a router has told.
	route := &netlink.Route{LinkIndex: link.Attrs().Index, Dst: ipNet(netip.MustParsePrefix("fd77::/64")), Protocol: unix.RTPROT_RA}
	if err := netlink.RouteAdd(route); err != nil {
		t.Fatal(err)
	}
	const accept = "net/ipv6/conf/up0/accept_ra"
	p, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		name string
		do   func() error
		want string
	}{
		{"before", func() error { return setSysctl(accept, "1") }, "1"},
		{"while it forwards", p.prepare, "2"},
		{"after a purge", func() error { return p.Purge(t.Context()) }, "1"},
	} {
		if err := step.do(); err != nil {
			t.Fatal(err)
		}
		if got, err := readSysctl(accept); err != nil || got != step.want {
			t.Errorf("%s: accept_ra is %q, %v; want %q", step.name, got, err, step.want)
		}
	}
}

func expectForwarding(t *testing.T, when, want string) {
	t.Helper()
	if got, err := readSysctl("net/ipv4/ip_forward"); err != nil || got != want {
		t.Errorf("%s: ip_forward is %q, %v; want %q", when, got, err, want)
	}
	if got, err := readSysctl("net/ipv6/conf/all/forwarding"); err != nil || got != want {
		t.Errorf("%s: forwarding of IPv6 is %q, %v; want %q", when, got, err, want)
	}
}

func linkExists(t *testing.T, name string) bool {
	t.Helper()
	_, err := netlink.LinkByName(name)
	if err != nil && !isNoLink(err) {
		t.Fatal(err)
	}
	return err == nil
}

// rulesOnly drops the counters, comments and the order of tables.
func rulesOnly(save string) []string {
	var rules []string
	for line := range strings.Lines(save) {
		if strings.HasPrefix(line, "-A") {
			rules = append(rules, strings.TrimSpace(line))
		}
	}
	return rules
}

func connectOutside(t *testing.T, ns string, node, outside netip.Addr) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	file, err := os.Open(ns)
	must(err)
	defer file.Close()
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU = "up0", 1400 // for the pods to have too
	must(netlink.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: "eth0", PeerNamespace: netlink.NsFd(file.Fd())}))
	set := func(name string, a netip.Addr) error {
		link, err := netlink.LinkByName(name)
		if err != nil {
			return err
		}
		if err := netlink.AddrAdd(link, &netlink.Addr{IPNet: ipNet(netip.PrefixFrom(a, 24))}); err != nil {
			return err
		}
		return netlink.LinkSetUp(link)
	}
	must(set("up0", node))
	must(netlink.RouteAdd(&netlink.Route{Dst: ipNet(netip.MustParsePrefix("0.0.0.0/0")), Gw: outside.AsSlice()}))
	_, err = inside(t, ns, func() (struct{}, error) {
		if err := set("eth0", outside); err != nil {
			return struct{}{}, err
		}
		return struct{}{}, netlink.RouteAdd(&netlink.Route{Dst: ipNet(netip.MustParsePrefix("10.244.0.0/16")), Gw: node.AsSlice()})
	})
	must(err)
}
