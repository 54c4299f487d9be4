// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package backend is what the proxy asks of the kernel's packet filter, whichever way it is written: iptables or nftables. Touch it
// to add another way; TestBackends of package proxy is what each has to do.
package backend

import (
	"context"
	"net/netip"
	"slices"

	"minik8s.io/minik8s/pkg/proxy/model"
)

// Backend keeps the rules of one cluster in one network namespace and one IP family. It is not safe for concurrent use.
type Backend interface {
	// Apply brings the kernel to what was applied before, with the changes. Only what belongs to the changed Services is
	// written; the first time, after a failure and after Check has found something amiss everything is compared, and what an
	// earlier process has left is removed. The changes of a call that failed need not be given again.
	Apply(ctx context.Context, changes Changes) error
	// Check tells whether the kernel still has all that was applied. If it is false, the next Apply mends that, also without
	// changes. While nobody changes rules it costs nothing.
	Check(ctx context.Context) (intact bool, err error)
	// Purge removes everything of the cluster from the namespace, whoever made it. Absence is success.
	Purge(ctx context.Context) error
	// Last tells what the last Apply did, also if it failed.
	Last() Sync
}

// Sync is what an Apply did.
type Sync struct {
	// Everything tells that everything was compared, and not only what belongs to the changed Services.
	Everything bool
	// Rules are those of each table of iptables; nil where Services are no rules.
	Rules map[string]Rules
}

// Rules are numbers of rules in the chains of a cluster.
type Rules struct {
	// All should be there, Written were given to the kernel.
	All, Written int
}

// Changes are Services that differ from what was applied last; nil is one that is not forwarded any more.
type Changes map[model.Name]*model.Service

// Scheduler is how the endpoint of a new connection is chosen.
type Scheduler string

// The schedulers, by upstream's names of them in the ipvs mode.
const (
	// Random gives each endpoint the same chance.
	Random Scheduler = "random"
	// RoundRobin takes one endpoint after the other.
	RoundRobin Scheduler = "rr"
)

// Config is what rules depend on besides Services.
type Config struct {
	// Cluster is the cluster's name; what belongs to it in the kernel carries it or a hash of it.
	Cluster string
	Family  model.Family
	// NetNS is the path of the network namespace to work in, empty for the process's own.
	NetNS string
	// MasqueradeMark is the single packet mark bit that asks for source NAT.
	MasqueradeMark uint32
	// ClusterCIDR holds the pods' addresses of the family; traffic to cluster IPs from elsewhere is
	// masqueraded. The zero value turns this off.
	ClusterCIDR netip.Prefix
	// ServiceCIDR is where cluster IPs come from. What pods and the node itself send there and belongs to no service port is
	// refused: it would leave the machine by the default route, and whoever answers there would be taken for the service, for
	// as long as the connection is kept. The zero value turns this off.
	ServiceCIDR netip.Prefix
	// NodeIPs are this node's addresses: a load balancer that admits the node admits its own address
	// too, because the node uses that as source when it calls the load balancer.
	NodeIPs []netip.Addr
	// NodePortCIDRs are the node's addresses of the family that answer node ports; none means all but the loopback ones.
	NodePortCIDRs []netip.Prefix
	// Scheduler chooses endpoints; empty is Random.
	Scheduler Scheduler
}

// NodeAdmitted tells whether one of the source ranges contains the node.
func (c *Config) NodeAdmitted(ranges []netip.Prefix) bool {
	return slices.ContainsFunc(ranges, func(r netip.Prefix) bool { return slices.ContainsFunc(c.NodeIPs, r.Contains) })
}

// AnswersNodePorts tells whether node ports are answered on an address of the node.
func (c *Config) AnswersNodePorts(a netip.Addr) bool {
	return len(c.NodePortCIDRs) == 0 || slices.ContainsFunc(c.NodePortCIDRs, func(p netip.Prefix) bool { return p.Contains(a) })
}
