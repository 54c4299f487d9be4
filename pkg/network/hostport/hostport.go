// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package hostport publishes container ports on the node's addresses (the hostPort field) with iptables. Touch it when
// packets to a host port take the wrong way.
package hostport

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-iptables/iptables"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"minik8s.io/minik8s/pkg/network/namespace"
	"minik8s.io/minik8s/pkg/network/ruleset"
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

// Tables is the part of go-iptables that is used, for one address family.
type Tables interface {
	ChainExists(table, chain string) (bool, error)
	NewChain(table, chain string) error
	InsertUnique(table, chain string, pos int, rule ...string) error
	AppendUnique(table, chain string, rule ...string) error
	DeleteIfExists(table, chain string, rule ...string) error
	List(table, chain string) ([]string, error)
	ClearAndDeleteChain(table, chain string) error
}

var _ Tables = (*iptables.IPTables)(nil)

// Manager keeps the rules of all pods of a cluster's node. Safe for concurrent use; several kubelets of one cluster in
// one network namespace are not supported.
type Manager struct {
	chains Chains
	netNS  string     // the node's, "" for the process's own
	mu     sync.Mutex // one change of the tables at a time
	v4, v6 Tables     // v6 may be nil
	// localnet lets packets with a loopback source leave towards a pod, for connections to 127.0.0.1.
	localnet func(ip netip.Addr) error
	// flows has the UDP flows of a family (AF_INET or AF_INET6) to a port of this machine forgotten.
	flows func(inet int, port uint16) error
	// published is what each pod has, and when that was last seen to be so; mu guards it.
	published map[types.UID]publication
	// stale are the flows that are to be forgotten and are not yet; mu guards it.
	stale map[flowsTo]bool
	// generation numbers the rules of this network namespace, by anybody; ok is false if nobody does.
	generation func() (generation uint32, ok bool)
	// retained is what the last Retain found, nil if it failed; mu guards it.
	retained *retained
}

// retained are the pods that have rules in a generation of them.
type retained struct {
	generation uint32
	pods       map[types.UID]bool
}

// flowsTo are the UDP flows of a family to a port.
type flowsTo struct {
	inet int
	port uint16
}

// publication is what a pod has published.
type publication struct {
	what string
	seen time.Time
}

// lookAgain is how long rules are believed to be as they were seen. Others may throw them away, as Docker does when it starts.
const lookAgain = 30 * time.Second

// New returns the Manager of a cluster on the iptables of the network namespace at a path, by default ("") that of the process;
// ip6tables are used if they are there.
func New(cluster, netNS string) (*Manager, error) {
	v4, err := iptables.NewWithProtocol(iptables.ProtocolIPv4)
	if err != nil {
		return nil, fmt.Errorf("finding iptables: %w", err)
	}
	m := &Manager{chains: ChainsOf(cluster), netNS: netNS, v4: v4, localnet: routeLocalnet, flows: forgetFlows, published: map[types.UID]publication{}, stale: map[flowsTo]bool{},
		generation: ruleset.Generation}
	if v6, err := iptables.NewWithProtocol(iptables.ProtocolIPv6); err == nil {
		err := m.inside(func() error { _, err := v6.ListChains(table); return err })
		if err == nil {
			m.v6 = v6
		}
	}
	return m, nil
}

// inside does something in the node's network namespace.
func (m *Manager) inside(f func() error) error { return namespace.Do(m.netNS, f) }

// Rule is one rule of one of the chains.
type Rule struct {
	Chain string
	Spec  []string
}

