// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package corefile understands the configuration of CoreDNS, as far as its plugins are there here: text becomes server blocks,
// and what is wrong is told with its line. It is pure; touch it for a plugin or a property of one.
package corefile

import (
	"maps"
	"net"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/miekg/dns"
)

// Default is the Corefile that kubeadm gives a cluster of the domain.
func Default(domain string) string {
	return strings.ReplaceAll(`.:53 {
    errors
    health {
       lameduck 5s
    }
    ready
    kubernetes DOMAIN in-addr.arpa ip6.arpa {
       pods insecure
       fallthrough in-addr.arpa ip6.arpa
       ttl 30
    }
    prometheus :9153
    forward . /etc/resolv.conf {
       max_concurrent 1000
    }
    cache 30 {
       disable success DOMAIN
       disable denial DOMAIN
    }
    loop
    reload
    loadbalance
}
`, "DOMAIN", strings.Trim(domain, "."))
}

// Server is a server block. A plugin that it does not have is nil or false.
type Server struct {
	// Zones are those it answers for, fully qualified and in lower case.
	Zones []string
	// Plugins are the names of its plugins, sorted.
	Plugins     []string
	Errors      bool
	LoadBalance bool
	Log         *Log
	Cache       *Cache
	Rewrite     []Rewrite
	Hosts       *Hosts
	Kubernetes  *Kubernetes
	Forward     []Forward
}

// Through says for which names a plugin that has no answer lets the next one answer.
type Through struct {
	All   bool
	Zones []string
}

// For tells whether it is so for a fully qualified lower-case name.
func (t *Through) For(name string) bool {
	return t != nil && (t.All || Within(name, t.Zones))
}

// Within tells whether a name is one of the zones or below.
func Within(name string, zones []string) bool {
	return slices.ContainsFunc(zones, func(z string) bool { return dns.IsSubDomain(z, name) })
}

// Log says which answers are written to the log.
type Log struct {
	Names []string
	// Classes are all, success, denial and error.
	Classes []string
}

// Pods is how names of pods are answered.
type Pods string

// The modes of CoreDNS.
const (
	PodsDisabled Pods = "disabled"
	PodsInsecure Pods = "insecure"
	PodsVerified Pods = "verified"
)

// Kubernetes are the records of the cluster.
type Kubernetes struct {
	// Domains are the cluster's zones, Reverse those of addresses.
	Domains, Reverse []string
	Pods             Pods
	// TTL in seconds.
	TTL uint32
	// Namespaces, unless empty, are the only ones whose names are told.
	Namespaces []string
	// NoEndpoints leaves headless services and their endpoints out.
	NoEndpoints bool
	// IgnoreEmpty leaves services without a ready endpoint out.
	IgnoreEmpty bool
	Fallthrough *Through
}

// Forward are servers that are asked.
type Forward struct {
	From   string
	Except []string
	// To are addresses with ports, and files like resolv.conf.
	To []string
	// Policy is random, round_robin or sequential.
	Policy string
	// MaxConcurrent bounds questions in flight; 0 is no bound of the user's.
	MaxConcurrent int
	MaxFails      int
	HealthCheck   time.Duration
	// HealthName is what is asked to find out whether a server is well, HealthNoRecursion whether without RD.
	HealthName        string
	HealthNoRecursion bool
	ForceTCP          bool
	FailFast          bool
	// Failover are the answers after which the next server is asked.
	Failover []int
	// Line is where it is, for messages.
	Line int
}

// Portion is one half of a cache. Times are whole seconds.
type Portion struct {
	Capacity       int
	MaxTTL, MinTTL time.Duration
	// Disabled are zones that it does not keep.
	Disabled []string
}

// Cache keeps what servers answered.
type Cache struct {
	Zones           []string
	Success, Denial Portion
	// ServFail is how long a failure is kept.
	ServFail time.Duration
	// Stale is how long an answer may be told after its end; 0 not at all. With StaleVerify only if it cannot be had anew within
	// StaleTimeout, which 0 makes no limit of its own.
	Stale        time.Duration
	StaleVerify  bool
	StaleTimeout time.Duration
	// Prefetch is how often an answer is asked for within PrefetchDuration to be had anew before its end, when PrefetchPercent of
	// its time are left; 0 never.
	Prefetch         int
	PrefetchDuration time.Duration
	PrefetchPercent  int
	KeepTTL          bool
}

// Hosts are names with addresses. A name whose first label is * stands for those with any other first label.
type Hosts struct {
	Names       map[string][]netip.Addr
	Addrs       map[netip.Addr][]string
	TTL         uint32
	Fallthrough *Through
}

// Rewrite changes a question, and undoes that in the answer.
type Rewrite struct {
	// Continue lets further rules change the question.
	Continue bool
	// FromType becomes ToType, unless both are 0.
	FromType, ToType uint16
	// Match is exact, prefix, suffix, substring or regex: how From is looked for in a name.
	Match    string
	From, To string
	Pattern  *regexp.Regexp
	// AnswerAuto undoes the rule in names of records and in what they point at.
	AnswerAuto bool
	// Answers change names of records, or what they point at.
	Answers []AnswerRewrite
}

// AnswerRewrite changes names of records, with Value what records point at instead.
type AnswerRewrite struct {
	Value bool
	From  *regexp.Regexp
	To    string
}

