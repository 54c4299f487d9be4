// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// place is where a Gateway is served: at an address, and at its twin of the other family, which is not valid if there is none. The problem is
// about what it cannot have of what it asks for.
type place struct {
	address, twin netip.Addr
	problem       *addressProblem
}

// pair are addresses of the subnets, in the order of these, that belong together: what is served at one is served at the other. One that
// is not valid is open, or there is none.
type pair [2]netip.Addr

// addresses are those that Gateways get.
type addresses struct {
	*translation
	shared map[types.NamespacedName]bool // by who asks for that
	pairs  map[types.NamespacedName]*pair
	taken  map[netip.Addr]*pair
}

// places decides where Gateways, which are in the order of their age, are served. One that asks for addresses of the subnets has them.
// The others have the machine's addresses, so that they are where a user looks first; but one of whose ports another Gateway has there
// gets addresses of the subnets to itself, one of each, as Gateways are thought to be. What a Gateway has of the subnets it keeps: its status
// says so; and it gets what there was no subnet for before.
func (t *translation) places(gateways []*gatewayv1.Gateway) map[types.NamespacedName]place {
	a := addresses{
		translation: t, shared: map[types.NamespacedName]bool{}, pairs: map[types.NamespacedName]*pair{}, taken: map[netip.Addr]*pair{},
	}
	problems := map[types.NamespacedName]*addressProblem{}
	for _, g := range gateways {
		problems[client.ObjectKeyFromObject(g)] = a.ask(g)
	}
	for _, g := range gateways {
		a.keep(g)
	}
	held := map[gatewayv1.PortNumber]bool{}
	at := map[types.NamespacedName]place{}
	for _, g := range gateways {
		key := client.ObjectKeyFromObject(g)
		mine := a.pairs[key]
		if mine == nil && !a.shared[key] && problems[key] == nil && t.clash(g, held) {
			mine = a.next()
		}
		if mine == nil {
			for p := range t.ports(g) {
				held[p] = true
			}
			at[key] = place{t.Address, t.Twin, problems[key]}
			continue
		}
		a.complete(mine)
		both := place{mine[0], mine[1], problems[key]}
		if !both.address.IsValid() {
			both.address, both.twin = mine[1], mine[0]
		}
		at[key] = both
	}
	return at
}

// ask gives a Gateway what it asks for. What one is served at, the older has chosen for all that ask for it.
func (a *addresses) ask(g *gatewayv1.Gateway) *addressProblem {
	key := client.ObjectKeyFromObject(g)
	shared, asked, problem := a.asked(g)
	a.shared[key] = shared
	if problem != nil || asked == (pair{}) {
		return problem
	}
	mine := &pair{}
	for _, ip := range asked {
		if there := a.taken[ip]; there != nil {
			mine = there
		}
	}
	for i, ip := range asked {
		there := a.taken[ip]
		if ip.IsValid() && (there != nil && there != mine || mine[i].IsValid() && mine[i] != ip) {
			return &addressProblem{message: fmt.Sprintf("%s and %s are not those of one Gateway", asked[0], asked[1])}
		}
	}
	for i, ip := range asked {
		if ip.IsValid() {
			a.give(mine, i, ip)
		}
	}
	a.pairs[key] = mine
	return nil
}

// keep leaves a Gateway what it has, unless others have asked for that, or it asks for something else.
func (a *addresses) keep(g *gatewayv1.Gateway) {
	key := client.ObjectKeyFromObject(g)
	if a.shared[key] {
		return
	}
	mine := a.pairs[key]
	if mine == nil {
		mine = &pair{}
	}
	for _, had := range g.Status.Addresses {
		ip, err := netip.ParseAddr(had.Value)
		if i := a.subnetOf(ip); err == nil && i >= 0 && a.taken[ip] == nil && !mine[i].IsValid() {
			a.give(mine, i, ip)
			a.pairs[key] = mine
		}
	}
}

// next is what nobody has: nil if the first subnet has nothing left.
func (a *addresses) next() *pair {
	if len(a.Subnets) == 0 {
		return nil
	}
	mine := &pair{}
	if a.fill(mine, 0); !mine[0].IsValid() {
		return nil
	}
	return mine
}

// complete gives an address of each subnet that has one left.
func (a *addresses) complete(mine *pair) {
	for i := range a.Subnets {
		if !mine[i].IsValid() {
			a.fill(mine, i)
		}
	}
}

// fill gives the first address of a subnet that nobody has, if there is one.
func (a *addresses) fill(mine *pair, subnet int) {
	s := a.Subnets[subnet]
	// The first and the last one are no addresses of a host.
	for ip := s.Masked().Addr().Next(); s.Contains(ip.Next()); ip = ip.Next() {
		if a.taken[ip] == nil {
			a.give(mine, subnet, ip)
			return
		}
	}
}

func (a *addresses) give(mine *pair, subnet int, ip netip.Addr) {
	mine[subnet] = ip
	a.taken[ip] = mine
}

// subnetOf is the place of the subnet that has an address, -1 if none has.
func (t *translation) subnetOf(ip netip.Addr) int {
	return slices.IndexFunc(t.Subnets, func(s netip.Prefix) bool { return s.Contains(ip) })
}

// clash tells whether one of a Gateway's ports is among some.
func (t *translation) clash(g *gatewayv1.Gateway, held map[gatewayv1.PortNumber]bool) bool {
	for p := range t.ports(g) {
		if held[p] {
			return true
		}
	}
	return false
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

// asked are the addresses that a Gateway asks for: to share the machine's, or some of the subnets; neither if it may have any. The problem is
// about what it cannot have.
func (t *translation) asked(g *gatewayv1.Gateway) (shared bool, asked pair, problem *addressProblem) {
	for _, a := range g.Spec.Addresses {
		if kind := value(a.Type, gatewayv1.IPAddressType); kind != gatewayv1.IPAddressType {
			return false, pair{}, &addressProblem{refused: true, message: fmt.Sprintf("addresses of type %s are not supported", kind)}
		}
	}
	for _, a := range g.Spec.Addresses {
		if a.Value == "" {
			continue
		}
		ip, err := netip.ParseAddr(a.Value)
		if err == nil && (ip == t.Address || ip == t.Twin) {
			shared = true
			continue
		}
		switch i := t.subnetOf(ip); {
		case err != nil || i < 0:
			problem = &addressProblem{message: fmt.Sprintf("%s is neither the router's address %s nor in its subnet %s", a.Value, listed(t.Address, t.Twin), listed(t.Subnets...))}
		case asked[i].IsValid() && asked[i] != ip:
			problem = &addressProblem{message: "a Gateway has one address of a family"}
		default:
			asked[i] = ip
		}
	}
	if problem == nil && shared && asked != (pair{}) {
		problem = &addressProblem{message: "a Gateway has the router's address or one to itself"}
	}
	if problem != nil {
		return false, pair{}, problem
	}
	return shared, asked, nil
}

// listed are the texts of addresses or subnets, of which some may be not valid, with commas between them.
func listed[T interface {
	IsValid() bool
	String() string
}](all ...T) string {
	var valid []string
	for _, one := range all {
		if one.IsValid() {
			valid = append(valid, one.String())
		}
	}
	return cmp.Or(strings.Join(valid, ","), "(there is none)")
}
