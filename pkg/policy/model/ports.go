// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"cmp"
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
)

func protocol(p *corev1.Protocol) corev1.Protocol {
	if p == nil {
		return corev1.ProtocolTCP
	}
	return *p
}

// numbered returns the ports that a rule means by number; all of the protocol if it has none.
func numbered(p networkingv1.NetworkPolicyPort) (ports Ports, ok bool) {
	ports = Ports{Protocol: protocol(p.Protocol), Last: math.MaxUint16}
	if p.Port == nil {
		return ports, true
	}
	first, last := p.Port.IntVal, p.Port.IntVal
	if p.EndPort != nil {
		last = *p.EndPort
	}
	if first < 0 || last > math.MaxUint16 || first > last {
		return ports, false // validation rules it out
	}
	ports.First, ports.Last = uint16(first), uint16(last)
	return ports, true
}

// anyProtocol is for ports that are called by their name alone.
const anyProtocol corev1.Protocol = ""

// named returns the key of the ports of a protocol that a rule means by name: those that pods call so. Who is called is a pod of this
// node for ingress, and for egress any pod; which of them a rule is about, its peers say.
func (b *builder) named(name string, proto corev1.Protocol, ingress bool) (key string) {
	key = string(proto) + " " + name
	if ingress {
		key += " here"
	}
	if _, known := b.snap.Named[key]; known {
		return key
	}
	var out []Endpoint
	collect := func(pods []*pod) {
		for _, q := range pods {
			for _, port := range portsOf(q.object, name, proto) {
				for _, a := range q.addrs {
					out = append(out, Endpoint{a, port.Protocol, port.First})
				}
			}
		}
	}
	if ingress {
		collect(b.local)
	} else {
		for _, pods := range b.pods {
			collect(pods)
		}
	}
	slices.SortFunc(out, func(a, b Endpoint) int {
		return cmp.Or(a.Addr.Compare(b.Addr), cmp.Compare(a.Protocol, b.Protocol), cmp.Compare(a.Port, b.Port))
	})
	b.snap.Named[key] = slices.Compact(out)
	return key
}

// portsOf returns a pod's ports of a name and a protocol. Init containers count if they run beside the others.
func portsOf(p *corev1.Pod, name string, proto corev1.Protocol) []Ports {
	var out []Ports
	look := func(c *corev1.Container) {
		for _, port := range c.Ports {
			has := cmp.Or(port.Protocol, corev1.ProtocolTCP)
			if port.Name == name && (proto == has || proto == anyProtocol) {
				out = append(out, Ports{has, uint16(port.ContainerPort), uint16(port.ContainerPort)})
			}
		}
	}
	for i := range p.Spec.InitContainers {
		if c := &p.Spec.InitContainers[i]; c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			look(c)
		}
	}
	for i := range p.Spec.Containers {
		look(&p.Spec.Containers[i])
	}
	return out
}
