// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"errors"
	"net/netip"
	"time"

	"k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"
	"sigs.k8s.io/network-policy-api/pkg/client/clientset/versioned"
)

// Config is what an Enforcer needs. Cluster, NodeName, PodCIDRs and the clients but Statuses have no default.
type Config struct {
	// Cluster is the cluster's name; that of the table carries a hash of it, so that clusters on one machine spare each other.
	Cluster string
	// NodeName is the node whose pods are looked after.
	NodeName string
	// Client lists and watches NetworkPolicies, and as long as there are policies, Pods and Namespaces too, and Nodes if one selects them.
	Client kubernetes.Interface
	// Definitions lists and watches the one definition of ClusterNetworkPolicies.
	Definitions clientset.Interface
	// ClusterPolicies lists and watches ClusterNetworkPolicies while they are defined.
	ClusterPolicies versioned.Interface
	// Statuses updates the statuses of ClusterNetworkPolicies. Default: nobody does here; one node does it for all.
	Statuses versioned.Interface
	// PodCIDRs are the ranges of this node's pods: while a pod of the node is isolated whose address is not known, all
	// addresses in them of which the pod is not known are refused.
	PodCIDRs []netip.Prefix
	// ClusterDNS are the addresses of the Service by which pods ask for names, which no policy refuses. Default: none.
	ClusterDNS []netip.Addr
	// NetNS is the path of the network namespace to look after; empty is the process's own.
	NetNS string
	// SyncPeriod is the time between two verifications that the rules are still in the kernel. Default 30s.
	SyncPeriod time.Duration
	// Clock defaults to the real one.
	Clock clock.WithTicker
}

func (c *Config) complete() error {
	switch {
	case c.Cluster == "":
		return errors.New("policy: the cluster has no name")
	case c.NodeName == "" || c.Client == nil || c.Definitions == nil || c.ClusterPolicies == nil || len(c.PodCIDRs) == 0:
		return errors.New("policy: node name, clients and pod ranges are required")
	}
	if c.SyncPeriod == 0 {
		c.SyncPeriod = 30 * time.Second
	}
	if c.Clock == nil {
		c.Clock = clock.RealClock{}
	}
	return nil
}
