// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package iptables

import (
	"slices"
	"strings"

	"minik8s.io/minik8s/pkg/proxy/rules"
)

// plan returns the restore texts that lead from the known state to the rule set, in order. With rewrite the content of
// the known chains is not trusted.
//
// A chain that is referred to exists before the reference, and one that is removed has lost its references in the same
// transaction: the chains of services come in chunks of whole services, then the shared chains and the removals in the
// last text. Every text leaves the tables in a working state, so it does no harm to be killed between two.
func plan(known map[string]map[string][]string, rs *rules.Ruleset, rewrite bool) []string {
	var texts []string
	var final strings.Builder
	for _, table := range rs.Tables {
		had := known[table.Name]
		var shared, own []rules.Chain
		keep := make(map[string]bool, len(table.Chains))
		for _, c := range table.Chains {
			keep[c.Name] = true
			if old, ok := had[c.Name]; ok && !rewrite && slices.Equal(old, c.Rules) {
				continue
			}
			if c.Service == "" {
				shared = append(shared, c)
			} else {
				own = append(own, c)
			}
		}
		chunks := chunk(own)
		if len(chunks) > 1 {
			// The chains of services refer to shared ones, which may not exist yet. Naming a chain
			// flushes it, so only those that are missing are named here.
			var missing []string
			for _, c := range shared {
				if _, ok := had[c.Name]; !ok {
					missing = append(missing, ":"+c.Name+" - [0:0]\n")
				}
			}
			if len(missing) > 0 {
				texts = append(texts, "*"+table.Name+"\n"+strings.Join(missing, "")+"COMMIT\n")
			}
			for _, part := range chunks {
				var b strings.Builder
				render(&b, table.Name, part, nil)
				texts = append(texts, b.String())
			}
			own = nil
		}
		var gone []string
		for name := range had {
			if !keep[name] {
				gone = append(gone, name)
			}
		}
		slices.Sort(gone)
		if len(own)+len(shared)+len(gone) > 0 {
			render(&final, table.Name, append(own, shared...), gone)
		}
	}
	if final.Len() > 0 {
		texts = append(texts, final.String())
	}
	return texts
}

func render(b *strings.Builder, table string, chains []rules.Chain, gone []string) {
	b.WriteString("*" + table + "\n")
	for _, c := range chains {
		b.WriteString(":" + c.Name + " - [0:0]\n")
	}
	for _, name := range gone {
		b.WriteString(":" + name + " - [0:0]\n")
	}
	for _, c := range chains {
		for _, r := range c.Rules {
			b.WriteString("-A ")
			b.WriteString(c.Name)
			b.WriteByte(' ')
			b.WriteString(r)
			b.WriteByte('\n')
		}
	}
	for _, name := range gone {
		b.WriteString("-X " + name + "\n")
	}
	b.WriteString("COMMIT\n")
}

// chunk splits the chains into parts of at most chunkServices services; a service is never split.
func chunk(chains []rules.Chain) [][]rules.Chain {
	var parts [][]rules.Chain
	start, count := 0, 0
	for i, c := range chains {
		if i > 0 && c.Service == chains[i-1].Service {
			continue
		}
		if count == chunkServices {
			parts = append(parts, chains[start:i])
			start, count = i, 0
		}
		count++
	}
	if start < len(chains) {
		parts = append(parts, chains[start:])
	}
	return parts
}

// purge returns the text that removes the owned chains and all jumps to them from a saved table.
func purge(table, saved string, owns func(string) bool) string {
	var declare, unlink, remove []string
	for line := range strings.Lines(saved) {
		line = strings.TrimSpace(line)
		if name, ok := declared(line); ok && owns(name) {
			declare = append(declare, ":"+name+" - [0:0]")
			remove = append(remove, "-X "+name)
			continue
		}
		rule, ok := strings.CutPrefix(line, "-A ")
		if !ok {
			continue
		}
		parent, rest, _ := strings.Cut(rule, " ")
		if !owns(parent) && owns(jumpTarget(rest)) {
			unlink = append(unlink, "-D "+rule)
		}
	}
	if len(declare)+len(unlink) == 0 {
		return ""
	}
	lines := slices.Concat([]string{"*" + table}, declare, unlink, remove, []string{"COMMIT", ""})
	return strings.Join(lines, "\n")
}

// declared parses the ":NAME policy [counters]" line of a saved table.
func declared(line string) (string, bool) {
	rest, ok := strings.CutPrefix(strings.TrimSpace(line), ":")
	if !ok {
		return "", false
	}
	name, _, _ := strings.Cut(rest, " ")
	return name, name != ""
}

// jumpTarget returns what follows the last -j or -g of a rule.
func jumpTarget(rule string) string {
	fields := strings.Fields(rule)
	for i := len(fields) - 2; i >= 0; i-- {
		if fields[i] == "-j" || fields[i] == "-g" {
			return fields[i+1]
		}
	}
	return ""
}
