// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"net/netip"
	"os"

	"k8s.io/client-go/rest"

	"minik8s.io/minik8s/pkg/pki"
)

// Membership is what a machine needs to be a node of a cluster that runs elsewhere.
type Membership struct {
	// Config is that of the node; settle it before use.
	Config Config

	kubelet, proxy, provisioner *rest.Config
	serving                     pki.Pair
	ca                          []byte
}

// RunAgent runs a node until ctx ends. Pods go on running when it returns. The configuration must be settled.
func RunAgent(ctx context.Context, m *Membership) error {
	c := m.Config
	if err := os.MkdirAll(c.DataDir, 0o700); err != nil {
		return explain(fmt.Errorf("making the data directory: %w", err), c.DataDir)
	}
	held, err := lock(c.Name)
	if err != nil {
		return explain(err, c.DataDir)
	}
	defer held.Close()
	if err := checkFormat(c.DataDir); err != nil {
		return explain(err, c.DataDir)
	}
	if err := save(c); err != nil {
		return explain(err, c.DataDir)
	}
	if err := checkNode(ctx, c); err != nil {
		return err
	}
	ip, err := netip.ParseAddr(c.Kubelet.NodeIP)
	if err != nil {
		return fmt.Errorf("kubelet.nodeIP: %w", err)
	}
	services, err := netip.ParsePrefix(c.Networking.ServiceSubnet)
	if err != nil {
		return fmt.Errorf("networking.serviceSubnet: %w", err)
	}
	n := &node{config: c, ip: ip, dnsIP: dnsIP(services), kubelet: m.kubelet, proxy: m.proxy, provisioner: m.provisioner, serving: m.serving, ca: m.ca}
	for _, client := range []*rest.Config{n.kubelet, n.proxy, n.provisioner} {
		client.QPS, client.WarningHandlerWithContext = -1, rest.NoWarnings{}
		client.ContentType, client.AcceptContentTypes = "application/vnd.kubernetes.protobuf", "application/vnd.kubernetes.protobuf,application/json"
	}
	run, err := n.build()
	if err != nil {
		return explain(err, c.DataDir)
	}
	return explain(run(ctx), c.DataDir)
}
