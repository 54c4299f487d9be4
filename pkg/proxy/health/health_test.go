// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"

	"minik8s.io/minik8s/pkg/machinetest"
	"minik8s.io/minik8s/pkg/network/namespacetest"
	"minik8s.io/minik8s/pkg/proxy/model"
)

func TestWithin(t *testing.T) {
	t.Parallel()
	have := []netip.Addr{}
	for _, a := range []string{"127.0.0.1", "192.0.2.1", "198.51.100.1", "192.0.2.1", "::1", "2001:db8::1", "fe80::1"} {
		have = append(have, netip.MustParseAddr(a))
	}
	tests := []struct {
		name         string
		ranges, want []string
	}{
		{"all", []string{"0.0.0.0/0", "::/0"}, []string{"0.0.0.0", "::"}},
		{"all of a family", []string{"0.0.0.0/0"}, []string{"0.0.0.0"}},
		{"all, said twice", []string{"192.0.2.0/24", "0.0.0.0/0"}, []string{"0.0.0.0"}},
		{"a network", []string{"192.0.2.0/24"}, []string{"192.0.2.1"}},
		{"a network and loopback", []string{"192.0.2.0/24", "127.0.0.0/8"}, []string{"127.0.0.1", "192.0.2.1"}},
		{"one of a family, all of the other", []string{"192.0.2.0/24", "::/0"}, []string{"192.0.2.1", "::"}},
		{"half of the addresses", []string{"::/1", "8000::/1"}, []string{"::1", "2001:db8::1"}},
		{"a network that the node is not in", []string{"203.0.113.0/24"}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var ranges []netip.Prefix
			for _, r := range tt.ranges {
				ranges = append(ranges, netip.MustParsePrefix(r))
			}
			var got []string
			for _, a := range within(ranges, have) {
				got = append(got, a.String())
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// TestHandler: the answers are upstream's.
func TestHandler(t *testing.T) {
	t.Parallel()
	now, before := time.Unix(100, 0).UTC(), time.Unix(10, 0).UTC()
	well, late := Family{LastUpdated: before, Healthy: true}, Family{LastUpdated: before}
	for _, tc := range []struct {
		name, path string
		status     Status
		code       int
		want       string
	}{
		{"well", "/healthz", Status{Now: now, Families: map[model.Family]Family{model.IPv4: well}, Eligible: true}, 200,
			`{"lastUpdated":"1970-01-01T00:01:40Z","currentTime":"1970-01-01T00:01:40Z","nodeEligible":true,"healthy":true,` +
				`"status":{"IPv4":{"lastUpdated":"1970-01-01T00:00:10Z","healthy":true}}}`},
		{"on a node that goes", "/healthz", Status{Now: now, Families: map[model.Family]Family{model.IPv4: well}}, 503,
			`{"lastUpdated":"1970-01-01T00:00:10Z","currentTime":"1970-01-01T00:01:40Z","nodeEligible":false,"healthy":true,` +
				`"status":{"IPv4":{"lastUpdated":"1970-01-01T00:00:10Z","healthy":true}}}`},
		{"alive on a node that goes", "/livez", Status{Now: now, Families: map[model.Family]Family{model.IPv4: well}}, 200,
			`{"lastUpdated":"1970-01-01T00:01:40Z","currentTime":"1970-01-01T00:01:40Z","healthy":true,` +
				`"status":{"IPv4":{"lastUpdated":"1970-01-01T00:00:10Z","healthy":true}}}`},
		{"one family is late", "/livez", Status{Now: now, Families: map[model.Family]Family{model.IPv4: well, model.IPv6: late}, Eligible: true}, 503,
			`{"lastUpdated":"1970-01-01T00:00:10Z","currentTime":"1970-01-01T00:01:40Z","healthy":false,` +
				`"status":{"IPv4":{"lastUpdated":"1970-01-01T00:00:10Z","healthy":true},"IPv6":{"lastUpdated":"1970-01-01T00:00:10Z","healthy":false}}}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := httptest.NewRecorder()
			var answered []string
			Handler(func() Status { return tc.status }, func(path string, code int) {
				answered = append(answered, fmt.Sprint(path, " ", code))
			}).ServeHTTP(w, httptest.NewRequest("GET", tc.path, nil))
			if diff := cmp.Diff([]string{fmt.Sprint(tc.path, " ", tc.code)}, answered); diff != "" {
				t.Errorf("told of (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.want, w.Body.String()); diff != "" || w.Code != tc.code || w.Header().Get("Content-Type") != "application/json" {
				t.Errorf("%d (-want +got):\n%s", w.Code, diff)
			}
		})
	}
}

// TestEntry: the answers for a Service are upstream's, to the byte.
func TestEntry(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name      string
		endpoints int
		healthy   bool
		code      int
	}{
		{"endpoints", 2, true, 200},
		{"none", 0, true, 503},
		{"the rules are late", 2, false, 503},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := httptest.NewRecorder()
			e := &entry{service: model.Name{Namespace: "ns", Name: "web"}, check: model.HealthCheck{LocalEndpoints: tc.endpoints}}
			e.answer(w, tc.healthy)
			want := fmt.Sprintf("{\n\t\"service\": {\n\t\t\"namespace\": \"ns\",\n\t\t\"name\": \"web\"\n\t},\n\t\"localEndpoints\": %d,\n\t\"serviceProxyHealthy\": %t\n}",
				tc.endpoints, tc.healthy)
			if diff := cmp.Diff(want, w.Body.String()); diff != "" || w.Code != tc.code {
				t.Errorf("%d (-want +got):\n%s", w.Code, diff)
			}
			if diff := cmp.Diff(http.Header{
				"Content-Type": {"application/json"}, "X-Content-Type-Options": {"nosniff"}, "X-Load-Balancing-Endpoint-Weight": {fmt.Sprint(tc.endpoints)},
			}, w.Header()); diff != "" {
				t.Errorf("headers (-want +got):\n%s", diff)
			}
		})
	}
}

// TestServer_Addresses: a check is answered at the addresses of node ports only, and at one that the node has got since.
func TestServer_Addresses(t *testing.T) {
	machinetest.Root(t, "for a network namespace")
	n := namespacetest.New(t)
	add := func(address string) {
		t.Helper()
		if err := n.Do(func() error {
			lo, err := netlink.LinkByName("lo")
			if err != nil {
				return err
			}
			a, err := netlink.ParseAddr(address)
			if err != nil {
				return err
			}
			if err := netlink.AddrAdd(lo, a); err != nil {
				return err
			}
			return netlink.LinkSetUp(lo)
		}); err != nil {
			t.Fatal(err)
		}
	}
	add("192.0.2.1/24")
	add("198.51.100.1/24")
	var failed []string
	s := New(n.Path(), []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}, func() bool { return true }, func(service model.Name, port uint16, _ error) {
		failed = append(failed, fmt.Sprint(service, " ", port))
	})
	defer s.Close()
	answers := func(address string, want bool) {
		t.Helper()
		ln, err := Listen(n.Path(), address)
		if err == nil {
			_ = ln.Close()
		}
		if (err != nil) != want {
			t.Errorf("%s is listened on: %t, want %t", address, err != nil, want)
		}
	}
	checks := map[model.Name]model.HealthCheck{{Namespace: "default", Name: "lb"}: {Port: 30081}}
	for range 2 {
		if err := s.Sync(t.Context(), checks); err != nil {
			t.Fatal(err)
		}
		answers("192.0.2.1:30081", true)
		answers("198.51.100.1:30081", false)
	}
	add("192.0.2.2/24")
	if err := s.Sync(t.Context(), checks); err != nil {
		t.Fatal(err)
	}
	answers("192.0.2.1:30081", true)
	answers("192.0.2.2:30081", true)
	checks[model.Name{Namespace: "default", Name: "late"}] = model.HealthCheck{Port: 30081}
	if err := s.Sync(t.Context(), checks); err == nil || !slices.Equal(failed, []string{"default/late 30081"}) {
		t.Errorf("the port of another Service: %v, told of %q", err, failed)
	}
	if err := s.Sync(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	answers("192.0.2.1:30081", false)
}
