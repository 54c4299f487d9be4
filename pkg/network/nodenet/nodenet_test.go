// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package nodenet

import (
	"context"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

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
	var got []string
	for _, c := range chains("c", netip.MustParsePrefix("10.196.0.0/24"), netip.MustParsePrefix("10.244.0.0/16")) {
		for _, r := range append(c.Rules, c.Jumps...) {
			got = append(got, c.Table+" "+strings.ReplaceAll(strings.Join(r, " "), hash("c"), "HASH"))
		}
	}
	want := []string{
		"filter -s 10.196.0.0/24 -j ACCEPT", "filter -d 10.196.0.0/24 -j ACCEPT",
		"filter -m comment --comment minik8s:c -j MINIK8S-NODES-HASH",
		"nat -d 10.196.0.0/24 -j RETURN", "nat -d 10.244.0.0/16 -j RETURN", "nat -d 224.0.0.0/4 -j RETURN", "nat -j MASQUERADE",
		"nat -s 10.196.0.0/24 -m comment --comment minik8s:c -j MINIK8S-NMASQ-HASH",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestNetwork runs its body in a child with a network namespace of its own, which stands for the machine.
func TestNetwork(t *testing.T) {
	machinetest.Root(t, "for network namespaces")
	machinetest.Mounts(t)
	machinetest.Programs(t, "iptables")
	if os.Getenv("NODENET_TEST") == "" {
		cmd := exec.Command("/proc/self/exe", "-test.run=^TestNetwork$", "-test.v")
		cmd.Env = append(os.Environ(), "NODENET_TEST=machine")
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	config := Config{
		Cluster: "c", Dir: filepath.Join(t.TempDir(), "netns"), Subnet: netip.MustParsePrefix("10.196.0.0/24"), Pods: netip.MustParsePrefix("10.244.0.0/16"),
	}
	n := New(config)
	t.Cleanup(func() { _ = New(config).Purge() })
	a, b := netip.MustParseAddr("10.196.0.2"), netip.MustParseAddr("10.196.0.3")
	for range 2 { // a process that was killed comes again
		for name, ip := range map[string]netip.Addr{"a": a, "b": b} {
			if err := n.Add(name, ip); err != nil {
				t.Fatal(err)
			}
		}
		n = New(config)
	}
	reach := func(from string, to netip.Addr, want bool) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
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
	reach(n.Path("a"), b, true)
	reach(n.Path("b"), a, true)
	reach(n.Path("a"), Gateway(config.Subnet), true)
	reach("", a, true)

	if err := n.Remove("a"); err != nil {
		t.Fatal(err)
	}
	reach("", a, false)
	reach("", b, true)
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
	if out, err := exec.Command("iptables-save").Output(); err != nil || strings.Contains(string(out), "MINIK8S") {
		t.Errorf("rules are left: %v\n%s", err, out)
	}
	if _, err := os.Stat(config.Dir); !os.IsNotExist(err) {
		t.Errorf("files are left: %v", err)
	}
}
