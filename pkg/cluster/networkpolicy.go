// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"net/netip"

	"k8s.io/client-go/informers"

	"minik8s.io/minik8s/pkg/policy"
)

// enforcePolicies makes the part of a node that enforces NetworkPolicies.
func (n *node) enforcePolicies(informers.SharedInformerFactory) (func(context.Context) error, error) {
	pods, _, err := nodePods(n.config)
	if err != nil {
		return nil, err
	}
	client, _, err := clientOf(n.policy, "minik8s-network-policy")
	if err != nil {
		return nil, err
	}
	e, err := policy.New(policy.Config{
		Cluster: n.config.Name, NodeName: n.config.Kubelet.NodeName, Client: client,
		PodCIDRs: []netip.Prefix{pods}, ClusterDNS: []netip.Addr{n.dnsIP}, NetNS: n.apart.netNS,
	})
	if err != nil {
		return nil, fmt.Errorf("building the enforcer of network policies: %w", err)
	}
	return e.Start, nil
}

func purgePolicies(c Config) error { return policy.Purge(c.Name, "") }
