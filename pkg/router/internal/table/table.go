// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package table is what the router serves: addresses, on each of them hosts, for each host an order of matches, for each match
// an action. It knows neither Ingresses nor Gateways, which are translated into it. Touch it when requests are to be told
// apart, or treated, in another way.
//
// A table is immutable once built, so that a request which has found its route keeps it, whatever is served next.
package table

import (
	"crypto/tls"
	"crypto/x509"
	"maps"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// Protocol is what is spoken on a port.
type Protocol string

// Protocols of ports.
const (
	HTTP  Protocol = "HTTP"
	HTTPS Protocol = "HTTPS"
	// TLS is passed on by the server name, with or without what makes it TLS. TCP and UDP are passed on as they are.
	TLS Protocol = "TLS"
	TCP Protocol = "TCP"
	UDP Protocol = "UDP"
)

// Port is one address and port that somebody asks for.
type Port struct {
	Address  netip.AddrPort
	Protocol Protocol
	// AnyName says that a client which names no known host gets a certificate all the same, one that nobody vouches for.
	AnyName bool
	// Isolated says that a request by a TLS connection for a host which another certificate's site is for is misdirected (421).
	Isolated bool
	// Clients says which certificates clients of TLS have to have; nil: none.
	Clients *Clients
	// Certificate is what backends that are spoken to by TLS are shown; nil: none.
	Certificate *tls.Certificate
}

// Clients are those that may connect.
type Clients struct {
	// Roots are the authorities of their certificates.
	Roots *x509.CertPool
	// Anybody says that a client without such a certificate may connect all the same.
	Anybody bool
}

// Certificate is for the TLS connections of a site.
type Certificate struct {
	Port netip.AddrPort
	// Host is an exact name, "*.suffix", or "" for all.
	Host        string
	Certificate *tls.Certificate
}

// Entry says where a route is found.
type Entry struct {
	Port netip.AddrPort
	// Site is the host pattern of the listener: of all sites of the port only the most specific one that fits is looked at.
	Site string
	// Host is the host pattern of the route: exact, "*.suffix", or "" for all. The most specific one with a fitting route wins.
	Host string
	// OneLabel says that the * of Host stands for one label, as Ingresses have it, and not for one or more.
	OneLabel bool
	Route    *Route
}

// Contents is what a table is built of.
type Contents struct {
	Ports        []Port
	Sites        []Site
	Certificates []Certificate
	Entries      []Entry
	// Twins are further addresses at which all is served that is served at the key; one that is not valid is none.
	Twins map[netip.Addr]netip.Addr
}

// With adds what other contents have.
func (c Contents) With(o Contents) Contents {
	twins := map[netip.Addr]netip.Addr{}
	maps.Copy(twins, c.Twins)
	maps.Copy(twins, o.Twins)
	return Contents{
		Ports: slices.Concat(c.Ports, o.Ports), Sites: slices.Concat(c.Sites, o.Sites),
		Certificates: slices.Concat(c.Certificates, o.Certificates), Entries: slices.Concat(c.Entries, o.Entries), Twins: twins,
	}
}

// Site is a host pattern of a port that is there even if it has no route.
type Site struct {
	Port netip.AddrPort
	Host string
	// Passthrough says that TLS ends at the backend.
	Passthrough bool
}

// Table is what the router serves.
type Table struct {
	Ports map[netip.AddrPort]*Listener
	// Backends are all that routes send to, by their key.
	Backends map[string]*Backend
}

// Listener is what is served at one port.
type Listener struct {
	Port
	sites        hosts[*site]
	certificates hosts[[]*tls.Certificate]
}

type site struct {
	host        string
	passthrough bool
	hosts       hosts[*paths]
}

// Build makes a table. Two ports of one address with different protocols are the translation's mistake: the first one counts.
func Build(c Contents) *Table {
	t := &Table{Ports: map[netip.AddrPort]*Listener{}, Backends: map[string]*Backend{}}
	for _, p := range c.Ports {
		if l := t.Ports[p.Address]; l != nil {
			l.AnyName = l.AnyName || p.AnyName
			l.Isolated = l.Isolated || p.Isolated
			continue
		}
		t.Ports[p.Address] = &Listener{Port: p}
	}
	for _, s := range c.Sites {
		if l := t.Ports[s.Port]; l != nil {
			l.site(s.Host).passthrough = s.Passthrough
		}
	}
	for _, crt := range c.Certificates {
		if l := t.Ports[crt.Port]; l != nil {
			at := l.certificates.at(crt.Host, false)
			*at = append(*at, crt.Certificate)
		}
	}
	for _, e := range c.Entries {
		l := t.Ports[e.Port]
		if l == nil {
			continue
		}
		at := l.site(e.Site).hosts.at(e.Host, e.OneLabel)
		if *at == nil {
			*at = &paths{}
		}
		(*at).add(e.Route)
		for b := range e.Route.backends() {
			t.Backends[b.Key] = b
		}
	}
	for _, l := range t.Ports {
		l.sites.each(func(s **site) {
			(*s).hosts.each(func(p **paths) { (*p).sort() })
		})
	}
	for port, l := range maps.Clone(t.Ports) {
		if twin := TwinOf(port, c.Twins[port.Addr()]); twin.IsValid() && t.Ports[twin] == nil {
			t.Ports[twin] = l
		}
	}
	return t
}

// TwinOf is the same port at another address, not valid if that is not.
func TwinOf(port netip.AddrPort, twin netip.Addr) netip.AddrPort {
	if !twin.IsValid() {
		return netip.AddrPort{}
	}
	return netip.AddrPortFrom(twin, port.Port())
}

// Open are the addresses at which a port is served, of its own and that of its twin, which may be not valid.
func Open(port netip.AddrPort, twin netip.Addr, failed map[netip.AddrPort]error) []netip.Addr {
	var open []netip.Addr
	for _, p := range []netip.AddrPort{port, TwinOf(port, twin)} {
		if p.IsValid() && failed[p] == nil {
			open = append(open, p.Addr())
		}
	}
	return open
}

func (l *Listener) site(host string) *site {
	at := l.sites.at(host, false)
	if *at == nil {
		*at = &site{host: host}
	}
	return *at
}

// Find returns the route of a request, nil if there is none. host is as Host gives it.
func (l *Listener) Find(host string, r *http.Request) *Route {
	var found *Route
	path := clean(r.URL.Path)
	l.sites.find(host, func(s *site) bool {
		s.hosts.find(host, func(p *paths) bool {
			found = p.find(path, r)
			return found != nil
		})
		return true // other sites are not looked at
	})
	return found
}

// stream is a request that any route without conditions fits.
var stream = &http.Request{URL: &url.URL{Path: "/"}}

// Stream returns the route of a connection, or of a datagram, nil if there is none. name is the server name of TLS, "" for all else.
func (l *Listener) Stream(name string) *Route { return l.Find(name, stream) }

// Passthrough tells whether TLS for a server name ends at the backend.
func (l *Listener) Passthrough(name string) bool {
	s := l.siteOf(name)
	return s != nil && s.passthrough
}

// Misdirected tells whether a request has come by a TLS connection that was made for another site than its host's. One whose host has no
// site is not: it would find nothing by another connection either.
func (l *Listener) Misdirected(serverName, host string) bool {
	if !l.Isolated || serverName == "" || serverName == host {
		return false
	}
	meant := l.siteOf(host)
	return meant != nil && meant != l.siteOf(serverName)
}

func (l *Listener) siteOf(host string) (found *site) {
	l.sites.find(host, func(s *site) bool {
		found = s
		return true
	})
	return found
}

// CertificatesFor returns those for a server name, of which any will do that the client understands; nil: none.
func (l *Listener) CertificatesFor(serverName string) (found []*tls.Certificate) {
	l.certificates.find(serverName, func(c []*tls.Certificate) bool {
		found = c
		return true
	})
	return found
}

// Host is the form of a Host header, or of a server name, by which hosts are compared: lower case, no port, no last dot.
func Host(name string) string {
	if i := strings.LastIndexByte(name, ':'); i >= 0 && (name[0] != '[' || strings.IndexByte(name[i:], ']') < 0) {
		if name[0] == '[' || strings.IndexByte(name, ':') == i {
			name = name[:i]
		}
	}
	name = strings.TrimSuffix(name, ".")
	for i := range len(name) {
		if c := name[i]; c >= 'A' && c <= 'Z' {
			return strings.ToLower(name)
		}
	}
	return name
}
