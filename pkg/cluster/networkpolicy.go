// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"net/netip"

	"k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/network-policy-api/pkg/client/clientset/versioned"

	"minik8s.io/minik8s/pkg/apis/useragent"
	"minik8s.io/minik8s/pkg/policy"
)

// enforcePolicies makes the part of a node that enforces NetworkPolicies and ClusterNetworkPolicies.
func (n *node) enforcePolicies(informers.SharedInformerFactory) (func(context.Context) error, error) {
	pods, _, err := nodePods(n.config)
	if err != nil {
		return nil, err
	}
	const component = "minik8s-network-policy"
	client, err := clientOf(n.policy, component)
	if err != nil {
		return nil, err
	}
	config := rest.CopyConfig(n.policy)
	config.UserAgent = useragent.Of(component)
	definitions, err := clientset.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a client of definitions: %w", err)
	}
	clusterPolicies, err := clusterPoliciesOf(n.policy, component)
	if err != nil {
		return nil, err
	}
	var statuses versioned.Interface
	if n.statuses != nil {
		if statuses, err = clusterPoliciesOf(n.statuses, component); err != nil {
			return nil, err
		}
	}
	e, err := policy.New(policy.Config{
		Cluster: n.config.Name, NodeName: n.config.Kubelet.NodeName, Client: client, Definitions: definitions, ClusterPolicies: clusterPolicies, Statuses: statuses,
		PodCIDRs: pods, ClusterDNS: []netip.Addr{n.dnsIP}, NetNS: n.apart.netNS,
	})
	if err != nil {
		return nil, fmt.Errorf("building the enforcer of network policies: %w", err)
	}
	return e.Start, nil
}

// clusterPoliciesOf returns a client of ClusterNetworkPolicies.
func clusterPoliciesOf(config *rest.Config, component string) (versioned.Interface, error) {
	config = rest.CopyConfig(config)
	config.UserAgent = useragent.Of(component)
	config.ContentType, config.AcceptContentTypes = "", "" // custom resources have no protobuf
	client, err := versioned.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a client of cluster network policies: %w", err)
	}
	return client, nil
}

func purgePolicies(c Config) error { return policy.Purge(c.Name, "") }
