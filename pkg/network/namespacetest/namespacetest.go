// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package namespacetest makes network namespaces for tests, and links between them. Touch it when tests need them otherwise.
package namespacetest

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"minik8s.io/minik8s/pkg/machinetest"
	"minik8s.io/minik8s/pkg/network/namespace"
)

// New returns a network namespace that ends with the test, in which only the loopback is up.
func New(tb testing.TB) *Namespace {
	tb.Helper()
	machinetest.Root(tb, "for a network namespace")
	file, err := unshare()
	if err != nil {
		tb.Fatalf("making a network namespace: %v", err)
	}
	n := &Namespace{file: file}
	tb.Cleanup(func() { _ = n.file.Close() })
	if err := n.Do(func() error { return setUp("lo") }); err != nil {
		tb.Fatal(err)
	}
	return n
}

// unshare makes a namespace on a thread that ends then. The process's first thread cannot end, so it is held meanwhile if the goroutine
// happens to be on it.
func unshare() (*os.File, error) {
	var file *os.File
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		if unix.Gettid() == unix.Getpid() {
			defer runtime.UnlockOSThread()
			file, err = unshare()
			return
		}
		if err = unix.Unshare(unix.CLONE_NEWNET); err == nil {
			file, err = os.Open("/proc/thread-self/ns/net")
		}
	}()
	<-done
	return file, err
}

// Namespace is a network namespace.
type Namespace struct{ file *os.File }

// Path is where this process finds it.
func (n *Namespace) Path() string { return fmt.Sprintf("/proc/self/fd/%d", n.file.Fd()) }

// Do calls f on a thread in the namespace.
func (n *Namespace) Do(f func() error) error { return namespace.Do(n.Path(), f) }

// Run runs a program in the namespace and returns what it prints; the test ends if it fails.
func (n *Namespace) Run(tb testing.TB, args ...string) string {
	tb.Helper()
	var out []byte
	if err := n.Do(func() (err error) {
		out, err = exec.Command(args[0], args[1:]...).CombinedOutput()
		return err
	}); err != nil {
		tb.Fatalf("%q: %v: %s", args, err, out)
	}
	return string(out)
}

// End is one end of a link: its name, and its address with the length of its network's prefix.
type End struct {
	At            *Namespace
	Name, Address string
}

// Link connects two namespaces.
func Link(tb testing.TB, mtu int, a, b End) {
	tb.Helper()
	err := a.At.Do(func() error {
		attrs := netlink.NewLinkAttrs()
		attrs.Name, attrs.MTU = a.Name, mtu
		return netlink.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: b.Name, PeerMTU: uint32(mtu), PeerNamespace: netlink.NsFd(b.At.file.Fd())})
	})
	if err != nil {
		tb.Fatalf("linking namespaces: %v", err)
	}
	for _, end := range []End{a, b} {
		end.At.AddAddress(tb, end.Name, end.Address)
		if err := end.At.Do(func() error { return setUp(end.Name) }); err != nil {
			tb.Fatal(err)
		}
	}
}

// AddAddress gives a link an address.
func (n *Namespace) AddAddress(tb testing.TB, link, address string) {
	tb.Helper()
	err := n.Do(func() error {
		l, err := netlink.LinkByName(link)
		if err != nil {
			return err
		}
		a, err := netlink.ParseAddr(address)
		if err != nil {
			return err
		}
		if a.IP.To4() == nil {
			a.Flags = unix.IFA_F_NODAD // or nothing could be sent from it for a second
		}
		return netlink.AddrAdd(l, a)
	})
	if err != nil {
		tb.Fatalf("adding address %s to link %s: %v", address, link, err)
	}
}

func setUp(link string) error {
	l, err := netlink.LinkByName(link)
	if err == nil {
		err = netlink.LinkSetUp(l)
	}
	if err != nil {
		return fmt.Errorf("setting up link %s: %w", link, err)
	}
	return nil
}
