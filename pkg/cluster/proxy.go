// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"net"
	"net/netip"

	"k8s.io/client-go/informers"

	"minik8s.io/minik8s/pkg/proxy"
	"minik8s.io/minik8s/pkg/proxy/backend"
)

// ProxyConfig is how Services are reached on a node. Fields are named after upstream's KubeProxyConfiguration.
type ProxyConfig struct {
	// Mode is how rules reach the kernel: iptables (default) or nftables.
	Mode string `json:"mode,omitempty"`
	// Scheduler is how the endpoint of a new connection is chosen: random (default) or rr, one after the other.
	Scheduler string `json:"scheduler,omitempty"`
	// NodePortAddresses are ranges of the node's addresses that answer node ports; default all.
	NodePortAddresses []string `json:"nodePortAddresses,omitempty"`
	// HealthzBindAddress and MetricsBindAddress are where the proxy's health, and its metrics, settings and build are served, such as
	// 127.0.0.1:10256 and 127.0.0.1:10249; default neither is.
	HealthzBindAddress string `json:"healthzBindAddress,omitempty"`
	MetricsBindAddress string `json:"metricsBindAddress,omitempty"`
}

func (c ProxyConfig) validate() error {
	switch proxy.Mode(c.Mode) {
	case "", proxy.IPTables, proxy.NFTables:
	default:
		return fmt.Errorf("proxy.mode: %q is neither %s nor %s", c.Mode, proxy.IPTables, proxy.NFTables)
	}
	switch backend.Scheduler(c.Scheduler) {
	case "", backend.Random, backend.RoundRobin:
	default:
		return fmt.Errorf("proxy.scheduler: %q is neither %s nor %s", c.Scheduler, backend.Random, backend.RoundRobin)
	}
	for field, address := range map[string]string{"proxy.healthzBindAddress": c.HealthzBindAddress, "proxy.metricsBindAddress": c.MetricsBindAddress} {
		if address == "" {
			continue
		}
		if _, _, err := net.SplitHostPort(address); err != nil {
			return fmt.Errorf("%s: %w", field, err)
		}
	}
	_, err := c.nodePortAddresses()
	return err
}

func (c ProxyConfig) nodePortAddresses() ([]netip.Prefix, error) {
	var out []netip.Prefix
	for _, text := range c.NodePortAddresses {
		p, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, fmt.Errorf("proxy.nodePortAddresses: %w", err)
		}
		out = append(out, p.Masked())
	}
	return out, nil
}

func proxyConfig(c Config, ips []netip.Addr, shared informers.SharedInformerFactory) (proxy.Config, error) {
	_, pods, err := nodePods(c)
	if err != nil {
		return proxy.Config{}, err
	}
	services, err := settledRanges("networking.serviceSubnet", c.Networking.ServiceSubnet)
	if err != nil {
		return proxy.Config{}, err
	}
	nodePorts, err := c.Proxy.nodePortAddresses()
	if err != nil {
		return proxy.Config{}, err
	}
	return proxy.Config{
		Cluster: c.Name, NodeName: c.Kubelet.NodeName, NodeIPs: ips, Informers: shared,
		ClusterCIDRs: pods, ServiceCIDRs: services,
		Mode: proxy.Mode(c.Proxy.Mode), Scheduler: backend.Scheduler(c.Proxy.Scheduler), NodePortAddresses: nodePorts,
		HealthzAddr: c.Proxy.HealthzBindAddress, MetricsAddr: c.Proxy.MetricsBindAddress,
	}, nil
}
