// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"crypto/x509"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"minik8s.io/minik8s/pkg/router/internal/table"
)

// target is what a BackendTLSPolicy is for: a port of a Service by its name, "" for those that have no policy of their own.
type target struct {
	service types.NamespacedName
	port    string
}

// tlsPolicy is a BackendTLSPolicy with what came of it.
type tlsPolicy struct {
	object     *gatewayv1.BackendTLSPolicy
	tls        *table.BackendTLS // nil: it cannot be used
	conditions conditions
	gateways   map[*gateway]bool // by whose routes the Service is used
}

// policies finds out which BackendTLSPolicy there is for what. Of two for the same the older one counts.
func (t *translation) policies() {
	all := slices.Clone(t.BackendTLSPolicies)
	slices.SortStableFunc(all, func(a, b *gatewayv1.BackendTLSPolicy) int { return older(a, b) })
	for _, object := range all {
		p := &tlsPolicy{object: object, gateways: map[*gateway]bool{}}
		t.out.policies = append(t.out.policies, p)
		for _, ref := range object.Spec.TargetRefs {
			if ref.Group != "" || ref.Kind != "Service" {
				continue
			}
			at := target{types.NamespacedName{Namespace: object.Namespace, Name: string(ref.Name)}, string(value(ref.SectionName, ""))}
			if other := t.targets[at]; other != nil {
				p.conditions.set(string(gatewayv1.PolicyConditionAccepted), false, string(gatewayv1.PolicyReasonConflicted),
					fmt.Sprintf("BackendTLSPolicy %q is for service %q, too", other.object.Name, at.service))
				// Whoever would have been told of this one is.
				t.losers[at] = append(t.losers[at], p)
				continue
			}
			t.targets[at] = p
		}
		p.tls = t.backendTLS(p)
	}
}

// backendTLS is what a policy asks for, nil if it cannot be had.
func (t *translation) backendTLS(p *tlsPolicy) *table.BackendTLS {
	if options := p.object.Spec.Options; len(options) > 0 {
		p.conditions.set(string(gatewayv1.PolicyConditionAccepted), false, string(gatewayv1.PolicyReasonInvalid), "options: "+unsupported(options))
		return nil
	}
	v := p.object.Spec.Validation
	how := &table.BackendTLS{
		Key: string(p.object.UID) + "@" + p.object.ResourceVersion, ServerName: string(v.Hostname),
	}
	for _, n := range v.SubjectAltNames {
		switch n.Type {
		case gatewayv1.HostnameSubjectAltNameType:
			how.Names = append(how.Names, string(n.Hostname))
		case gatewayv1.URISubjectAltNameType:
			how.URIs = append(how.URIs, string(n.URI))
		}
	}
	if known := value(v.WellKnownCACertificates, ""); known != "" {
		if known == gatewayv1.WellKnownCACertificatesSystem {
			return how
		}
		p.conditions.set(string(gatewayv1.PolicyConditionAccepted), false, string(gatewayv1.PolicyReasonInvalid),
			fmt.Sprintf("wellKnownCACertificates %q is not supported", known))
		return nil
	}
	how.Roots = x509.NewCertPool()
	found := 0
	for _, ref := range v.CACertificateRefs {
		reason, err := t.authorities(string(ref.Group), string(ref.Kind), types.NamespacedName{Namespace: p.object.Namespace, Name: string(ref.Name)}, how)
		if err == nil {
			found++
			continue
		}
		p.conditions.set(string(gatewayv1.BackendTLSPolicyConditionResolvedRefs), false, string(reason), err.Error())
	}
	if found == 0 {
		p.conditions.set(string(gatewayv1.PolicyConditionAccepted), false, string(gatewayv1.BackendTLSPolicyReasonNoValidCACertificate),
			"there is no certificate of an authority")
		return nil
	}
	return how
}

// authorities adds those of a reference, and their version to the key.
func (t *translation) authorities(group, kind string, name types.NamespacedName, how *table.BackendTLS) (gatewayv1.PolicyConditionReason, error) {
	if group != "" || kind != "ConfigMap" {
		return gatewayv1.BackendTLSPolicyReasonInvalidKind, fmt.Errorf("certificates of authorities in a %s.%s are not supported", kind, group)
	}
	if err := t.Resolver.Authorities(name, how.Roots); err != nil {
		return gatewayv1.BackendTLSPolicyReasonInvalidCACertificateRef, err
	}
	how.Key += "+" + t.Resolver.ConfigMaps[name].ResourceVersion
	return "", nil
}

// speaks tells whether what a route sends to its backends is said by this router, and not by the clients.
func (r *route) speaks() bool {
	switch r.kind {
	case "TCPRoute", "UDPRoute":
		return false
	case "TLSRoute":
		return r.terminated
	}
	return true
}

// tlsOf is how the ports of a Service are spoken to by what the Gateways of a route send there.
func (t *translation) tlsOf(r *route, service types.NamespacedName) func(port string) (*table.BackendTLS, bool) {
	return func(port string) (*table.BackendTLS, bool) {
		at := target{service, port}
		if t.targets[at] == nil {
			at.port = ""
		}
		p := t.targets[at]
		if p == nil {
			return nil, true
		}
		for g := range r.gateways {
			for _, told := range append([]*tlsPolicy{p}, t.losers[at]...) {
				told.gateways[g] = true
			}
		}
		return p.tls, p.tls != nil
	}
}

