// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// policyOf reads "NAMESPACE NAME" and a spec.
func policyOf(t *testing.T, name, spec string) *networkingv1.NetworkPolicy {
	t.Helper()
	ns, short, _ := strings.Cut(name, "/")
	p := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: short}}
	must(t, yaml.UnmarshalStrict([]byte(strings.ReplaceAll(spec, "\t", "  ")), &p.Spec))
	return p
}

func (w *world) createPolicy(t *testing.T, name, spec string) {
	t.Helper()
	p := policyOf(t, name, spec)
	_, err := w.client.NetworkingV1().NetworkPolicies(p.Namespace).Create(t.Context(), p, metav1.CreateOptions{})
	must(t, err)
}

func (w *world) deletePolicies(t *testing.T) {
	t.Helper()
	list, err := w.client.NetworkingV1().NetworkPolicies("").List(t.Context(), metav1.ListOptions{})
	must(t, err)
	for _, p := range list.Items {
		must(t, w.client.NetworkingV1().NetworkPolicies(p.Namespace).Delete(t.Context(), p.Name, metav1.DeleteOptions{}))
	}
}

// probes are all there can be between pods, the outside and the node.
func (w *world) probes() []probe {
	var out []probe
	for _, from := range w.names {
		for _, to := range w.names {
			for _, six := range []bool{false, true} {
				for _, port := range []uint16{80, 81} {
					for _, protocol := range []corev1.Protocol{corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP} {
						out = append(out, probe{from: w.ends[from], to: w.ends[to], six: six, port: port, protocol: protocol})
					}
				}
			}
		}
	}
	return out
}

// expect compares the truth table with what is allowed, until it is so. The node and the pod itself are always allowed.
func (w *world) expect(t *testing.T, what string, allowed func(p probe) bool) {
	t.Helper()
	probes := w.probes()
	want := make([]bool, len(probes))
	for i, p := range probes {
		want[i] = p.from == p.to || p.from.name == "node" || p.to.name == "node" || allowed(p)
		if p.protocol == corev1.ProtocolSCTP && p.to.name == "outside" && p.from.name != "outside" && p.from.name != "node" {
			want[i] = false // masqueraded: it is not heard from that source
		}
	}
	var wrong []string
	for attempt := range 10 {
		wrong = nil
		patience := time.Second // it may be about to change
		if attempt >= 5 {
			patience *= 5
		}
		got := try(t, probes, patience, func(i int) bool { return want[i] })
		for i, p := range probes {
			if got[i] != want[i] {
				wrong = append(wrong, fmt.Sprintf("%v: %t, want %t", p, got[i], want[i]))
			}
		}
		if len(wrong) == 0 {
			return
		}
	}
	t.Errorf("%s: of %d connections %d are wrong:\n%s", what, len(probes), len(wrong), strings.Join(wrong[:min(len(wrong), 40)], "\n"))
}

func in(p probe, ns string) bool    { return strings.HasPrefix(p.to.name, ns+"/") }
func from(p probe, ns string) bool  { return strings.HasPrefix(p.from.name, ns+"/") }
func pod(p probe) bool              { return strings.Contains(p.from.name, "/") }
func tcp(p probe, port uint16) bool { return p.protocol == corev1.ProtocolTCP && p.port == port }

