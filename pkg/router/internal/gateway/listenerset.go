// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"fmt"
	"net/netip"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// listenerSet is a ListenerSet of one of this router's Gateways.
type listenerSet struct {
	object  *gatewayv1.ListenerSet
	gateway *gateway
	// refused is why none of its listeners is looked at, "" if they are.
	refused   gatewayv1.ListenerSetConditionReason
	message   string
	listeners []*listener
}

// parentOf is the Gateway that a ListenerSet is for.
func parentOf(s *gatewayv1.ListenerSet) types.NamespacedName {
	p := s.Spec.ParentRef
	if value(p.Group, gatewayv1.GroupName) != gatewayv1.GroupName || value(p.Kind, "Gateway") != "Gateway" {
		return types.NamespacedName{}
	}
	return types.NamespacedName{Namespace: string(value(p.Namespace, gatewayv1.Namespace(s.Namespace))), Name: string(p.Name)}
}

// listenerSets adds to a Gateway the listeners of those that are for it, the older first, which has what only one can have.
func (t *translation) listenerSets(g *gateway) {
	sets := slices.Clone(t.ListenerSets)
	slices.SortStableFunc(sets, func(a, b *gatewayv1.ListenerSet) int { return older(a, b) })
	for _, object := range sets {
		if parentOf(object) != client.ObjectKeyFromObject(g.object) {
			continue
		}
		s := &listenerSet{object: object, gateway: g}
		g.sets = append(g.sets, s)
		switch {
		case !t.allowsSet(g, object.Namespace):
			s.refused, s.message = gatewayv1.ListenerSetReasonNotAllowed, "the Gateway allows no ListenerSet of this namespace"
			continue
		case g.conditions.is(string(gatewayv1.GatewayConditionAccepted), metav1.ConditionFalse):
			s.refused, s.message = gatewayv1.ListenerSetReasonParentNotAccepted, "the Gateway is not accepted"
			continue
		}
		for i := range object.Spec.Listeners {
			spec := gatewayv1.Listener(object.Spec.Listeners[i])
			s.listeners = append(s.listeners, t.listener(g, &spec, s))
		}
	}
}

// allowsSet tells whether ListenerSets of a namespace may add to a Gateway.
func (t *translation) allowsSet(g *gateway, namespace string) bool {
	allowed := g.object.Spec.AllowedListeners
	if allowed == nil || allowed.Namespaces == nil {
		return false
	}
	return inNamespaces(value(allowed.Namespaces.From, gatewayv1.NamespacesFromNone), allowed.Namespaces.Selector, g.object.Namespace, namespace, t.Resolver.Namespaces)
}

// inNamespaces tells whether a namespace is among those that are meant from another one.
func inNamespaces(from gatewayv1.FromNamespaces, selector *metav1.LabelSelector, own, namespace string, all map[string]map[string]string) bool {
	switch from {
	case gatewayv1.NamespacesFromAll:
		return true
	case gatewayv1.NamespacesFromSame:
		return own == namespace
	case gatewayv1.NamespacesFromSelector:
		s, err := metav1.LabelSelectorAsSelector(selector)
		return err == nil && s.Matches(labels.Set(all[namespace]))
	}
	return false
}

// all are the listeners of a Gateway and of its ListenerSets, in the order in which they get what only one can have.
func (g *gateway) all() []*listener {
	all := slices.Clone(g.listeners)
	for _, s := range g.sets {
		all = append(all, s.listeners...)
	}
	return all
}

// clash is why two listeners of a Gateway cannot be told apart, "" if they can.
func clash(a, b *listener) gatewayv1.ListenerConditionReason {
	udp := func(l *listener) bool { return l.spec.Protocol == gatewayv1.UDPProtocolType }
	switch {
	case a.spec.Port != b.spec.Port || udp(a) != udp(b):
		return ""
	case a.spec.Protocol != b.spec.Protocol:
		return gatewayv1.ListenerReasonProtocolConflict
	case a.host == b.host:
		return gatewayv1.ListenerReasonHostnameConflict
	}
	return ""
}

// conflicts finds listeners that cannot be told apart. Of a Gateway's own none wins, and they win over those of its ListenerSets,
// of which the first wins.
func (g *gateway) conflicts() {
	conflict := func(a, b *listener, reason, programmed gatewayv1.ListenerConditionReason) {
		message := fmt.Sprintf("listener %q has the same port", b.spec.Name)
		a.conditions.set(string(gatewayv1.ListenerConditionConflicted), true, string(reason), message)
		a.conditions.set(string(gatewayv1.ListenerConditionAccepted), false, string(reason), message)
		a.conditions.set(string(gatewayv1.ListenerConditionProgrammed), false, string(programmed), message)
	}
	for i, a := range g.listeners {
		for j, b := range g.listeners {
			if reason := clash(a, b); i != j && reason != "" {
				conflict(a, b, reason, gatewayv1.ListenerReasonInvalid)
			}
		}
	}
	all := g.all()
	for i, a := range all {
		if a.set == nil {
			continue
		}
		for _, b := range all[:i] {
			if reason := clash(a, b); reason != "" && !b.conditions.is(string(gatewayv1.ListenerConditionConflicted), metav1.ConditionTrue) {
				conflict(a, b, reason, reason)
			}
		}
	}
}

// overlaps says of listeners whose TLS ends here that another one of their port is for some of their hosts, too: a client may use a
// connection again for such a host, which was made by the other one's certificate.
func (g *gateway) overlaps() {
	all := g.all()
	for _, a := range all {
		for _, b := range all {
			if a == b || a.spec.Port != b.spec.Port || !a.terminates() || !b.terminates() || !overlap(a.host, b.host) {
				continue
			}
			a.conditions.set(string(gatewayv1.ListenerConditionOverlappingTLSConfig), true, string(gatewayv1.ListenerReasonOverlappingHostnames),
				fmt.Sprintf("listener %q has the same port, and hosts of this one", b.spec.Name))
		}
	}
}

// overlap tells whether there are hosts that fit two patterns. "" is for all.
func overlap(a, b string) bool { return a == "" || b == "" || covers(a, b) || covers(b, a) }

// attached is how many ListenerSets add a listener to a Gateway that is served.
func (g *gateway) attached(failed map[netip.AddrPort]error) int32 {
	var n int32
	for _, s := range g.sets {
		if slices.ContainsFunc(s.listeners, func(l *listener) bool { return l.programmed(failed) }) {
			n++
		}
	}
	return n
}