// plugins understand the statement of a plugin.
var plugins = map[string]func(*Server, statement) error{
	"cache":       parseCache,
	"errors":      parseErrors,
	"forward":     parseForward,
	"health":      parseHealth,
	"hosts":       parseHosts,
	"kubernetes":  parseKubernetes,
	"loadbalance": parseLoadBalance,
	"log":         parseLog,
	"loop":        parseLoop,
	"prometheus":  parsePrometheus,
	"ready":       parseReady,
	"reload":      parseReload,
	"rewrite":     parseRewrite,
}

// repeatable are the plugins that a block may have more than once.
var repeatable = []string{"forward", "log", "rewrite"}

// Parse understands a Corefile. Its errors are of type *Error.
func Parse(text string) ([]Server, error) {
	list := tokens(text)
	for _, t := range list {
		if strings.Contains(t.text, "{$") || strings.Contains(t.text, "{%") {
			return nil, wrong(t.line, "%q: variables of the environment are not supported", t.text)
		}
	}
	blocks, err := structure(list)
	if err != nil {
		return nil, err
	}
	if len(blocks) == 0 {
		return nil, wrong(1, "there is no server block")
	}
	known := slices.Sorted(maps.Keys(plugins))
	seen := map[string]int{}
	var servers []Server
	for _, b := range blocks {
		var s Server
		for _, key := range b.keys {
			if strings.HasPrefix(key, "(") || key == "import" {
				return nil, wrong(b.line, "snippets and import are not supported")
			}
			zones, err := keyZones(b.line, key)
			if err != nil {
				return nil, err
			}
			for _, z := range zones {
				if before, ok := seen[z]; ok {
					return nil, wrong(b.line, "zone %q is already that of line %d", z, before)
				}
				seen[z] = b.line
				s.Zones = append(s.Zones, z)
			}
		}
		for _, d := range b.statements {
			parse := plugins[d.name()]
			if parse == nil {
				return nil, wrong(d.line, "plugin %q is not supported: there are %s", d.name(), strings.Join(known, ", "))
			}
			if slices.Contains(s.Plugins, d.name()) {
				if !slices.Contains(repeatable, d.name()) {
					return nil, wrong(d.line, "plugin %q is there twice", d.name())
				}
			} else {
				s.Plugins = append(s.Plugins, d.name())
			}
			if err := parse(&s, d); err != nil {
				return nil, err
			}
		}
		slices.Sort(s.Plugins)
		servers = append(servers, s)
	}
	return servers, nil
}

// keyZones are the zones of a key such as dns://example.org:53.
func keyZones(line int, key string) ([]string, error) {
	rest, ok := strings.CutPrefix(key, "dns://")
	if !ok && strings.Contains(key, "://") {
		return nil, wrong(line, "%q: only plain DNS is served", key)
	}
	if host, port, err := net.SplitHostPort(rest); err == nil {
		if port != "53" {
			return nil, wrong(line, "%q: port 53 is the only one that is served", key)
		}
		rest = host
	}
	return zonesOf(line, rest)
}

// zonesOf are the zones that a name, or a range of addresses, stands for.
func zonesOf(line int, name string) ([]string, error) {
	if p, err := netip.ParsePrefix(name); err == nil {
		return reverseZones(line, p)
	}
	z, err := zoneOf(line, name)
	return []string{z}, err
}

func zoneOf(line int, name string) (string, error) {
	if _, ok := dns.IsDomainName(name); !ok || name == "" {
		return "", wrong(line, "%q is not a domain name", name)
	}
	return dns.CanonicalName(name), nil
}

// reverseZones are the zones of in-addr.arpa or ip6.arpa that a range of addresses consists of: 10.96.0.0/12 is 96.10.in-addr.arpa to
// 111.10.in-addr.arpa.
func reverseZones(line int, p netip.Prefix) ([]string, error) {
	p = p.Masked()
	if p.Addr().Is4In6() {
		p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
	}
	step := 8 // bits of a label
	if p.Addr().Is6() {
		step = 4
	}
	bits := (p.Bits() + step - 1) / step * step
	var zones []string
	for i := range 1 << (bits - p.Bits()) {
		b := p.Addr().AsSlice()
		if i > 0 {
			b[(bits-1)/8] += byte(i << (-bits & 7))
		}
		name, err := dns.ReverseAddr(net.IP(b).String())
		if err != nil {
			return nil, wrong(line, "%s is no zone: %v", p, err)
		}
		labels := dns.SplitDomainName(name)
		zones = append(zones, dns.Fqdn(strings.Join(labels[(p.Addr().BitLen()-bits)/step:], ".")))
	}
	return zones, nil
}

func zoneList(line int, names []string) ([]string, error) {
	var zones []string
	for _, n := range names {
		z, err := zonesOf(line, n)
		if err != nil {
			return nil, err
		}
		zones = append(zones, z...)
	}
	return zones, nil
}

func number(s statement, text string, least, most int) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < least || n > most {
		return 0, wrong(s.line, "%s: %q is no number from %d to %d", s.name(), text, least, most)
	}
	return n, nil
}

func duration(s statement, text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return 0, wrong(s.line, "%s: %q is no duration", s.name(), text)
	}
	return d, nil
}
