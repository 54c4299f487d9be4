// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package table

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"regexp"
	"testing"
	"time"
)

var port = netip.MustParseAddrPort("127.0.0.1:80")

// named is a route that is told by its name.
func named(name string, m Match) *Route { return &Route{Match: m, Origin: Origin{Name: name}} }

func request(target string, change ...func(*http.Request)) *http.Request {
	r := httptest.NewRequest(http.MethodGet, target, nil)
	for _, c := range change {
		c(r)
	}
	return r
}

func header(name, value string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Add(name, value) }
}

func find(t *testing.T, entries []Entry, sites []Site, r *http.Request) string {
	t.Helper()
	for i := range entries {
		entries[i].Port = port
	}
	for i := range sites {
		sites[i].Port = port
	}
	l := Build(Contents{Ports: []Port{{Address: port}}, Entries: entries, Sites: sites}).Ports[port]
	if found := l.Find(Host(r.Host), r); found != nil {
		return found.Origin.Name
	}
	return ""
}

// The tables of https://kubernetes.io/docs/concepts/services-networking/ingress/#examples and #hostname-wildcards.
func TestFind_Paths(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name    string
		kind    PathKind
		paths   []string
		request string
		want    string
	}{
		{"all", Prefix, []string{"/"}, "/any/path", "/"},
		{"exact", Exact, []string{"/foo"}, "/foo", "/foo"},
		{"exact, another", Exact, []string{"/foo"}, "/bar", ""},
		{"exact, slash at the end of the request", Exact, []string{"/foo"}, "/foo/", ""},
		{"exact, slash at the end of the path", Exact, []string{"/foo/"}, "/foo", ""},
		{"exact is of its case", Exact, []string{"/foo"}, "/FOO", ""},
		{"prefix", Prefix, []string{"/foo"}, "/foo", "/foo"},
		{"prefix, slash at the end of the request", Prefix, []string{"/foo"}, "/foo/", "/foo"},
		{"prefix, slash at the end of the path", Prefix, []string{"/foo/"}, "/foo", "/foo/"},
		{"prefix, slashes at both", Prefix, []string{"/foo/"}, "/foo/", "/foo/"},
		{"prefix, half an element", Prefix, []string{"/aaa/bb"}, "/aaa/bbb", ""},
		{"prefix, all elements", Prefix, []string{"/aaa/bbb"}, "/aaa/bbb", "/aaa/bbb"},
		{"prefix, slash ignored", Prefix, []string{"/aaa/bbb/"}, "/aaa/bbb", "/aaa/bbb/"},
		{"prefix, slash matched", Prefix, []string{"/aaa/bbb"}, "/aaa/bbb/", "/aaa/bbb"},
		{"prefix, subpath", Prefix, []string{"/aaa/bbb"}, "/aaa/bbb/ccc", "/aaa/bbb"},
		{"prefix, string but no element", Prefix, []string{"/aaa/bbb"}, "/aaa/bbbxyz", ""},
		{"longest", Prefix, []string{"/", "/aaa", "/aaa/bbb"}, "/aaa/bbb", "/aaa/bbb"},
		{"next", Prefix, []string{"/", "/aaa", "/aaa/bbb"}, "/aaa/ccc", "/aaa"},
		{"root", Prefix, []string{"/", "/aaa"}, "/ccc", "/"},
		{"none", Prefix, []string{"/aaa"}, "/ccc", ""},
		{"dots leave the prefix", Prefix, []string{"/public", "/admin"}, "/public/../admin/x", "/admin"},
		{"escaped dots do, too", Prefix, []string{"/public", "/admin"}, "/public/%2e%2e/admin/x", "/admin"},
		{"dots end at the root", Prefix, []string{"/"}, "/../..", "/"},
		{"names with dots", Exact, []string{"/a/.well-known/..x"}, "/a/.well-known/..x", "/a/.well-known/..x"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			var entries []Entry
			for _, p := range tc.paths {
				entries = append(entries, Entry{Route: named(p, Match{Kind: tc.kind, Path: p})})
			}
			if got := find(t, entries, nil, request(tc.request)); got != tc.want {
				t.Errorf("found %q, want %q", got, tc.want)
			}
		})
	}
}

