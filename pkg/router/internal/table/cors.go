// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package table

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// CORS says which pages of other origins a browser lets use an answer.
type CORS struct {
	// Origins are scheme://host[:port], with * for all, and *. before a host for those below it.
	Origins          []string
	Methods, Headers []string // "*" for all
	Expose           []string
	MaxAge           int // seconds
	Credentials      bool
}

// Preflight tells whether a request only asks what would be allowed.
func (c *CORS) Preflight(r *http.Request) bool {
	return c != nil && r.Method == http.MethodOptions && r.Header.Get("Origin") != "" && r.Header.Get("Access-Control-Request-Method") != ""
}

// Apply adds to an answer what the origin of a request may do. Other origins get nothing.
func (c *CORS) Apply(answer http.Header, r *http.Request, preflight bool) {
	origin := r.Header.Get("Origin")
	if c == nil || origin == "" {
		return
	}
	for name := range answer { // the route's word counts, not the backend's
		if strings.HasPrefix(name, "Access-Control-") {
			delete(answer, name)
		}
	}
	if !slices.ContainsFunc(c.Origins, func(pattern string) bool { return originFits(pattern, origin) }) {
		return
	}
	if slices.Contains(c.Origins, "*") && !c.Credentials {
		answer.Set("Access-Control-Allow-Origin", "*")
	} else {
		answer.Set("Access-Control-Allow-Origin", origin)
		answer.Add("Vary", "Origin")
	}
	if c.Credentials {
		answer.Set("Access-Control-Allow-Credentials", "true")
	}
	if !c.Credentials || !slices.Contains(c.Expose, "*") { // with credentials browsers take it for a name
		set(answer, "Access-Control-Expose-Headers", c.Expose)
	}
	if !preflight {
		return
	}
	set(answer, "Access-Control-Allow-Methods", c.list(c.Methods, r.Header.Get("Access-Control-Request-Method")))
	set(answer, "Access-Control-Allow-Headers", c.list(c.Headers, r.Header.Get("Access-Control-Request-Headers")))
	if c.MaxAge > 0 {
		answer.Set("Access-Control-Max-Age", strconv.Itoa(c.MaxAge))
	}
}

// list is what is allowed. With credentials browsers take a * for a name, so what was asked for is said instead.
func (c *CORS) list(allowed []string, asked string) []string {
	if !slices.Contains(allowed, "*") {
		return allowed
	}
	if !c.Credentials {
		return []string{"*"}
	}
	if asked == "" {
		return nil
	}
	return []string{asked}
}

func set(h http.Header, name string, values []string) {
	if len(values) > 0 {
		h.Set(name, strings.Join(values, ", "))
	}
}

func originFits(pattern, origin string) bool {
	pattern, origin = plainOrigin(pattern), plainOrigin(origin)
	if pattern == "*" || pattern == origin {
		return true
	}
	scheme, host, ok := strings.Cut(pattern, "://*")
	return ok && strings.HasPrefix(origin, scheme+"://") && strings.HasSuffix(origin, host) &&
		len(origin) > len(scheme)+len("://")+len(host)
}

// plainOrigin is an origin in lower case, without the port that its scheme has anyway.
func plainOrigin(origin string) string {
	origin = strings.ToLower(origin)
	for scheme, port := range map[string]string{"http://": ":80", "https://": ":443"} {
		if strings.HasPrefix(origin, scheme) {
			return strings.TrimSuffix(origin, port)
		}
	}
	return origin
}
