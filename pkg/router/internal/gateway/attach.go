// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"minik8s.io/minik8s/pkg/router/internal/table"
)

// route is a route with what came of its references to Gateways of this router.
type route struct {
	object  client.Object
	kind    string
	spec    gatewayv1.HTTPRouteSpec
	status  *gatewayv1.RouteStatus // as it is
	parents []parent
	// gateways are those that the references lead to.
	gateways map[*gateway]bool
	// terminated says that it is attached where TLS ends here.
	terminated bool
}

// parent is what came of one reference.
type parent struct {
	ref        gatewayv1.ParentReference
	conditions conditions
}

// at is where a route is found: a listener, and the hosts that it shares with the route.
type at struct {
	listener *listener
	hosts    []string
}

func newRoute(object client.Object, kind string, spec gatewayv1.HTTPRouteSpec, status *gatewayv1.RouteStatus) *route {
	return &route{object: object, kind: kind, spec: spec, status: status, gateways: map[*gateway]bool{}}
}

// route attaches a route to the listeners that its references lead to.
func (t *translation) route(r *route) {
	var places []at
	for _, ref := range t.withDefaults(r) {
		g, listeners := t.parent(r, ref)
		if g == nil {
			continue
		}
		r.gateways[g] = true
		p := parent{ref: ref}
		found, reason, message := t.attach(r, listeners, ref)
		if reason != "" {
			p.conditions.set(string(gatewayv1.RouteConditionAccepted), false, string(reason), message)
		}
		places = append(places, found...)
		r.parents = append(r.parents, p)
	}
	if len(r.parents) > 0 || slices.ContainsFunc(r.status.Parents, func(p gatewayv1.RouteParentStatus) bool { return p.ControllerName == t.Controller }) {
		t.out.routes = append(t.out.routes, r)
	}
	if len(r.parents) == 0 {
		return
	}
	r.terminated = slices.ContainsFunc(places, func(p at) bool { return p.listener.terminates() })
	rules := t.rules(r)
	for i := range r.parents {
		c := &r.parents[i].conditions
		rules.tell(c)
		c.set(string(gatewayv1.RouteConditionAccepted), true, string(gatewayv1.RouteReasonAccepted), "the route is attached")
		c.set(string(gatewayv1.RouteConditionResolvedRefs), true, string(gatewayv1.RouteReasonResolvedRefs), "all references lead somewhere")
	}
	if rules.refused != nil {
		return
	}
	for _, p := range places {
		p.listener.attach(r, p.hosts)
		if !p.listener.served {
			continue
		}
		for _, host := range p.hosts {
			for _, tr := range rules.routes {
				t.out.Entries = append(t.out.Entries, table.Entry{Port: p.listener.at, Site: p.listener.host, Host: host, Route: tr})
			}
		}
	}
}

// withDefaults are a route's references to parents, with those to Gateways that take whatever asks for a default one, if it does.
func (t *translation) withDefaults(r *route) []gatewayv1.ParentReference {
	refs := slices.Clone(r.spec.ParentRefs)
	if r.spec.UseDefaultGateways != gatewayv1.GatewayDefaultScopeAll {
		return refs
	}
	named := map[*gateway]bool{}
	for _, ref := range refs {
		g, _ := t.parent(r, ref)
		named[g] = true
	}
	for _, g := range t.out.gateways {
		if g.object.Spec.DefaultScope == gatewayv1.GatewayDefaultScopeAll && !named[g] {
			namespace := gatewayv1.Namespace(g.object.Namespace)
			refs = append(refs, gatewayv1.ParentReference{Namespace: &namespace, Name: gatewayv1.ObjectName(g.object.Name)})
		}
	}
	return refs
}

// parent are the listeners that a reference may mean: those of a Gateway of this router, or of a ListenerSet for one. It returns no
// Gateway if the reference is to something else.
func (t *translation) parent(r *route, ref gatewayv1.ParentReference) (*gateway, []*listener) {
	if value(ref.Group, gatewayv1.GroupName) != gatewayv1.GroupName {
		return nil, nil
	}
	name := types.NamespacedName{Namespace: string(value(ref.Namespace, gatewayv1.Namespace(r.object.GetNamespace()))), Name: string(ref.Name)}
	for _, g := range t.out.gateways {
		switch value(ref.Kind, "Gateway") {
		case "Gateway":
			if client.ObjectKeyFromObject(g.object) == name {
				return g, g.listeners
			}
		case "ListenerSet":
			for _, s := range g.sets {
				if client.ObjectKeyFromObject(s.object) == name {
					return g, s.listeners
				}
			}
		}
	}
	return nil, nil
}

