// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package loadbalancer

import (
	"errors"
	"net/netip"
	"time"

	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/utils/clock"
)

// Config is what a Holder needs. Cluster, Pool and Services have no default.
type Config struct {
	// Cluster is the cluster's name; the addresses carry a hash of it, so that clusters on one machine spare each other.
	Cluster string
	// Pool has all addresses that the cluster may give to Services. No other cluster of the machine has any of them.
	Pool []netip.Prefix
	// Services are watched; the caller starts the informer after New.
	Services coreinformers.ServiceInformer
	// Announce tells the machines of the networks that this one is in, by ARP and Neighbour Discovery, which addresses have come here, and
	// has those of IPv6 answered for there. Default: they learn of an address of IPv4 when they ask for it, and of none of IPv6.
	Announce bool
	// NetNS is the path of the network namespace to hold addresses in; empty is the process's own.
	NetNS string
	// SyncPeriod is the time between two comparisons with the kernel if no Service changes. Default 30s.
	SyncPeriod time.Duration
	// Clock defaults to the real one.
	Clock clock.WithTicker
}

func (c *Config) complete() error {
	if c.Cluster == "" || len(c.Pool) == 0 || c.Services == nil {
		return errors.New("loadbalancer: cluster, pool and services are required")
	}
	if c.SyncPeriod == 0 {
		c.SyncPeriod = 30 * time.Second
	}
	if c.Clock == nil {
		c.Clock = clock.RealClock{}
	}
	return nil
}
