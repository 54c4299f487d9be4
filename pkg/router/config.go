// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package router

import (
	"errors"
	"net/netip"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"
)

// Config is what a Router needs.
type Config struct {
	// REST reaches the API server, with the rights of the role system:minik8s:router. Required.
	REST *rest.Config
	// Recorder writes the events of Ingresses. Required.
	Recorder record.EventRecorder
	// Address is where clients find the router: it listens there, and writes it into the status of what it serves. Required.
	Address netip.Addr
	// Second is where clients of the other IP family find all that is at Address. Default: they do not.
	Second netip.Addr
	// Subnet has the addresses of Gateways that cannot share Address, because another one has the same port there. Default: there are
	// none, and such Gateways share it all the same, and are told apart by hosts alone.
	Subnet netip.Prefix
	// Take gives this machine some addresses of Subnet, and takes all others of it away. Required if there is a Subnet.
	Take func([]netip.Addr) error
	// HTTPPort and HTTPSPort are where Ingresses are served, and in place of ports 80 and 443 Gateways; default 80 and 443.
	HTTPPort, HTTPSPort uint16
}

func (c *Config) complete() error {
	if c.REST == nil || c.Recorder == nil {
		return errors.New("router: a client and a recorder are required")
	}
	if !c.Address.IsValid() {
		return errors.New("router: an address is required")
	}
	if c.Subnet.IsValid() && c.Take == nil {
		return errors.New("router: who takes the addresses of a subnet is required")
	}
	if c.HTTPPort == 0 {
		c.HTTPPort = 80
	}
	if c.HTTPSPort == 0 {
		c.HTTPSPort = 443
	}
	return nil
}
