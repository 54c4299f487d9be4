// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package gateway translates the objects of the Gateway API into the router's table, and says in their statuses what came of
// them. It is a function of objects. Touch it when a field of that API is to have an effect, or another one.
package gateway

import (
	"cmp"
	"net/netip"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"minik8s.io/minik8s/pkg/router/internal/resolve"
	"minik8s.io/minik8s/pkg/router/internal/table"
)

// Input is what a translation is made of.
type Input struct {
	Classes    []*gatewayv1.GatewayClass
	Gateways   []*gatewayv1.Gateway
	HTTPRoutes []*gatewayv1.HTTPRoute
	GRPCRoutes []*gatewayv1.GRPCRoute
	// ListenerSets are those of any Gateway.
	ListenerSets []*gatewayv1.ListenerSet
	TLSRoutes    []*gatewayv1.TLSRoute
	TCPRoutes    []*gatewayv1.TCPRoute
	UDPRoutes    []*gatewayv1.UDPRoute
	// BackendTLSPolicies say how backends are spoken to.
	BackendTLSPolicies []*gatewayv1.BackendTLSPolicy
	Grants             []*gatewayv1.ReferenceGrant
	// Controller is the name by which classes are this router's.
	Controller gatewayv1.GatewayController
	// Address is the machine's, which Gateways share. Subnets, at most two, have those that they get for themselves, one of each.
	Address netip.Addr
	Subnets []netip.Prefix
	// Twin is another address of the machine, where all is served that is at Address; not valid if there is none.
	Twin netip.Addr
	// Port is where a port of a Gateway is served at the machine's address.
	Port func(port gatewayv1.PortNumber) uint16
	// Taken are the ports that something else is served at.
	Taken []table.Port
	// Limits are those of routes that have none of their own.
	Limits   table.Action
	Resolver *resolve.Resolver
	// Now is the time of conditions that change.
	Now metav1.Time
}

// Output is what comes of it.
type Output struct {
	table.Contents
	input    Input
	classes  []*gatewayv1.GatewayClass
	gateways []*gateway
	routes   []*route
	policies []*tlsPolicy
}

// Addresses are those of the subnets that Gateways have.
func (o *Output) Addresses() []netip.Addr {
	var all []netip.Addr
	for _, g := range o.gateways {
		for _, a := range []netip.Addr{g.address, g.twin} {
			if slices.ContainsFunc(o.input.Subnets, func(s netip.Prefix) bool { return s.Contains(a) }) {
				all = append(all, a)
			}
		}
	}
	slices.SortFunc(all, netip.Addr.Compare)
	return slices.Compact(all)
}

// Translate does what the package is for.
func Translate(in Input) *Output {
	t := &translation{
		Input: in, out: &Output{input: in}, protocols: map[netip.AddrPort]table.Protocol{}, strict: map[netip.AddrPort]*gateway{},
		targets: map[target]*tlsPolicy{}, losers: map[target][]*tlsPolicy{}, own: map[gatewayv1.ObjectName]*gatewayv1.GatewayClass{},
	}
	for _, c := range in.Classes {
		if c.Spec.ControllerName == in.Controller {
			t.own[gatewayv1.ObjectName(c.Name)] = c
			t.out.classes = append(t.out.classes, c)
		}
	}
	for _, p := range in.Taken {
		t.protocols[p.Address] = p.Protocol
	}
	gateways := slices.DeleteFunc(slices.Clone(in.Gateways), func(g *gatewayv1.Gateway) bool { return t.own[g.Spec.GatewayClassName] == nil })
	slices.SortStableFunc(gateways, func(a, b *gatewayv1.Gateway) int { return older(a, b) })
	at := t.places(gateways)
	t.out.Twins = map[netip.Addr]netip.Addr{}
	for _, object := range gateways {
		g := t.gateway(object, at[client.ObjectKeyFromObject(object)])
		t.out.gateways = append(t.out.gateways, g)
		t.out.Twins[g.address] = g.twin
	}
	t.policies()
	for _, r := range requestRoutes(in) {
		t.route(r)
	}
	for _, r := range in.TLSRoutes {
		var refs []gatewayv1.BackendRef
		for _, rule := range r.Spec.Rules {
			refs = append(refs, rule.BackendRefs...)
		}
		t.route(newRoute(r, "TLSRoute", stream(r.Spec.CommonRouteSpec, r.Spec.Hostnames, refs), &r.Status.RouteStatus))
	}
	for _, r := range in.TCPRoutes {
		var refs []gatewayv1.BackendRef
		for _, rule := range r.Spec.Rules {
			refs = append(refs, rule.BackendRefs...)
		}
		t.route(newRoute(r, "TCPRoute", stream(r.Spec.CommonRouteSpec, nil, refs), &r.Status.RouteStatus))
	}
	for _, r := range in.UDPRoutes {
		var refs []gatewayv1.BackendRef
		for _, rule := range r.Spec.Rules {
			refs = append(refs, rule.BackendRefs...)
		}
		t.route(newRoute(r, "UDPRoute", stream(r.Spec.CommonRouteSpec, nil, refs), &r.Status.RouteStatus))
	}
	return t.out
}

