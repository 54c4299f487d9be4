// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package ptp

import (
	"errors"
	"net/netip"
	"slices"

	"minik8s.io/minik8s/pkg/network/chain"
)

// serviceProxy begins the names of the service proxy's chains, which refuse packets to Services that nobody can answer.
const serviceProxy = "MK-"

// chains returns the rules of one IP family; pure.
//
// The forward chain accepts what goes to or comes from any pod of the cluster, because Docker makes the node drop what it forwards. The
// masquerade chain gives packets of this node's pods the node's address when they leave the cluster. The source chain drops packets of
// pods with an address that is not theirs; of IPv4 a setting of the pod's link does that.
func chains(name string, podCIDRs, clusterCIDRs []netip.Prefix, six bool) []chain.Chain {
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
	forward := chain.Chain{Table: "filter", Name: "MINIK8S-FWD-" + hash(name, 8), From: "FORWARD", Behind: serviceProxy}
	masquerade := chain.Chain{Table: "nat", Name: "MINIK8S-MASQ-" + hash(name, 8), From: "POSTROUTING"}
	forward.Jumps = [][]string{append(slices.Clone(comment), "-j", forward.Name)}
	for _, r := range cluster {
		forward.Rules = append(forward.Rules, []string{"-s", r, "-j", "ACCEPT"}, []string{"-d", r, "-j", "ACCEPT"})
		masquerade.Rules = append(masquerade.Rules, []string{"-d", r, "-j", "RETURN"})
	}
	multicast := "224.0.0.0/4"
	if six {
		multicast = "ff00::/8"
	}
	masquerade.Rules = append(masquerade.Rules, []string{"-d", multicast, "-j", "RETURN"}, []string{"-j", "MASQUERADE"})
	for _, r := range pods {
		masquerade.Jumps = append(masquerade.Jumps, append(append([]string{"-s", r}, comment...), "-j", masquerade.Name))
	}
	if !six {
		return []chain.Chain{forward, masquerade}
	}
	source := chain.Chain{Table: "raw", Name: "MINIK8S-SRC-" + hash(name, 8), From: "PREROUTING", Rules: [][]string{{"-m", "rpfilter", "--invert", "-j", "DROP"}}}
	source.Jumps = [][]string{append(append([]string{"-i", linksOf(name) + "+"}, comment...), "-j", source.Name)}
	return []chain.Chain{forward, masquerade, source}
}

// rules calls f for each IP family of the plugin with its chains.
func (p *Plugin) rules(f func(six bool, list []chain.Chain) error) error {
	var errs []error
	for _, six := range []bool{false, true} {
		errs = append(errs, f(six, chains(p.config.Name, p.config.PodCIDRs, p.config.ClusterCIDRs, six)))
	}
	return errors.Join(errs...)
}

// ensureRules makes all chains and jumps be there as they should. What is right is not touched.
func (p *Plugin) ensureRules() error { return p.rules(chain.Ensure) }

// removeRules removes all chains and every jump to them, whatever its conditions are.
func (p *Plugin) removeRules() error { return p.rules(chain.Remove) }
