// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package ptp

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/coreos/go-iptables/iptables"
)

// lockSeconds is how long another user of iptables is waited for.
const lockSeconds = 10

// chain is one of our chains with the rules in it and the jumps to it from the kernel's.
type chain struct {
	table, name string
	rules       [][]string
	from        string
	jumps       [][]string
}

// chains returns the rules of one IP family; pure.
//
// The forward chain accepts what goes to or comes from any pod of the cluster, because Docker makes the node drop what
// it forwards. The masquerade chain gives packets of this node's pods the node's address when they leave the cluster.
func chains(name string, podCIDRs, clusterCIDRs []netip.Prefix, six bool) []chain {
	family := func(list []netip.Prefix) []string {
		var out []string
		for _, r := range list {
			if text := r.Masked().String(); r.Addr().Is6() == six && !slices.Contains(out, text) {
				out = append(out, text)
			}
		}
		return out
	}
	pods := family(podCIDRs)
	cluster := family(append(slices.Clone(clusterCIDRs), podCIDRs...))
	if len(cluster) == 0 {
		return nil
	}
	comment := []string{"-m", "comment", "--comment", "minik8s:" + name}
	forward := chain{table: "filter", name: "MINIK8S-FWD-" + hash(name, 8), from: "FORWARD"}
	masquerade := chain{table: "nat", name: "MINIK8S-MASQ-" + hash(name, 8), from: "POSTROUTING"}
	forward.jumps = [][]string{append(slices.Clone(comment), "-j", forward.name)}
	for _, r := range cluster {
		forward.rules = append(forward.rules, []string{"-s", r, "-j", "ACCEPT"}, []string{"-d", r, "-j", "ACCEPT"})
		masquerade.rules = append(masquerade.rules, []string{"-d", r, "-j", "RETURN"})
	}
	multicast := "224.0.0.0/4"
	if six {
		multicast = "ff00::/8"
	}
	masquerade.rules = append(masquerade.rules, []string{"-d", multicast, "-j", "RETURN"}, []string{"-j", "MASQUERADE"})
	for _, r := range pods {
		masquerade.jumps = append(masquerade.jumps, append(append([]string{"-s", r}, comment...), "-j", masquerade.name))
	}
	return []chain{forward, masquerade}
}

// families calls f for each IP family of the plugin with its chains.
func (p *Plugin) families(f func(*iptables.IPTables, chain) error) error {
	var errs []error
	for _, six := range []bool{false, true} {
		list := chains(p.config.Name, p.config.PodCIDRs, p.config.ClusterCIDRs, six)
		if len(list) == 0 {
			continue
		}
		protocol := iptables.ProtocolIPv4
		if six {
			protocol = iptables.ProtocolIPv6
		}
		ipt, err := iptables.New(iptables.IPFamily(protocol), iptables.Timeout(lockSeconds))
		if err != nil {
			return fmt.Errorf("finding iptables: %w", err)
		}
		for _, c := range list {
			if err := f(ipt, c); err != nil {
				errs = append(errs, fmt.Errorf("chain %s: %w", c.name, err))
			}
		}
	}
	return errors.Join(errs...)
}

// ensureRules makes all chains and jumps be there as they should. What is right is not touched.
func (p *Plugin) ensureRules() error { return p.families(ensureChain) }

func ensureChain(ipt *iptables.IPTables, c chain) error {
	exists, err := ipt.ChainExists(c.table, c.name)
	if err != nil {
		return err
	}
	if !exists {
		if err := ipt.NewChain(c.table, c.name); err != nil {
			return err
		}
	}
	right, err := hasExactly(ipt, c)
	if err != nil {
		return err
	}
	if !right {
		if err := ipt.ClearChain(c.table, c.name); err != nil {
			return err
		}
		for _, rule := range c.rules {
			if err := ipt.Append(c.table, c.name, rule...); err != nil {
				return err
			}
		}
	}
	for _, jump := range c.jumps {
		if err := ipt.InsertUnique(c.table, c.from, 1, jump...); err != nil {
			return err
		}
	}
	return nil
}

// hasExactly tells whether a chain holds its rules and no others; their order was ours if so.
func hasExactly(ipt *iptables.IPTables, c chain) (bool, error) {
	list, err := ipt.List(c.table, c.name)
	if err != nil {
		return false, err
	}
	if len(list) != len(c.rules)+1 { // the first line declares the chain
		return false, nil
	}
	for _, rule := range c.rules {
		if ok, err := ipt.Exists(c.table, c.name, rule...); err != nil || !ok {
			return false, err
		}
	}
	return true, nil
}

// removeRules removes all chains and every jump to them, whatever its conditions are.
func (p *Plugin) removeRules() error { return p.families(removeChain) }

func removeChain(ipt *iptables.IPTables, c chain) error {
	exists, err := ipt.ChainExists(c.table, c.name)
	if err != nil || !exists {
		return err
	}
	list, err := ipt.List(c.table, c.from)
	if err != nil {
		return err
	}
	for _, rule := range list {
		if spec := jumpTo(rule, c.name); spec != nil {
			if err := ipt.DeleteIfExists(c.table, c.from, spec...); err != nil {
				return err
			}
		}
	}
	return ipt.ClearAndDeleteChain(c.table, c.name)
}

// jumpTo returns the specification of a rule in iptables-save's form if it ends in a jump to a chain, nil else.
func jumpTo(rule, name string) []string {
	fields := strings.Fields(rule)
	i := slices.Index(fields, "-j")
	if len(fields) < 3 || fields[0] != "-A" || i < 0 || i+1 >= len(fields) || fields[i+1] != name {
		return nil
	}
	for i := range fields {
		fields[i] = strings.Trim(fields[i], `"`) // our comments are single words
	}
	return fields[2:]
}
