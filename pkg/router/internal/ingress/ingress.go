// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package ingress translates Ingresses into the router's table. It is a function of objects. Touch it when an Ingress is to
// mean something else.
package ingress

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/types"

	"minik8s.io/minik8s/pkg/router/internal/resolve"
	"minik8s.io/minik8s/pkg/router/internal/table"
)

// ClassAnnotation is how a class was named before there was a field for it.
const ClassAnnotation = "kubernetes.io/ingress.class"

// Reasons of events.
const (
	BackendNotUsable = "BackendNotUsable"
	SecretNotUsable  = "SecretNotUsable"
)

// Input is what a translation is made of.
type Input struct {
	Ingresses []*networkingv1.Ingress
	Classes   []*networkingv1.IngressClass
	// Controller is the name by which classes are this router's.
	Controller string
	// HTTP and HTTPS are where it listens.
	HTTP, HTTPS netip.AddrPort
	// Limits are those of every route.
	Limits   table.Action
	Resolver *resolve.Resolver
}

// Problem is something of an Ingress that cannot be used; the rest of it is.
type Problem struct {
	Ingress      *networkingv1.Ingress
	Reason, Text string
}

// Output is what comes of it.
type Output struct {
	table.Contents
	// Served are the Ingresses of this router.
	Served   []*networkingv1.Ingress
	Problems []Problem
}

// Served are the Ingresses of a router's classes.
func Served(ingresses []*networkingv1.Ingress, classes []*networkingv1.IngressClass, controller string) []*networkingv1.Ingress {
	own := map[string]bool{}
	for _, c := range classes {
		if c.Spec.Controller == controller {
			own[c.Name] = true
		}
	}
	var served []*networkingv1.Ingress
	for _, i := range ingresses {
		class := i.Annotations[ClassAnnotation]
		if i.Spec.IngressClassName != nil {
			class = *i.Spec.IngressClassName
		}
		if own[class] && i.DeletionTimestamp == nil {
			served = append(served, i)
		}
	}
	return served
}

// Translate does what the package is for.
func Translate(in Input) Output {
	t := &translation{Input: in}
	t.out.Served = Served(in.Ingresses, in.Classes, in.Controller)
	// Two Ingresses may want another certificate for a host, or be the default of all: the older one has it.
	slices.SortStableFunc(t.out.Served, func(a, b *networkingv1.Ingress) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	for _, i := range t.out.Served {
		t.ports(i)
	}
	for _, i := range t.out.Served {
		t.certificates(i)
		t.routes(i)
	}
	return t.out
}

type translation struct {
	Input
	out   Output
	where []netip.AddrPort
}

func (t *translation) problem(i *networkingv1.Ingress, reason string, err error) {
	t.out.Problems = append(t.out.Problems, Problem{Ingress: i, Reason: reason, Text: err.Error()})
}

// ports adds those that an Ingress needs: that for HTTPS only if there is something for TLS.
func (t *translation) ports(i *networkingv1.Ingress) {
	t.port(table.Port{Address: t.HTTP, Protocol: table.HTTP})
	if len(i.Spec.TLS) > 0 {
		t.port(table.Port{Address: t.HTTPS, Protocol: table.HTTPS, AnyName: true})
	}
}

func (t *translation) port(p table.Port) {
	if !slices.Contains(t.where, p.Address) {
		t.where = append(t.where, p.Address)
		t.out.Ports = append(t.out.Ports, p)
	}
}

func (t *translation) certificates(i *networkingv1.Ingress) {
	for n, entry := range i.Spec.TLS {
		if entry.SecretName == "" {
			continue // the certificate that nobody vouches for, or that of another Ingress
		}
		c, err := t.Resolver.Certificate(types.NamespacedName{Namespace: i.Namespace, Name: entry.SecretName})
		if err != nil {
			t.problem(i, SecretNotUsable, fmt.Errorf("spec.tls[%d]: %w", n, err))
			continue
		}
		for _, host := range hostsOf(i, entry) {
			t.out.Certificates = append(t.out.Certificates, table.Certificate{Port: t.HTTPS, Host: host, Certificate: c})
		}
	}
}

// hostsOf are those that a certificate is for: without any, those of the rules.
func hostsOf(i *networkingv1.Ingress, entry networkingv1.IngressTLS) []string {
	if len(entry.Hosts) > 0 {
		return entry.Hosts
	}
	hosts := []string{}
	for _, r := range i.Spec.Rules {
		hosts = append(hosts, r.Host)
	}
	if len(hosts) == 0 {
		hosts = append(hosts, "")
	}
	return hosts
}

const defaultField = "spec.defaultBackend"

func (t *translation) routes(i *networkingv1.Ingress) {
	if d := i.Spec.DefaultBackend; d != nil {
		t.route(i, "", networkingv1.HTTPIngressPath{Backend: *d}, defaultField, 0, 0)
	}
	for n, rule := range i.Spec.Rules {
		if rule.HTTP == nil {
			if d := i.Spec.DefaultBackend; d != nil { // all of the host's traffic
				t.route(i, rule.Host, networkingv1.HTTPIngressPath{Backend: *d}, defaultField, n, 0)
			}
			continue
		}
		for m, path := range rule.HTTP.Paths {
			t.route(i, rule.Host, path, fmt.Sprintf("spec.rules[%d].http.paths[%d].backend", n, m), n, m)
		}
	}
}

func (t *translation) route(i *networkingv1.Ingress, host string, path networkingv1.HTTPIngressPath, field string, rule, match int) {
	backend, err := t.backend(i, path.Backend)
	if err != nil {
		t.problem(i, BackendNotUsable, fmt.Errorf("%s: %w", field, err))
		// Whoever asks is told that there is nobody, and not sent to a route that is less specific.
		backend = table.NewBackend("", table.HTTP1, nil)
	}
	action := t.Limits
	action.Backends = []table.WeightedBackend{{Weight: 1, Backend: backend}}
	kind := table.Prefix
	if path.PathType != nil && *path.PathType == networkingv1.PathTypeExact {
		kind = table.Exact
	}
	r := &table.Route{
		Match:  table.Match{Kind: kind, Path: cmp.Or(path.Path, "/")},
		Origin: table.Origin{Kind: "Ingress", Namespace: i.Namespace, Name: i.Name, Created: i.CreationTimestamp.Time, Rule: rule, Match: match, Last: field == defaultField},
		Action: action,
	}
	for _, port := range t.where {
		t.out.Entries = append(t.out.Entries, table.Entry{Port: port, Host: strings.ToLower(host), OneLabel: true, Route: r})
	}
}

func (t *translation) backend(i *networkingv1.Ingress, b networkingv1.IngressBackend) (*table.Backend, error) {
	switch {
	case b.Service != nil:
		return t.Resolver.Backend(types.NamespacedName{Namespace: i.Namespace, Name: b.Service.Name},
			resolve.Port{Name: b.Service.Port.Name, Number: b.Service.Port.Number})
	case b.Resource != nil:
		return nil, fmt.Errorf("a backend of kind %s is %w", b.Resource.Kind, resolve.ErrUnsupported)
	}
	return nil, errors.New("there is no backend")
}
