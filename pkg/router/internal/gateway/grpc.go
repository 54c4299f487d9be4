// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"regexp"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// asHTTP says in terms of HTTP what a GRPCRoute wants: a method of gRPC is a path of two elements.
func asHTTP(spec gatewayv1.GRPCRouteSpec) gatewayv1.HTTPRouteSpec {
	out := gatewayv1.HTTPRouteSpec{CommonRouteSpec: spec.CommonRouteSpec, Hostnames: spec.Hostnames}
	for _, r := range spec.Rules {
		rule := gatewayv1.HTTPRouteRule{Filters: httpFilters(r.Filters), SessionPersistence: r.SessionPersistence}
		for _, m := range r.Matches {
			match := gatewayv1.HTTPRouteMatch{Path: methodPath(m.Method)}
			for _, h := range m.Headers {
				match.Headers = append(match.Headers, gatewayv1.HTTPHeaderMatch{
					Type: (*gatewayv1.HeaderMatchType)(h.Type), Name: gatewayv1.HTTPHeaderName(h.Name), Value: h.Value,
				})
			}
			rule.Matches = append(rule.Matches, match)
		}
		for _, b := range r.BackendRefs {
			rule.BackendRefs = append(rule.BackendRefs, gatewayv1.HTTPBackendRef{BackendRef: b.BackendRef, Filters: httpFilters(b.Filters)})
		}
		out.Rules = append(out.Rules, rule)
	}
	return out
}

// anyService begins the path of a method of whatever service, which comes after all of the services that are named.
const anyService = "/[^/]+/"

// methodPath is the path of a service and a method, either of which may be left open.
func methodPath(m *gatewayv1.GRPCMethodMatch) *gatewayv1.HTTPPathMatch {
	service, method := "", ""
	if m != nil {
		service, method = value(m.Service, ""), value(m.Method, "")
	}
	kind, path := gatewayv1.PathMatchExact, "/"+service+"/"+method
	switch {
	case service == "" && method == "":
		return nil
	case value(m.Type, gatewayv1.GRPCMethodMatchExact) == gatewayv1.GRPCMethodMatchRegularExpression:
		kind, path = gatewayv1.PathMatchRegularExpression, "/"+orAny(service)+"/"+orAny(method)
	case service == "":
		kind, path = gatewayv1.PathMatchRegularExpression, anyService+regexp.QuoteMeta(method)
	case method == "":
		kind = gatewayv1.PathMatchPathPrefix
	}
	return &gatewayv1.HTTPPathMatch{Type: &kind, Value: &path}
}

func orAny(pattern string) string {
	if pattern == "" {
		return "[^/]+"
	}
	return "(?:" + pattern + ")"
}

func httpFilters(filters []gatewayv1.GRPCRouteFilter) []gatewayv1.HTTPRouteFilter {
	var out []gatewayv1.HTTPRouteFilter
	for _, f := range filters {
		out = append(out, gatewayv1.HTTPRouteFilter{
			Type: gatewayv1.HTTPRouteFilterType(f.Type), RequestHeaderModifier: f.RequestHeaderModifier, ResponseHeaderModifier: f.ResponseHeaderModifier,
			RequestMirror: f.RequestMirror, ExtensionRef: f.ExtensionRef,
		})
	}
	return out
}
