// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// outcome is what a Service is to be like.
type outcome struct {
	service *corev1.Service
	// served says that the Service is to have addresses and the finalizer; else it is to have neither.
	served bool
	// addresses are what it has or gets, in the order of its families.
	addresses []netip.Addr
	// problem is why it lacks an address, or has another than it asks for.
	problem error
}

// ours tells whether the Service wants an address of us: it is of type LoadBalancer and of no class, or of ours.
func ours(s *corev1.Service) bool {
	class := s.Spec.LoadBalancerClass
	return s.Spec.Type == corev1.ServiceTypeLoadBalancer && (class == nil || *class == Class)
}

func hasFinalizer(s *corev1.Service) bool { return slices.Contains(s.Finalizers, Finalizer) }

// abandoned tells whether we have served a Service that is to be served no more.
func abandoned(s *corev1.Service) bool {
	return hasFinalizer(s) && (s.DeletionTimestamp != nil || s.Spec.Type != corev1.ServiceTypeLoadBalancer)
}

// plan says what each Service that is ours is to be like. It depends on nothing but the Services and the pool. An address is
// never given to a Service while another one shows it in its status: what is freed can be had when that was seen. If two
// Services show the same address all the same, by somebody's hand, the one keeps it that comes first: who has our finalizer,
// then the older one.
func plan(services []*corev1.Service, pool []netip.Prefix) []outcome {
	a := &allocation{pool: pool, shown: map[netip.Addr]*corev1.Service{}, owner: map[netip.Addr]*corev1.Service{}}
	var out []outcome
	for _, s := range services {
		for _, ip := range append(ingressIPs(s), parseAll(s.Spec.ExternalIPs)...) {
			a.shown[ip] = s // whose it is does not matter, see free
		}
		switch {
		case abandoned(s):
			out = append(out, outcome{service: s})
		case ours(s) && s.DeletionTimestamp == nil:
			out = append(out, outcome{service: s, served: true})
		}
	}
	slices.SortFunc(out, func(x, y outcome) int { return precedence(x.service, y.service) })
	for i := range out {
		if out[i].served {
			out[i].addresses = a.keep(out[i].service)
		}
	}
	for i := range out {
		if o := &out[i]; o.served {
			o.addresses, o.problem = a.asked(o.service, o.addresses)
		}
	}
	for i := range out {
		if o := &out[i]; o.served {
			o.addresses, o.problem = a.fill(o.service, o.addresses, o.problem)
		}
	}
	return out
}

func precedence(a, b *corev1.Service) int {
	if fa, fb := hasFinalizer(a), hasFinalizer(b); fa != fb {
		if fa {
			return -1
		}
		return 1
	}
	return cmp.Or(
		a.CreationTimestamp.Compare(b.CreationTimestamp.Time),
		strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name),
	)
}

// allocation is who has which address while a plan is made.
type allocation struct {
	pool []netip.Prefix
	// shown are the addresses in any status, and externalIPs: they are not free, whoever may have them.
	shown map[netip.Addr]*corev1.Service
	// owner are those that a Service keeps or gets.
	owner map[netip.Addr]*corev1.Service
}

// keep returns the addresses that a Service has and may keep, one of a family at most.
func (a *allocation) keep(s *corev1.Service) []netip.Addr {
	var kept []netip.Addr
	for _, family := range a.families(s) {
		for _, ip := range ingressIPs(s) {
			if familyOf(ip) == family && a.contains(ip) && a.owner[ip] == nil {
				a.owner[ip], kept = s, append(kept, ip)
				break
			}
		}
	}
	return kept
}

// asked gives a Service the addresses that it asks for in place of those it has. What it asks for and cannot have is a problem,
// and changes nothing.
func (a *allocation) asked(s *corev1.Service, has []netip.Addr) ([]netip.Addr, error) {
	wanted, err := requested(s)
	problems := []error{err}
	for _, ip := range wanted {
		before := slices.IndexFunc(has, func(h netip.Addr) bool { return familyOf(h) == familyOf(ip) })
		switch other := a.holder(ip, s); {
		case before >= 0 && has[before] == ip:
			continue
		case !slices.Contains(a.families(s), familyOf(ip)):
			problems = append(problems, fmt.Errorf("the requested address %s is of family %s, which the service has not", ip, familyOf(ip)))
			continue
		case !a.contains(ip):
			problems = append(problems, fmt.Errorf("the requested address %s is not in the pool %s: ask for one of it, or change loadBalancer.pool in the cluster's --config file", ip, a.name()))
			continue
		case other != nil:
			problems = append(problems, fmt.Errorf("the requested address %s belongs to service %q", ip, other.Namespace+"/"+other.Name))
			continue
		}
		a.owner[ip] = s
		if before >= 0 {
			has[before] = ip
		} else {
			has = append(has, ip)
		}
	}
	return has, errors.Join(problems...)
}

