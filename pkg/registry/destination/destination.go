// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package destination judges where the API server connects to because an object says so: a Node, a Pod, an endpoint. Whoever
// writes such an object must not reach, through the server, what only the server's machine can reach. Touch it when another
// subresource proxies.
package destination

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"time"
)

// errNotAllowed has upstream's words.
var errNotAllowed = errors.New("address not allowed")

// Lookup finds the addresses of a host name. It must heed the context.
type Lookup func(ctx context.Context, network, host string) ([]netip.Addr, error)

// Dial opens a connection to host:port, as http.Transport.DialContext.
type Dial func(ctx context.Context, network, hostport string) (net.Conn, error)

// Allowed reports whether a request may be passed on to ip: not to loopback, link-local (the metadata services of clouds),
// multicast, broadcast or unspecified addresses.
func Allowed(ip netip.Addr) bool {
	ip = ip.Unmap()
	return ip.IsGlobalUnicast() && ip.Zone() == "" && ip != netip.AddrFrom4([4]byte{255, 255, 255, 255})
}

// Judge returns the addresses of a host, an IP or a name. It fails if a single one of them is not allowed, as upstream:
// nobody can tell which one will be dialled.
func Judge(ctx context.Context, lookup Lookup, host string) ([]netip.Addr, error) {
	var found []netip.Addr
	var err error
	if ip, perr := netip.ParseAddr(host); perr == nil {
		found = []netip.Addr{ip}
	} else if found, err = lookup(ctx, "ip", host); err != nil {
		return nil, fmt.Errorf("looking up %q: %w", host, err)
	}
	if len(found) == 0 {
		return nil, errors.New("no addresses for hostname")
	}
	for _, ip := range found {
		if !Allowed(ip) {
			return nil, errNotAllowed
		}
	}
	return found, nil
}

// Fence makes dial connect to judged addresses only. What is dialled is the address that was judged: a name that means
// something else a moment later (DNS rebinding) gains nothing.
func Fence(lookup Lookup, dial Dial) Dial {
	return func(ctx context.Context, network, hostport string) (net.Conn, error) {
		host, port, err := net.SplitHostPort(hostport)
		if err != nil {
			return nil, err
		}
		judged, err := Judge(ctx, lookup, host)
		if err != nil {
			return nil, err
		}
		var failed []error
		for _, ip := range judged {
			conn, err := dial(ctx, network, net.JoinHostPort(ip.Unmap().String(), port))
			if err == nil {
				return conn, nil
			}
			failed = append(failed, err)
		}
		return nil, errors.Join(failed...)
	}
}

// dialTimeout bounds how long a connection may take to come about.
const dialTimeout = 30 * time.Second

// Fenced is a copy of a transport that connects to judged addresses only, and to those itself: not by another proxy, which
// would resolve names for itself.
func Fenced(t *http.Transport) *http.Transport {
	t = t.Clone()
	dial := t.DialContext
	if dial == nil {
		dial = (&net.Dialer{Timeout: dialTimeout, KeepAlive: dialTimeout}).DialContext
	}
	t.Proxy, t.DialContext = nil, Fence(net.DefaultResolver.LookupNetIP, dial)
	return t
}

// Transport returns a transport to the programs in the cluster. Their certificates are of their own making, if there are any,
// so they are not verified (as upstream), and nothing secret is sent to them.
func Transport() *http.Transport {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.DialContext = nil
	t.TLSClientConfig = &tls.Config{InsecureSkipVerify: true} //nolint:gosec // see above
	return Fenced(t)
}
