// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"

	"minik8s.io/minik8s/pkg/proxy/backend"
	"minik8s.io/minik8s/pkg/proxy/iptables"
	"minik8s.io/minik8s/pkg/proxy/model"
	"minik8s.io/minik8s/pkg/proxy/nftables"
)

// Config is what a Proxy needs. Only Cluster, NodeName and Informers have no default.
type Config struct {
	// Cluster is the cluster's name; the names of all chains carry a hash of it. Clusters that share a host need
	// disjoint service ranges, pod ranges and node ports.
	Cluster string
	// NodeName is the node whose traffic is proxied.
	NodeName string
	// NodeIPs are the node's addresses. loadBalancerSourceRanges that contain one of them admit the node.
	NodeIPs []netip.Addr
	// Informers supplies Services, EndpointSlices and Nodes. New asks for the informers, the caller starts the
	// factory after New.
	Informers informers.SharedInformerFactory
	// ClusterCIDRs are the pod ranges, at most one of each family. Traffic to cluster IPs from elsewhere is
	// masqueraded. The families in here, or else in NodeIPs, are the ones that are proxied; default IPv4.
	ClusterCIDRs []netip.Prefix
	// ServiceCIDRs are the ranges of cluster IPs, at most one of each family: packets to ports that no Service has are
	// refused there. Default: they go where the routes lead.
	ServiceCIDRs []netip.Prefix
	// Mode is how the rules reach the kernel; default IPTables. What another mode has left is removed.
	Mode Mode
	// Scheduler is how the endpoint of a new connection is chosen; default random.
	Scheduler backend.Scheduler
	// NodePortAddresses are the addresses of the node that answer node ports; default all, the loopback addresses by this process.
	NodePortAddresses []netip.Prefix
	// Recorder receives the node's "Starting" event; nil records nothing.
	Recorder events.EventRecorder
	// MasqueradeBit is the bit of the packet mark that asks for source NAT, 0 to 31. Default 14, as upstream;
	// bit 0 cannot be chosen.
	MasqueradeBit int
	// SyncPeriod is the time between two verifications that the rules are still in the kernel. Default 30s.
	SyncPeriod time.Duration
	// HealthzAddr is where /healthz and /livez are served, upstream's being ":10256"; empty serves neither.
	HealthzAddr string
	// MetricsAddr is where /metrics, /proxyMode, /configz, /flagz, /statusz and /healthz of the process are served, upstream's being
	// "127.0.0.1:10249"; empty serves none.
	MetricsAddr string
	// NetNS is the path of the network namespace to look after; empty is the process's own.
	NetNS string
	// Clock defaults to the real one.
	Clock clock.WithTicker
	// Backend returns what writes the rules of a family. Default: that of Mode.
	Backend func(backend.Config) backend.Backend
}

// Mode is the name of a backend.
type Mode string

// The modes, by upstream's names.
const (
	IPTables Mode = "iptables"
	NFTables Mode = "nftables"
)

// modes are all backends.
var modes = map[Mode]func(backend.Config) backend.Backend{
	IPTables: func(c backend.Config) backend.Backend {
		return iptables.New(iptables.Exec{Family: c.Family, NetNS: c.NetNS}, c)
	},
	NFTables: func(c backend.Config) backend.Backend { return nftables.New(c) },
}

func (c *Config) complete() error {
	if c.Cluster == "" {
		return errors.New("proxy: the cluster has no name")
	}
	if c.MasqueradeBit == 0 {
		c.MasqueradeBit = 14
	}
	if c.MasqueradeBit < 0 || c.MasqueradeBit > 31 {
		return fmt.Errorf("proxy: masquerade bit %d is not within 0 and 31", c.MasqueradeBit)
	}
	if c.SyncPeriod == 0 {
		c.SyncPeriod = 30 * time.Second
	}
	if c.Clock == nil {
		c.Clock = clock.RealClock{}
	}
	if c.Mode == "" {
		c.Mode = IPTables
	}
	if _, ok := modes[c.Mode]; !ok {
		return fmt.Errorf("proxy: there is no mode %q", c.Mode)
	}
	if s := c.Scheduler; s != "" && s != backend.Random && s != backend.RoundRobin {
		return fmt.Errorf("proxy: there is no scheduler %q", s)
	}
	if c.Backend == nil {
		c.Backend = modes[c.Mode]
	}
	for _, f := range []model.Family{model.IPv4, model.IPv6} {
		n := 0
		for _, p := range c.ClusterCIDRs {
			if f.Has(p.Addr()) {
				n++
			}
		}
		if n > 1 {
			return fmt.Errorf("proxy: %d cluster CIDRs of family %s, at most one is supported", n, f)
		}
	}
	return nil
}

// families are the families to proxy, IPv4 first.
func (c *Config) families() []model.Family {
	var addrs []netip.Addr
	for _, p := range c.ClusterCIDRs {
		addrs = append(addrs, p.Addr())
	}
	if len(addrs) == 0 {
		addrs = c.NodeIPs
	}
	var out []model.Family
	for _, f := range []model.Family{model.IPv4, model.IPv6} {
		if slices.ContainsFunc(addrs, f.Has) {
			out = append(out, f)
		}
	}
	if len(out) == 0 {
		out = []model.Family{model.IPv4}
	}
	return out
}

// backend is what the rules of a family depend on.
func (c *Config) backend(f model.Family) backend.Config {
	bc := backend.Config{
		Cluster: c.Cluster, Family: f, NetNS: c.NetNS, MasqueradeMark: 1 << c.MasqueradeBit, Scheduler: c.Scheduler,
		ClusterCIDR: first(f, c.ClusterCIDRs), ServiceCIDR: first(f, c.ServiceCIDRs),
	}
	for _, p := range c.NodePortAddresses {
		if f.Has(p.Addr()) {
			bc.NodePortCIDRs = append(bc.NodePortCIDRs, p.Masked())
		}
	}
	for _, ip := range c.NodeIPs {
		if f.Has(ip) {
			bc.NodeIPs = append(bc.NodeIPs, ip.Unmap())
		}
	}
	return bc
}

// nodePortRanges hold the addresses of a family that answer node ports.
func (c *Config) nodePortRanges(f model.Family) []netip.Prefix {
	ranges := c.backend(f).NodePortCIDRs
	if len(ranges) > 0 {
		return ranges
	}
	if f == model.IPv6 {
		return []netip.Prefix{netip.PrefixFrom(netip.IPv6Unspecified(), 0)}
	}
	return []netip.Prefix{netip.PrefixFrom(netip.IPv4Unspecified(), 0)}
}

// first is the range of a family, the zero value if there is none.
func first(f model.Family, all []netip.Prefix) netip.Prefix {
	for _, p := range all {
		if f.Has(p.Addr()) {
			return p.Masked()
		}
	}
	return netip.Prefix{}
}
