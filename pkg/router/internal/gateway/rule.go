// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"minik8s.io/minik8s/pkg/router/internal/resolve"
	"minik8s.io/minik8s/pkg/router/internal/table"
)

// rules are those of one route.
type rules struct {
	routes []*table.Route
	// refused is why none of them can be used, partly why some cannot: those answer 500.
	refused, partly error
	// unresolved is the first reference that leads nowhere, and the reason.
	unresolved error
	reason     gatewayv1.RouteConditionReason
}

// tell writes what is wrong into the conditions of a parent.
func (r *rules) tell(c *conditions) {
	if r.refused != nil {
		c.set(string(gatewayv1.RouteConditionAccepted), false, string(gatewayv1.RouteReasonUnsupportedValue), r.refused.Error())
	}
	if r.partly != nil && !c.is(string(gatewayv1.RouteConditionAccepted), metav1.ConditionFalse) {
		c.set(string(gatewayv1.RouteConditionPartiallyInvalid), true, string(gatewayv1.RouteReasonUnsupportedValue), "Dropped Rule: "+r.partly.Error())
	}
	if r.unresolved != nil {
		c.set(string(gatewayv1.RouteConditionResolvedRefs), false, string(r.reason), r.unresolved.Error())
	}
}

func (r *rules) unresolvable(reason gatewayv1.RouteConditionReason, err error) {
	if r.unresolved == nil {
		r.unresolved, r.reason = err, reason
	}
}

func (t *translation) rules(r *route) *rules {
	out := &rules{}
	var bad []error
	for n := range r.spec.Rules {
		rule := &r.spec.Rules[n]
		action, err := t.action(r, rule, out)
		matches := rule.Matches
		if len(matches) == 0 {
			matches = []gatewayv1.HTTPRouteMatch{{}}
		}
		var found []*table.Route
		for m := range matches {
			match, merr := matchOf(&matches[m])
			if merr != nil {
				err = errors.Join(err, merr)
				continue
			}
			match.Weak = r.kind == "GRPCRoute" && match.Kind == table.Pattern && strings.HasPrefix(match.Path, anyService)
			found = append(found, &table.Route{Match: match, Action: action, Origin: table.Origin{
				Kind: r.kind, Namespace: r.object.GetNamespace(), Name: r.object.GetName(), Created: r.object.GetCreationTimestamp().Time, Rule: n, Match: m,
			}})
		}
		if err != nil {
			bad = append(bad, fmt.Errorf("rules[%d]: %w", n, err))
			for _, f := range found {
				f.Action = table.Action{}
			}
		}
		out.routes = append(out.routes, found...)
	}
	switch {
	case len(bad) == 0:
	case len(bad) == len(r.spec.Rules):
		out.refused = bad[0]
	default:
		out.partly = errors.Join(bad...)
	}
	return out
}

func matchOf(m *gatewayv1.HTTPRouteMatch) (table.Match, error) {
	out := table.Match{Path: "/", Method: string(value(m.Method, ""))}
	var err error
	if m.Path != nil {
		out.Path = value(m.Path.Value, "/")
		switch value(m.Path.Type, gatewayv1.PathMatchPathPrefix) {
		case gatewayv1.PathMatchPathPrefix:
		case gatewayv1.PathMatchExact:
			out.Kind = table.Exact
		case gatewayv1.PathMatchRegularExpression:
			out.Kind = table.Pattern
			if out.Pattern, err = pattern(out.Path); err != nil {
				return out, err
			}
		default:
			return out, fmt.Errorf("paths of type %s are not supported", *m.Path.Type)
		}
	}
	for _, h := range m.Headers {
		v, err := valueOf(http.CanonicalHeaderKey(string(h.Name)), h.Value, string(value(h.Type, gatewayv1.HeaderMatchExact)))
		if err != nil {
			return out, err
		}
		if !has(out.Headers, v.Name) { // of several of a name the first counts
			out.Headers = append(out.Headers, v)
		}
	}
	for _, q := range m.QueryParams {
		v, err := valueOf(string(q.Name), q.Value, string(value(q.Type, gatewayv1.QueryParamMatchExact)))
		if err != nil {
			return out, err
		}
		if !has(out.Query, v.Name) {
			out.Query = append(out.Query, v)
		}
	}
	return out, nil
}

func has(values []table.Value, name string) bool {
	return slices.ContainsFunc(values, func(v table.Value) bool { return v.Name == name })
}

func valueOf(name, text, kind string) (table.Value, error) {
	switch kind {
	case "Exact":
		return table.Value{Name: name, Exact: text}, nil
	case "RegularExpression":
		p, err := pattern(text)
		return table.Value{Name: name, Pattern: p}, err
	}
	return table.Value{}, fmt.Errorf("matches of type %s are not supported", kind)
}

