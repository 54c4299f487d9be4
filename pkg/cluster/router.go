// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/record"

	"minik8s.io/minik8s/pkg/apis/useragent"
	"minik8s.io/minik8s/pkg/router"
)

// RouterConfig is where Ingresses and Gateways are served.
type RouterConfig struct {
	// Address is where the router listens and what is written into the status of what it serves, or one of each family with a comma
	// between them; default the node's.
	Address string `json:"address,omitempty"`
	// HTTPPort and HTTPSPort are the ports of Ingresses, and of Gateways in place of ports 80 and 443; default 80 and 443.
	HTTPPort  int `json:"httpPort,omitempty"`
	HTTPSPort int `json:"httpsPort,omitempty"`
	// GatewaySubnet has the addresses of Gateways that want a port which another Gateway has at Address: a range, or one of each family with a
	// comma between them. Default, also of a family of the cluster that is left out: the last /24 of networking.podSubnet, of IPv6 the last
	// /64, if that has another one for pods.
	GatewaySubnet string `json:"gatewaySubnet,omitempty"`
}

func (c RouterConfig) validate() error {
	if _, err := parseAddresses(c.Address); c.Address != "" && err != nil {
		return fmt.Errorf("router.address: %w", err)
	}
	subnets, _ := parseRanges(c.GatewaySubnet) // what cannot be read is told with the families
	for _, p := range subnets {
		if p.Bits() > p.Addr().BitLen()-2 {
			return fmt.Errorf("router.gatewaySubnet: %q is not a range of addresses", p)
		}
	}
	for field, port := range map[string]int{"router.httpPort": c.HTTPPort, "router.httpsPort": c.HTTPSPort} {
		if port < 0 || port > 65535 {
			return fmt.Errorf("%s: %d is not a port", field, port)
		}
	}
	if c.HTTPPort != 0 && c.HTTPPort == c.HTTPSPort {
		return fmt.Errorf("router.httpPort and router.httpsPort are both %d", c.HTTPPort)
	}
	return nil
}

// addresses are where the router of a cluster listens. A control plane without a node may have none but the machine's own.
func (c RouterConfig) addresses(node []netip.Addr) ([]netip.Addr, error) {
	switch {
	case c.Address != "":
		return parseAddresses(c.Address)
	case len(node) > 0:
		return node, nil
	}
	return []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1})}, nil
}

// gatewaySubnets have the addresses of Gateways, one of each family of the cluster, the primary first: without a node there are none, for no
// address can be added. One that is set is that of its family. A family whose range of pods is too small has none; if that is the primary,
// and nothing is set, there are none at all: Gateways that can be reached by the other family alone are not what is expected.
func gatewaySubnets(c Config) (subnets []netip.Prefix, err error) {
	if c.NodeCount() == 0 {
		return nil, nil
	}
	set, err := parseRanges(c.Router.GatewaySubnet)
	if err != nil {
		return nil, err
	}
	_, all, err := nodePods(c)
	if err != nil {
		return nil, err
	}
	for i, pods := range all {
		f := familyOf(pods.Addr())
		own := slices.IndexFunc(set, func(p netip.Prefix) bool { return familyOf(p.Addr()) == f })
		switch {
		case own >= 0:
			subnets = append(subnets, set[own].Masked())
		case pods.Bits() < f.nodeBits():
			subnets = append(subnets, netip.PrefixFrom(lastOf(pods), f.nodeBits()).Masked())
		case i == 0 && len(set) == 0:
			return nil, nil
		}
	}
	for _, p := range set { // of another family only of a cluster from before that was refused, whose addresses are to go
		if !slices.Contains(rangeFamilies(all), familyOf(p.Addr())) {
			subnets = append(subnets, p.Masked())
		}
	}
	return subnets, nil
}

// buildRouter makes what serves Ingresses and Gateways, and publishes its class.
func (r *runner) buildRouter() (func(context.Context) error, error) {
	c := r.config.Router
	addresses, err := c.addresses(r.nodeIPs)
	if err != nil {
		return nil, fmt.Errorf("router.address: %w", err)
	}
	subnets, err := gatewaySubnets(r.config)
	if err != nil {
		return nil, fmt.Errorf("router.gatewaySubnet: %w", err)
	}
	config, err := r.credentials.Client(router.User)
	if err != nil {
		return nil, err
	}
	config.UserAgent = useragent.Of("router")
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	admin, err := r.client("minik8s", "kubernetes-admin", "system:masters")
	if err != nil {
		return nil, err
	}
	var second netip.Addr
	if len(addresses) > 1 {
		second = addresses[1]
	}
	broadcaster := record.NewBroadcaster()
	part, err := router.New(router.Config{
		REST: config, Recorder: broadcaster.NewRecorder(clientgoscheme.Scheme, corev1.EventSource{Component: "router"}),
		Address: addresses[0], Second: second, HTTPPort: uint16(c.HTTPPort), HTTPSPort: uint16(c.HTTPSPort),
		Subnets: subnets, Take: func(all []netip.Addr) error { return setLoopback(subnets, all) },
	})
	if err != nil {
		return nil, fmt.Errorf("building the router: %w", err)
	}
	return func(ctx context.Context) error {
		broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: client.CoreV1().Events("")})
		defer broadcaster.Shutdown()
		if err := publishIngressClass(ctx, admin); err != nil {
			return err
		}
		return part.Start(ctx)
	}, nil
}

// publishIngressClass makes the class of Ingresses that name none.
func publishIngressClass(ctx context.Context, client kubernetes.Interface) error {
	return publish(ctx, client.NetworkingV1().IngressClasses(), router.Class())
}
