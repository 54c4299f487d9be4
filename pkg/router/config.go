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
	// Subnets, one of each IP family at most, have the addresses of Gateways that cannot share Address, because another one has the same
	// port there. Such a Gateway gets one of each, and is there in the order of the subnets. Default: there are none, and such Gateways share
	// Address all the same, and are told apart by hosts alone.
	Subnets []netip.Prefix
	// Take gives this machine some addresses of Subnets, and takes all others of them away. Required if there are Subnets.
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
	if len(c.Subnets) > 0 && c.Take == nil {
		return errors.New("router: who takes the addresses of the subnets is required")
	}
	if len(c.Subnets) > 2 || len(c.Subnets) == 2 && c.Subnets[0].Addr().Is4() == c.Subnets[1].Addr().Is4() {
		return errors.New("router: there is one subnet of an IP family at most")
	}
	if c.HTTPPort == 0 {
		c.HTTPPort = 80
	}
	if c.HTTPSPort == 0 {
		c.HTTPSPort = 443
	}
	return nil
}
