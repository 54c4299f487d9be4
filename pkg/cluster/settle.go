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
	var taken []netip.Prefix
	for _, o := range slices.Concat(others, []Config{{LoadBalancer: c.LoadBalancer}}) {
		taken = append(taken, ranges(o)...)
	}
	if c.Networking.PodSubnet == "" || c.Networking.ServiceSubnet == "" || c.Networking.NodeSubnet == "" {
		reached, err := destinations()
		if err != nil {
			return err
		}
		taken = append(taken, reached...)
	}
	for _, s := range []struct {
		subnet            *string
		first, step, bits int
	}{{&c.Networking.PodSubnet, 244, -1, 16}, {&c.Networking.ServiceSubnet, 96, 1, 16}, {&c.Networking.NodeSubnet, 196, -1, 24}} {
		if *s.subnet != "" {
			continue
		}
		p, err := freeSubnet(s.first, s.step, taken)
		if err != nil {
			return err
		}
		*s.subnet, taken = netip.PrefixFrom(p.Addr(), s.bits).String(), append(taken, p)
	}
	return nil
}

// freeSubnet returns the first 10.X.0.0/16 that overlaps nothing, X going from first by step, 64 times.
func freeSubnet(first, step int, taken []netip.Prefix) (netip.Prefix, error) {
next:
	for i := range 64 {
		p := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(first + i*step), 0, 0}), 16)
		for _, t := range taken {
			if p.Overlaps(t) {
				continue next
			}
		}
		return p, nil
	}
	return netip.Prefix{}, errors.New("no free /16 in 10.0.0.0/8: set networking.podSubnet and networking.serviceSubnet")
}

// destinations are what this machine already has routes to, the default route apart.
func destinations() ([]netip.Prefix, error) {
	list, err := netlink.RouteList(nil, netlink.FAMILY_V4)
	if err != nil {
		return nil, fmt.Errorf("listing routes: %w", err)
	}
	var all []netip.Prefix
	for _, r := range list {
		if r.Dst == nil {
			continue
		}
		if p, err := netip.ParsePrefix(r.Dst.String()); err == nil && p.Bits() > 0 {
			all = append(all, p)
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

// nodeIP is the address that the node is known by: as configured, else the one that packets to elsewhere come from, else
// any that is not loopback. It is found at every start, since it may change between two.
func nodeIP(c Config) (netip.Addr, error) {
	if c.Kubelet.NodeIP != "" {
		return netip.ParseAddr(c.Kubelet.NodeIP)
	}
	list, err := netlink.RouteList(nil, netlink.FAMILY_V4)
	if err != nil {
		return netip.Addr{}, fmt.Errorf("listing routes: %w", err)
	}
	for _, r := range list {
		if r.Dst != nil && r.Dst.IP != nil && !r.Dst.IP.IsUnspecified() {
			continue
		}
		if a, ok := netip.AddrFromSlice(r.Src.To4()); ok {
			return a, nil
		}
		link, err := netlink.LinkByIndex(r.LinkIndex)
		if err != nil {
			continue
		}
		if a, ok := firstAddress(link); ok {
			return a, nil
		}
	}
	links, err := netlink.LinkList()
	if err != nil {
		return netip.Addr{}, fmt.Errorf("listing network interfaces: %w", err)
	}
	for _, l := range links {
		if a, ok := firstAddress(l); ok {
			return a, nil
		}
	}
	return netip.Addr{}, &Problem{Cause: "this machine has no IPv4 address besides loopback", Remedy: "connect it to a network, or set kubelet.nodeIP in a --config file"}
}

func firstAddress(link netlink.Link) (netip.Addr, bool) {
	addrs, err := netlink.AddrList(link, netlink.FAMILY_V4)
	if err != nil {
		return netip.Addr{}, false
	}
	for _, a := range addrs {
		if ip, ok := netip.AddrFromSlice(a.IP.To4()); ok && !ip.IsLoopback() && ip.IsGlobalUnicast() {
			return ip, true
		}
	}
	return netip.Addr{}, false
}