// matrix is what upstream's tests of NetworkPolicy check, each with all connections there can be.
var matrix = []struct {
	name     string
	policies map[string]string
	allowed  func(p probe) bool
}{
	{"default deny ingress", map[string]string{"x/deny": `{podSelector: {}, policyTypes: [Ingress]}`},
		func(p probe) bool { return !in(p, "x") }},
	{"default deny all", map[string]string{"x/deny": `{podSelector: {}, policyTypes: [Ingress, Egress]}`},
		func(p probe) bool { return !in(p, "x") && !from(p, "x") }},
	{"from pods of the namespace", map[string]string{"x/p": `{podSelector: {matchLabels: {pod: a}}, ingress: [{from: [{podSelector: {matchLabels: {pod: b}}}]}]}`},
		func(p probe) bool { return p.to.name != "x/a" || p.from.name == "x/b" }},
	{"allowed for one target", map[string]string{
		"x/deny":  `{podSelector: {}, policyTypes: [Ingress]}`,
		"x/allow": `{podSelector: {matchLabels: {pod: a}}, ingress: [{from: [{podSelector: {}, namespaceSelector: {}}]}]}`,
	}, func(p probe) bool { return !in(p, "x") || p.to.name == "x/a" && pod(p) }},
	{"from all namespaces", map[string]string{"x/p": `{podSelector: {matchLabels: {pod: a}}, ingress: [{from: [{namespaceSelector: {}}]}]}`},
		func(p probe) bool { return p.to.name != "x/a" || pod(p) }},
	{"from another namespace", map[string]string{"x/p": `{podSelector: {matchLabels: {pod: a}}, ingress: [{from: [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: "y"}}}]}]}`},
		func(p probe) bool { return p.to.name != "x/a" || from(p, "y") }},
	{"podSelector with expressions", map[string]string{"x/p": `{podSelector: {matchLabels: {pod: a}}, ingress: [{from: [{podSelector: {matchExpressions: [{key: pod, operator: In, values: [b]}]}}]}]}`},
		func(p probe) bool { return p.to.name != "x/a" || p.from.name == "x/b" }},
	{"namespaceSelector with expressions", map[string]string{"x/p": `{podSelector: {matchLabels: {pod: a}}, ingress: [{from: [{namespaceSelector: {matchExpressions: [{key: kubernetes.io/metadata.name, operator: NotIn, values: [x]}]}}]}]}`},
		func(p probe) bool { return p.to.name != "x/a" || from(p, "y") || from(p, "z") }},
	{"podSelector or namespaceSelector", map[string]string{"x/p": `{podSelector: {matchLabels: {pod: a}}, ingress: [{from: [{podSelector: {matchLabels: {pod: b}}}, {namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: "y"}}}]}]}`},
		func(p probe) bool { return p.to.name != "x/a" || p.from.name == "x/b" || from(p, "y") }},
	{"podSelector and namespaceSelector", map[string]string{"x/p": `{podSelector: {matchLabels: {pod: a}}, ingress: [{from: [{podSelector: {matchLabels: {pod: b}}, namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: "y"}}}]}]}`},
		func(p probe) bool { return p.to.name != "x/a" || p.from.name == "y/b" }},
	{"several of both", map[string]string{"x/p": `{podSelector: {matchLabels: {pod: a}}, ingress: [{from: [{podSelector: {matchExpressions: [{key: pod, operator: In, values: [b, c]}]}, namespaceSelector: {matchExpressions: [{key: kubernetes.io/metadata.name, operator: In, values: ["y", z]}]}}]}]}`},
		func(p probe) bool {
			return p.to.name != "x/a" || (from(p, "y") || from(p, "z")) && p.from.name[2] != 'a'
		}},
	{"allow all", map[string]string{"x/deny": `{podSelector: {}, policyTypes: [Ingress]}`, "x/all": `{podSelector: {}, ingress: [{}]}`},
		func(probe) bool { return true }},
	{"a port by number", map[string]string{"x/p": `{podSelector: {matchLabels: {pod: a}}, ingress: [{ports: [{port: 81}], from: [{namespaceSelector: {}}]}]}`},
		func(p probe) bool { return p.to.name != "x/a" || pod(p) && tcp(p, 81) }},
	{"policies add up", map[string]string{
		"x/eighty":    `{podSelector: {matchLabels: {pod: a}}, ingress: [{ports: [{port: 80}], from: [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: "y"}}}]}]}`,
		"x/eightyone": `{podSelector: {matchExpressions: [{key: pod, operator: In, values: [a, b]}]}, ingress: [{ports: [{port: 81, protocol: UDP}]}]}`,
	}, func(p probe) bool {
		udp81 := p.protocol == corev1.ProtocolUDP && p.port == 81
		return p.to.name == "x/a" && (udp81 || tcp(p, 80) && from(p, "y")) || p.to.name == "x/b" && udp81 || p.to.name != "x/a" && p.to.name != "x/b"
	}},
	{"a port by name", map[string]string{"x/p": `{podSelector: {matchLabels: {pod: a}}, ingress: [{ports: [{port: serve-81-tcp}]}]}`},
		func(p probe) bool { return p.to.name != "x/a" || tcp(p, 81) }},
	{"egress to a port by name", map[string]string{"x/p": `{podSelector: {matchLabels: {pod: a}}, policyTypes: [Egress], egress: [{ports: [{port: serve-80-tcp}]}]}`},
		func(p probe) bool { return p.from.name != "x/a" || tcp(p, 80) && p.to.name != "outside" }},
	{"a range of ports", map[string]string{"x/p": `{podSelector: {matchLabels: {pod: a}}, policyTypes: [Egress], egress: [{ports: [{port: 81, endPort: 90}]}]}`},
		func(p probe) bool { return p.from.name != "x/a" || tcp(p, 81) }},
	{"UDP only", map[string]string{"x/p": `{podSelector: {matchLabels: {pod: a}}, ingress: [{ports: [{protocol: UDP, port: 80}]}]}`},
		func(p probe) bool { return p.to.name != "x/a" || p.protocol == corev1.ProtocolUDP && p.port == 80 }},
	{"SCTP only", map[string]string{"x/p": `{podSelector: {matchLabels: {pod: a}}, ingress: [{ports: [{protocol: SCTP, port: 80}]}]}`},
		func(p probe) bool { return p.to.name != "x/a" || p.protocol == corev1.ProtocolSCTP && p.port == 80 }},
	{"SCTP by name", map[string]string{"x/p": `{podSelector: {matchLabels: {pod: a}}, ingress: [{ports: [{protocol: SCTP, port: serve-81-sctp}]}]}`},
		func(p probe) bool { return p.to.name != "x/a" || p.protocol == corev1.ProtocolSCTP && p.port == 81 }},
	{"deny egress of a pod", map[string]string{"x/p": `{podSelector: {matchLabels: {pod: a}}, policyTypes: [Egress]}`},
		func(p probe) bool { return p.from.name != "x/a" }},
	{"egress and ingress together", map[string]string{"x/p": `{podSelector: {matchLabels: {pod: a}}, ingress: [{from: [{namespaceSelector: {}, podSelector: {matchLabels: {pod: b}}}]}], egress: [{to: [{podSelector: {matchLabels: {pod: c}}}]}]}`},
		func(p probe) bool {
			return (p.to.name != "x/a" || strings.HasSuffix(p.from.name, "/b")) && (p.from.name != "x/a" || p.to.name == "x/c")
		}},
	{"the client's side refuses what the server's allows", map[string]string{
		"x/client": `{podSelector: {matchLabels: {pod: a}}, policyTypes: [Egress], egress: [{ports: [{port: 80}]}]}`,
		"y/server": `{podSelector: {matchLabels: {pod: a}}, ingress: [{from: [{namespaceSelector: {}}]}]}`,
	}, func(p probe) bool { return (p.from.name != "x/a" || tcp(p, 80)) && (p.to.name != "y/a" || pod(p)) }},
	{"egress to a block, except", map[string]string{"x/p": `{podSelector: {matchLabels: {pod: a}}, policyTypes: [Egress], egress: [{to: [{ipBlock: {cidr: 0.0.0.0/0, except: [10.244.0.0/24]}}, {ipBlock: {cidr: "2001:db8::/32"}}]}]}`},
		func(p probe) bool { return p.from.name != "x/a" || p.to.name == "outside" }},
	{"ingress from a block", map[string]string{"x/p": `{podSelector: {}, ingress: [{from: [{ipBlock: {cidr: 192.0.2.0/24, except: [192.0.2.0/26]}}]}]}`},
		func(p probe) bool { return !in(p, "x") || p.from.name == "outside" && !p.six }},
}

func TestRealTraffic(t *testing.T) {
	onNode(t, func(t *testing.T) {
		t.Helper()
		w := newWorld(t)
		everything := func(probe) bool { return true }
		w.expect(t, "before there is an enforcer", everything)
		w.enforce(t, nil)
		for _, tt := range matrix {
			t.Run(tt.name, func(t *testing.T) {
				begin := time.Now()
				for name, spec := range tt.policies {
					w.createPolicy(t, name, spec)
				}
				w.expect(t, tt.name, tt.allowed)
				w.deletePolicies(t)
				t.Log(time.Since(begin))
			})
		}
		w.expect(t, "after all policies are gone", everything)
		eventually(t, "the table is gone", func() bool { return !hasTable(t) })
	})
}
