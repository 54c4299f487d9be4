// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"fmt"
	"net/http"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"minik8s.io/minik8s/pkg/router/internal/table"
)

// filters are those of a rule, or of one of its backends. The error is about what is not supported.
func (t *translation) filters(r *route, filters []gatewayv1.HTTPRouteFilter, out *rules) (table.Filters, error) {
	var all table.Filters
	for i := range filters {
		f := &filters[i]
		switch {
		case f.Type == gatewayv1.HTTPRouteFilterRequestHeaderModifier && f.RequestHeaderModifier != nil:
			all.Request = headerChange(f.RequestHeaderModifier)
		case f.Type == gatewayv1.HTTPRouteFilterResponseHeaderModifier && f.ResponseHeaderModifier != nil:
			all.Response = headerChange(f.ResponseHeaderModifier)
		case f.Type == gatewayv1.HTTPRouteFilterRequestRedirect && f.RequestRedirect != nil:
			d := f.RequestRedirect
			all.Redirect = &table.Redirect{
				Scheme: value(d.Scheme, ""), Host: string(value(d.Hostname, "")), Port: int(value(d.Port, 0)),
				Path: pathChange(d.Path), Code: value(d.StatusCode, http.StatusFound),
			}
		case f.Type == gatewayv1.HTTPRouteFilterURLRewrite && f.URLRewrite != nil:
			all.Rewrite = &table.Rewrite{Host: string(value(f.URLRewrite.Hostname, "")), Path: pathChange(f.URLRewrite.Path)}
		case f.Type == gatewayv1.HTTPRouteFilterRequestMirror && f.RequestMirror != nil:
			all.Mirrors = append(all.Mirrors, t.mirror(r, f.RequestMirror, out))
		case f.Type == gatewayv1.HTTPRouteFilterCORS && f.CORS != nil:
			all.CORS = cors(f.CORS)
		default:
			return table.Filters{}, fmt.Errorf("filters of type %s are not supported", f.Type)
		}
	}
	return all, nil
}

func headerChange(f *gatewayv1.HTTPHeaderFilter) *table.HeaderChange {
	headers := func(from []gatewayv1.HTTPHeader) []table.Header {
		var to []table.Header
		for _, h := range from {
			to = append(to, table.Header{Name: http.CanonicalHeaderKey(string(h.Name)), Value: h.Value})
		}
		return to
	}
	c := &table.HeaderChange{Set: headers(f.Set), Add: headers(f.Add)}
	for _, name := range f.Remove {
		c.Remove = append(c.Remove, http.CanonicalHeaderKey(name))
	}
	return c
}

func (t *translation) mirror(r *route, f *gatewayv1.HTTPRequestMirrorFilter, out *rules) table.Mirror {
	m := table.Mirror{Backend: t.backend(r, f.BackendRef, out), Numerator: 100, Denominator: 100}
	switch {
	case f.Percent != nil:
		m.Numerator = uint32(*f.Percent)
	case f.Fraction != nil:
		m.Numerator, m.Denominator = uint32(f.Fraction.Numerator), uint32(value(f.Fraction.Denominator, 100))
	}
	return m
}

func cors(f *gatewayv1.HTTPCORSFilter) *table.CORS {
	return &table.CORS{
		Origins: texts(f.AllowOrigins), Methods: texts(f.AllowMethods), Headers: texts(f.AllowHeaders), Expose: texts(f.ExposeHeaders),
		MaxAge: int(f.MaxAge), Credentials: value(f.AllowCredentials, false),
	}
}

func texts[T ~string](from []T) []string {
	to := make([]string, len(from))
	for i, x := range from {
		to[i] = string(x)
	}
	return to
}
