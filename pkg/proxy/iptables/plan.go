// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package iptables

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"minik8s.io/minik8s/pkg/proxy/iptables/rules"
	"minik8s.io/minik8s/pkg/proxy/model"
)

// edit is what becomes of one Service.
type edit struct{ before, after *rules.Fragment }

// names are the keys of a map in order.
func names[V any](m map[model.Name]V) []model.Name {
	return slices.SortedFunc(maps.Keys(m), model.Name.Compare)
}

// change returns the restore text for some Services and the chains that it changes. Nothing refers to what belongs to a Service but
// what belongs to it, so each text leaves the tables in a working state, and it does no harm to be killed between two. Lines that the
// Services share with others are inserted and deleted one by one.
func change(edits []edit) (text string, touched []chainOf) {
	var b strings.Builder
	for _, table := range []string{"nat", "filter"} {
		var write []rules.Chain
		var gone, lines []string
		for _, e := range edits {
			if table == "nat" {
				before := make(map[string][]string, len(e.before.Chains))
				for _, c := range e.before.Chains {
					before[c.Name] = c.Rules
				}
				for _, c := range e.after.Chains {
					if had, ok := before[c.Name]; !ok || !slices.Equal(had, c.Rules) {
						write = append(write, c)
						touched = append(touched, chainOf{table, c.Name})
					}
					delete(before, c.Name)
				}
				gone = slices.AppendSeq(gone, maps.Keys(before))
			}
			old, fresh := differing(table, e.before.Lines, e.after.Lines), differing(table, e.after.Lines, e.before.Lines)
			for _, l := range old {
				lines = append(lines, "-D "+l.Chain+" "+l.Rule)
			}
			for _, l := range fresh {
				lines = append(lines, "-I "+l.Chain+" 1 "+l.Rule)
			}
			for _, l := range slices.Concat(old, fresh) {
				touched = append(touched, chainOf{table, l.Chain})
			}
		}
		if len(write)+len(gone)+len(lines) > 0 {
			slices.Sort(gone)
			render(&b, table, write, lines, gone)
		}
	}
	return b.String(), touched
}

// differing are the lines of a table that are in one list only.
func differing(table string, in, not []rules.Line) []rules.Line {
	var out []rules.Line
	for _, l := range in {
		if l.Table == table && !slices.Contains(not, l) {
			out = append(out, l)
		}
	}
	return out
}

// whole returns the texts that write everything, in order: the shared chains that are missing, for those of Services refer to them;
// the chains of Services in chunks; the shared chains with all their lines, and the jumps to them; what is there and not wanted, in chunks.
// If there is one chunk only, all that is wanted is one text. there and jumps are by table.
func whole(base []rules.Table, fragments []*rules.Fragment, there, jumps map[string][]string, size int, chains rules.Chains) []string {
	var texts []string
	var final strings.Builder
	for _, table := range base {
		had := make(map[string]bool, len(there[table.Name]))
		for _, name := range there[table.Name] {
			had[name] = true
		}
		lines := map[string][]string{}
		for _, f := range fragments {
			for _, l := range f.Lines {
				if l.Table == table.Name {
					lines[l.Chain] = append(lines[l.Chain], l.Rule)
				}
			}
		}
		var missing strings.Builder
		shared := make([]rules.Chain, 0, len(table.Chains))
		for _, c := range table.Chains {
			if !had[c.Name] { // naming a chain empties it
				missing.WriteString(":" + c.Name + " - [0:0]\n")
			}
			delete(had, c.Name)
			shared = append(shared, rules.Chain{Name: c.Name, Rules: append(lines[c.Name], c.Rules...)})
		}
		if table.Name == "nat" && len(fragments) <= size {
			for _, f := range fragments {
				for _, c := range f.Chains {
					delete(had, c.Name)
				}
				shared = append(shared, f.Chains...)
			}
		} else if table.Name == "nat" {
			if missing.Len() > 0 {
				texts = append(texts, "*"+table.Name+"\n"+missing.String()+"COMMIT\n")
			}
			for part := range slices.Chunk(fragments, size) {
				var own []rules.Chain
				for _, f := range part {
					own = append(own, f.Chains...)
				}
				if len(own) == 0 {
					continue
				}
				var b strings.Builder
				render(&b, table.Name, own, nil, nil)
				texts = append(texts, b.String())
				for _, c := range own {
					delete(had, c.Name)
				}
			}
		}
		render(&final, table.Name, shared, jumps[table.Name], nil)
		there[table.Name] = slices.Collect(maps.Keys(had))
	}
	texts = append(texts, final.String())
	for _, table := range base {
		texts = append(texts, removal(table.Name, there[table.Name], chains)...)
	}
	return texts
}

// render writes the transaction of a table: chains with their whole content, then lines, then the removal of chains.
func render(b *strings.Builder, table string, chains []rules.Chain, lines, gone []string) {
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
	for _, l := range lines {
		b.WriteString(l)
		b.WriteByte('\n')
	}
	for _, name := range gone {
		b.WriteString("-X " + name + "\n")
	}
	b.WriteString("COMMIT\n")
}

// chunkChains is how many chains one restore removes.
const chunkChains = 1000

// removal returns the texts that remove chains to which nothing else refers.
func removal(table string, gone []string, chains rules.Chains) []string {
	slices.SortFunc(gone, func(a, b string) int {
		return cmp.Or(cmp.Compare(chains.Rank(a), chains.Rank(b)), cmp.Compare(a, b))
	})
	var texts []string
	for part := range slices.Chunk(gone, chunkChains) {
		var b strings.Builder
		render(&b, table, nil, nil, part)
		texts = append(texts, b.String())
	}
	return texts
}

// purge returns the texts that remove all jumps to the cluster's chains, and the chains, from a saved table. Chains that are not shown stay:
// nothing leads to them.
func purge(table, saved string, chains rules.Chains) []string {
	var unlink, ours []string
	for line := range strings.Lines(saved) {
		if name, ok := declared(line); ok && chains.Owns(name) {
			ours = append(ours, name)
		} else if parent, rule, ok := ruleOf(line); ok && !chains.Owns(parent) && chains.Owns(jumpTarget(rule)) {
			unlink = append(unlink, "-D "+parent+" "+rule)
		}
	}
	var texts []string
	if len(unlink) > 0 {
		var b strings.Builder
		render(&b, table, nil, unlink, nil)
		texts = append(texts, b.String())
	}
	return append(texts, removal(table, ours, chains)...)
}

// ruleOf parses the "-A CHAIN rule" line of a saved table.
func ruleOf(line string) (chain, rule string, ok bool) {
	rest, ok := strings.CutPrefix(strings.TrimSpace(line), "-A ")
	if !ok {
		return "", "", false
	}
	chain, rule, _ = strings.Cut(rest, " ")
	return chain, rule, true
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
