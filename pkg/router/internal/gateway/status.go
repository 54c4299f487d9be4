// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"net/netip"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"minik8s.io/minik8s/pkg/router/internal/table"
)

// Statuses are the objects whose status is to be another one, with that one. failed are the ports that cannot be opened.
func (o *Output) Statuses(failed map[netip.AddrPort]error) []client.Object {
	var changed []client.Object
	for _, c := range o.classes {
		var now conditions
		if c.Spec.ParametersRef != nil {
			now.set(string(gatewayv1.GatewayClassConditionStatusAccepted), false, string(gatewayv1.GatewayClassReasonInvalidParameters), noParameters)
		}
		now.set(string(gatewayv1.GatewayClassConditionStatusAccepted), true, string(gatewayv1.GatewayClassReasonAccepted), "the class is the router's")
		next := c.DeepCopy()
		next.Status.Conditions = o.merged(c.Status.Conditions, now.all, c.Generation)
		next.Status.SupportedFeatures = supportedFeatures
		if !equality.Semantic.DeepEqual(c.Status, next.Status) {
			changed = append(changed, next)
		}
	}
	for _, g := range o.gateways {
		next := g.object.DeepCopy()
		o.gatewayStatus(g, &next.Status, failed)
		if !equality.Semantic.DeepEqual(g.object.Status, next.Status) {
			changed = append(changed, next)
		}
	}
	for _, g := range o.gateways {
		for _, s := range g.sets {
			next := s.object.DeepCopy()
			o.listenerSetStatus(s, &next.Status, failed)
			if !equality.Semantic.DeepEqual(s.object.Status, next.Status) {
				changed = append(changed, next)
			}
		}
	}
	changed = append(changed, o.orphans()...)
	for _, p := range o.policies {
		next := p.object.DeepCopy()
		o.policyStatus(p, &next.Status)
		if !equality.Semantic.DeepEqual(p.object.Status, next.Status) {
			changed = append(changed, next)
		}
	}
	for _, r := range o.routes {
		next := r.object.DeepCopyObject().(client.Object)
		var status *gatewayv1.RouteStatus
		switch n := next.(type) {
		case *gatewayv1.HTTPRoute:
			status = &n.Status.RouteStatus
		case *gatewayv1.GRPCRoute:
			status = &n.Status.RouteStatus
		case *gatewayv1.TLSRoute:
			status = &n.Status.RouteStatus
		case *gatewayv1.TCPRoute:
			status = &n.Status.RouteStatus
		case *gatewayv1.UDPRoute:
			status = &n.Status.RouteStatus
		}
		status.Parents = o.parents(r)
		if !equality.Semantic.DeepEqual(*r.status, *status) {
			changed = append(changed, next)
		}
	}
	return changed
}

// passing are the types of conditions that are there only as long as they are true.
var passing = []string{
	string(gatewayv1.GatewayConditionInsecureFrontendValidationMode), string(gatewayv1.ListenerConditionOverlappingTLSConfig),
	string(gatewayv1.RouteConditionPartiallyInvalid),
}

// merged are the conditions as they are to be. Those of types that nobody sets here stay; the time is that of the last change.
func (o *Output) merged(old, now []metav1.Condition, generation int64) []metav1.Condition {
	out := slices.DeleteFunc(slices.Clone(old), func(c metav1.Condition) bool {
		return slices.Contains(passing, c.Type) && meta.FindStatusCondition(now, c.Type) == nil
	})
	for _, c := range now {
		c.ObservedGeneration, c.LastTransitionTime = generation, o.input.Now
		meta.SetStatusCondition(&out, c)
	}
	return out
}

