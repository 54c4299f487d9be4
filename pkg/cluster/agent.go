// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"

	"minik8s.io/minik8s/pkg/apiserver/authorization/policy"
	"minik8s.io/minik8s/pkg/imagesource"
	"minik8s.io/minik8s/pkg/pki"
)

// Membership is what a machine needs to be a node of a cluster that runs elsewhere.
type Membership struct {
	// Config is that of the node; what it leaves open is settled at the start.
	Config Config

	host   string // URL of the API server
	ca     []byte
	joined pki.Pair
	// by is the user of the kubeconfig: that of the token, if the machine has joined by one.
	by string
	// token is what a machine has to exchange for the above first; nil if it has.
	token *TokenJoin
}

// RunAgent runs a node until ctx ends. Pods go on running when it returns. It waits for other operations on what is known
// by the same name, and calls started with what it runs with.
func RunAgent(ctx context.Context, m *Membership, waiting func(holder string), started func(Config)) (err error) {
	s, err := begun(ctx, m.Config.Name, true, m.change, waiting)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if m.token != nil {
		if err := m.exchange(ctx, s); err != nil {
			return explain(err, s.Config.DataDir)
		}
	} else if err := checkNode(ctx, s.Config); err != nil {
		return err
	}
	c := s.Config
	started(c)
	ips, err := nodeIPs(c)
	if err != nil {
		return fmt.Errorf("kubelet.nodeIP: %w", err)
	}
	services, err := settledRanges("networking.serviceSubnet", c.Networking.ServiceSubnet)
	if err != nil {
		return err
	}
	certificates, kubelet, err := newNodeCertificates(ctx, c, m.host, m.ca, m.joined)
	if err != nil {
		return explain(err, c.DataDir)
	}
	if _, err := certificates.clientCertificate(); err != nil {
		return err
	}
	n := &node{config: c, ips: ips, dnsIP: dnsIP(services), kubelet: kubelet, serving: certificates.servingCertificate, ca: m.ca}
	// The node has one identity only, which ends with it. By it proxy and DNS act as those of the control plane's node.
	n.proxy = rest.CopyConfig(n.kubelet)
	n.proxy.Impersonate.UserName = policy.ServicesUser
	n.policy = rest.CopyConfig(n.kubelet)
	n.policy.Impersonate.UserName = policy.NetworkPolicyUser
	if n.images, err = imagesource.NewClient(kubelet); err != nil {
		return explain(err, c.DataDir)
	}
	run, err := n.build()
	if err != nil {
		return explain(err, c.DataDir)
	}
	if err := s.serves(); err != nil {
		return err
	}
	parts, ctx := errgroup.WithContext(ctx)
	parts.Go(func() error { return certificates.run(ctx) })
	parts.Go(func() error { return run(ctx) })
	parts.Go(func() error { return stillMember(ctx, c, kubelet) })
	return explain(parts.Wait(), c.DataDir)
}

// change makes the configuration of the node from that of an earlier start, of which the place of the data and the engine
// stay unless others are given.
func (m *Membership) change(c *Config) error {
	before := *c
	*c = m.Config
	if c.DataDir == "" {
		c.DataDir = before.DataDir
	}
	if k := before.Kubelet; c.Kubelet.DockerHost == "" {
		c.Kubelet.DockerHost, c.Kubelet.DockerCertPath, c.Kubelet.DockerTLSVerify = k.DockerHost, k.DockerCertPath, k.DockerTLSVerify
	}
	if m.token != nil {
		none := 0 // there is no node before the cluster has let it in
		c.Nodes = &none
	}
	return nil
}
