// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package fake keeps iptables in memory, for tests: Tables takes restore texts as the kernel does, and Trace sends a packet
// through them. Teach it here when rules begin to use another match.
package fake

import (
	"context"
	"fmt"
	"hash/crc32"
	"slices"
	"strconv"
	"strings"
	"sync"

	"minik8s.io/minik8s/pkg/network/xtables"
)

// Tables implements iptables.Commands in memory. It is safe for concurrent use.
type Tables struct {
	mu        sync.Mutex
	tables    map[string]map[string][]string // guarded by mu; table, chain, rules
	restores  []string                       // guarded by mu
	fail      error                          // guarded by mu
	foreign   bool                           // guarded by mu
	meanwhile string                         // guarded by mu
}

// New returns the tables of a host without rules.
func New() *Tables {
	return &Tables{tables: map[string]map[string][]string{
		"nat":    {"PREROUTING": nil, "INPUT": nil, "OUTPUT": nil, "POSTROUTING": nil},
		"filter": {"INPUT": nil, "FORWARD": nil, "OUTPUT": nil},
	}}
}

// Fail makes every following Restore return err, until it is called with nil.
func (t *Tables) Fail(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.fail = err
}

// Foreign is somebody who makes rules by another program, for which no table is shown any more.
func (t *Tables) Foreign() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.foreign = true
}

// Meanwhile is somebody whose text is restored just after the next one.
func (t *Tables) Meanwhile(text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.meanwhile = text
}

// Restores returns the texts that were restored since the last call.
func (t *Tables) Restores() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := t.restores
	t.restores = nil
	return out
}

// Restore implements iptables.Commands. Each table is changed completely or not at all.
func (t *Tables) Restore(_ context.Context, text string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.fail != nil {
		return t.fail
	}
	if err := t.restore(text); err != nil {
		return err
	}
	t.restores = append(t.restores, text)
	other := t.meanwhile
	t.meanwhile = ""
	return t.restore(other)
}

// restore takes a text; the caller holds mu.
func (t *Tables) restore(text string) error {
	var table string
	var work map[string][]string
	for n, line := range strings.Split(text, "\n") {
		var err error
		switch {
		case line == "" || strings.HasPrefix(line, "#"):
		case strings.HasPrefix(line, "*"):
			table = line[1:]
			work = map[string][]string{}
			for c, r := range t.tables[table] {
				work[c] = slices.Clone(r)
			}
		case line == "COMMIT":
			if err = checkReferences(work); err == nil {
				t.tables[table] = work
			}
		default:
			err = edit(work, line)
		}
		if err != nil {
			return fmt.Errorf("line %d %q: %w", n+1, line, err)
		}
	}
	return nil
}

func edit(work map[string][]string, line string) error {
	if name, ok := strings.CutPrefix(line, ":"); ok {
		name, _, _ = strings.Cut(name, " ")
		if len(name) > 28 {
			return fmt.Errorf("chain name %q is longer than 28 characters", name)
		}
		work[name] = nil
		return nil
	}
	op, rest, _ := strings.Cut(line, " ")
	chain, rule, _ := strings.Cut(rest, " ")
	rules, ok := work[chain]
	if !ok {
		return fmt.Errorf("no chain %q", chain)
	}
	switch op {
	case "-A":
		work[chain] = append(rules, rule)
	case "-I":
		position, rule, _ := strings.Cut(rule, " ")
		n, err := strconv.Atoi(position)
		if err != nil || n < 1 || n > len(rules)+1 {
			return fmt.Errorf("bad position %q", position)
		}
		work[chain] = slices.Insert(rules, n-1, rule)
	case "-D":
		i := slices.Index(rules, rule)
		if i < 0 {
			return fmt.Errorf("no such rule")
		}
		work[chain] = slices.Delete(rules, i, i+1)
	case "-X":
		if len(rules) > 0 {
			return fmt.Errorf("chain is not empty")
		}
		delete(work, chain)
	default:
		return fmt.Errorf("unknown operation")
	}
	return nil
}

// checkReferences refuses a jump to a chain that does not exist, as the kernel does.
func checkReferences(work map[string][]string) error {
	for chain, rules := range work {
		for _, r := range rules {
			f := strings.Fields(r)
			for i, w := range f[:len(f)-1] {
				if w != "-j" {
					continue
				}
				target := f[i+1]
				if _, ok := work[target]; !ok && strings.ContainsAny(target, "-") {
					return fmt.Errorf("chain %q jumps to %q, which does not exist", chain, target)
				}
			}
		}
	}
	return nil
}

// Generation implements iptables.Commands: equal rules have equal numbers.
func (t *Tables) Generation() (generation uint32, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return crc32.ChecksumIEEE(fmt.Append(nil, t.tables)), true // maps are printed in order
}

// Save implements iptables.Commands.
func (t *Tables) Save(_ context.Context, table string) (string, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	chains, ok := t.tables[table]
	if !ok {
		return "", fmt.Errorf("no table %q", table)
	}
	if t.foreign {
		return "", xtables.ErrForeign
	}
	var b strings.Builder
	names := sortedKeys(chains)
	fmt.Fprintf(&b, "*%s\n", table)
	for _, c := range names {
		fmt.Fprintf(&b, ":%s - [0:0]\n", c)
	}
	for _, c := range names {
		for _, r := range chains[c] {
			fmt.Fprintf(&b, "-A %s %s\n", c, r)
		}
	}
	b.WriteString("COMMIT\n")
	return b.String(), nil
}

// Has implements iptables.Commands.
func (t *Tables) Has(_ context.Context, table, chain, rule string) (bool, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Contains(t.tables[table][chain], rule), nil
}

// List returns the rules of one chain as "iptables -S" prints them.
func (t *Tables) List(table, chain string) (string, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	rules, ok := t.tables[table][chain]
	if !ok {
		return "", fmt.Errorf("no chain %q in table %q", chain, table)
	}
	var out strings.Builder
	out.WriteString("-P " + chain + " ACCEPT\n")
	for _, r := range rules {
		out.WriteString("-A " + chain + " " + r + "\n")
	}
	return out.String(), nil
}

// Flush empties all tables, as a firewall that is reloaded does.
func (t *Tables) Flush() {
	fresh := New()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.tables = fresh.tables
}

func sortedKeys(m map[string][]string) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
