// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package iptables

import (
	"hash/maphash"
	"iter"
	"strings"

	"minik8s.io/minik8s/pkg/proxy/iptables/rules"
)

// chainOf is a chain of a table.
type chainOf struct{ table, name string }

// content is a chain in brief.
type content struct {
	rules int
	// sum is of the rules as the kernel shows them, 0 if that is not known.
	sum uint64
}

// inventory is what chains hold.
type inventory map[chainOf]*content

var seed = maphash.MakeSeed()

// read adds what a saved table has of ours.
func (v inventory) read(table, saved string, owns func(string) bool) {
	for line := range strings.Lines(saved) {
		if name, ok := declared(line); ok && owns(name) {
			v[chainOf{table, strings.Clone(name)}] = &content{} // a part of the text would keep all of it in memory
		} else if name, rule, ok := ruleOf(line); ok {
			if c := v[chainOf{table, name}]; c != nil {
				c.rules++
				c.sum = c.sum*31 + maphash.String(seed, rule) // it depends on the order of the rules
			}
		}
	}
}

// wanted is what chains should hold, without sums: the kernel shows rules in other words than ours.
func wanted(base []rules.Table, fragments iter.Seq[*rules.Fragment]) inventory {
	v := inventory{}
	for _, table := range base {
		for _, c := range table.Chains {
			v[chainOf{table.Name, c.Name}] = &content{rules: len(c.Rules)}
		}
	}
	for f := range fragments {
		for _, c := range f.Chains {
			v[chainOf{"nat", c.Name}] = &content{rules: len(c.Rules)}
		}
		for _, l := range f.Lines {
			v[chainOf{l.Table, l.Chain}].rules++ // base has all chains that are shared
		}
	}
	return v
}

// matches tells whether exactly the wanted chains are there, each with its number of rules and, where it was seen before, with the
// same ones.
func (v inventory) matches(want, seen inventory) bool {
	if len(v) != len(want) {
		return false
	}
	for key, w := range want {
		now, ok := v[key]
		if !ok || now.rules != w.rules {
			return false
		}
		if before, ok := seen[key]; ok && before.sum != now.sum {
			return false
		}
	}
	return true
}
