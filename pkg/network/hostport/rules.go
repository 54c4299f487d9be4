// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package hostport

import (
	"crypto/sha256"
	"encoding/hex"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

const table = "nat"

// Chains are a cluster's chains of the nat table; their names carry a hash of the cluster's, so that clusters on one
// machine spare each other. Rules carry the pod's uid as comment, by which they are found again.
type Chains struct{ DNAT, Masquerade string }

// ChainsOf returns the chains of a cluster.
func ChainsOf(cluster string) Chains {
	sum := sha256.Sum256([]byte(cluster))
	prefix := "MINIK8S-HP-" + hex.EncodeToString(sum[:4])
	return Chains{DNAT: prefix + "-DNAT", Masquerade: prefix + "-MASQ"}
}

func (c Chains) all() []string { return []string{c.DNAT, c.Masquerade} }

// Rule is a rule of a chain in the words of iptables-save, by which rules are compared.
type Rule struct{ Chain, Spec string }

// ruleOf reads a line of iptables-save.
func ruleOf(line string) (r Rule, ok bool) {
	line, ok = strings.CutPrefix(line, "-A ")
	r.Chain, r.Spec, _ = strings.Cut(line, " ")
	return r, ok
}

// Rules are those that a pod with address ip needs for its ports, each once. The DNAT goes for packets to any address of the node
// (or to hostIP); masquerading makes the answer come back this way when the pod itself or the node's loopback asks. Of IPv6 the loopback is
// left alone: the kernel takes no answer to ::1 from a link, so that who connects there would wait for nothing, and not be refused.
func (c Chains) Rules(uid types.UID, ip netip.Addr, ports []corev1.ContainerPort) []Rule {
	var out []Rule
	add := func(r Rule) {
		if !slices.Contains(out, r) { // two ports of the node may lead to one of the pod
			out = append(out, r)
		}
	}
	comment := ` -m comment --comment "` + podComment + string(uid) + `"`
	self, not := netip.PrefixFrom(ip, ip.BitLen()).String(), ""
	sources := []string{self, "127.0.0.0/8"}
	if ip.Is6() {
		not, sources = "! -d ::1/128 ", sources[:1]
	}
	for _, p := range ports {
		if p.HostPort <= 0 {
			continue
		}
		proto := protocol(p.Protocol)
		match := not + "-p " + proto + " -m addrtype --dst-type LOCAL"
		if p.HostIP != "" {
			host, err := netip.ParseAddr(p.HostIP)
			if err != nil || host.Is4() != ip.Is4() && !host.IsUnspecified() || host == netip.IPv6Loopback() {
				continue
			}
			if !host.IsUnspecified() {
				match = "-d " + netip.PrefixFrom(host, host.BitLen()).String() + " -p " + proto
			}
		}
		port := func(number int32) string { return " -m " + proto + " --dport " + strconv.Itoa(int(number)) }
		add(Rule{c.DNAT, match + comment + port(p.HostPort) + " -j DNAT --to-destination " + netip.AddrPortFrom(ip, uint16(p.ContainerPort)).String()})
		for _, src := range sources {
			add(Rule{c.Masquerade, "-s " + src + " -d " + self + " -p " + proto + comment + port(p.ContainerPort) + " -j MASQUERADE"})
		}
	}
	return out
}

func protocol(p corev1.Protocol) string {
	switch p {
	case corev1.ProtocolUDP:
		return "udp"
	case corev1.ProtocolSCTP:
		return "sctp"
	default:
		return "tcp"
	}
}

// podComment is what comes before the uid in the comment of a pod's rules.
const podComment = "pod "

// pod is the pod that a rule is of, not ok if it is of none.
func (r Rule) pod() (uid types.UID, ok bool) {
	if _, after, is := strings.Cut(r.Spec, ` --comment "`+podComment); is {
		id, _, closed := strings.Cut(after, `"`)
		return types.UID(id), closed
	}
	return "", false
}

// udpPort is the host port of a rule that leads UDP to a pod, 0 if it is another kind of rule.
func (c Chains) udpPort(r Rule) uint16 {
	words := strings.Fields(r.Spec)
	after := func(word string) string {
		if i := slices.Index(words, word); i >= 0 && i+1 < len(words) {
			return words[i+1]
		}
		return ""
	}
	port, err := strconv.ParseUint(after("--dport"), 10, 16)
	if r.Chain != c.DNAT || after("-p") != "udp" || err != nil {
		return 0
	}
	return uint16(port)
}

// jumps lead from the kernel's chains to ours; only packets to addresses of the node take the first two.
func (c Chains) jumps() []Rule {
	const local, comment = "-m addrtype --dst-type LOCAL ", `-m comment --comment "minik8s host ports" `
	return []Rule{
		{"PREROUTING", local + comment + "-j " + c.DNAT},
		{"OUTPUT", local + comment + "-j " + c.DNAT},
		{"POSTROUTING", comment + "-j " + c.Masquerade},
	}
}
