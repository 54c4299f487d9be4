// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"net/netip"

	"k8s.io/client-go/informers"

	"minik8s.io/minik8s/pkg/apiserver/authorization/policy"
	"minik8s.io/minik8s/pkg/dns"
	"minik8s.io/minik8s/pkg/kubelet"
	"minik8s.io/minik8s/pkg/kubelet/container/docker"
	"minik8s.io/minik8s/pkg/network/nodenet"
	nodes "minik8s.io/minik8s/pkg/node"
)

// nodeHost is where the nodes of a fleet are. All that it does can be repeated.
type nodeHost interface {
	// build makes the network of a node, or completes what is there of it, and the node's parts, which run until ctx ends.
	build(n nodes.Node) (run func(ctx context.Context) error, err error)
	// cutOff ends the processes of a node whose parts do not run, and its network.
	cutOff(ctx context.Context, n nodes.Node) error
	// clear removes what there is of a node whose parts do not run, but its folder.
	clear(ctx context.Context, n nodes.Node) error
}

// thisMachine is the nodeHost of the machine that the process runs on.
type thisMachine struct {
	config      Config
	credentials *credentials
	shared      informers.SharedInformerFactory
	services    []netip.Prefix
	pulls       *kubelet.ImagePulls // of the one engine
	network     *nodenet.Network
	dns         *dns.Server // answers on every node
}

func (m *thisMachine) build(n nodes.Node) (func(context.Context) error, error) {
	subnets, err := settledRanges("networking.nodeSubnet", m.config.Networking.NodeSubnet)
	if err != nil {
		return nil, err
	}
	asking, err := m.credentials.Leaf(nodeUser(n.Name), nodeGroup)
	if err != nil {
		return nil, err
	}
	if err := m.network.Add(n.Name, n.IPs()); err != nil {
		return nil, err
	}
	made := &node{
		config: m.config.of(n), ips: n.IPs(), dnsIP: dnsIP(m.services), ca: m.credentials.ca.Cert,
		serving: m.credentials.ca.Leaf(nodeRequest(n.Name, n.IPs())).Certificate, client: asking.Certificate, pulls: m.pulls,
		apart: apart{
			netNS: m.network.Path(n.Name), segments: subnets, shared: m.shared, names: m.dns, size: kubelet.Size{CPU: n.Size.CPU, Memory: n.Size.Memory},
		},
	}
	if made.kubelet, err = m.credentials.Client(nodeUser(n.Name), nodeGroup); err != nil {
		return nil, err
	}
	if made.proxy, err = m.credentials.Client(policy.ServicesUser); err != nil {
		return nil, err
	}
	if made.policy, err = m.credentials.Client(policy.NetworkPolicyUser); err != nil {
		return nil, err
	}
	return made.build()
}

func (m *thisMachine) cutOff(ctx context.Context, n nodes.Node) error {
	err := withRuntime(m.config.of(n), func(r *docker.Runtime) error { return r.KillNode(ctx) })
	return errors.Join(err, m.network.Remove(n.Name))
}

func (m *thisMachine) clear(ctx context.Context, n nodes.Node) error {
	c := m.config.of(n)
	if err := withRuntime(c, func(r *docker.Runtime) error {
		if err := r.PurgeNode(ctx); err != nil {
			return err
		}
		return kubelet.ClearGroups(ctx, r, cgroupRootOf(c))
	}); err != nil {
		return err
	}
	return errors.Join(m.network.Remove(n.Name), clearNode(c))
}
