// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package hostport publishes container ports on the node's addresses (the hostPort field) with iptables. Touch it when
// packets to a host port take the wrong way.
package hostport

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"minik8s.io/minik8s/pkg/network/namespace"
	"minik8s.io/minik8s/pkg/network/ruleset"
	"minik8s.io/minik8s/pkg/network/xtables"
)

// Programs are what is needed of those of iptables, for one address family. Each call has its own deadline.
type Programs interface {
	Restore(ctx context.Context, text string) error
	Rules(ctx context.Context, table, chain string) (rules []string, there bool, err error)
	Has(ctx context.Context, table, chain, rule string) (bool, error)
}

var _ Programs = xtables.Programs{}

// Manager keeps the rules of all pods of a cluster's node. Safe for concurrent use; several kubelets of one cluster in
// one network namespace are not supported.
type Manager struct {
	chains   Chains
	families []family // mu guards it
	// six are the programs for IPv6 until it is known whether the machine has its tables, nil then; mu guards it.
	six Programs
	// localnet lets packets with a loopback source leave towards a pod, for connections to 127.0.0.1.
	localnet func(ip netip.Addr) error
	// flows has the UDP flows of a family (AF_INET or AF_INET6) to a port of this machine forgotten.
	flows func(inet int, port uint16) error
	// generation numbers the rules of the node's network namespace, by anybody; ok is false if nobody does.
	generation func() (generation uint32, ok bool)

	// mu is for one change of the tables at a time: what is written depends on what was seen.
	mu sync.Mutex
	// published is what each pod has, and when that was last seen to be so; mu guards it.
	published map[types.UID]publication
	// stale are the flows that are to be forgotten and are not yet; mu guards it.
	stale map[flowsTo]bool
	// looked is what the last look at all rules found, nil if it failed; mu guards it.
	looked *look
}

// family is a family of addresses and its tables.
type family struct {
	inet     int // AF_INET or AF_INET6
	programs Programs
}

// look is which pods have rules since a look at them. Nobody else makes rules in chains of ours.
type look struct {
	at   generation
	pods map[types.UID]bool
}

// generation is the number of the rules of anybody at a look, unless nobody counts.
type generation struct {
	number uint32
	known  bool
}

// still tells that no rule has changed since.
func (g generation) still(now generation) bool { return now.known && g == now }

// flowsTo are the UDP flows of a family to a port.
type flowsTo struct {
	inet int
	port uint16
}

// publication is what a pod has published.
type publication struct {
	what string
	seen time.Time
	at   generation
}

// lookAgain is how long rules are believed to be as they were seen although somebody has changed some. Others may throw them away, as
// Docker does when it starts.
const lookAgain = 30 * time.Second

// New returns the Manager of a cluster on the iptables of the network namespace at a path, by default ("") that of the process;
// ip6tables are used if they are there.
func New(cluster, netNS string) (*Manager, error) {
	if _, err := exec.LookPath("iptables"); err != nil {
		return nil, fmt.Errorf("finding iptables: %w", err)
	}
	m := &Manager{
		chains: ChainsOf(cluster), families: []family{{unix.AF_INET, xtables.Programs{NetNS: netNS}}},
		published: map[types.UID]publication{}, stale: map[flowsTo]bool{},
		localnet: func(ip netip.Addr) error { return namespace.Do(netNS, func() error { return routeLocalnet(ip) }) },
		flows: func(inet int, port uint16) error {
			return namespace.Do(netNS, func() error { return forgetFlows(inet, port) })
		},
		generation: func() (number uint32, ok bool) {
			err := namespace.Do(netNS, func() error { number, ok = ruleset.Generation(); return nil })
			return number, ok && err == nil
		},
	}
	if _, err := os.Stat("/proc/net/if_inet6"); err == nil { // else the kernel has no IPv6
		m.six = xtables.Programs{Six: true, NetNS: netNS}
		_ = m.decide() // what fails is asked again with the first change
	}
	return m, nil
}

// tableProblem is with what the programs exit where the kernel has no such table.
const tableProblem = 3

// decide finds out whether the machine has tables of IPv6. That somebody else holds the lock of the programs, or that one hangs, does not say
// that it has none. The caller holds mu.
func (m *Manager) decide() error {
	if m.six == nil {
		return nil
	}
	_, there, err := m.six.Rules(context.Background(), table, "PREROUTING")
	if failed, is := errors.AsType[*exec.ExitError](err); errors.Is(err, exec.ErrNotFound) || is && failed.ExitCode() == tableProblem {
		there, err = false, nil
	}
	if err != nil {
		return fmt.Errorf("finding out whether there are tables of IPv6: %w", err)
	}
	if there {
		m.families = append(m.families, family{unix.AF_INET6, m.six})
	}
	m.six = nil
	return nil
}

// Set publishes ports of a pod, in place of what it had. Idempotent, and cheap when nothing has changed: then the tables are looked
// at twice a minute at most, and not at all while nobody changes rules, for each look starts programs.
func (m *Manager) Set(uid types.UID, podIPs []string, ports []corev1.ContainerPort) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	what, now := fmt.Sprint(podIPs, ports), m.now()
	p, again := m.published[uid]
	if again && p.what == what && (time.Since(p.seen) < lookAgain || p.at.still(now)) {
		return nil
	}
	if len(ports) == 0 && m.looked != nil && !m.looked.pods[uid] {
		return m.forget()
	}
	delete(m.published, uid) // until it is seen
	if err := m.set(uid, podIPs, ports, !again); err != nil {
		return fmt.Errorf("publishing host ports of pod %s: %w", uid, err)
	}
	if len(ports) > 0 {
		m.published[uid] = publication{what, time.Now(), now}
	}
	return nil
}

