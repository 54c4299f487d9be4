// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package nodenet

import (
	"context"
	"errors"
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
	"minik8s.io/minik8s/pkg/network/namespace"
)

func TestNames(t *testing.T) {
	t.Parallel()
	n := namesOf(strings.Repeat("c", 32))
	if len(n.link) > 15 || len(port(strings.Repeat("n", 63))) > 15 {
		t.Error("Linux allows 15 characters for a link")
	}
	if len(n.forward) > 28 || len(n.nat) > 28 {
		t.Error("iptables allows 28 characters for a chain")
	}
	if namesOf("a").link == namesOf("b").link {
		t.Error("two clusters share a link")
	}
}

func TestChains(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ nodes, pods, multicast string }{
		{"10.196.0.0/24", "10.244.0.0/16", "224.0.0.0/4"},
		{"fd00:10:196::/64", "fd00:10:244::/56", "ff00::/8"},
	} {
		t.Run(tc.nodes, func(t *testing.T) {
			t.Parallel()
			var got []string
			for _, c := range chains("c", netip.MustParsePrefix(tc.nodes), netip.MustParsePrefix(tc.pods)) {
				for _, r := range append(c.Rules, c.Jumps...) {
					got = append(got, c.Table+" "+strings.ReplaceAll(strings.Join(r, " "), hash("c"), "HASH"))
				}
			}
			want := []string{
				"filter -s NODES -j ACCEPT", "filter -d NODES -j ACCEPT",
				"filter -m comment --comment minik8s:c -j MINIK8S-NODES-HASH",
				"nat -d NODES -j RETURN", "nat -d PODS -j RETURN", "nat -d MULTICAST -j RETURN", "nat -j MASQUERADE",
				"nat -s NODES -m comment --comment minik8s:c -j MINIK8S-NMASQ-HASH",
			}
			for i := range want {
				want[i] = strings.NewReplacer("NODES ", tc.nodes+" ", "PODS", tc.pods, "MULTICAST", tc.multicast).Replace(want[i])
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestNetwork runs its body in a child with a network namespace of its own, which stands for the machine: once for IPv4, once for both
// families.
func TestNetwork(t *testing.T) {
	machinetest.Root(t, "for network namespaces")
	machinetest.Mounts(t)
	machinetest.Programs(t, "iptables", "ip6tables")
	families := os.Getenv("NODENET_TEST")
	if families == "" {
		for _, families := range []string{"ipv4", "dual"} {
			cmd := exec.Command("/proc/self/exe", "-test.run=^TestNetwork$", "-test.v")
			cmd.Env = append(os.Environ(), "NODENET_TEST="+families)
			cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%s: %v\n%s", families, err, out)
			}
		}
		return
	}
	config := Config{
		Cluster: "c", Dir: filepath.Join(t.TempDir(), "netns"),
		Subnets: []netip.Prefix{netip.MustParsePrefix("10.196.0.0/24")}, Pods: []netip.Prefix{netip.MustParsePrefix("10.244.0.0/16")},
	}
	a, b := []netip.Addr{netip.MustParseAddr("10.196.0.2")}, []netip.Addr{netip.MustParseAddr("10.196.0.3")}
	if families == "dual" {
		config.Subnets, config.Pods = append(config.Subnets, netip.MustParsePrefix("fd00:10:196::/64")), append(config.Pods, netip.MustParsePrefix("fd00:10:244::/56"))
		a, b = append(a, netip.MustParseAddr("fd00:10:196::2")), append(b, netip.MustParseAddr("fd00:10:196::3"))
	}
	// Other addresses of the machine are on a link of its own.
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		t.Fatal(err)
	}
	known := make([]*netlink.Addr, len(config.Subnets))
	for i, text := range []string{"192.0.2.1/32", "2001:db8::1/128"}[:len(known)] {
		if known[i], err = netlink.ParseAddr(text); err != nil {
			t.Fatal(err)
		}
		if i > 0 {
			known[i].Flags = unix.IFA_F_NODAD // it is there at once
		}
		if err := errors.Join(netlink.AddrAdd(lo, known[i]), netlink.LinkSetUp(lo)); err != nil {
			t.Fatal(err)
		}
		config.Machine = append(config.Machine, netip.MustParsePrefix(text).Addr())
	}
	var n *Network
	t.Cleanup(func() { _ = New(config).Purge() })
	for range 2 { // a process that was killed comes again
		n = New(config)
		for name, ips := range map[string][]netip.Addr{"a": a, "b": b} {
			if err := n.Add(name, ips); err != nil {
				t.Fatal(err)
			}
		}
	}
	reach := func(from string, to netip.Addr, want bool) {
		t.Helper()
		const long = 3 * time.Second // the first packet over a new link may be lost, and is repeated after a second
		ctx, cancel := context.WithTimeout(t.Context(), long)
		defer cancel()
		conn, err := namespace.Dialer(from)(ctx, "tcp", net.JoinHostPort(to.String(), "8080"))
		if err == nil {
			_ = conn.Close()
		}
		if (err == nil) != want {
			t.Errorf("from %q to %s: %v, want an answer: %t", from, to, err, want)
		}
	}
	for _, at := range []string{n.Path("a"), n.Path("b"), ""} {
		l, err := namespace.Listen(t.Context(), at, ":8080")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
	}
	for i, s := range config.Subnets { // at once: nobody waits for addresses
		reach(n.Path("a"), b[i], true)
		reach(n.Path("b"), a[i], true)
		reach(n.Path("a"), Gateway(s), true)
		reach("", a[i], true)
	}

	seen := func(to netip.Addr, want netip.Addr) {
		t.Helper()
		ways, err := netlink.RouteGet(to.AsSlice())
		if err != nil || len(ways) != 1 || !ways[0].Src.Equal(want.AsSlice()) {
			t.Errorf("to %s the machine goes by %v, %v, want from %s", to, ways, err, want)
		}
	}
	for i, s := range config.Subnets {
		seen(a[i], config.Machine[i])
		if err := netlink.AddrDel(lo, known[i]); err != nil {
			t.Fatal(err)
		}
		if err := n.mend(); err != nil { // there is nothing to mend without the address
			t.Error(err)
		}
		seen(a[i], Gateway(s))
		reach("", a[i], true)
		if err := errors.Join(netlink.AddrAdd(lo, known[i]), n.mend()); err != nil {
			t.Fatal(err)
		}
		seen(a[i], config.Machine[i])
	}

	// Somebody takes the machine's link away.
	if err := errors.Join(delLink(n.names.link), n.mend()); err != nil {
		t.Errorf("the machine's link does not come back: %v", err)
	}
	for i := range config.Subnets {
		seen(a[i], config.Machine[i])
		reach("", a[i], true)
		reach(n.Path("b"), a[i], true)
	}

	for range 2 { // a node that is stopped and started is there at once, for whom it has just spoken to
		if err := errors.Join(n.Remove("a"), n.Add("a", a)); err != nil {
			t.Fatal(err)
		}
		l, err := namespace.Listen(t.Context(), n.Path("a"), ":8080")
		if err != nil {
			t.Fatal(err)
		}
		for i := range a {
			reach("", a[i], true)
			reach(n.Path("b"), a[i], true)
		}
		_ = l.Close()
	}

	if err := n.Remove("a"); err != nil {
		t.Fatal(err)
	}
	for i := range config.Subnets {
		reach("", a[i], false)
		reach("", b[i], true)
	}
	for range 2 {
		if err := n.Purge(); err != nil {
			t.Fatal(err)
		}
	}
	links, err := netlink.LinkList()
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range links {
		if l.Type() == "veth" {
			t.Errorf("link %s is left", l.Attrs().Name)
		}
	}
	for _, program := range []string{"iptables-save", "ip6tables-save"} {
		if out, err := exec.Command(program).Output(); err != nil || strings.Contains(string(out), "MINIK8S") {
			t.Errorf("rules are left: %v\n%s", err, out)
		}
	}
	if _, err := os.Stat(config.Dir); !os.IsNotExist(err) {
		t.Errorf("files are left: %v", err)
	}
}
