// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package corefile

import (
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/miekg/dns"
)

func parseErrors(s *Server, d statement) error {
	s.Errors = true
	if err := d.bare(); err != nil {
		return err
	}
	return d.count(0, 0)
}

func parseLog(s *Server, d statement) error {
	if s.Log == nil {
		s.Log = &Log{}
	}
	names := d.args()
	if i := slices.IndexFunc(names, func(n string) bool { return strings.ContainsAny(n, "{} ") }); i >= 0 {
		return wrong(d.line, "log: formats such as %q are not supported", names[i])
	}
	if len(names) == 0 {
		names = []string{"."}
	}
	zones, err := zoneList(d.line, names)
	if err != nil {
		return err
	}
	s.Log.Names = append(s.Log.Names, zones...)
	for _, p := range d.body {
		if err := p.among("log", []string{"class"}); err != nil {
			return err
		}
		if err := p.count(1, -1); err != nil {
			return err
		}
		for _, class := range p.args() {
			if !slices.Contains([]string{"all", "success", "denial", "error"}, class) {
				return wrong(p.line, "log: %q is no class: there are all, denial, error, success", class)
			}
			s.Log.Classes = append(s.Log.Classes, class)
		}
	}
	if len(s.Log.Classes) == 0 {
		s.Log.Classes = []string{"all"}
	}
	return nil
}

// parseLoadBalance knows the one policy that shuffles addresses.
func parseLoadBalance(s *Server, d statement) error {
	s.LoadBalance = true
	if err := d.bare(); err != nil {
		return err
	}
	if err := d.count(0, 1); err != nil {
		return err
	}
	if len(d.args()) == 1 && d.args()[0] != "round_robin" {
		return wrong(d.line, "loadbalance: there is only the policy round_robin, not %q", d.args()[0])
	}
	return nil
}

// parseLoop has nothing to note: servers that are this one are never asked.
func parseLoop(_ *Server, d statement) error {
	if err := d.bare(); err != nil {
		return err
	}
	return d.count(0, 0)
}

// parseReload has nothing to note: a changed Corefile is always loaded, as soon as it is seen.
func parseReload(_ *Server, d statement) error {
	if err := d.bare(); err != nil {
		return err
	}
	if err := d.count(0, 2); err != nil {
		return err
	}
	for _, a := range d.args() {
		if _, err := duration(d, a); err != nil && a != "off" {
			return err
		}
	}
	return nil
}

func parseHealth(_ *Server, d statement) error {
	for _, p := range d.body {
		if err := p.among("health", []string{"lameduck"}); err != nil {
			return err
		}
		if err := p.count(1, 1); err != nil {
			return err
		}
		// Nothing takes this server out of a rotation by its health, so nothing has to wait for that.
		if _, err := duration(p, p.args()[0]); err != nil {
			return err
		}
	}
	return port(d, "8080")
}

func parseReady(_ *Server, d statement) error {
	for _, p := range d.body {
		if err := p.among("ready", []string{"monitor"}); err != nil {
			return err
		}
		if err := p.count(1, 1); err != nil {
			return err
		}
		if m := p.args()[0]; m != "continuously" && m != "until-ready" {
			return wrong(p.line, "ready: %q is not continuously or until-ready", m)
		}
	}
	return port(d, "8181")
}

func parsePrometheus(_ *Server, d statement) error {
	if err := d.bare(); err != nil {
		return err
	}
	return port(d, "9153")
}

// port checks an address, which is not listened at: ports of the machine are its users'. The API server has what is told there.
func port(d statement, otherwise string) error {
	if err := d.count(0, 1); err != nil {
		return err
	}
	if len(d.args()) == 0 {
		return nil
	}
	_, p, err := net.SplitHostPort(d.args()[0])
	if err != nil {
		return wrong(d.line, "%s: %q is no address such as :%s", d.name(), d.args()[0], otherwise)
	}
	_, err = number(d, p, 1, 65535)
	return err
}

var kubernetesProperties = []string{"fallthrough", "ignore", "namespaces", "noendpoints", "pods", "ttl"}