// fill gives a Service an address of each family that it lacks, the lowest free one. Who asks for an address that he cannot have
// gets no other in its place.
func (a *allocation) fill(s *corev1.Service, has []netip.Addr, problem error) ([]netip.Addr, error) {
	families := a.families(s)
	if len(families) == 0 {
		return nil, errors.Join(problem, fmt.Errorf("the pool %s has no address of family %v: name a range of it in loadBalancer.pool in the cluster's --config file", a.name(), s.Spec.IPFamilies))
	}
	var all []netip.Addr
	for _, family := range families {
		if at := slices.IndexFunc(has, func(h netip.Addr) bool { return familyOf(h) == family }); at >= 0 {
			all = append(all, has[at])
			continue
		}
		if problem != nil {
			continue
		}
		ip, ok := a.free(family)
		if !ok {
			problem = fmt.Errorf("no %s address of the pool %s is free: delete a service of type LoadBalancer, or name a larger loadBalancer.pool in the cluster's --config file", family, a.name())
			continue
		}
		a.owner[ip], all = s, append(all, ip)
	}
	return all, problem
}

// free returns the lowest address of a family that nobody has. Those that some programs take for a network's are left out.
func (a *allocation) free(family corev1.IPFamily) (netip.Addr, bool) {
	for _, p := range a.pool {
		for ip := p.Masked().Addr(); familyOf(ip) == family && p.Contains(ip); ip = ip.Next() {
			if last := ip.AsSlice()[ip.BitLen()/8-1]; last == 0 || last == 255 && ip.Is4() {
				continue
			}
			if a.owner[ip] == nil && a.shown[ip] == nil {
				return ip, true
			}
		}
	}
	return netip.Addr{}, false
}

// holder returns the Service other than s that has an address, nil if there is none.
func (a *allocation) holder(ip netip.Addr, s *corev1.Service) *corev1.Service {
	if o := a.owner[ip]; o != nil && o != s {
		return o
	}
	if o := a.shown[ip]; o != nil && o != s {
		return o
	}
	return nil
}

func (a *allocation) contains(ip netip.Addr) bool {
	return slices.ContainsFunc(a.pool, func(p netip.Prefix) bool { return p.Contains(ip) })
}

// families are those of a Service that the pool has.
func (a *allocation) families(s *corev1.Service) []corev1.IPFamily {
	return slices.DeleteFunc(slices.Clone(s.Spec.IPFamilies), func(f corev1.IPFamily) bool {
		return !slices.ContainsFunc(a.pool, func(p netip.Prefix) bool { return familyOf(p.Addr()) == f })
	})
}

func (a *allocation) name() string {
	var all []string
	for _, p := range a.pool {
		all = append(all, p.String())
	}
	return strings.Join(all, ", ")
}

func familyOf(ip netip.Addr) corev1.IPFamily {
	if ip.Is4() {
		return corev1.IPv4Protocol
	}
	return corev1.IPv6Protocol
}

// requested are the addresses that a Service asks for.
func requested(s *corev1.Service) ([]netip.Addr, error) {
	text := cmp.Or(s.Annotations[AnnotationAddresses], s.Spec.LoadBalancerIP)
	if text == "" {
		return nil, nil
	}
	var all []netip.Addr
	for part := range strings.SplitSeq(text, ",") {
		ip, err := netip.ParseAddr(strings.TrimSpace(part))
		if err != nil {
			return nil, fmt.Errorf("the requested address %q is none: %w", part, err)
		}
		all = append(all, ip.Unmap())
	}
	return all, nil
}

func ingressIPs(s *corev1.Service) []netip.Addr {
	var texts []string
	for _, in := range s.Status.LoadBalancer.Ingress {
		texts = append(texts, in.IP)
	}
	return parseAll(texts)
}

func parseAll(texts []string) []netip.Addr {
	var all []netip.Addr
	for _, t := range texts {
		if ip, err := netip.ParseAddr(t); err == nil {
			all = append(all, ip.Unmap())
		}
	}
	return all
}

// ingress is the status with the addresses of an outcome.
func (o outcome) ingress() []corev1.LoadBalancerIngress {
	var all []corev1.LoadBalancerIngress
	for _, ip := range o.addresses {
		all = append(all, corev1.LoadBalancerIngress{IP: ip.String(), IPMode: new(corev1.LoadBalancerIPModeVIP)})
	}
	return all
}