// Rules are those that a pod with address ip needs for its ports. The DNAT goes for packets to any address of the node
// (or to hostIP); masquerading makes the answer come back this way when the pod itself or the node's loopback asks.
func (c Chains) Rules(uid types.UID, ip netip.Addr, ports []corev1.ContainerPort) []Rule {
	var out []Rule
	comment := []string{"-m", "comment", "--comment", "pod " + string(uid)}
	for _, p := range ports {
		if p.HostPort <= 0 {
			continue
		}
		proto := protocol(p.Protocol)
		// The order of the words is that of iptables -S, by which rules are compared.
		match := []string{"-p", proto, "-m", "addrtype", "--dst-type", "LOCAL"}
		if p.HostIP != "" {
			host, err := netip.ParseAddr(p.HostIP)
			if err != nil || host.Is4() != ip.Is4() && !host.IsUnspecified() {
				continue
			}
			if !host.IsUnspecified() {
				match = []string{"-d", netip.PrefixFrom(host, host.BitLen()).String(), "-p", proto}
			}
		}
		target := netip.AddrPortFrom(ip, uint16(p.ContainerPort)).String()
		out = append(out, Rule{c.DNAT, slices.Concat(match, comment,
			[]string{"-m", proto, "--dport", strconv.Itoa(int(p.HostPort)), "-j", "DNAT", "--to-destination", target})})
		self, loop := netip.PrefixFrom(ip, ip.BitLen()).String(), "127.0.0.0/8"
		if ip.Is6() {
			loop = "::1/128"
		}
		for _, src := range []string{self, loop} {
			out = append(out, Rule{c.Masquerade, slices.Concat([]string{"-s", src, "-d", self, "-p", proto}, comment,
				[]string{"-m", proto, "--dport", strconv.Itoa(int(p.ContainerPort)), "-j", "MASQUERADE"})})
		}
	}
	return out
}

// routeLocalnet sets the sysctl of the interface that leads to ip. It goes away with the interface.
func routeLocalnet(ip netip.Addr) error {
	routes, err := netlink.RouteGet(ip.AsSlice())
	if err != nil || len(routes) == 0 {
		return fmt.Errorf("finding route to %s: %w", ip, err)
	}
	if routes[0].Gw != nil {
		return fmt.Errorf("no interface leads to %s: its packets go to %s", ip, routes[0].Gw) // which would keep the setting
	}
	link, err := netlink.LinkByIndex(routes[0].LinkIndex)
	if err != nil {
		return fmt.Errorf("finding interface towards %s: %w", ip, err)
	}
	path := filepath.Join("/proc/sys/net/ipv4/conf", link.Attrs().Name, "route_localnet")
	if err := os.WriteFile(path, []byte("1"), 0o644); err != nil {
		return fmt.Errorf("allowing loopback sources on %s: %w", link.Attrs().Name, err)
	}
	return nil
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

// Set publishes ports of a pod, in place of what it had. Idempotent, and cheap when nothing has changed: then the tables are looked
// at twice a minute only, for each look starts programs.
func (m *Manager) Set(uid types.UID, podIPs []string, ports []corev1.ContainerPort) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	what := fmt.Sprint(podIPs, ports)
	if p, ok := m.published[uid]; ok && p.what == what && time.Since(p.seen) < lookAgain {
		return nil
	}
	_, again := m.published[uid]
	delete(m.published, uid) // until it is seen
	if err := m.inside(func() error { return m.set(uid, podIPs, ports, !again) }); err != nil {
		return err
	}
	if len(ports) > 0 {
		m.published[uid] = publication{what, time.Now()}
	}
	return nil
}

// set does so. The first time, a process that was killed may have made the rules and left the flows. The caller holds mu.
func (m *Manager) set(uid types.UID, podIPs []string, ports []corev1.ContainerPort, first bool) error {
	var want4, want6 []Rule
	for _, s := range podIPs {
		ip, err := netip.ParseAddr(s)
		if err != nil {
			return fmt.Errorf("publishing host ports of pod %s: %w", uid, err)
		}
		if ip.Is4() {
			rules := m.chains.Rules(uid, ip, ports)
			if len(rules) > 0 {
				if err := m.localnet(ip); err != nil {
					return fmt.Errorf("publishing host ports of pod %s: %w", uid, err)
				}
			}
			want4 = append(want4, rules...)
		} else {
			want6 = append(want6, m.chains.Rules(uid, ip, ports)...)
		}
	}
	for _, f := range []struct {
		t    Tables
		inet int
		want []Rule
	}{{m.v4, unix.AF_INET, want4}, {m.v6, unix.AF_INET6, want6}} {
		if f.t == nil {
			continue
		}
		if len(f.want) > 0 {
			if err := m.chains.ensure(f.t); err != nil {
				return err
			}
		}
		changed, err := m.chains.replace(f.t, uid, f.want)
		// What has changed has, also if the rest has not.
		m.outdate(f.inet, changed)
		if first {
			m.outdate(f.inet, f.want)
		}
		if err := errors.Join(err, m.forget()); err != nil {
			return fmt.Errorf("publishing host ports of pod %s: %w", uid, err)
		}
	}
	return nil
}

