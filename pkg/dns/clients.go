// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package dns

import (
	"fmt"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sync/singleflight"
	"golang.org/x/sys/unix"

	"minik8s.io/minik8s/pkg/network/dump"
)

// clients are who may ask at any listener: ranges, and the nodes.
type clients struct {
	ranges []netip.Prefix
	nodes  atomic.Pointer[map[netip.Addr]bool]
}

func newClients(ranges []netip.Prefix) *clients {
	c := &clients{ranges: ranges}
	c.nodes.Store(&map[netip.Addr]bool{})
	return c
}

func (c *clients) allowed(a netip.Addr) bool {
	// Loopback addresses do not come from elsewhere: the kernel drops such packets.
	return a.IsLoopback() || slices.ContainsFunc(c.ranges, func(p netip.Prefix) bool { return p.Contains(a) }) || (*c.nodes.Load())[a]
}

// machine are the addresses of the links in a network namespace, which are read anew when an unknown one asks, but not more
// often than every second.
type machine struct {
	list   func() ([]netip.Addr, error)
	flight singleflight.Group
	known  atomic.Pointer[addresses]
}

type addresses struct {
	set  map[netip.Addr]bool
	read time.Time
}

func (m *machine) has(a netip.Addr, now time.Time) bool {
	known := m.known.Load()
	if known == nil || !known.set[a] && now.Sub(known.read) >= time.Second {
		_, _, _ = m.flight.Do("", func() (any, error) { return nil, m.refresh(now) })
		known = m.known.Load()
	}
	return known != nil && known.set[a]
}

func (m *machine) refresh(now time.Time) error {
	list, err := m.list()
	if before := m.known.Load(); err != nil && before != nil {
		m.known.Store(&addresses{set: before.set, read: now}) // for another second: a list is interrupted where addresses come and go
		return err
	}
	fresh := &addresses{set: make(map[netip.Addr]bool, len(list)), read: now}
	for _, a := range list {
		fresh.set[a] = true
	}
	m.known.Store(fresh)
	return err
}

// linkAddresses are the addresses in the network namespace at path, "" for that of the process.
func linkAddresses(path string) ([]netip.Addr, error) {
	h := &netlink.Handle{}
	if path != "" {
		ns, err := netns.GetFromPath(path)
		if err != nil {
			return nil, fmt.Errorf("opening network namespace %q: %w", path, err)
		}
		defer ns.Close()
		if h, err = netlink.NewHandleAt(ns, unix.NETLINK_ROUTE); err != nil {
			return nil, fmt.Errorf("opening network namespace %q: %w", path, err)
		}
		defer h.Close()
	}
	list, err := dump.Whole(func() ([]netlink.Addr, error) { return h.AddrList(nil, netlink.FAMILY_ALL) })
	if err != nil {
		return nil, fmt.Errorf("listing addresses: %w", err)
	}
	var addrs []netip.Addr
	for _, l := range list {
		if a, ok := netip.AddrFromSlice(l.IP); ok {
			addrs = append(addrs, a.Unmap())
		}
	}
	return addrs, nil
}
