// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package table

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// Filters change requests and answers on their way. The zero value changes nothing.
type Filters struct {
	Request, Response *HeaderChange
	Redirect          *Redirect
	Rewrite           *Rewrite
	Mirrors           []Mirror
	CORS              *CORS
}

// HeaderChange sets, adds and removes headers, in this order.
type HeaderChange struct {
	Set, Add []Header
	Remove   []string
}

// Header is a name in canonical form and a value.
type Header struct{ Name, Value string }

// Apply changes h.
func (c *HeaderChange) Apply(h http.Header) {
	if c == nil {
		return
	}
	for _, s := range c.Set {
		h[s.Name] = []string{s.Value}
	}
	for _, a := range c.Add {
		h[a.Name] = append(h[a.Name], a.Value)
	}
	for _, name := range c.Remove {
		delete(h, name)
	}
}

// PathChange replaces a path, or the prefix of it by which the route was found.
type PathChange struct {
	// Full replaces all of it; else Prefix takes the place of what matched.
	Full   *string
	Prefix *string
}

// Of is the changed form of a path, in its escaped form. matched is the prefix of the route.
func (c *PathChange) Of(path, matched string) string {
	switch {
	case c == nil:
		return path
	case c.Full != nil:
		return *c.Full
	case c.Prefix == nil:
		return path
	}
	matched = strings.TrimRight(matched, "/")
	rest, ok := strings.CutPrefix(path, matched)
	if !ok {
		return path // it matched in its unescaped form only
	}
	if rest != "" && rest[0] != '/' {
		rest = "/" + rest // what follows is an escaped slash
	}
	changed := strings.TrimRight(*c.Prefix, "/") + rest
	if changed == "" {
		return "/"
	}
	return changed
}

// Redirect answers with another place.
type Redirect struct {
	// Scheme, Host and Path are as in the request where they are "" and nil.
	Scheme, Host string
	// Port 0 is that of the scheme if there is one, and else that of the listener.
	Port int
	Path *PathChange
	Code int
}

// Location is where a request is sent to. scheme and port are those that it came by.
func (d *Redirect) Location(r *http.Request, matched, scheme string, port int) string {
	target := url.URL{Scheme: scheme, Host: d.Host, RawQuery: r.URL.RawQuery}
	if target.Host == "" {
		target.Host = Host(r.Host)
	}
	switch {
	case d.Port != 0:
		port = d.Port
	case d.Scheme != "":
		port = defaultPort(d.Scheme)
	}
	if d.Scheme != "" {
		target.Scheme = d.Scheme
	}
	if port != 0 && port != defaultPort(target.Scheme) {
		target.Host += ":" + strconv.Itoa(port)
	}
	escaped := d.Path.Of(r.URL.EscapedPath(), matched)
	if path, err := url.PathUnescape(escaped); err == nil {
		target.Path, target.RawPath = path, escaped
	}
	return target.String()
}

func defaultPort(scheme string) int {
	switch scheme {
	case "http":
		return 80
	case "https":
		return 443
	}
	return 0
}

// Rewrite changes what the backend sees as host and path.
type Rewrite struct {
	Host string // "": as it was
	Path *PathChange
}

// Mirror sends copies of requests to a backend whose answers nobody sees.
type Mirror struct {
	Backend *Backend // nil: what the route names cannot be used
	// Numerator of Denominator requests are mirrored.
	Numerator, Denominator uint32
}
