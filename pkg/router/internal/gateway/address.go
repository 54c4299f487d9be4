// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"fmt"
	"net/netip"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// addresses decides where Gateways, which are in the order of their age, are served. One that asks for an address of the subnet has it.
// The others have the machine's address, so that they are where a user looks first; but one of whose ports another Gateway has there
// gets an address of the subnet to itself, as Gateways are thought to be. What a Gateway has of the subnet it keeps: its status says so.
func (t *translation) addresses(gateways []*gatewayv1.Gateway) map[types.NamespacedName]netip.Addr {
	at, taken := map[types.NamespacedName]netip.Addr{}, map[netip.Addr]bool{}
	give := func(g *gatewayv1.Gateway, a netip.Addr) {
		at[client.ObjectKeyFromObject(g)] = a
		taken[a] = true
	}
	for _, g := range gateways {
		if asked, _ := t.asked(g); asked.IsValid() {
			give(g, asked)
		}
	}
	for _, g := range gateways {
		if at[client.ObjectKeyFromObject(g)].IsValid() || len(g.Status.Addresses) != 1 {
			continue
		}
		if had, err := netip.ParseAddr(g.Status.Addresses[0].Value); err == nil && t.Subnet.Contains(had) && !taken[had] {
			give(g, had)
		}
	}
	held := map[gatewayv1.PortNumber]bool{}
	for _, g := range gateways {
		own, decided := at[client.ObjectKeyFromObject(g)]
		if decided && own != t.Address {
			continue
		}
		ports := t.ports(g)
		clash := false
		for p := range ports {
			clash = clash || held[p]
		}
		a := t.Address
		if clash && !decided {
			a = t.free(taken)
		}
		give(g, a)
		if a == t.Address {
			for p := range ports {
				held[p] = true
			}
		}
	}
	return at
}

// free is the first address of the subnet that nobody has; if there is none, the machine's.
func (t *translation) free(taken map[netip.Addr]bool) netip.Addr {
	if t.Subnet.IsValid() {
		// The first and the last one are no addresses of a host.
		for a := t.Subnet.Masked().Addr().Next(); t.Subnet.Contains(a.Next()); a = a.Next() {
			if !taken[a] {
				return a
			}
		}
	}
	return t.Address
}

// ports are those that a Gateway asks for, itself or by its ListenerSets. They are not told apart by transport: on one address a port
// has one protocol.
func (t *translation) ports(g *gatewayv1.Gateway) map[gatewayv1.PortNumber]bool {
	all := map[gatewayv1.PortNumber]bool{}
	for _, l := range g.Spec.Listeners {
		all[l.Port] = true
	}
	for _, s := range t.ListenerSets {
		if parentOf(s) != client.ObjectKeyFromObject(g) {
			continue
		}
		for _, l := range s.Spec.Listeners {
			all[l.Port] = true
		}
	}
	return all
}

// addressProblem is why a Gateway cannot be where it wants.
type addressProblem struct {
	refused bool // the Gateway is not accepted at all
	message string
}

// asked is the address that a Gateway asks for, not valid if it may have any. The problem is about what it cannot have.
func (t *translation) asked(g *gatewayv1.Gateway) (asked netip.Addr, problem *addressProblem) {
	for _, a := range g.Spec.Addresses {
		if kind := value(a.Type, gatewayv1.IPAddressType); kind != gatewayv1.IPAddressType {
			return netip.Addr{}, &addressProblem{refused: true, message: fmt.Sprintf("addresses of type %s are not supported", kind)}
		}
	}
	for _, a := range g.Spec.Addresses {
		if a.Value == "" {
			continue
		}
		ip, err := netip.ParseAddr(a.Value)
		if err == nil && ip == t.Twin {
			ip = t.Address
		}
		switch {
		case err != nil || ip != t.Address && !t.Subnet.Contains(ip):
			problem = &addressProblem{message: fmt.Sprintf("%s is neither the router's address %s nor in its subnet %s", a.Value, t.Address, t.Subnet)}
		case asked.IsValid() && asked != ip:
			problem = &addressProblem{message: "a Gateway has one address"}
		default:
			asked = ip
		}
	}
	if problem != nil {
		return netip.Addr{}, problem
	}
	return asked, nil
}