func TestFind_Precedence(t *testing.T) {
	t.Parallel()
	old, young := time.Unix(1, 0), time.Unix(2, 0)
	version := []Value{{Name: "Version", Exact: "2"}}
	entries := func() []Entry {
		return []Entry{
			{Route: named("prefix", Match{Path: "/a"})},
			{Route: named("prefix and method", Match{Path: "/a", Method: "POST"})},
			{Route: named("prefix and header", Match{Path: "/a", Headers: version})},
			{Route: named("prefix and two headers", Match{Path: "/a", Headers: []Value{version[0], {Name: "Color", Pattern: regexp.MustCompile("^(?:r.d)$")}}})},
			{Route: named("prefix and query", Match{Path: "/a", Query: []Value{{Name: "q", Exact: "1"}}})},
			{Route: named("exact", Match{Kind: Exact, Path: "/a/exact"})},
			{Route: named("pattern", Match{Kind: Pattern, Path: "/a/[0-9]+", Pattern: regexp.MustCompile("^(?:/a/[0-9]+)$")})},
			{Route: &Route{Match: Match{Path: "/time"}, Origin: Origin{Name: "young", Created: young}}},
			{Route: &Route{Match: Match{Path: "/time"}, Origin: Origin{Name: "old", Created: old}}},
			{Route: &Route{Match: Match{Path: "/time"}, Origin: Origin{Name: "default", Last: true}}},
			{Route: &Route{Match: Match{Path: "/name"}, Origin: Origin{Namespace: "ns", Name: "second"}}},
			{Route: &Route{Match: Match{Path: "/name"}, Origin: Origin{Namespace: "ns-a", Name: "first"}}},
		}
	}
	method := func(m string) func(*http.Request) { return func(r *http.Request) { r.Method = m } }
	for _, tc := range []struct {
		name string
		r    *http.Request
		want string
	}{
		{"nothing else", request("/a/b"), "prefix"},
		{"method", request("/a/b", method("POST")), "prefix and method"},
		{"namespace and name", request("/name"), "first"},
		{"method before headers", request("/a/b", method("POST"), header("Version", "2")), "prefix and method"},
		{"header", request("/a/b", header("version", "2")), "prefix and header"},
		{"another value", request("/a/b", header("version", "20")), "prefix"},
		{"several values are one", request("/a/b", header("version", "2"), header("version", "2")), "prefix"},
		{"more headers", request("/a/b", header("version", "2"), header("color", "red")), "prefix and two headers"},
		{"headers before query", request("/a/b?q=1", header("version", "2")), "prefix and header"},
		{"query", request("/a/b?q=1"), "prefix and query"},
		{"the first value of a query", request("/a/b?q=1&q=2"), "prefix and query"},
		{"another value of a query", request("/a/b?q=2&q=1"), "prefix"},
		{"exact", request("/a/exact", method("POST"), header("version", "2")), "exact"},
		{"pattern", request("/a/12"), "pattern"},
		{"a pattern is for all of the path", request("/a/12/b"), "prefix"},
		{"age", request("/time"), "old"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if got := find(t, entries(), nil, tc.r); got != tc.want {
				t.Errorf("found %q, want %q", got, tc.want)
			}
		})
	}
}

func TestFind_Hosts(t *testing.T) {
	t.Parallel()
	entries := func() []Entry {
		return []Entry{
			{Host: "foo.com", Route: named("exact", Match{Path: "/"})},
			{Host: "*.foo.com", OneLabel: true, Route: named("one label", Match{Path: "/"})},
			{Host: "*.many.com", Route: named("many labels", Match{Path: "/"})},
			{Host: "*.deep.many.com", Route: named("longer suffix", Match{Path: "/only"})},
			{Host: "*.half.com", Route: named("half", Match{Path: "/half"})},
			{Route: named("all", Match{Path: "/half"})},
		}
	}
	for _, tc := range []struct{ host, path, want string }{
		{"foo.com", "/", "exact"},
		{"FOO.com:8080", "/", "exact"},
		{"foo.com.", "/", "exact"},
		{"bar.foo.com", "/", "one label"},
		{"baz.bar.foo.com", "/", ""},
		{"a.many.com", "/", "many labels"},
		{"a.b.many.com", "/", "many labels"},
		{"many.com", "/", ""},
		{"a.deep.many.com", "/only", "longer suffix"},
		{"a.deep.many.com", "/", "many labels"}, // the longer suffix has nothing for it
		{"x.half.com", "/half", "half"},
		{"[::1]:80", "/half", "all"},
	} {
		t.Run(tc.host+tc.path, func(t *testing.T) {
			t.Parallel()
			if got := find(t, entries(), nil, request(tc.path, func(r *http.Request) { r.Host = tc.host })); got != tc.want {
				t.Errorf("found %q, want %q", got, tc.want)
			}
		})
	}
}