// outdate notes the flows that took the way which rules opened or closed. The caller holds mu.
func (m *Manager) outdate(inet int, rules []Rule) {
	for _, r := range rules {
		if port := m.chains.udpPort(r); port != 0 {
			m.stale[flowsTo{inet, port}] = true
		}
	}
}

// forget ends the flows that are out of date; those for which that fails stay noted. The caller holds mu.
func (m *Manager) forget() error {
	var errs []error
	for f := range m.stale {
		if err := m.flows(f.inet, f.port); err != nil {
			errs = append(errs, err)
			continue
		}
		delete(m.stale, f)
	}
	return errors.Join(errs...)
}

// Remove withdraws all ports of a pod. Absence is success.
func (m *Manager) Remove(uid types.UID) error { return m.Set(uid, nil, nil) }

// Retain withdraws the ports of all pods but those in keep. It starts no program when nobody has changed the rules since the last
// time, and they were of pods in keep.
func (m *Manager) Retain(keep map[types.UID]bool) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.inside(func() error { return m.retain(keep) })
}

func (m *Manager) retain(keep map[types.UID]bool) error {
	generation, numbered := m.generation() // before the look: what changes meanwhile is looked at again
	if r := m.retained; numbered && r != nil && r.generation == generation && within(r.pods, keep) {
		return m.forget()
	}
	m.retained = nil
	found, err := m.withdraw(keep)
	if err != nil {
		return err
	}
	if numbered {
		m.retained = &retained{generation, found}
	}
	return m.forget()
}

func within(pods, keep map[types.UID]bool) bool {
	for uid := range pods {
		if !keep[uid] {
			return false
		}
	}
	return true
}

// withdraw removes the rules of all pods but those in keep, and returns which pods had some. The caller holds mu.
func (m *Manager) withdraw(keep map[types.UID]bool) (found map[types.UID]bool, err error) {
	found = map[types.UID]bool{}
	for _, f := range []struct {
		t    Tables
		inet int
	}{{m.v4, unix.AF_INET}, {m.v6, unix.AF_INET6}} {
		if f.t == nil {
			continue
		}
		for _, chain := range m.chains.all() {
			rules, err := rulesOf(f.t, chain)
			if err != nil {
				return nil, err
			}
			for _, r := range rules {
				found[r.uid] = true
				if keep[r.uid] {
					continue
				}
				delete(m.published, r.uid)
				if err := f.t.DeleteIfExists(table, chain, r.spec...); err != nil {
					return nil, fmt.Errorf("withdrawing host ports of pod %s: %w", r.uid, err)
				}
				m.outdate(f.inet, []Rule{{chain, r.spec}})
			}
		}
	}
	return found, nil
}

// Purge removes the chains and the jumps to them.
func (m *Manager) Purge() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	clear(m.published)
	return m.inside(m.purge)
}

func (m *Manager) purge() error {
	for _, t := range []Tables{m.v4, m.v6} {
		if t == nil {
			continue
		}
		for _, j := range m.chains.jumps() {
			if ok, err := t.ChainExists(table, j.Spec[len(j.Spec)-1]); err != nil {
				return fmt.Errorf("removing host port chains: %w", err)
			} else if !ok {
				continue
			}
			if err := t.DeleteIfExists(table, j.Chain, j.Spec...); err != nil {
				return fmt.Errorf("removing host port chains: %w", err)
			}
		}
		for _, chain := range m.chains.all() {
			ok, err := t.ChainExists(table, chain)
			if err == nil && ok {
				err = t.ClearAndDeleteChain(table, chain)
			}
			if err != nil {
				return fmt.Errorf("removing host port chains: %w", err)
			}
		}
	}
	return nil
}