func (o *Output) gatewayStatus(g *gateway, status *gatewayv1.GatewayStatus, failed map[netip.AddrPort]error) {
	before := map[gatewayv1.SectionName][]metav1.Condition{}
	for _, x := range status.Listeners {
		before[x.Name] = x.Conditions
	}
	status.Listeners = nil
	accepted, valid, resolved, bound := 0, true, true, 0
	for _, l := range g.listeners {
		c := l.told(failed)
		if c.is(string(gatewayv1.ListenerConditionAccepted), metav1.ConditionTrue) {
			accepted++
		} else {
			valid = false
		}
		if c.is(string(gatewayv1.ListenerConditionProgrammed), metav1.ConditionTrue) {
			bound++
		}
		if c.is(string(gatewayv1.ListenerConditionResolvedRefs), metav1.ConditionFalse) {
			resolved = false
		}
		status.Listeners = append(status.Listeners, gatewayv1.ListenerStatus{
			Name: l.spec.Name, SupportedKinds: groupKinds(l.kinds), AttachedRoutes: int32(len(l.attached)),
			Conditions: o.merged(before[l.spec.Name], c.all, g.object.Generation),
		})
	}
	sets := g.attached(failed)
	if len(g.sets) > 0 || status.AttachedListenerSets != nil {
		status.AttachedListenerSets = &sets
		bound += int(sets)
	}
	c := conditions{slices.Clone(g.conditions.all)}
	switch {
	case accepted == 0:
		c.set(string(gatewayv1.GatewayConditionAccepted), false, string(gatewayv1.GatewayReasonListenersNotValid), "no listener can be used")
	case !valid:
		c.set(string(gatewayv1.GatewayConditionAccepted), true, string(gatewayv1.GatewayReasonListenersNotValid), someAccepted)
	default:
		c.set(string(gatewayv1.GatewayConditionAccepted), true, string(gatewayv1.GatewayReasonAccepted), gatewayAccepted)
	}
	if bound == 0 {
		c.set(string(gatewayv1.GatewayConditionProgrammed), false, string(gatewayv1.GatewayReasonInvalid), "no listener is served")
	}
	c.set(string(gatewayv1.GatewayConditionProgrammed), true, string(gatewayv1.GatewayReasonProgrammed), "requests are answered")
	if !resolved {
		c.set(string(gatewayv1.GatewayConditionResolvedRefs), false, string(gatewayv1.GatewayReasonListenersNotResolved), "references of some listeners lead nowhere")
	}
	c.set(string(gatewayv1.GatewayConditionResolvedRefs), true, string(gatewayv1.GatewayReasonResolvedRefs), "all references lead somewhere")
	if g.insecure {
		c.set(string(gatewayv1.GatewayConditionInsecureFrontendValidationMode), true, string(gatewayv1.GatewayReasonConfigurationChanged),
			"clients without a certificate of theirs may connect")
	}
	status.Conditions = o.merged(status.Conditions, c.all, g.object.Generation)
	status.Addresses = nil
	if !g.conditions.is(string(gatewayv1.GatewayConditionProgrammed), metav1.ConditionFalse) {
		kind := gatewayv1.IPAddressType
		for _, a := range g.open(failed) {
			status.Addresses = append(status.Addresses, gatewayv1.GatewayStatusAddress{Type: &kind, Value: a.String()})
		}
	}
}

// open are the addresses of a Gateway: the twin only if all ports are open there.
func (g *gateway) open(failed map[netip.AddrPort]error) []netip.Addr {
	if !g.twin.IsValid() {
		return []netip.Addr{g.address}
	}
	listeners := slices.Clone(g.listeners)
	for _, s := range g.sets {
		listeners = append(listeners, s.listeners...)
	}
	for _, l := range listeners {
		if l.served && failed[table.TwinOf(l.at, g.twin)] != nil {
			return []netip.Addr{g.address}
		}
	}
	return []netip.Addr{g.address, g.twin}
}

// programmed tells whether requests come in by a listener.
func (l *listener) programmed(failed map[netip.AddrPort]error) bool {
	c := l.told(failed)
	return c.is(string(gatewayv1.ListenerConditionProgrammed), metav1.ConditionTrue)
}

