// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package destination

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// names is a resolver: each answer is given once, the last one for ever.
type names map[string][][]string

func (n names) lookup(_ context.Context, _, host string) ([]netip.Addr, error) {
	answers, ok := n[host]
	if !ok {
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	if len(answers) > 1 {
		n[host] = answers[1:]
	}
	var out []netip.Addr
	for _, a := range answers[0] {
		out = append(out, netip.MustParseAddr(a))
	}
	return out, nil
}

func TestAllowed(t *testing.T) {
	for ip, want := range map[string]bool{
		"10.0.0.1": true, "192.168.1.1": true, "8.8.8.8": true, "fd00::1": true, "2001:db8::1": true, "::ffff:10.0.0.1": true,
		"127.0.0.1": false, "127.8.9.1": false, "::1": false, "::ffff:127.0.0.1": false, "0.0.0.0": false, "::": false, "::ffff:0.0.0.0": false,
		"169.254.169.254": false, "::ffff:169.254.169.254": false, "fe80::1": false, "fe80::1%eth0": false, "224.0.0.1": false, "ff02::1": false,
		"255.255.255.255": false,
	} {
		if got := Allowed(netip.MustParseAddr(ip)); got != want {
			t.Errorf("%s: allowed %v, want %v", ip, got, want)
		}
		// As upstream, which asks the net package.
		if upstream := net.ParseIP(ip); upstream != nil && upstream.IsGlobalUnicast() != want {
			t.Errorf("%s: net.IP says %v, want %v", ip, !want, want)
		}
	}
}

func TestJudge(t *testing.T) {
	n := names{"node-a": {{"10.0.0.1", "fd00::1"}}, "mixed": {{"10.0.0.1", "127.0.0.1"}}, "local": {{"127.0.1.1"}}, "nothing": {{}}}
	for _, tc := range []struct{ name, host, want, failure string }{
		{"address", "10.0.0.1", "10.0.0.1", ""},
		{"IPv6", "fd00::1", "fd00::1", ""},
		{"name", "node-a", "10.0.0.1 fd00::1", ""},
		{"loopback", "127.0.0.1", "", "address not allowed"},
		{"name of loopback", "local", "", "address not allowed"},
		{"one of the name's is loopback", "mixed", "", "address not allowed"},
		{"metadata", "169.254.169.254", "", "address not allowed"},
		{"no such name", "x", "", "no such host"},
		{"name without addresses", "nothing", "", "no addresses for hostname"},
		{"octal in the sloppy way", "0177.0.0.1", "", "no such host"},
		{"empty", "", "", "no such host"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := Judge(t.Context(), n.lookup, tc.host)
			if (err == nil) != (tc.failure == "") || err != nil && !strings.Contains(err.Error(), tc.failure) {
				t.Fatalf("error is %v, want %q", err, tc.failure)
			}
			var text []string
			for _, ip := range got {
				text = append(text, ip.String())
			}
			if s := strings.Join(text, " "); s != tc.want {
				t.Errorf("addresses are %q, want %q", s, tc.want)
			}
		})
	}
}

func TestFence(t *testing.T) {
	// A name that is harmless when it is asked for the first time, and the machine itself from then on.
	n := names{"rebound": {{"10.0.0.1"}, {"127.0.0.1"}}, "two": {{"10.0.0.2", "10.0.0.3"}}}
	if _, err := Judge(t.Context(), n.lookup, "rebound"); err != nil {
		t.Fatal(err)
	}
	var dialled []string
	down := errors.New("nobody is there")
	dial := Fence(n.lookup, func(_ context.Context, network, hostport string) (net.Conn, error) {
		dialled = append(dialled, network+" "+hostport)
		if strings.HasPrefix(hostport, "10.0.0.2:") {
			return nil, down
		}
		c, _ := net.Pipe()
		return c, nil
	})
	for _, tc := range []struct {
		name, hostport string
		want           []string
		failure        string
	}{
		{"rebound", "rebound:80", nil, "address not allowed"},
		{"the second one answers", "two:80", []string{"tcp 10.0.0.2:80", "tcp 10.0.0.3:80"}, ""},
		{"nobody answers", "10.0.0.2:80", []string{"tcp 10.0.0.2:80"}, "nobody is there"},
		{"in IPv6 clothes", "[::ffff:10.0.0.3]:80", []string{"tcp 10.0.0.3:80"}, ""},
		{"loopback", "[::1]:80", nil, "address not allowed"},
		{"no port", "10.0.0.3", nil, "missing port"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dialled = nil
			conn, err := dial(t.Context(), "tcp", tc.hostport)
			if (err == nil) != (tc.failure == "") || err != nil && !strings.Contains(err.Error(), tc.failure) {
				t.Fatalf("error is %v, want %q", err, tc.failure)
			}
			if conn != nil {
				defer conn.Close()
			}
			if diff := cmp.Diff(tc.want, slices.Clone(dialled)); diff != "" {
				t.Errorf("dialled (-want +got):\n%s", diff)
			}
		})
	}
}

func TestFenced(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "reached") }))
	defer server.Close()
	base := &http.Transport{Proxy: func(*http.Request) (*url.URL, error) { return nil, nil }}
	get := func(t *http.Transport) error {
		r, err := (&http.Client{Transport: t}).Get(server.URL)
		if err == nil {
			err = r.Body.Close()
		}
		t.CloseIdleConnections()
		return err
	}
	if err := get(base); err != nil {
		t.Fatal(err)
	}
	for name, transport := range map[string]*http.Transport{"copy": Fenced(base), "own": Transport()} {
		if err := get(transport); err == nil || !strings.Contains(err.Error(), "address not allowed") {
			t.Errorf("%s: the way to the machine itself is %v", name, err)
		}
		if transport.Proxy != nil {
			t.Errorf("%s: another proxy decides where the request goes", name)
		}
	}
	if base.Proxy == nil {
		t.Error("the transport that was copied has changed")
	}
}
