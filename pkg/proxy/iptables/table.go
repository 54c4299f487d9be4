// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package iptables brings the kernel's tables to a rule set, touching only what differs. Change it when the way rules
// reach the kernel changes, not the rules.
package iptables

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"minik8s.io/minik8s/pkg/proxy/rules"
)

// chunkServices is how many services go into one restore. The time of a restore on nf_tables grows more than linearly,
// and no lock should be held for seconds.
const chunkServices = 250

// Table applies rule sets of one family. It is not safe for concurrent use.
type Table struct {
	commands Commands
	chains   rules.Chains
	// applied is what the kernel has by our knowledge, per table and chain; nil when that is unknown, as at the
	// start and after a failure.
	applied map[string]map[string][]string
	// checked is the generation of the rules at which Check has found nothing amiss, nil if that is not known.
	checked *uint32
}

// New returns a Table that knows nothing of the kernel's state yet.
func New(commands Commands, chains rules.Chains) *Table {
	return &Table{commands: commands, chains: chains}
}

// Apply makes the kernel's chains equal to the rule set. After a failure the next call rewrites everything.
func (t *Table) Apply(ctx context.Context, rs *rules.Ruleset) error {
	t.checked = nil
	known := t.applied
	t.applied = nil
	first := known == nil
	if first {
		var err error
		if known, err = t.inventory(ctx, rs); err != nil {
			return err
		}
	}
	for _, text := range plan(known, rs, first) {
		if err := t.commands.Restore(ctx, text); err != nil {
			return fmt.Errorf("applying rules: %w", err)
		}
	}
	if first {
		for _, table := range rs.Tables {
			if _, err := t.ensureJumps(ctx, table); err != nil {
				return err
			}
		}
	}
	applied := make(map[string]map[string][]string, len(rs.Tables))
	for _, table := range rs.Tables {
		m := make(map[string][]string, len(table.Chains))
		for _, c := range table.Chains {
			m[c.Name] = c.Rules
		}
		applied[table.Name] = m
	}
	t.applied = applied
	return nil
}

// Check verifies that the jumps into our chains are there and ahead of Docker's, and repairs their order. It returns
// false when rules were lost, after which Apply rewrites everything. While nobody changes any rule it looks once.
func (t *Table) Check(ctx context.Context, rs *rules.Ruleset) (intact bool, err error) {
	generation, known := t.commands.Generation()
	if known && t.checked != nil && *t.checked == generation {
		return true, nil
	}
	t.checked = nil
	for _, table := range rs.Tables {
		if _, err := t.commands.List(ctx, table.Name, t.chains.Canary()); err != nil {
			if ctx.Err() != nil {
				return false, ctx.Err()
			}
			t.applied = nil
			return false, nil
		}
		lost, err := t.ensureJumps(ctx, table)
		if err != nil {
			t.applied = nil
			return false, err
		}
		if lost {
			t.applied = nil
			return false, nil
		}
	}
	if known {
		t.checked = &generation
	}
	return true, nil
}

// Purge removes every jump and chain that belongs to the cluster's proxy.
func (t *Table) Purge(ctx context.Context) error {
	t.applied = nil
	var errs []error
	for _, table := range []string{"filter", "nat"} {
		saved, err := t.commands.Save(ctx, table)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if text := purge(table, saved, t.chains.Owns); text != "" {
			if err := t.commands.Restore(ctx, text); err != nil {
				errs = append(errs, fmt.Errorf("removing rules: %w", err))
			}
		}
	}
	return errors.Join(errs...)
}

// inventory finds the chains that an earlier process left. Their content is taken as unknown.
func (t *Table) inventory(ctx context.Context, rs *rules.Ruleset) (map[string]map[string][]string, error) {
	found := make(map[string]map[string][]string, len(rs.Tables))
	for _, table := range rs.Tables {
		saved, err := t.commands.Save(ctx, table.Name)
		if err != nil {
			return nil, fmt.Errorf("reading table %q: %w", table.Name, err)
		}
		m := map[string][]string{}
		for line := range strings.Lines(saved) {
			if name, ok := declared(line); ok && t.chains.Owns(name) {
				m[name] = nil
			}
		}
		found[table.Name] = m
	}
	return found, nil
}

// ensureJumps repairs the jumps of a table and tells whether one was missing.
func (t *Table) ensureJumps(ctx context.Context, table rules.Table) (lost bool, err error) {
	var edits []string
	for i := 0; i < len(table.Jumps); {
		parent := table.Jumps[i].Parent
		var want []string
		for ; i < len(table.Jumps) && table.Jumps[i].Parent == parent; i++ {
			want = append(want, table.Jumps[i].Rule)
		}
		listed, err := t.commands.List(ctx, table.Name, parent)
		if err != nil {
			return false, fmt.Errorf("reading chain %q of table %q: %w", parent, table.Name, err)
		}
		change, missing := jumpEdits(parent, strings.Split(strings.TrimSpace(listed), "\n"), want, t.chains.Owns)
		edits = append(edits, change...)
		lost = lost || missing
	}
	if len(edits) == 0 {
		return lost, nil
	}
	text := "*" + table.Name + "\n" + strings.Join(edits, "\n") + "\nCOMMIT\n"
	if err := t.commands.Restore(ctx, text); err != nil {
		return lost, fmt.Errorf("inserting jumps: %w", err)
	}
	return lost, nil
}

// podNetwork begins the names of the chains by which the pod network lets the traffic of pods through. Ahead of ours it
// would accept what is to be refused.
const podNetwork = "MINIK8S-FWD-"

// jumpEdits returns the lines that put exactly the wanted jumps, in order, at the head of a built-in chain, or nothing
// if they are in order and no jump of Docker's or of the pod network is ahead of them. Rules of others ahead of ours are left alone: an
// administrator may have put them there, and another cluster's proxy would answer in kind.
func jumpEdits(parent string, listed, want []string, owns func(string) bool) (edits []string, missing bool) {
	var ours, targets []string
	overtaken, behind := false, false
	for _, line := range listed {
		rule, ok := strings.CutPrefix(line, "-A "+parent+" ")
		if !ok {
			continue
		}
		target := jumpTarget(rule)
		switch {
		case owns(target):
			ours = append(ours, rule)
			targets = append(targets, target)
			overtaken = overtaken || behind
		case strings.HasPrefix(target, "DOCKER"), strings.HasPrefix(target, podNetwork):
			behind = true
		}
	}
	var wantTargets []string
	for _, w := range want {
		wantTargets = append(wantTargets, jumpTarget(w))
		missing = missing || !slices.Contains(targets, jumpTarget(w))
	}
	if slices.Equal(targets, wantTargets) && !overtaken {
		return nil, false
	}
	for _, rule := range ours {
		edits = append(edits, "-D "+parent+" "+rule)
	}
	for i, w := range want {
		edits = append(edits, fmt.Sprintf("-I %s %d %s", parent, i+1, w))
	}
	return edits, missing
}