// pattern is for all of a text.
func pattern(text string) (*regexp.Regexp, error) { return regexp.Compile("^(?:" + text + ")$") }

// action is what a rule does. The error is about what is not supported; references that lead nowhere are told to out.
func (t *translation) action(r *route, rule *gatewayv1.HTTPRouteRule, out *rules) (table.Action, error) {
	a := t.Limits
	filters, err := t.filters(r, rule.Filters, out)
	if err != nil {
		return a, err
	}
	a.Filters = filters
	if r.kind != "HTTPRoute" {
		a.HeaderTimeout = 0 // a stream may begin when there is something to tell
	}
	if rule.SessionPersistence != nil {
		return a, errors.New("sessionPersistence is not supported")
	}
	if rule.Timeouts != nil {
		a.HeaderTimeout = 0 // the route has limits of its own
		if a.RequestTimeout, err = duration(rule.Timeouts.Request); err != nil {
			return a, err
		}
		if a.BackendTimeout, err = duration(rule.Timeouts.BackendRequest); err != nil {
			return a, err
		}
	}
	if rule.Retry != nil {
		a.Retry = table.Retry{Attempts: value(rule.Retry.Attempts, defaultAttempts), Backoff: defaultBackoff}
		for _, c := range rule.Retry.Codes {
			a.Retry.Codes = append(a.Retry.Codes, int(c))
		}
		if rule.Retry.Backoff != nil {
			if a.Retry.Backoff, err = duration(rule.Retry.Backoff); err != nil {
				return a, err
			}
		}
	}
	for i := range rule.BackendRefs {
		ref := &rule.BackendRefs[i]
		b := table.WeightedBackend{Weight: uint32(value(ref.Weight, 1)), Backend: t.backend(r, ref.BackendObjectReference, out)}
		if b.Filters, err = t.filters(r, ref.Filters, out); err != nil {
			return a, err
		}
		a.Backends = append(a.Backends, b)
	}
	if r.kind == "GRPCRoute" {
		a.Backends = available(a.Backends)
	}
	return a, nil
}

// available are backends of gRPC, of which those that lead nowhere have no endpoint: to clients of gRPC 503 is UNAVAILABLE, and 500 is not.
func available(backends []table.WeightedBackend) []table.WeightedBackend {
	if len(backends) == 0 {
		backends = []table.WeightedBackend{{Weight: 1}}
	}
	for i := range backends {
		if backends[i].Backend == nil {
			backends[i].Backend = table.NewBackend("", table.H2C, nil)
		}
	}
	return backends
}

// What a retry is that does not say.
const (
	defaultAttempts = 1
	defaultBackoff  = 25 * time.Millisecond
)

func duration(d *gatewayv1.Duration) (time.Duration, error) {
	if d == nil {
		return 0, nil
	}
	return time.ParseDuration(string(*d))
}

// backend is what a reference leads to, nil if it leads nowhere.
func (t *translation) backend(r *route, ref gatewayv1.BackendObjectReference, out *rules) *table.Backend {
	if group, kind := value(ref.Group, ""), value(ref.Kind, "Service"); group != "" || kind != "Service" {
		out.unresolvable(gatewayv1.RouteReasonInvalidKind, fmt.Errorf("a backend of kind %s.%s is not supported", kind, group))
		return nil
	}
	name := types.NamespacedName{Namespace: string(value(ref.Namespace, gatewayv1.Namespace(r.object.GetNamespace()))), Name: string(ref.Name)}
	if !t.permitted(r.kind, r.object.GetNamespace(), "Service", name) {
		out.unresolvable(gatewayv1.RouteReasonRefNotPermitted, fmt.Errorf("no ReferenceGrant permits to use service %q", name))
		return nil
	}
	port := resolve.Port{Number: value(ref.Port, 0), HTTP2: r.kind == "GRPCRoute", UDP: r.kind == "UDPRoute"}
	if r.speaks() {
		port.TLS = t.tlsOf(r, name)
	}
	b, err := t.Resolver.Backend(name, port)
	if err != nil {
		reason := gatewayv1.RouteReasonBackendNotFound
		if errors.Is(err, resolve.ErrUnsupported) {
			reason = gatewayv1.RouteReasonUnsupportedProtocol
		}
		out.unresolvable(reason, err)
		return nil
	}
	return b
}

// pathChange is the change that a filter asks for.
func pathChange(p *gatewayv1.HTTPPathModifier) *table.PathChange {
	switch {
	case p == nil:
		return nil
	case p.Type == gatewayv1.FullPathHTTPPathModifier:
		full := "/" + strings.TrimPrefix(value(p.ReplaceFullPath, "/"), "/")
		return &table.PathChange{Full: &full}
	}
	prefix := "/" + strings.TrimPrefix(value(p.ReplacePrefixMatch, "/"), "/")
	return &table.PathChange{Prefix: &prefix}
}
