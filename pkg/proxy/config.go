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

	"minik8s.io/minik8s/pkg/proxy/iptables"
	"minik8s.io/minik8s/pkg/proxy/model"
	"minik8s.io/minik8s/pkg/proxy/rules"
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
	// Recorder receives the node's "Starting" event; nil records nothing.
	Recorder events.EventRecorder
	// MasqueradeBit is the bit of the packet mark that asks for source NAT, 0 to 31. Default 14, as upstream;
	// bit 0 cannot be chosen.
	MasqueradeBit int
	// SyncPeriod is the time between two verifications that the rules are still in the kernel. Default 30s.
	SyncPeriod time.Duration
	// MinSyncPeriod is the least time between two writes, so that a burst of changes becomes one. The first change
	// after a quiet time is written at once. Default 100ms.
	MinSyncPeriod time.Duration
	// HealthzAddr is where /healthz and /livez are served, upstream's being ":10256"; empty serves neither.
	HealthzAddr string
	// NetNS is the path of the network namespace to look after; empty is the process's own.
	NetNS string
	// Clock defaults to the real one.
	Clock clock.WithTicker
	// Commands returns how the tables of a family are reached. Default: the iptables programs of the host.
	Commands func(model.Family) iptables.Commands
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
	if c.MinSyncPeriod == 0 {
		c.MinSyncPeriod = 100 * time.Millisecond
	}
	if c.Clock == nil {
		c.Clock = clock.RealClock{}
	}
	if c.Commands == nil {
		netNS := c.NetNS
		c.Commands = func(f model.Family) iptables.Commands { return iptables.Exec{Family: f, NetNS: netNS} }
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

func (c *Config) rules(f model.Family) rules.Config {
	rc := rules.Config{Chains: rules.ChainsOf(c.Cluster), MasqueradeMark: 1 << c.MasqueradeBit}
	for _, p := range c.ClusterCIDRs {
		if f.Has(p.Addr()) {
			rc.ClusterCIDR = p.Masked()
		}
	}
	for _, p := range c.ServiceCIDRs {
		if f.Has(p.Addr()) {
			rc.ServiceCIDR = p.Masked()
		}
	}
	for _, ip := range c.NodeIPs {
		if f.Has(ip) {
			rc.NodeIPs = append(rc.NodeIPs, ip.Unmap())
		}
	}
	return rc
}