// set does so. The first time, a process that was killed may have made the rules and left the flows. The caller holds mu.
func (m *Manager) set(uid types.UID, podIPs []string, ports []corev1.ContainerPort, first bool) error {
	want := map[int][]Rule{}
	for _, s := range podIPs {
		ip, err := netip.ParseAddr(s)
		if err != nil {
			return err
		}
		rules, inet := m.chains.Rules(uid, ip, ports), unix.AF_INET6
		if ip.Is4() {
			inet = unix.AF_INET
			if len(rules) > 0 {
				if err := m.localnet(ip); err != nil {
					return err
				}
			}
		}
		want[inet] = append(want[inet], rules...)
	}
	if first {
		for inet, rules := range want {
			m.outdate(inet, rules)
		}
	}
	return m.change(func(other types.UID) bool { return other == uid }, want)
}

// Remove withdraws all ports of a pod. Absence is success, and starts no program if it is known.
func (m *Manager) Remove(uid types.UID) error { return m.Set(uid, nil, nil) }

// Retain withdraws the ports of all pods but those in keep. It starts no program when nobody has changed the rules since the last
// time, and they were of pods in keep.
func (m *Manager) Retain(keep map[types.UID]bool) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.looked != nil && m.looked.at.still(m.now()) && within(m.looked.pods, keep) {
		return m.forget()
	}
	if err := m.change(func(uid types.UID) bool { return !keep[uid] }, nil); err != nil {
		return fmt.Errorf("withdrawing host ports of pods that are gone: %w", err)
	}
	for uid := range m.published {
		if !keep[uid] {
			delete(m.published, uid)
		}
	}
	return nil
}

func within(pods, keep map[types.UID]bool) bool {
	for uid := range pods {
		if !keep[uid] {
			return false
		}
	}
	return true
}

// Purge removes the chains and the jumps to them.
func (m *Manager) Purge() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	clear(m.published)
	m.looked = nil
	if err := m.decide(); err != nil {
		return fmt.Errorf("removing host port chains: %w", err)
	}
	for _, f := range m.families {
		have, err := f.look(m.chains, true)
		if err == nil {
			err = f.restore(m.chains.removal(have))
		}
		if err != nil {
			return fmt.Errorf("removing host port chains: %w", err)
		}
	}
	return nil
}

// change makes want, by family, the rules of some pods, and has the flows forgotten whose way that opens or closes. The caller holds mu.
func (m *Manager) change(of func(types.UID) bool, want map[int][]Rule) error {
	found := &look{m.now(), map[types.UID]bool{}} // before the look: what changes meanwhile is looked at again
	m.looked = nil
	undecided := m.decide()
	if undecided != nil && len(want[unix.AF_INET6]) > 0 {
		return undecided
	}
	for _, f := range m.families {
		have, err := f.look(m.chains, len(want[f.inet]) > 0)
		if err != nil {
			return err
		}
		todo := m.chains.replace(have, of, want[f.inet])
		m.outdate(f.inet, todo.rules)
		if err := f.restore(todo.lines); err != nil {
			return errors.Join(err, m.forget()) // it may have been done all the same
		}
		for _, r := range have.rules {
			if uid, _ := r.pod(); !of(uid) {
				found.pods[uid] = true
			}
		}
		for _, r := range want[f.inet] {
			uid, _ := r.pod()
			found.pods[uid] = true
		}
	}
	if undecided == nil { // else there may be more
		m.looked = found
	}
	return m.forget()
}

func (m *Manager) now() generation {
	number, known := m.generation()
	return generation{number, known}
}

// look reads what there is; from where it is jumped to only if that is asked for.
func (f family) look(c Chains, jumps bool) (kernel, error) {
	var have kernel
	ctx := context.Background() // programs have their own deadlines
	for _, chain := range c.all() {
		lines, there, err := f.programs.Rules(ctx, table, chain)
		if err != nil {
			return have, err
		}
		if there {
			have.there = append(have.there, chain)
		}
		for _, line := range lines {
			if r, ok := ruleOf(line); ok {
				if _, ok := r.pod(); ok {
					have.rules = append(have.rules, r)
				}
			}
		}
	}
	if !jumps || len(have.there) == 0 { // nothing can jump to what is not there
		return have, nil
	}
	for _, j := range c.jumps() {
		lines, shown, err := f.programs.Rules(ctx, table, j.Chain)
		if err != nil {
			return have, err
		}
		if !shown { // for somebody has made rules there by another program
			has, err := f.programs.Has(ctx, table, j.Chain, j.Spec)
			if err != nil {
				return have, err
			}
			if has {
				have.from = append(have.from, j)
			}
		}
		for _, line := range lines {
			if r, ok := ruleOf(line); ok {
				have.from = append(have.from, r)
			}
		}
	}
	return have, nil
}

// restore does what the lines say in one step.
func (f family) restore(lines []string) error {
	if len(lines) == 0 {
		return nil
	}
	return f.programs.Restore(context.Background(), "*"+table+"\n"+strings.Join(lines, "\n")+"\nCOMMIT\n")
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