// requestRoutes are those of HTTP and gRPC, the older first: of two kinds only one may have a host of a listener.
func requestRoutes(in Input) []*route {
	var all []*route
	for _, r := range in.HTTPRoutes {
		all = append(all, newRoute(r, "HTTPRoute", r.Spec, &r.Status.RouteStatus))
	}
	for _, r := range in.GRPCRoutes {
		all = append(all, newRoute(r, "GRPCRoute", asHTTP(r.Spec), &r.Status.RouteStatus))
	}
	slices.SortStableFunc(all, func(a, b *route) int { return older(a.object, b.object) })
	return all
}

// stream says in terms of HTTP what a route for connections wants: one rule for all of them. The definitions allow no second rule.
func stream(common gatewayv1.CommonRouteSpec, hostnames []gatewayv1.Hostname, refs []gatewayv1.BackendRef) gatewayv1.HTTPRouteSpec {
	var rule gatewayv1.HTTPRouteRule
	for _, ref := range refs {
		rule.BackendRefs = append(rule.BackendRefs, gatewayv1.HTTPBackendRef{BackendRef: ref})
	}
	return gatewayv1.HTTPRouteSpec{CommonRouteSpec: common, Hostnames: hostnames, Rules: []gatewayv1.HTTPRouteRule{rule}}
}

// Used tells whether a class of this router's is there.
func Used(classes []*gatewayv1.GatewayClass, controller gatewayv1.GatewayController) bool {
	return slices.ContainsFunc(classes, func(c *gatewayv1.GatewayClass) bool { return c.Spec.ControllerName == controller })
}

// older is the order in which objects have what only one can have.
func older(a, b client.Object) int {
	if c := a.GetCreationTimestamp().Compare(b.GetCreationTimestamp().Time); c != 0 {
		return c
	}
	return cmp.Compare(nameOf(a), nameOf(b))
}

// nameOf is a name as the API has names ordered: "a-b/x" is before "a/x".
func nameOf(o client.Object) string { return o.GetNamespace() + "/" + o.GetName() }

type translation struct {
	Input
	out *Output
	// own are the classes of this router's.
	own       map[gatewayv1.ObjectName]*gatewayv1.GatewayClass
	protocols map[netip.AddrPort]table.Protocol // of ports that are taken
	// strict are the Gateways that have a port to themselves, for they say who may connect, or what backends are shown.
	strict map[netip.AddrPort]*gateway
	// targets are the policies by what they are for, losers those that would be if there were no other.
	targets map[target]*tlsPolicy
	losers  map[target][]*tlsPolicy
}

// conditions are those of one object, or of one part of it.
type conditions struct{ all []metav1.Condition }

// set sets a condition. One that is set already stays, so that the first thing that is wrong is told.
func (c *conditions) set(kind string, status bool, reason, message string) {
	if slices.ContainsFunc(c.all, func(x metav1.Condition) bool { return x.Type == kind }) {
		return
	}
	s := metav1.ConditionFalse
	if status {
		s = metav1.ConditionTrue
	}
	c.all = append(c.all, metav1.Condition{Type: kind, Status: s, Reason: reason, Message: message})
}

// is tells whether a condition is set, and so.
func (c *conditions) is(kind string, status metav1.ConditionStatus) bool {
	return slices.ContainsFunc(c.all, func(x metav1.Condition) bool { return x.Type == kind && x.Status == status })
}

// permitted tells whether an object of another namespace may be referred to.
func (t *translation) permitted(fromKind, fromNamespace, toKind string, to types.NamespacedName) bool {
	if fromNamespace == to.Namespace {
		return true
	}
	for _, g := range t.Grants {
		if g.Namespace != to.Namespace {
			continue
		}
		from := slices.ContainsFunc(g.Spec.From, func(f gatewayv1.ReferenceGrantFrom) bool {
			return f.Group == gatewayv1.GroupName && string(f.Kind) == fromKind && string(f.Namespace) == fromNamespace
		})
		if from && slices.ContainsFunc(g.Spec.To, func(x gatewayv1.ReferenceGrantTo) bool {
			return x.Group == "" && string(x.Kind) == toKind && (x.Name == nil || *x.Name == "" || string(*x.Name) == to.Name)
		}) {
			return true
		}
	}
	return false
}

// value is what p points to, or the default.
func value[T any](p *T, otherwise T) T {
	if p == nil {
		return otherwise
	}
	return *p
}
