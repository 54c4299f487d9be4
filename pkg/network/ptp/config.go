// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package ptp

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
)

// Config configures a Plugin.
type Config struct {
	// Name is the cluster's. Links and chains are named after it, so that clusters on one machine spare each other.
	// Required.
	Name string
	// PodCIDRs are the node's ranges that pods get their addresses from: an IPv4 one, an IPv6 one, or one of each, the
	// primary first. Required.
	PodCIDRs []netip.Prefix
	// ClusterCIDRs are the ranges of all nodes' pods. Traffic to them keeps its source address and is let through the
	// node's firewall. Default: PodCIDRs.
	ClusterCIDRs []netip.Prefix
	// StateDir is where allocations are kept. Required.
	StateDir string
	// MTU is the pods' in bytes. Default 0: that of the node's link to the outside (of its default route), 1500 without one.
	MTU int
	// NetNS is the path of the node's network namespace. Default "": the process's own.
	NetNS string
	// RunDir is where clusters of one machine tell one another, until it is started anew, what kernel settings were before the first of
	// them. Default /run.
	RunDir string
}

func (c *Config) complete() error {
	switch {
	case c.Name == "":
		return errors.New("ptp: Config.Name is required")
	case c.StateDir == "":
		return errors.New("ptp: Config.StateDir is required")
	case len(c.PodCIDRs) == 0:
		return errors.New("ptp: Config.PodCIDRs is required")
	case len(c.PodCIDRs) > 2, len(c.PodCIDRs) == 2 && c.PodCIDRs[0].Addr().Is4() == c.PodCIDRs[1].Addr().Is4():
		return fmt.Errorf("ptp: Config.PodCIDRs %v: want at most one of each IP family", c.PodCIDRs)
	}
	if len(c.ClusterCIDRs) == 0 {
		c.ClusterCIDRs = c.PodCIDRs
	}
	c.RunDir = cmp.Or(c.RunDir, "/run")
	for _, r := range append(append([]netip.Prefix{}, c.PodCIDRs...), c.ClusterCIDRs...) {
		if !r.IsValid() || r.Addr().Is4In6() {
			return fmt.Errorf("ptp: address range %v is not valid", r)
		}
	}
	return nil
}
