// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"minik8s.io/minik8s/pkg/router/internal/table"
)

// gateway is a Gateway of this router.
type gateway struct {
	object *gatewayv1.Gateway
	// twin is where all is served, too, that is at address; not valid if there is none.
	address, twin netip.Addr
	conditions    conditions
	listeners     []*listener
	sets          []*listenerSet
	// certificate is what backends are shown; nil: none.
	certificate *tls.Certificate
	// insecure says that a listener takes clients without a certificate although it asks for one.
	insecure bool
}

// listener is one of a Gateway, or of a ListenerSet.
type listener struct {
	spec       *gatewayv1.Listener
	set        *listenerSet // nil: it is the Gateway's own
	namespace  string       // of its Gateway, or ListenerSet
	host       string
	at         netip.AddrPort
	kinds      []string // of routes that may be attached
	conditions conditions
	attached   map[*route]bool
	hosts      map[string]map[string]string // of attached routes for requests, by their kind, with the name of the first
	served     bool                         // requests come in by it
	// passthrough says that TLS ends at the backend.
	passthrough bool
	clients     *table.Clients
}

// terminates tells whether TLS ends here.
func (l *listener) terminates() bool {
	return l.spec.Protocol == gatewayv1.HTTPSProtocolType || l.spec.Protocol == gatewayv1.TLSProtocolType && !l.passthrough
}

func (t *translation) gateway(object *gatewayv1.Gateway, at place) *gateway {
	g := &gateway{object: object, address: at.address, twin: at.twin}
	if t.own[object.Spec.GatewayClassName].Spec.ParametersRef != nil {
		g.refuse(gatewayv1.GatewayReasonInvalidParameters, "the class is not accepted: "+noParameters)
	}
	if i := object.Spec.Infrastructure; i != nil && i.ParametersRef != nil {
		g.refuse(gatewayv1.GatewayReasonInvalidParameters, "infrastructure.parametersRef is not supported")
	}
	switch problem := at.problem; {
	case problem != nil && problem.refused:
		g.refuse(gatewayv1.GatewayReasonUnsupportedAddress, problem.message)
	case problem != nil:
		g.conditions.set(string(gatewayv1.GatewayConditionProgrammed), false, string(gatewayv1.GatewayReasonAddressNotUsable), problem.message)
	}
	usable := len(g.conditions.all) == 0
	t.clientCertificate(g)
	for i := range object.Spec.Listeners {
		g.listeners = append(g.listeners, t.listener(g, &object.Spec.Listeners[i], nil))
	}
	t.listenerSets(g)
	g.conflicts()
	g.overlaps()
	for _, l := range g.all() {
		t.serve(g, l, usable)
	}
	return g
}

// noParameters is what a class is told that has some.
const noParameters = "parametersRef is not supported"

// refuse says that a Gateway is not served at all.
func (g *gateway) refuse(reason gatewayv1.GatewayConditionReason, message string) {
	g.conditions.set(string(gatewayv1.GatewayConditionAccepted), false, string(reason), message)
	g.conditions.set(string(gatewayv1.GatewayConditionProgrammed), false, string(gatewayv1.GatewayReasonInvalid), message)
}

func (t *translation) listener(g *gateway, spec *gatewayv1.Listener, set *listenerSet) *listener {
	l := &listener{
		spec: spec, set: set, host: strings.ToLower(string(value(spec.Hostname, ""))), at: t.at(g, spec.Port),
		namespace: g.object.Namespace, attached: map[*route]bool{}, hosts: map[string]map[string]string{},
	}
	if set != nil {
		l.namespace = set.object.Namespace
	}
	mode := gatewayv1.TLSModeTerminate
	if spec.TLS != nil {
		mode = value(spec.TLS.Mode, mode)
	}
	switch spec.Protocol {
	case gatewayv1.HTTPProtocolType:
		l.kinds = []string{"HTTPRoute", "GRPCRoute"}
	case gatewayv1.HTTPSProtocolType:
		l.kinds = []string{"HTTPRoute", "GRPCRoute"}
		if mode != gatewayv1.TLSModeTerminate {
			l.refuse(gatewayv1.ListenerReasonUnsupportedValue, "TLS of protocol HTTPS can only be terminated")
		}
	case gatewayv1.TLSProtocolType:
		l.kinds, l.passthrough = []string{"TLSRoute"}, mode == gatewayv1.TLSModePassthrough
	case gatewayv1.TCPProtocolType:
		l.kinds, l.host = []string{"TCPRoute"}, ""
	case gatewayv1.UDPProtocolType:
		l.kinds, l.host = []string{"UDPRoute"}, ""
	default:
		l.refuse(gatewayv1.ListenerReasonUnsupportedProtocol, fmt.Sprintf("protocol %s is not supported", spec.Protocol))
	}
	if spec.TLS != nil && len(spec.TLS.Options) > 0 {
		l.refuse(gatewayv1.ListenerReasonUnsupportedValue, "tls.options: "+unsupported(spec.TLS.Options))
	}
	if l.terminates() {
		l.clients = t.clients(g, l)
	}
	l.restrictKinds()
	return l
}

// unsupported says of options of TLS that there are none here: one that is left out, such as a least version, would be believed in.
func unsupported(options map[gatewayv1.AnnotationKey]gatewayv1.AnnotationValue) string {
	return fmt.Sprintf("option %q is not supported", slices.Min(slices.Collect(maps.Keys(options))))
}

// at is where a port of a Gateway is served.
func (t *translation) at(g *gateway, port gatewayv1.PortNumber) netip.AddrPort {
	if g.address == t.Address {
		return netip.AddrPortFrom(g.address, t.Port(port))
	}
	return netip.AddrPortFrom(g.address, uint16(port))
}