// The isolation of listeners, with the hosts of the Gateway API's own example.
func TestFind_Isolation(t *testing.T) {
	t.Parallel()
	sites := []string{"", "*.example.com", "*.foo.example.com", "abc.foo.example.com"}
	for host, want := range map[string]string{
		"bar.com": "", "bar.example.com": "*.example.com", "bar.foo.example.com": "*.foo.example.com", "abc.foo.example.com": "abc.foo.example.com",
	} {
		var entries []Entry
		var all []Site
		for _, s := range sites {
			all = append(all, Site{Host: s})
			entries = append(entries, Entry{Site: s, Host: s, Route: named("of "+s, Match{Kind: Exact, Path: "/" + s})})
		}
		for _, s := range sites {
			expected := ""
			if s == want {
				expected = "of " + s
			}
			if got := find(t, entries, all, request("/"+s, func(r *http.Request) { r.Host = host })); got != expected {
				t.Errorf("%s of the site %q: found %q, want %q", host, s, got, expected)
			}
		}
	}
}

// A request by a connection that was made for another site is misdirected, one for a host of no site is not.
func TestMisdirected(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name             string
		sites            []string
		serverName, host string
		want             bool
	}{
		{"the same host", []string{"a.com", "b.com"}, "a.com", "a.com", false},
		{"another site's host", []string{"a.com", "b.com"}, "a.com", "b.com", true},
		{"of the same site", []string{"*.a.com"}, "x.a.com", "y.a.com", false},
		{"a site that is more specific", []string{"*.a.com", "y.a.com"}, "x.a.com", "y.a.com", true},
		{"no site's host", []string{"a.com", "b.com"}, "a.com", "c.com", false},
		{"the host of what is for all", []string{"a.com", ""}, "a.com", "c.com", true},
		{"no site's name", []string{"a.com", "b.com"}, "c.com", "b.com", true},
		{"no name", []string{"a.com", "b.com"}, "", "b.com", false},
	} {
		var all []Site
		for _, s := range tc.sites {
			all = append(all, Site{Port: port, Host: s})
		}
		l := Build(Contents{Ports: []Port{{Address: port, Isolated: true}}, Sites: all}).Ports[port]
		if got := l.Misdirected(tc.serverName, tc.host); got != tc.want {
			t.Errorf("%s: %t", tc.name, got)
		}
	}
}

func TestRedirect_Location(t *testing.T) {
	t.Parallel()
	path := func(full, prefix string) *PathChange {
		if full != "" {
			return &PathChange{Full: &full}
		}
		return &PathChange{Prefix: &prefix}
	}
	for _, tc := range []struct {
		name, target, matched, scheme string
		port                          int
		redirect                      Redirect
		want                          string
	}{
		{"scheme", "http://a.com/x?q=1", "/", "http", 80, Redirect{Scheme: "https"}, "https://a.com/x?q=1"},
		{"scheme of another port", "http://a.com:8080/x", "/", "http", 8080, Redirect{Scheme: "https"}, "https://a.com/x"},
		{"the listener's port", "http://a.com:8080/x", "/", "http", 8080, Redirect{Host: "b.com"}, "http://b.com:8080/x"},
		{"a port", "http://a.com/x", "/", "http", 80, Redirect{Port: 8083}, "http://a.com:8083/x"},
		{"the scheme's own port", "http://a.com/x", "/", "http", 8080, Redirect{Port: 80}, "http://a.com/x"},
		{"full path", "http://a.com/x/y", "/x", "http", 80, Redirect{Path: path("/full", "")}, "http://a.com/full"},
		{"prefix", "http://a.com/x/y", "/x", "http", 80, Redirect{Path: path("", "/z")}, "http://a.com/z/y"},
		{"prefix away", "http://a.com/x/y", "/x/", "http", 80, Redirect{Path: path("", "/")}, "http://a.com/y"},
		{"all of it away", "http://a.com/x", "/x", "http", 80, Redirect{Path: path("", "/")}, "http://a.com/"},
		{"prefix in front", "http://a.com/x", "/", "http", 80, Redirect{Path: path("", "/z")}, "http://a.com/z/x"},
		{"escaped slash behind the prefix", "http://a.com/x%2Fb", "/x", "http", 80, Redirect{Path: path("", "/")}, "http://a.com/%2Fb"},
		{"escaped", "http://a.com/x/a%2Fb", "/x", "http", 80, Redirect{Path: path("", "/z")}, "http://a.com/z/a%2Fb"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if got := tc.redirect.Location(request(tc.target), tc.matched, tc.scheme, tc.port); got != tc.want {
				t.Errorf("location is %q, want %q", got, tc.want)
			}
		})
	}
}

