// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/docker/docker/client"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"minik8s.io/minik8s/pkg/network/dump"
)

// settle fills in what is left open: from what is free on this machine. The result is complete, and settling it again
// changes nothing.
func settle(c Config, others []Config) (Config, error) {
	c.APIVersion, c.Kind = APIVersion, Kind
	if c.DataDir == "" {
		c.DataDir = filepath.Join(BaseDir(), c.Name)
	}
	dir, err := filepath.Abs(c.DataDir)
	if err != nil {
		return c, err
	}
	c.DataDir = dir
	if c.Networking.DNSDomain == "" {
		c.Networking.DNSDomain = "cluster.local"
	}
	if err := c.Validate(); err != nil {
		return c, err
	}
	if err := settlePorts(&c, others); err != nil {
		return c, err
	}
	if err := settleNetworks(&c, others); err != nil {
		return c, err
	}
	return c, settleNode(&c)
}

func settlePorts(c *Config, others []Config) error {
	taken := map[int]bool{c.APIPort: true, c.Kubelet.Port: true}
	for _, o := range others {
		taken[o.APIPort], taken[o.Kubelet.Port] = true, true
	}
	for _, p := range []struct {
		port  *int
		first int
	}{{&c.APIPort, 6443}, {&c.Kubelet.Port, 10250}} {
		if *p.port != 0 {
			continue
		}
		port, err := freePort(p.first, taken)
		if err != nil {
			return err
		}
		*p.port, taken[port] = port, true
	}
	return nil
}

// freePort returns the first port from first on that nobody listens on.
func freePort(first int, taken map[int]bool) (int, error) {
	for port := first; port < first+1000; port++ {
		if taken[port] {
			continue
		}
		l, err := net.Listen("tcp", ":"+strconv.Itoa(port))
		if err != nil {
			continue
		}
		_ = l.Close()
		return port, nil
	}
	return 0, fmt.Errorf("no free port between %d and %d", first, first+999)
}

func settleNetworks(c *Config, others []Config) error {
	families := c.Networking.families()
	var taken []netip.Prefix
	for _, o := range slices.Concat(others, []Config{{LoadBalancer: c.LoadBalancer}}) {
		taken = append(taken, ranges(o)...)
	}
	if c.Networking.PodSubnet == "" || c.Networking.ServiceSubnet == "" || c.Networking.NodeSubnet == "" {
		reached, err := destinations(families)
		if err != nil {
			return err
		}
		taken = append(taken, reached...)
	}
	for _, s := range []struct {
		subnet      *string
		first, step int
		bits        map[family]int
	}{
		{&c.Networking.PodSubnet, 244, -1, map[family]int{four: 16, six: 56}},
		{&c.Networking.ServiceSubnet, 96, 1, map[family]int{four: 16, six: 112}},
		{&c.Networking.NodeSubnet, 196, -1, map[family]int{four: 24, six: 64}},
	} {
		if *s.subnet != "" {
			continue
		}
		var chosen []netip.Prefix
		for _, f := range families {
			p, err := freeSubnet(f, s.first, s.step, taken)
			if err != nil {
				return err
			}
			chosen, taken = append(chosen, netip.PrefixFrom(p.Addr(), s.bits[f])), append(taken, p)
		}
		*s.subnet = pairText(chosen)
	}
	return nil
}

// freeSubnet returns the first default range that overlaps nothing, its number going from first by step, 64 times.
func freeSubnet(f family, first, step int, taken []netip.Prefix) (netip.Prefix, error) {
next:
	for i := range 64 {
		p := f.subnet(first + i*step)
		for _, t := range taken {
			if p.Overlaps(t) {
				continue next
			}
		}
		return p, nil
	}
	if f == six {
		return netip.Prefix{}, errors.New("no free /48 in fd00:10::/32: set networking.podSubnet and networking.serviceSubnet")
	}
	return netip.Prefix{}, errors.New("no free /16 in 10.0.0.0/8: set networking.podSubnet and networking.serviceSubnet")
}