// restrictKinds leaves the kinds of routes that the listener wants, of those there are.
func (l *listener) restrictKinds() {
	if l.spec.AllowedRoutes == nil || len(l.spec.AllowedRoutes.Kinds) == 0 {
		return
	}
	var wanted []string
	for _, k := range l.spec.AllowedRoutes.Kinds {
		known := false
		for _, kind := range l.kinds {
			if value(k.Group, gatewayv1.GroupName) == gatewayv1.GroupName && string(k.Kind) == kind {
				known = true
				wanted = append(wanted, kind)
			}
		}
		if !known {
			l.conditions.set(string(gatewayv1.ListenerConditionResolvedRefs), false, string(gatewayv1.ListenerReasonInvalidRouteKinds),
				fmt.Sprintf("routes of kind %s cannot be attached", k.Kind))
		}
	}
	l.kinds = wanted
}

// refuse says that a listener is not served.
func (l *listener) refuse(reason gatewayv1.ListenerConditionReason, message string) {
	l.conditions.set(string(gatewayv1.ListenerConditionAccepted), false, string(reason), message)
	l.conditions.set(string(gatewayv1.ListenerConditionProgrammed), false, string(gatewayv1.ListenerReasonInvalid), message)
}

// serve adds a listener to the table.
func (t *translation) serve(g *gateway, l *listener, usable bool) {
	protocol := table.Protocol(l.spec.Protocol)
	if other, taken := t.protocols[l.at]; taken && other != protocol && !l.conditions.is(string(gatewayv1.ListenerConditionAccepted), metav1.ConditionFalse) {
		l.refuse(gatewayv1.ListenerReasonPortUnavailable, fmt.Sprintf("port %d has protocol %s already", l.spec.Port, other))
	}
	own := t.strict[l.at]
	if _, taken := t.protocols[l.at]; taken && own != g && (own != nil || l.clients != nil || g.certificate != nil) {
		l.refuse(gatewayv1.ListenerReasonPortUnavailable, "another Gateway has the port, and one of the two has certificates of its own for clients or backends")
	}
	if !usable || l.conditions.is(string(gatewayv1.ListenerConditionAccepted), metav1.ConditionFalse) {
		return
	}
	var certificates []*tls.Certificate
	if l.terminates() {
		if certificates = t.certificates(l); len(certificates) == 0 {
			return
		}
	}
	l.served = true
	t.protocols[l.at] = protocol
	if l.clients != nil || g.certificate != nil {
		t.strict[l.at] = g
	}
	t.out.Ports = append(t.out.Ports, table.Port{Address: l.at, Protocol: protocol, Isolated: true, Clients: l.clients, Certificate: g.certificate})
	t.out.Sites = append(t.out.Sites, table.Site{Port: l.at, Host: l.host, Passthrough: l.passthrough})
	for _, c := range certificates {
		t.out.Certificates = append(t.out.Certificates, table.Certificate{Port: l.at, Host: l.host, Certificate: c})
	}
}

var errNoCertificates = errors.New("there are no certificateRefs")

// certificates are those that a listener's references lead to.
func (t *translation) certificates(l *listener) []*tls.Certificate {
	var found []*tls.Certificate
	unresolved := func(reason gatewayv1.ListenerConditionReason, err error) {
		l.conditions.set(string(gatewayv1.ListenerConditionResolvedRefs), false, string(reason), err.Error())
	}
	if l.spec.TLS == nil || len(l.spec.TLS.CertificateRefs) == 0 {
		unresolved(gatewayv1.ListenerReasonInvalidCertificateRef, errNoCertificates)
	} else {
		for _, ref := range l.spec.TLS.CertificateRefs {
			from := "Gateway"
			if l.set != nil {
				from = "ListenerSet"
			}
			c, reason, err := t.certificate(from, l.namespace, ref)
			if err != nil {
				unresolved(reason, err)
				continue
			}
			found = append(found, c)
		}
	}
	if len(found) == 0 {
		l.conditions.set(string(gatewayv1.ListenerConditionProgrammed), false, string(gatewayv1.ListenerReasonInvalid), "there is no certificate")
	}
	return found
}

// certificate is what a reference of an object of some kind and namespace leads to.
func (t *translation) certificate(from, namespace string, ref gatewayv1.SecretObjectReference) (*tls.Certificate, gatewayv1.ListenerConditionReason, error) {
	if group, kind := value(ref.Group, ""), value(ref.Kind, "Secret"); group != "" || kind != "Secret" {
		return nil, gatewayv1.ListenerReasonInvalidCertificateRef, fmt.Errorf("a certificate of kind %s.%s is not supported", kind, group)
	}
	name := types.NamespacedName{Namespace: string(value(ref.Namespace, gatewayv1.Namespace(namespace))), Name: string(ref.Name)}
	if !t.permitted(from, namespace, "Secret", name) {
		return nil, gatewayv1.ListenerReasonRefNotPermitted, fmt.Errorf("no ReferenceGrant permits to use secret %q", name)
	}
	c, err := t.Resolver.Certificate(name)
	return c, gatewayv1.ListenerReasonInvalidCertificateRef, err
}

// allows tells whether routes of a namespace may be attached.
func (l *listener) allows(namespace string, namespaces map[string]map[string]string) bool {
	from := gatewayv1.NamespacesFromSame
	var selector *metav1.LabelSelector
	if l.spec.AllowedRoutes != nil && l.spec.AllowedRoutes.Namespaces != nil {
		from = value(l.spec.AllowedRoutes.Namespaces.From, from)
		selector = l.spec.AllowedRoutes.Namespaces.Selector
	}
	return inNamespaces(from, selector, l.namespace, namespace, namespaces)
}
