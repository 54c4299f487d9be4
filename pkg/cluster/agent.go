// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"minik8s.io/minik8s/pkg/apiserver/authorization/policy"
	"minik8s.io/minik8s/pkg/imagesource"
	"minik8s.io/minik8s/pkg/pki"
)

// Membership is what a machine needs to be a node of a cluster that runs elsewhere.
type Membership struct {
	// Config is that of the node; what it leaves open is settled at the start.
	Config Config
	// Settings are what a configuration file of the machine says; nil: what one has said at an earlier start.
	Settings Change

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
	n := &node{
		config: c, ips: ips, dnsIP: dnsIP(services), kubelet: kubelet, serving: certificates.servingCertificate, client: certificates.clientCertificate, ca: m.ca,
		transform: cache.TransformStripManagedFields(),
	}
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

// agentPort is that of the kubelet's API, unless another is given.
const agentPort = 10250

// change makes the configuration of the node. The cluster says all but what is the machine's own affair: that stays as it was at an
// earlier start, unless a file or flags say otherwise.
func (m *Membership) change(c *Config) error {
	before, flags := *c, m.Config.Kubelet
	*c = m.Config
	if c.DataDir == "" {
		c.DataDir = before.DataDir
	}
	c.Kubelet, c.Proxy = before.Kubelet, before.Proxy
	c.Kubelet.NodeName, c.Kubelet.NodeIP, c.Kubelet.PodCIDR = flags.NodeName, flags.NodeIP, flags.PodCIDR
	if m.Settings != nil {
		if err := c.takeOwn(m.Settings); err != nil {
			return err
		}
	}
	if flags.Port != 0 || c.Kubelet.Port == 0 {
		c.Kubelet.Port = cmp.Or(flags.Port, agentPort)
	}
	if flags.DockerHost != "" {
		c.Kubelet.DockerHost, c.Kubelet.DockerCertPath, c.Kubelet.DockerTLSVerify = flags.DockerHost, flags.DockerCertPath, flags.DockerTLSVerify
	}
	if m.token != nil {
		none := 0 // there is no node before the cluster has let it in
		c.Nodes = &none
	}
	return nil
}

// takeOwn takes from a file what is a node's own affair. What else it says is an error: it would hold for this node only.
func (c *Config) takeOwn(file Change) error {
	k := c.Kubelet
	// Nothing else is there beforehand, so that all which is there afterwards is what the file says.
	said := Config{Kubelet: k, Proxy: c.Proxy}
	if err := file(&said); err != nil {
		return err
	}
	if said.Kubelet.NodeName != k.NodeName || said.Kubelet.NodeIP != k.NodeIP || said.Kubelet.PodCIDR != k.PodCIDR {
		return errors.New("kubelet.nodeName, nodeIP and podCIDR are given to a node when it joins, and are not for its configuration file")
	}
	c.Kubelet, c.Proxy = said.Kubelet, said.Proxy
	said.APIVersion, said.Kind, said.Name, said.Kubelet, said.Proxy = "", "", "", KubeletConfig{}, ProxyConfig{}
	if !reflect.ValueOf(said).IsZero() {
		return errors.New("of a configuration file a node takes kubelet and proxy; all else is said by flags, or where the cluster runs")
	}
	return nil
}