func parseKubernetes(s *Server, d statement) error {
	k := &Kubernetes{Pods: PodsDisabled, TTL: 5}
	s.Kubernetes = k
	zones, err := zoneList(d.line, d.args())
	if err != nil {
		return err
	}
	if len(zones) == 0 {
		zones = s.Zones
	}
	for _, z := range zones {
		if !Within(z, s.Zones) {
			return wrong(d.line, "kubernetes: zone %q is not within those of the server block", z)
		}
		if dns.IsSubDomain("in-addr.arpa.", z) || dns.IsSubDomain("ip6.arpa.", z) {
			k.Reverse = append(k.Reverse, z)
		} else {
			k.Domains = append(k.Domains, z)
		}
	}
	if len(k.Domains) == 0 || slices.Contains(k.Domains, ".") {
		return wrong(d.line, "kubernetes: it wants the zone of the cluster, such as cluster.local")
	}
	for _, p := range d.body {
		if err := k.property(p); err != nil {
			return err
		}
	}
	return nil
}

func (k *Kubernetes) property(p statement) error {
	if err := p.among("kubernetes", kubernetesProperties); err != nil {
		return err
	}
	args := p.args()
	least, most := 1, 1
	switch p.name() {
	case "fallthrough":
		least, most = 0, -1
	case "namespaces":
		most = -1
	case "noendpoints":
		least, most = 0, 0
	}
	if err := p.count(least, most); err != nil {
		return err
	}
	var err error
	switch p.name() {
	case "pods":
		k.Pods = Pods(args[0])
		if !slices.Contains([]Pods{PodsDisabled, PodsInsecure, PodsVerified}, k.Pods) {
			err = wrong(p.line, "kubernetes: pods is disabled, insecure or verified, not %q", args[0])
		}
	case "ttl":
		var n int
		n, err = number(p, args[0], 0, 3600)
		k.TTL = uint32(n)
	case "namespaces":
		k.Namespaces = append(k.Namespaces, args...)
	case "noendpoints":
		k.NoEndpoints = true
	case "ignore":
		k.IgnoreEmpty = true
		if args[0] != "empty_service" {
			err = wrong(p.line, "kubernetes: what can be ignored is empty_service, not %q", args[0])
		}
	case "fallthrough":
		k.Fallthrough, err = through(p)
	}
	return err
}

func through(p statement) (*Through, error) {
	if len(p.args()) == 0 {
		return &Through{All: true}, nil
	}
	zones, err := zoneList(p.line, p.args())
	return &Through{Zones: zones}, err
}

// parseHosts takes entries of the Corefile only: files would be those of the machine.
func parseHosts(s *Server, d statement) error {
	if len(d.args()) > 0 {
		return wrong(d.line, "hosts: files and zones are not supported, entries stand in braces; found %q", d.args()[0])
	}
	h := &Hosts{Names: map[string][]netip.Addr{}, Addrs: map[netip.Addr][]string{}, TTL: 3600}
	s.Hosts = h
	reverse := true
	for _, p := range d.body {
		var err error
		switch p.name() {
		case "ttl":
			if err = p.count(1, 1); err == nil {
				var n int
				n, err = number(p, p.args()[0], 1, 1<<31-1)
				h.TTL = uint32(n)
			}
		case "no_reverse":
			reverse = false
			err = p.count(0, 0)
		case "reload":
			err = p.count(1, 1) // there is no file
		case "fallthrough":
			h.Fallthrough, err = through(p)
		default:
			err = h.entry(p)
		}
		if err != nil {
			return err
		}
	}
	if !reverse {
		h.Addrs = nil
	}
	return nil
}

func (h *Hosts) entry(p statement) error {
	a, err := netip.ParseAddr(p.name())
	if err != nil {
		return wrong(p.line, "hosts: %q is neither an address nor fallthrough, no_reverse, reload, ttl", p.name())
	}
	if err := p.count(1, -1); err != nil {
		return err
	}
	a = a.Unmap().WithZone("")
	for _, text := range p.args() {
		name, err := zoneOf(p.line, text)
		if err != nil {
			return err
		}
		h.Names[name] = append(h.Names[name], a)
		if !strings.HasPrefix(name, "*.") {
			h.Addrs[a] = append(h.Addrs[a], name)
		}
	}
	return nil
}
