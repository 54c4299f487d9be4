// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package corefile

import (
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/miekg/dns"
)

// ResolvConfs are the files of name servers that a Corefile may name.
var ResolvConfs = []string{"/etc/resolv.conf", "/run/systemd/resolve/resolv.conf"}

// maxUpstreams is CoreDNS's bound.
const maxUpstreams = 15

var forwardProperties = []string{
	"except", "expire", "failfast_all_unhealthy_upstreams", "failover", "force_tcp", "health_check", "max_concurrent", "max_fails", "policy", "prefer_udp",
}

func parseForward(s *Server, d statement) error {
	if err := d.count(2, -1); err != nil {
		return err
	}
	from, err := zonesOf(d.line, d.args()[0])
	if err != nil {
		return err
	}
	f := Forward{
		From: from[0], Line: d.line, Policy: "random", MaxFails: 2, HealthCheck: 500 * time.Millisecond, HealthName: ".",
		Failover: []int{dns.RcodeServerFailure, dns.RcodeRefused},
	}
	for _, to := range d.args()[1:] {
		server, err := upstream(d.line, to)
		if err != nil {
			return err
		}
		f.To = append(f.To, server)
	}
	if len(f.To) > maxUpstreams {
		return wrong(d.line, "forward: more than %d servers", maxUpstreams)
	}
	for _, p := range d.body {
		if err := f.property(p); err != nil {
			return err
		}
	}
	s.Forward = append(s.Forward, f)
	return nil
}

func upstream(line int, to string) (string, error) {
	if strings.HasPrefix(to, "/") {
		if !slices.Contains(ResolvConfs, to) {
			return "", wrong(line, "forward: of files only %s can be named, not %q", strings.Join(ResolvConfs, " and "), to)
		}
		return to, nil
	}
	to = strings.TrimPrefix(to, "dns://")
	if strings.Contains(to, "://") {
		return "", wrong(line, "forward: %q: servers are asked by plain DNS only", to)
	}
	if a, err := netip.ParseAddr(strings.Trim(to, "[]")); err == nil {
		return net.JoinHostPort(a.String(), "53"), nil
	}
	if a, err := netip.ParseAddrPort(to); err == nil && a.Port() != 0 {
		return a.String(), nil
	}
	return "", wrong(line, "forward: %q is neither an address, with a port or without, nor a file", to)
}

func (f *Forward) property(p statement) error {
	if err := p.among("forward", forwardProperties); err != nil {
		return err
	}
	args := p.args()
	least, most := 1, 1
	switch p.name() {
	case "force_tcp", "prefer_udp", "failfast_all_unhealthy_upstreams":
		least, most = 0, 0
	case "except", "failover":
		most = -1
	case "health_check":
		most = 4
	}
	if err := p.count(least, most); err != nil {
		return err
	}
	var err error
	switch p.name() {
	case "except":
		var zones []string
		zones, err = zoneList(p.line, args)
		f.Except = append(f.Except, zones...)
	case "policy":
		f.Policy = args[0]
		if !slices.Contains([]string{"random", "round_robin", "sequential"}, f.Policy) {
			err = wrong(p.line, "forward: policy is random, round_robin or sequential, not %q", args[0])
		}
	case "max_concurrent":
		f.MaxConcurrent, err = number(p, args[0], 0, 1<<20)
	case "max_fails":
		f.MaxFails, err = number(p, args[0], 0, 1<<20)
	case "expire":
		_, err = duration(p, args[0]) // connections are not kept
	case "health_check":
		err = f.health(p)
	case "force_tcp":
		f.ForceTCP = true
	case "prefer_udp": // what is asked for by TCP is asked by UDP first, too
	case "failfast_all_unhealthy_upstreams":
		f.FailFast = true
	case "failover":
		f.Failover, err = rcodes(p)
	}
	return err
}

func (f *Forward) health(p statement) error {
	args := p.args()
	d, err := duration(p, args[0])
	if err != nil {
		return err
	}
	if d == 0 {
		return wrong(p.line, "forward: health_check wants a duration above 0")
	}
	f.HealthCheck = d
	for i := 1; i < len(args); i++ {
		switch {
		case args[i] == "no_rec":
			f.HealthNoRecursion = true
		case args[i] == "domain" && i+1 < len(args):
			i++
			if f.HealthName, err = zoneOf(p.line, args[i]); err != nil {
				return err
			}
		default:
			return wrong(p.line, "forward: health_check takes no_rec and domain NAME, not %q", args[i])
		}
	}
	return nil
}

func rcodes(p statement) ([]int, error) {
	var codes []int
	for _, a := range p.args() {
		code, ok := dns.StringToRcode[strings.ToUpper(a)]
		if !ok || code == dns.RcodeSuccess {
			return nil, wrong(p.line, "%s: %q is no code of a failure such as SERVFAIL", p.name(), a)
		}
		codes = append(codes, code)
	}
	return codes, nil
}
