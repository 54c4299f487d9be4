// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package corefile

import (
	"errors"
	"net/netip"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/miekg/dns"
)

var regexps = cmp.Comparer(func(a, b *regexp.Regexp) bool {
	return a == b || a != nil && b != nil && a.String() == b.String()
})

// defaults are what a forward has that says nothing.
func forwardTo(line int, from string, to ...string) Forward {
	return Forward{
		From: from, To: to, Line: line, Policy: "random", MaxFails: 2, HealthCheck: 500 * time.Millisecond, HealthName: ".",
		Failover: []int{dns.RcodeServerFailure, dns.RcodeRefused},
	}
}

func TestParse_Default(t *testing.T) {
	f := forwardTo(13, ".", "/etc/resolv.conf")
	f.MaxConcurrent = 1000
	want := []Server{{
		Zones:   []string{"."},
		Plugins: []string{"cache", "errors", "forward", "health", "kubernetes", "loadbalance", "loop", "prometheus", "ready", "reload"},
		Errors:  true, LoadBalance: true,
		Cache: &Cache{
			Zones: []string{"."}, ServFail: 5 * time.Second, PrefetchDuration: time.Minute, PrefetchPercent: 10,
			Success: Portion{Capacity: 9984, MaxTTL: 30 * time.Second, MinTTL: 5 * time.Second, Disabled: []string{"cluster.local."}},
			Denial:  Portion{Capacity: 9984, MaxTTL: 30 * time.Second, MinTTL: 5 * time.Second, Disabled: []string{"cluster.local."}},
		},
		Kubernetes: &Kubernetes{
			Domains: []string{"cluster.local."}, Reverse: []string{"in-addr.arpa.", "ip6.arpa."}, Pods: PodsInsecure, TTL: 30,
			Fallthrough: &Through{Zones: []string{"in-addr.arpa.", "ip6.arpa."}},
		},
		Forward: []Forward{f},
	}}
	got, err := Parse(Default("cluster.local"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestParse(t *testing.T) {
	tcp := forwardTo(1, "example.org.", "10.1.2.3:53", "[fd00::1]:5353")
	tcp.ForceTCP, tcp.Policy, tcp.Except, tcp.MaxFails, tcp.FailFast = true, "sequential", []string{"a.example.org."}, 3, true
	tcp.HealthCheck, tcp.HealthNoRecursion, tcp.HealthName = time.Second, true, "example.org."
	tcp.Failover = []int{dns.RcodeServerFailure}
	tests := []struct {
		name, text string
		want       []Server
	}{
		{"a stub domain", ".:53 {\n errors\n}\nexample.org:53 { # ours\n forward . 10.1.2.3\n}\n", []Server{
			{Zones: []string{"."}, Plugins: []string{"errors"}, Errors: true},
			{Zones: []string{"example.org."}, Plugins: []string{"forward"}, Forward: []Forward{forwardTo(5, ".", "10.1.2.3:53")}},
		}},
		{"several zones, any case, a range", "A.org, dns://b.org. 10.1.0.0/16 {\n}\n", []Server{{Zones: []string{"a.org.", "b.org.", "1.10.in-addr.arpa."}}}},
		{"forward", `. { forward example.org 10.1.2.3 [fd00::1]:5353 {
			force_tcp
			policy sequential
			except a.example.org
			max_fails 3
			expire 20s
			health_check 1s no_rec domain example.org
			failfast_all_unhealthy_upstreams
			failover servfail
		} }`, []Server{{Zones: []string{"."}, Plugins: []string{"forward"}, Forward: []Forward{tcp}}}},
		{"hosts", ". {\n hosts {\n 192.0.2.1 Host.example.org other *.Example.org\n fd00::1 other\n ttl 60\n fallthrough\n }\n}", []Server{{
			Zones: []string{"."}, Plugins: []string{"hosts"}, Hosts: &Hosts{
				Names: map[string][]netip.Addr{
					"host.example.org.": {netip.MustParseAddr("192.0.2.1")}, "other.": {netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("fd00::1")},
					"*.example.org.": {netip.MustParseAddr("192.0.2.1")},
				},
				Addrs: map[netip.Addr][]string{netip.MustParseAddr("192.0.2.1"): {"host.example.org.", "other."}, netip.MustParseAddr("fd00::1"): {"other."}},
				TTL:   60, Fallthrough: &Through{All: true},
			},
		}}},
		{"cache", ". {\n cache {\n success 100 60 10\n denial 50 5\n serve_stale 2h verify 1s\n prefetch 3 1m 20%\n servfail 0s\n keepttl\n disable denial\n }\n}", []Server{{
			Zones: []string{"."}, Plugins: []string{"cache"}, Cache: &Cache{
				Zones: []string{"."}, Success: Portion{Capacity: 100, MaxTTL: time.Minute, MinTTL: 10 * time.Second},
				Denial: Portion{Capacity: 50, MaxTTL: 5 * time.Second, MinTTL: 5 * time.Second, Disabled: []string{"."}},
				Stale:  2 * time.Hour, StaleVerify: true, StaleTimeout: time.Second, Prefetch: 3, PrefetchDuration: time.Minute, PrefetchPercent: 20, KeepTTL: true,
			},
		}}},
		{"kubernetes", "cluster.local {\n kubernetes {\n pods verified\n ttl 0\n namespaces a b\n noendpoints\n ignore empty_service\n fallthrough\n }\n}", []Server{{
			Zones: []string{"cluster.local."}, Plugins: []string{"kubernetes"}, Kubernetes: &Kubernetes{
				Domains: []string{"cluster.local."}, Pods: PodsVerified, Namespaces: []string{"a", "b"}, NoEndpoints: true, IgnoreEmpty: true, Fallthrough: &Through{All: true},
			},
		}}},
		{"log", ". {\n log a.org {\n class denial error\n }\n log\n}", []Server{{
			Zones: []string{"."}, Plugins: []string{"log"}, Log: &Log{Names: []string{"a.org.", "."}, Classes: []string{"denial", "error"}},
		}}},
		{"rewrite", `. {
			rewrite name a.org b.org
			rewrite continue name suffix .x.org .y.org answer auto
			rewrite stop {
				name regex (.*)\.z {1}.default.svc.cluster.local
				answer name (.*)\.default\.svc\.cluster\.local {1}.z
			}
			rewrite type ANY A
			rewrite name prefix a. B answer value c d name e f answer auto
			rewrite stop {
				name substring A b
				answer name auto
			}
		}`, []Server{{
			Zones: []string{"."}, Plugins: []string{"rewrite"}, Rewrite: []Rewrite{
				{Match: "exact", From: "a.org.", To: "b.org.", AnswerAuto: true},
				{Continue: true, Match: "suffix", From: ".x.org.", To: ".y.org.", AnswerAuto: true},
				{
					Match: "regex", From: `(.*)\.z`, To: "{1}.default.svc.cluster.local", Pattern: regexp.MustCompile(`(.*)\.z`),
					Answers: []AnswerRewrite{{From: regexp.MustCompile(`(.*)\.default\.svc\.cluster\.local`), To: "{1}.z"}},
				},
				{FromType: dns.TypeANY, ToType: dns.TypeA},
				{
					Match: "prefix", From: "a.", To: "b.", AnswerAuto: true,
					Answers: []AnswerRewrite{{Value: true, From: regexp.MustCompile("c"), To: "d"}, {From: regexp.MustCompile("e"), To: "f"}},
				},
				{Match: "substring", From: "a.", To: "b.", AnswerAuto: true},
			},
		}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Parse(tt.text)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got, regexps, cmpopts.EquateComparable(netip.Addr{})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestParse_Ranges(t *testing.T) {
	for text, want := range map[string][]string{
		"10.96.0.0/14":            {"96.10.in-addr.arpa.", "97.10.in-addr.arpa.", "98.10.in-addr.arpa.", "99.10.in-addr.arpa."},
		"192.168.1.5/31":          {"4.1.168.192.in-addr.arpa.", "5.1.168.192.in-addr.arpa."},
		"2001:db8::/31":           {"8.b.d.0.1.0.0.2.ip6.arpa.", "9.b.d.0.1.0.0.2.ip6.arpa."},
		"2001:db8:4000::/34":      {"4.8.b.d.0.1.0.0.2.ip6.arpa.", "5.8.b.d.0.1.0.0.2.ip6.arpa.", "6.8.b.d.0.1.0.0.2.ip6.arpa.", "7.8.b.d.0.1.0.0.2.ip6.arpa."},
		"::ffff:172.16.0.0/112":   {"16.172.in-addr.arpa."},
		"::ffff:0.0.0.0/96":       {"in-addr.arpa."},
		"0.0.0.0/0":               {"in-addr.arpa."},
		"::/0":                    {"ip6.arpa."},
		"10.1.0.0/16 10.2.0.0/16": {"1.10.in-addr.arpa.", "2.10.in-addr.arpa."},
	} {
		got, err := Parse(text + " {\n}\n")
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if diff := cmp.Diff(want, got[0].Zones); diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
	}
}

func TestParse_Errors(t *testing.T) {
	tests := []struct{ name, text, want string }{
		{"nothing", "# nothing\n", "Corefile:1: there is no server block"},
		{"no braces", ".:53\n", `Corefile:1: server block ".:53" has no braces`},
		{"not closed", ".:53 {\n errors\n", "Corefile:1: the brace is not closed"},
		{"plugin not closed", ".:53 {\n forward . 1.1.1.1 {\n", "Corefile:2: the brace is not closed"},
		{"braces alone", "{\n}\n", `Corefile:1: a server block begins with its zones, not with "{"`},
		{"unknown plugin", ".:53 {\n errors\n autopath @kubernetes\n}\n", `Corefile:3: plugin "autopath" is not supported: there are cache, errors, forward, health, hosts, kubernetes, loadbalance, log, loop, prometheus, ready, reload, rewrite`},
		{"twice", ".:53 {\n errors\n errors\n}\n", `Corefile:3: plugin "errors" is there twice`},
		{"zone twice", "a.org {\n}\nb.org A.org {\n}\n", `Corefile:3: zone "a.org." is already that of line 1`},
		{"another port", "a.org:1053 {\n}\n", `Corefile:1: "a.org:1053": port 53 is the only one that is served`},
		{"another protocol", "tls://a.org {\n}\n", `Corefile:1: "tls://a.org": only plain DNS is served`},
		{"snippet", "(a) {\n}\n", "Corefile:1: snippets and import are not supported"},
		{"import", ". {\n import /etc/passwd\n}\n", `Corefile:2: plugin "import" is not supported`},
		{"the environment is not read", "{$HOME} {\n}\n", `Corefile:1: "{$HOME}": variables of the environment are not supported`},
		{"forward to a file", ". {\n forward . /etc/shadow\n}\n", `Corefile:2: forward: of files only /etc/resolv.conf and /run/systemd/resolve/resolv.conf can be named, not "/etc/shadow"`},
		{"forward to a name", ". {\n forward . dns.example.org\n}\n", `Corefile:2: forward: "dns.example.org" is neither an address, with a port or without, nor a file`},
		{"forward by TLS", ". {\n forward . tls://1.1.1.1\n}\n", `Corefile:2: forward: "tls://1.1.1.1": servers are asked by plain DNS only`},
		{"forward to nobody", ". {\n forward .\n}\n", "Corefile:2: forward wants 2 arguments"},
		{"forward policy", ". {\n forward . 1.1.1.1 {\n  policy fastest\n }\n}\n", `Corefile:3: forward: policy is random, round_robin or sequential, not "fastest"`},
		{"forward property", ". {\n forward . 1.1.1.1 {\n  tls\n }\n}\n", `Corefile:3: forward has no property "tls" here: there are except,`},
		{"negative number", ". {\n forward . 1.1.1.1 {\n  max_concurrent -1\n }\n}\n", `Corefile:3: max_concurrent: "-1" is no number from 0 to 1048576`},
		{"kubernetes without a zone", ". {\n kubernetes\n}\n", "Corefile:2: kubernetes: it wants the zone of the cluster, such as cluster.local"},
		{"kubernetes elsewhere", "a.org {\n kubernetes cluster.local\n}\n", `Corefile:2: kubernetes: zone "cluster.local." is not within those of the server block`},
		{"pods", ". {\n kubernetes cluster.local {\n pods all\n }\n}\n", `Corefile:3: kubernetes: pods is disabled, insecure or verified, not "all"`},
		{"too many arguments", ". {\n kubernetes cluster.local {\n ttl 1 2\n }\n}\n", `Corefile:3: ttl takes at most 1 argument, found "2"`},
		{"hosts file", ". {\n hosts /etc/hosts\n}\n", `Corefile:2: hosts: files and zones are not supported`},
		{"hosts entry", ". {\n hosts {\n  example.org 1.2.3.4\n }\n}\n", `Corefile:3: hosts: "example.org" is neither an address nor`},
		{"a bad name", ". {\n hosts {\n  1.2.3.4 a..b\n }\n}\n", `Corefile:3: "a..b" is not a domain name`},
		{"rewrite pattern", ". {\n rewrite name regex ( a\n}\n", "Corefile:2: rewrite: error parsing regexp"},
		{"rewrite answer", ". {\n rewrite name exact a b answer\n}\n", "Corefile:2: rewrite: answer is auto, name FROM TO or value FROM TO"},
		{"rewrite answer name", ". {\n rewrite name exact a b answer name c\n}\n", "Corefile:2: rewrite: answer is auto, name FROM TO or value FROM TO"},
		{"rewrite without answer", ". {\n rewrite name exact a b auto\n}\n", `Corefile:2: rewrite: "auto" is not answer`},
		{"rewrite field", ". {\n rewrite edns0 local set 1 2\n}\n", `Corefile:2: rewrite: field "edns0" is not supported: there are name, type`},
		{"log format", ". {\n log . {combined}\n}\n", "Corefile:2: log: formats such as"},
		{"cache capacity", ". {\n cache {\n  success 999999999\n }\n}\n", `Corefile:3: success: "999999999" is no number from 0 to 1048576`},
		{"load balance", ". {\n loadbalance weighted /x\n}\n", "Corefile:2: loadbalance takes at most 1 argument"},
		{"health", ". {\n health {\n lameduck soon\n }\n}\n", `Corefile:3: lameduck: "soon" is no duration`},
		{"prometheus", ". {\n prometheus 9153\n}\n", `Corefile:2: prometheus: "9153" is no address such as :9153`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Parse(tt.text)
			var e *Error
			if !errors.As(err, &e) || !strings.HasPrefix(err.Error(), tt.want) {
				t.Errorf("got  %v\nwant %s", err, tt.want)
			}
		})
	}
}

// FuzzParse feeds any text: it must be understood or refused with a line that the text has.
func FuzzParse(f *testing.F) {
	f.Add(Default("cluster.local"))
	f.Add("a.org b.org:53 {\n forward . 10.0.0.1 {\n policy random\n }\n rewrite name regex (a) {1} answer auto\n hosts {\n 1.2.3.4 a\n }\n}\n")
	f.Add(". {\n cache 30 {\n serve_stale\n prefetch 1 1m 10%\n }\n log \"x\n\" }")
	f.Add("10.0.0.0/8 fd00::/16 {}")
	f.Fuzz(func(t *testing.T, text string) {
		servers, err := Parse(text)
		var e *Error
		switch {
		case err == nil && len(servers) == 0:
			t.Error("nothing was found, and nothing is wrong")
		case err != nil && !errors.As(err, &e):
			t.Errorf("%v has no line", err)
		case err != nil && (e.Line < 1 || e.Line > strings.Count(text, "\n")+1):
			t.Errorf("%v is not in a text of %d lines", err, strings.Count(text, "\n")+1)
		}
		for _, s := range servers {
			if len(s.Zones) == 0 {
				t.Errorf("a block without zones: %+v", s)
			}
		}
	})
}