// told are all conditions of a listener.
func (l *listener) told(failed map[netip.AddrPort]error) conditions {
	c := conditions{slices.Clone(l.conditions.all)}
	if err := failed[l.at]; err != nil && l.served {
		c.set(string(gatewayv1.ListenerConditionAccepted), false, string(gatewayv1.ListenerReasonPortUnavailable), err.Error())
		c.set(string(gatewayv1.ListenerConditionProgrammed), false, string(gatewayv1.ListenerReasonInvalid), err.Error())
	}
	c.set(string(gatewayv1.ListenerConditionAccepted), true, string(gatewayv1.ListenerReasonAccepted), "the listener is the router's")
	c.set(string(gatewayv1.ListenerConditionResolvedRefs), true, string(gatewayv1.ListenerReasonResolvedRefs), "all references lead somewhere")
	c.set(string(gatewayv1.ListenerConditionConflicted), false, string(gatewayv1.ListenerReasonNoConflicts), "no other listener is in the way")
	if l.served {
		c.set(string(gatewayv1.ListenerConditionProgrammed), true, string(gatewayv1.ListenerReasonProgrammed), "requests are answered")
	} else {
		c.set(string(gatewayv1.ListenerConditionProgrammed), false, string(gatewayv1.ListenerReasonInvalid), "the Gateway is not served")
	}
	return c
}

// listenerSetStatus is that of a ListenerSet. It is accepted if one of its listeners is served.
func (o *Output) listenerSetStatus(s *listenerSet, status *gatewayv1.ListenerSetStatus, failed map[netip.AddrPort]error) {
	before := map[gatewayv1.SectionName][]metav1.Condition{}
	for _, x := range status.Listeners {
		before[x.Name] = x.Conditions
	}
	status.Listeners = nil
	good := 0
	for _, l := range s.listeners {
		c := l.told(failed)
		if c.is(string(gatewayv1.ListenerConditionProgrammed), metav1.ConditionTrue) {
			good++
		}
		status.Listeners = append(status.Listeners, gatewayv1.ListenerEntryStatus{
			Name: l.spec.Name, SupportedKinds: groupKinds(l.kinds), AttachedRoutes: int32(len(l.attached)),
			Conditions: o.merged(before[l.spec.Name], c.all, s.object.Generation),
		})
	}
	var c conditions
	both := func(status bool, accepted, programmed gatewayv1.ListenerSetConditionReason, message string) {
		c.set(string(gatewayv1.ListenerSetConditionAccepted), status, string(accepted), message)
		c.set(string(gatewayv1.ListenerSetConditionProgrammed), status, string(programmed), message)
	}
	switch {
	case s.refused != "":
		both(false, s.refused, s.refused, s.message)
	case good == 0:
		both(false, gatewayv1.ListenerSetReasonListenersNotValid, gatewayv1.ListenerSetReasonListenersNotValid, "no listener can be used")
	case good < len(s.listeners):
		both(true, gatewayv1.ListenerSetReasonListenersNotValid, gatewayv1.ListenerSetReasonProgrammed, someAccepted)
	default:
		both(true, gatewayv1.ListenerSetReasonAccepted, gatewayv1.ListenerSetReasonProgrammed, setAccepted)
	}
	status.Conditions = o.merged(status.Conditions, c.all, s.object.Generation)
}

func groupKinds(kinds []string) []gatewayv1.RouteGroupKind {
	out := []gatewayv1.RouteGroupKind{} // an empty list is told, too
	for _, k := range kinds {
		group := gatewayv1.Group(gatewayv1.GroupName)
		out = append(out, gatewayv1.RouteGroupKind{Group: &group, Kind: gatewayv1.Kind(k)})
	}
	return out
}

// parents are what a route says of its parents: first what other controllers have said.
func (o *Output) parents(r *route) []gatewayv1.RouteParentStatus {
	out := []gatewayv1.RouteParentStatus{}
	for _, p := range r.status.Parents {
		if p.ControllerName != o.input.Controller {
			out = append(out, p)
		}
	}
	for _, p := range r.parents {
		var before []metav1.Condition
		for _, x := range r.status.Parents {
			if x.ControllerName == o.input.Controller && equality.Semantic.DeepEqual(x.ParentRef, p.ref) {
				before = x.Conditions
			}
		}
		out = append(out, gatewayv1.RouteParentStatus{
			ParentRef: p.ref, ControllerName: o.input.Controller, Conditions: o.merged(before, p.conditions.all, r.object.GetGeneration()),
		})
	}
	return out
}