// jumps lead from the built-in chains to ours; only packets to addresses of the node take the first two.
func (c Chains) jumps() []Rule {
	return []Rule{
		{"PREROUTING", []string{"-m", "addrtype", "--dst-type", "LOCAL", "-m", "comment", "--comment", "minik8s host ports", "-j", c.DNAT}},
		{"OUTPUT", []string{"-m", "addrtype", "--dst-type", "LOCAL", "-m", "comment", "--comment", "minik8s host ports", "-j", c.DNAT}},
		{"POSTROUTING", []string{"-m", "comment", "--comment", "minik8s host ports", "-j", c.Masquerade}},
	}
}

// ensure makes the chains and puts the jumps first, where Docker's and the service proxy's rules do not hide them.
func (c Chains) ensure(t Tables) error {
	for _, chain := range c.all() {
		ok, err := t.ChainExists(table, chain)
		if err == nil && !ok {
			err = t.NewChain(table, chain)
		}
		if err != nil {
			return fmt.Errorf("making chain %s: %w", chain, err)
		}
	}
	for _, j := range c.jumps() {
		if err := t.InsertUnique(table, j.Chain, 1, j.Spec...); err != nil {
			return fmt.Errorf("jumping from %s: %w", j.Chain, err)
		}
	}
	return nil
}

// replace makes want the rules of a pod: new ones are added before old ones go. It returns those that were added or went.
func (c Chains) replace(t Tables, uid types.UID, want []Rule) (changed []Rule, err error) {
	var old []Rule
	have := map[string]bool{}
	for _, chain := range c.all() {
		rules, err := rulesOf(t, chain)
		if err != nil {
			return nil, err
		}
		for _, h := range rules {
			if h.uid != uid {
				continue
			}
			if slices.ContainsFunc(want, func(w Rule) bool { return w.Chain == chain && slices.Equal(w.Spec, h.spec) }) {
				have[chain+" "+strings.Join(h.spec, " ")] = true
			} else {
				old = append(old, Rule{chain, h.spec})
			}
		}
	}
	for _, r := range want {
		if have[r.Chain+" "+strings.Join(r.Spec, " ")] {
			continue
		}
		if err := t.AppendUnique(table, r.Chain, r.Spec...); err != nil {
			return changed, err
		}
		changed = append(changed, r)
	}
	for _, r := range old {
		if err := t.DeleteIfExists(table, r.Chain, r.Spec...); err != nil {
			return changed, err
		}
		changed = append(changed, r)
	}
	return changed, nil
}

type listed struct {
	uid  types.UID
	spec []string
}

// rulesOf lists the rules of a chain that carry a pod's uid.
func rulesOf(t Tables, chain string) ([]listed, error) {
	ok, err := t.ChainExists(table, chain)
	if err != nil {
		return nil, fmt.Errorf("listing chain %s: %w", chain, err)
	}
	if !ok {
		return nil, nil
	}
	lines, err := t.List(table, chain)
	if err != nil {
		return nil, fmt.Errorf("listing chain %s: %w", chain, err)
	}
	var out []listed
	for _, line := range lines {
		words := split(line)
		if len(words) < 2 || words[0] != "-A" || words[1] != chain {
			continue
		}
		if uid, ok := podOf(words); ok {
			out = append(out, listed{uid, words[2:]})
		}
	}
	return out, nil
}

func podOf(words []string) (types.UID, bool) {
	const prefix = "pod "
	for i, w := range words[:len(words)-1] {
		if v := words[i+1]; w == "--comment" && len(v) > len(prefix) && v[:len(prefix)] == prefix {
			return types.UID(v[len(prefix):]), true
		}
	}
	return "", false
}

// split cuts a line as iptables -S prints it into words; quotes hold words together.
func split(line string) []string {
	var out []string
	var word []rune
	quoted, in := false, false
	for _, r := range line {
		switch {
		case r == '"':
			quoted, in = !quoted, true
		case r == ' ' && !quoted:
			if in {
				out = append(out, string(word))
			}
			word, in = nil, false
		default:
			word, in = append(word, r), true
		}
	}
	if in {
		out = append(out, string(word))
	}
	return out
}