// attach finds the listeners of a parent for a route; if there are none, why.
func (t *translation) attach(r *route, listeners []*listener, ref gatewayv1.ParentReference) ([]at, gatewayv1.RouteConditionReason, string) {
	var named, allowed []*listener
	for _, l := range listeners {
		if (ref.SectionName == nil || *ref.SectionName == l.spec.Name) && (ref.Port == nil || *ref.Port == l.spec.Port) {
			named = append(named, l)
		}
	}
	if len(named) == 0 {
		return nil, gatewayv1.RouteReasonNoMatchingParent, "the parent has no such listener"
	}
	for _, l := range named {
		if slices.Contains(l.kinds, r.kind) && l.allows(r.object.GetNamespace(), t.Resolver.Namespaces) {
			allowed = append(allowed, l)
		}
	}
	if len(allowed) == 0 {
		return nil, gatewayv1.RouteReasonNotAllowedByListeners, fmt.Sprintf("no listener allows a route of kind %s of this namespace", r.kind)
	}
	var found []at
	var taken error
	for _, l := range allowed {
		hosts := intersection(l.host, r.spec.Hostnames)
		if len(hosts) == 0 {
			continue
		}
		if err := l.taken(r.kind, hosts); err != nil {
			taken = err
			continue
		}
		found = append(found, at{l, hosts})
	}
	switch {
	case len(found) > 0:
		return found, "", ""
	case taken != nil:
		return nil, hostnameConflict, taken.Error()
	default:
		return nil, gatewayv1.RouteReasonNoMatchingListenerHostname, "no listener has a hostname of the route"
	}
}

// hostnameConflict is why a route is not accepted that shares hosts with one of another kind. The API has no reason for that; this is
// what others take for it.
const hostnameConflict gatewayv1.RouteConditionReason = "HostnameConflict"

// taken tells that a route of another kind than this one has some of the hosts already.
func (l *listener) taken(kind string, hosts []string) error {
	var by []string
	for other, theirs := range l.hosts {
		if other == kind {
			continue
		}
		for host, name := range theirs {
			if slices.ContainsFunc(hosts, func(h string) bool { return overlap(h, host) }) {
				by = append(by, other+" "+name)
			}
		}
	}
	if len(by) == 0 {
		return nil
	}
	return fmt.Errorf("%s has hostnames of the route at listener %q already", slices.Min(by), l.spec.Name)
}

// attach notes that a route is attached, by some hosts. Kinds for connections, such as TLSRoute and TCPRoute, may share hosts.
func (l *listener) attach(r *route, hosts []string) {
	l.attached[r] = true
	if r.kind != "HTTPRoute" && r.kind != "GRPCRoute" {
		return
	}
	if l.hosts[r.kind] == nil {
		l.hosts[r.kind] = map[string]string{}
	}
	for _, host := range hosts {
		l.hosts[r.kind][host] = cmp.Or(l.hosts[r.kind][host], nameOf(r.object))
	}
}

// intersection are the hosts that a listener and a route share. "" is for all.
func intersection(listener string, hostnames []gatewayv1.Hostname) []string {
	if len(hostnames) == 0 {
		return []string{listener}
	}
	var shared []string
	for _, h := range hostnames {
		host := strings.ToLower(string(h))
		switch {
		case listener == "" || covers(listener, host):
			shared = append(shared, host)
		case covers(host, listener):
			shared = append(shared, listener)
		}
	}
	slices.Sort(shared)
	return slices.Compact(shared)
}

// covers tells whether all that fits host fits pattern, too.
func covers(pattern, host string) bool {
	if pattern == host {
		return true
	}
	suffix, wildcard := strings.CutPrefix(pattern, "*")
	return wildcard && strings.HasSuffix(host, suffix) && len(host) > len(suffix)
}
