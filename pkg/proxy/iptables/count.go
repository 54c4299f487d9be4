// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package iptables

import (
	"strings"

	"minik8s.io/minik8s/pkg/proxy/iptables/rules"
)

// count is how many rules there are in our chains, by table. Jumps to these from others are not counted, as upstream.
type count map[string]int

// chains adds the rules of chains, so many times.
func (c count) chains(table string, chains []rules.Chain, times int) {
	for i := range chains {
		c[table] += times * len(chains[i].Rules)
	}
}

// fragment adds what a Service has, so many times.
func (c count) fragment(f *rules.Fragment, times int) {
	c.chains("nat", f.Chains, times)
	for i := range f.Lines {
		c[f.Lines[i].Table] += times
	}
}

// text adds the rules that a restore text writes to our chains.
func (c count) text(text string, owns func(chain string) bool) {
	table := ""
	for line := range strings.Lines(text) {
		switch {
		case strings.HasPrefix(line, "*"):
			table = strings.TrimSpace(line[1:])
		case strings.HasPrefix(line, "-A "), strings.HasPrefix(line, "-I "):
			if chain, _, _ := strings.Cut(line[len("-A "):], " "); owns(chain) {
				c[table]++
			}
		}
	}
}