func TestAction_Choose(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name    string
		weights []uint32
	}{{"none", nil}, {"no weight", []uint32{0, 0}}, {"one", []uint32{3}}, {"shares", []uint32{7, 0, 3}}} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			a, sum := Action{}, uint32(0)
			for _, w := range tc.weights {
				a.Backends, sum = append(a.Backends, WeightedBackend{Weight: w}), sum+w
			}
			got := map[*WeightedBackend]int{}
			const times = 20000
			for range times {
				got[a.Choose()]++
			}
			if sum == 0 {
				if got[nil] != times {
					t.Errorf("something was chosen: %v", got)
				}
				return
			}
			for i, w := range tc.weights {
				if share := float64(got[&a.Backends[i]]) / times; share < float64(w)/float64(sum)-0.03 || share > float64(w)/float64(sum)+0.03 {
					t.Errorf("backend %d of weight %d got %.2f", i, w, share)
				}
			}
		})
	}
}

func BenchmarkFind(b *testing.B) {
	var entries []Entry
	for _, host := range []string{"", "*.example.com", "a.example.com", "b.example.com"} {
		for _, path := range []string{"/", "/api", "/api/v1", "/static"} {
			entries = append(entries, Entry{Port: port, Host: host, Route: named(host+path, Match{Path: path})})
		}
	}
	l := Build(Contents{Ports: []Port{{Address: port}}, Entries: entries}).Ports[port]
	r := request("/api/v1/things/of/somebody")
	b.ReportAllocs()
	for b.Loop() {
		if l.Find(Host("a.example.com:80"), r) == nil {
			b.Fatal("not found")
		}
	}
}

// All that is served at an address is served at its twin, unless somebody asks for a port there.
func TestBuild_Twins(t *testing.T) {
	t.Parallel()
	twin, other := netip.MustParseAddr("::1"), netip.MustParseAddrPort("127.0.0.2:80")
	own := netip.AddrPortFrom(twin, 81)
	c := Contents{
		Ports:   []Port{{Address: port}, {Address: other}, {Address: own, Protocol: UDP}, {Address: netip.AddrPortFrom(port.Addr(), 81)}},
		Entries: []Entry{{Port: port, Route: named("a", Match{Kind: Prefix, Path: "/"})}},
	}
	if got := len(Build(c).Ports); got != 4 {
		t.Errorf("without twins there are %d ports", got)
	}
	c.Twins = map[netip.Addr]netip.Addr{port.Addr(): twin}
	built := Build(c.With(Contents{}))
	if got := len(built.Ports); got != 5 || built.Ports[own].Protocol != UDP {
		t.Errorf("there are %d ports, of which one is %+v", got, built.Ports[own])
	}
	r := request("http://[::1]/x")
	if found := built.Ports[TwinOf(port, twin)].Find(Host(r.Host), r); found == nil || found.Origin.Name != "a" {
		t.Errorf("found %+v", found)
	}
}

func TestOpen(t *testing.T) {
	t.Parallel()
	twin := netip.MustParseAddr("::1")
	away := errors.New("in use")
	for _, tc := range []struct {
		name   string
		twin   netip.Addr
		failed map[netip.AddrPort]error
		want   string
	}{
		{"alone", netip.Addr{}, nil, "[127.0.0.1]"},
		{"alone and away", netip.Addr{}, map[netip.AddrPort]error{port: away}, "[]"},
		{"both", twin, nil, "[127.0.0.1 ::1]"},
		{"the twin away", twin, map[netip.AddrPort]error{TwinOf(port, twin): away}, "[127.0.0.1]"},
		{"only the twin", twin, map[netip.AddrPort]error{port: away}, "[::1]"},
	} {
		if got := fmt.Sprint(Open(port, tc.twin, tc.failed)); got != tc.want {
			t.Errorf("%s: %s, want %s", tc.name, got, tc.want)
		}
	}
}