// clientCertificate is what a Gateway shows to backends.
func (t *translation) clientCertificate(g *gateway) {
	spec := g.object.Spec.TLS
	if spec == nil || spec.Backend == nil || spec.Backend.ClientCertificateRef == nil {
		return
	}
	c, reason, err := t.certificate("Gateway", g.object.Namespace, *spec.Backend.ClientCertificateRef)
	if err != nil {
		told := gatewayv1.GatewayReasonInvalidClientCertificateRef
		if reason == gatewayv1.ListenerReasonRefNotPermitted {
			told = gatewayv1.GatewayReasonRefNotPermitted
		}
		g.conditions.set(string(gatewayv1.GatewayConditionResolvedRefs), false, string(told), "spec.tls.backend: "+err.Error())
		return
	}
	g.certificate = c
}

var errNoAuthority = errors.New("there is no certificate of an authority")

// clients are those that may connect to a listener by TLS, nil if any may. If it cannot be found out, the listener is refused.
func (t *translation) clients(g *gateway, l *listener) *table.Clients {
	if g.object.Spec.TLS == nil || g.object.Spec.TLS.Frontend == nil {
		return nil
	}
	frontend := g.object.Spec.TLS.Frontend
	validation := frontend.Default.Validation
	for i := range frontend.PerPort {
		if frontend.PerPort[i].Port == l.spec.Port {
			validation = frontend.PerPort[i].TLS.Validation
		}
	}
	if validation == nil {
		return nil
	}
	clients := &table.Clients{Roots: x509.NewCertPool(), Anybody: validation.Mode == gatewayv1.AllowInsecureFallback}
	found := 0
	for _, ref := range validation.CACertificateRefs {
		reason, err := t.frontendAuthority(g, ref, clients.Roots)
		if err != nil {
			l.conditions.set(string(gatewayv1.ListenerConditionResolvedRefs), false, string(reason), err.Error())
			continue
		}
		found++
	}
	if found == 0 {
		l.refuse(gatewayv1.ListenerReasonNoValidCACertificate, errNoAuthority.Error())
	}
	g.insecure = g.insecure || clients.Anybody
	return clients
}

func (t *translation) frontendAuthority(g *gateway, ref gatewayv1.ObjectReference, to *x509.CertPool) (gatewayv1.ListenerConditionReason, error) {
	if ref.Group != "" || ref.Kind != "ConfigMap" {
		return gatewayv1.ListenerReasonInvalidCACertificateKind, fmt.Errorf("certificates of authorities in a %s.%s are not supported", ref.Kind, ref.Group)
	}
	name := types.NamespacedName{Namespace: string(value(ref.Namespace, gatewayv1.Namespace(g.object.Namespace))), Name: string(ref.Name)}
	if !t.permitted("Gateway", g.object.Namespace, "ConfigMap", name) {
		return gatewayv1.ListenerReasonRefNotPermitted, fmt.Errorf("no ReferenceGrant permits to use configmap %q", name)
	}
	return gatewayv1.ListenerReasonInvalidCACertificateRef, t.Resolver.Authorities(name, to)
}

// NeedsConfigMaps tells whether something refers to certificates of authorities, which are in ConfigMaps.
func NeedsConfigMaps(in Input) bool {
	return len(in.BackendTLSPolicies) > 0 || slices.ContainsFunc(in.Gateways, func(g *gatewayv1.Gateway) bool {
		return g.Spec.TLS != nil && g.Spec.TLS.Frontend != nil
	})
}

// policyStatus says of each Gateway by which a policy has an effect what came of it, after what other controllers have said.
func (o *Output) policyStatus(p *tlsPolicy, status *gatewayv1.PolicyStatus) {
	old := status.Ancestors
	status.Ancestors = nil
	for _, a := range old {
		if a.ControllerName != o.input.Controller {
			status.Ancestors = append(status.Ancestors, a)
		}
	}
	c := conditions{slices.Clone(p.conditions.all)}
	c.set(string(gatewayv1.PolicyConditionAccepted), true, string(gatewayv1.PolicyReasonAccepted), "the policy is in effect")
	c.set(string(gatewayv1.BackendTLSPolicyConditionResolvedRefs), true, string(gatewayv1.BackendTLSPolicyReasonResolvedRefs), "all references lead somewhere")
	for _, g := range o.gateways { // in their order
		if !p.gateways[g] || len(status.Ancestors) == maxAncestors {
			continue
		}
		group, kind, namespace := gatewayv1.Group(gatewayv1.GroupName), gatewayv1.Kind("Gateway"), gatewayv1.Namespace(g.object.Namespace)
		ref := gatewayv1.ParentReference{Group: &group, Kind: &kind, Namespace: &namespace, Name: gatewayv1.ObjectName(g.object.Name)}
		var entry gatewayv1.PolicyAncestorStatus
		for _, a := range old {
			if a.ControllerName == o.input.Controller && value(a.AncestorRef.Namespace, "") == namespace && a.AncestorRef.Name == ref.Name {
				entry = a
			}
		}
		status.Ancestors = append(status.Ancestors, gatewayv1.PolicyAncestorStatus{
			AncestorRef: ref, ControllerName: o.input.Controller, Conditions: o.merged(entry.Conditions, c.all, p.object.Generation),
		})
	}
}

// maxAncestors is how many a status may have.
const maxAncestors = 16