// destinations are what this machine already has routes to, the default routes apart.
func destinations(families []family) ([]netip.Prefix, error) {
	var all []netip.Prefix
	for _, f := range families {
		list, err := dump.Whole(func() ([]netlink.Route, error) { return netlink.RouteList(nil, int(f)) })
		if err != nil {
			return nil, fmt.Errorf("listing routes: %w", err)
		}
		for _, r := range list {
			if r.Dst == nil {
				continue
			}
			if p, err := netip.ParsePrefix(r.Dst.String()); err == nil && p.Bits() > 0 {
				all = append(all, p)
			}
		}
	}
	return all, nil
}

func settleNode(c *Config) error {
	if c.Kubelet.NodeName == "" {
		host, err := os.Hostname()
		if err != nil {
			return fmt.Errorf("finding the host name: %w", err)
		}
		c.Kubelet.NodeName = strings.ToLower(host)
	}
	if c.NodeCount() > 0 && c.Kubelet.DockerHost == "" {
		// The engine is kept with the rest: a later shell may mean another, and would clear there what is here.
		c.Kubelet.DockerHost = client.DefaultDockerHost
		if host := os.Getenv(client.EnvOverrideHost); host != "" {
			c.Kubelet.DockerHost = host
		}
		c.Kubelet.DockerCertPath = os.Getenv(client.EnvOverrideCertPath)
		c.Kubelet.DockerTLSVerify = os.Getenv(client.EnvTLSVerify) != ""
	}
	return nil
}

// nodeIPs are the addresses that the node is known by, one of each family of the cluster: as configured, else those that packets to
// elsewhere come from, else any that are not loopback. They are found at every start, since they may change between two.
func nodeIPs(c Config) ([]netip.Addr, error) {
	if c.Kubelet.NodeIP != "" {
		return parseAddresses(c.Kubelet.NodeIP)
	}
	var all []netip.Addr
	for _, f := range c.Networking.families() {
		a, err := machineIP(f, ranges(c))
		if err != nil {
			return nil, err
		}
		all = append(all, a)
	}
	return all, nil
}

// machineIP is an address of this machine, which is not one that the cluster has put there, of one of its own ranges.
func machineIP(f family, own []netip.Prefix) (netip.Addr, error) {
	list, err := dump.Whole(func() ([]netlink.Route, error) { return netlink.RouteList(nil, int(f)) })
	if err != nil {
		return netip.Addr{}, fmt.Errorf("listing routes: %w", err)
	}
	for _, r := range list {
		if r.Dst != nil && r.Dst.IP != nil && !r.Dst.IP.IsUnspecified() {
			continue
		}
		if a, ok := netip.AddrFromSlice(r.Src); ok {
			return a.Unmap(), nil
		}
		link, err := netlink.LinkByIndex(r.LinkIndex)
		if err != nil {
			continue
		}
		if a, ok := firstAddress(f, link, own); ok {
			return a, nil
		}
	}
	links, err := dump.Whole(netlink.LinkList)
	if err != nil {
		return netip.Addr{}, fmt.Errorf("listing network interfaces: %w", err)
	}
	for _, l := range links {
		if a, ok := firstAddress(f, l, own); ok {
			return a, nil
		}
	}
	return netip.Addr{}, &Problem{
		Cause: fmt.Sprintf("this machine has no %s address besides loopback", f), Remedy: "connect it to a network, or set kubelet.nodeIP in a --config file",
	}
}

// firstAddress is one of a link that stays: those of IPv6 that change for the sake of privacy, or are not to be used any more or yet, do
// not count.
func firstAddress(f family, link netlink.Link, own []netip.Prefix) (netip.Addr, bool) {
	const passing = unix.IFA_F_TEMPORARY | unix.IFA_F_DEPRECATED | unix.IFA_F_TENTATIVE | unix.IFA_F_DADFAILED
	addrs, err := dump.Whole(func() ([]netlink.Addr, error) { return netlink.AddrList(link, int(f)) })
	if err != nil {
		return netip.Addr{}, false
	}
	for _, a := range addrs {
		ip, ok := netip.AddrFromSlice(a.IP)
		ip = ip.Unmap()
		if !ok || ip.IsLoopback() || !ip.IsGlobalUnicast() || f == six && a.Flags&passing != 0 {
			continue
		}
		if !slices.ContainsFunc(own, func(p netip.Prefix) bool { return p.Contains(ip) }) {
			return ip, true
		}
	}
	return netip.Addr{}, false
}
