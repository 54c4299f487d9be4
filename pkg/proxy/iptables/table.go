// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package iptables is the backend that drives the iptables programs: it brings the kernel's chains to what rules say, touching only
// what differs. Change it when the way rules reach the kernel changes, not the rules.
package iptables

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"minik8s.io/minik8s/pkg/network/xtables"
	"minik8s.io/minik8s/pkg/proxy/backend"
	"minik8s.io/minik8s/pkg/proxy/iptables/rules"
	"minik8s.io/minik8s/pkg/proxy/model"
)

// Table implements backend.Backend by the tables filter and nat of one family.
type Table struct {
	commands Commands
	config   rules.Config
	base     []rules.Table
	// services are those that the kernel should have. Their rules are rendered when they are needed: the text takes far more memory than
	// what it is made of.
	services map[model.Name]*model.Service
	// all counts the rules of base and services.
	all count
	// trusted tells that the kernel has all of base and services, by our knowledge.
	trusted bool
	// seen is how the kernel showed our chains when they were right; what we have written since is missing.
	seen inventory
	// checked is the generation of the rules at which Check has found nothing amiss, nil if that is not known.
	checked *uint32
	// everything and written are what the last Apply did.
	everything bool
	written    count
}

var _ backend.Backend = (*Table)(nil)

// New returns a Table that knows nothing of the kernel's state yet.
func New(commands Commands, config backend.Config) *Table {
	c := rules.Config{Config: config, Chains: rules.ChainsOf(config.Cluster)}
	t := &Table{commands: commands, config: c, base: rules.Base(c), services: map[model.Name]*model.Service{}, all: count{}}
	for _, table := range t.base {
		t.all.chains(table.Name, table.Chains, 1)
	}
	return t
}

// Apply implements backend.Backend.
func (t *Table) Apply(ctx context.Context, changes backend.Changes) error {
	t.everything, t.written = !t.trusted, count{}
	var edits []edit
	for _, name := range names(changes) {
		s := changes[name]
		e := edit{before: t.render(t.services[name]), after: t.render(s)}
		if s != nil {
			t.services[name] = s
		} else {
			delete(t.services, name)
		}
		t.all.fragment(e.before, -1)
		t.all.fragment(e.after, 1)
		if t.trusted {
			edits = append(edits, e)
		}
	}
	if !t.trusted {
		return t.rewrite(ctx)
	}
	t.trusted, t.checked = false, nil
	for part := range slices.Chunk(edits, t.chunk(len(edits))) {
		text, touched := change(part)
		for _, c := range touched {
			delete(t.seen, c)
		}
		if err := t.restore(ctx, text); err != nil {
			return fmt.Errorf("changing rules: %w", err)
		}
	}
	t.trusted = true
	return nil
}

// render returns what a Service has; nil has nothing.
func (t *Table) render(s *model.Service) *rules.Fragment {
	if s == nil {
		return &rules.Fragment{}
	}
	return rules.Render(s, t.config)
}

// fragments renders all Services, in the order of their names.
func (t *Table) fragments() iter.Seq[*rules.Fragment] {
	return func(yield func(*rules.Fragment) bool) {
		for _, name := range names(t.services) {
			if !yield(t.render(t.services[name])) {
				return
			}
		}
	}
}

// rewrite brings the kernel to what all Services should have, whatever it has now.
func (t *Table) rewrite(ctx context.Context) error {
	t.trusted, t.checked, t.seen = false, nil, inventory{}
	there := map[string][]string{} // the chains of an earlier process or an earlier time, by table
	jumps := map[string][]string{} // edits of the chains of others, by table
	for _, table := range t.base {
		saved, _, err := t.save(ctx, table)
		if err != nil {
			return err
		}
		for line := range strings.Lines(saved) {
			if name, ok := declared(line); ok && t.config.Chains.Owns(name) {
				there[table.Name] = append(there[table.Name], name)
			}
		}
		jumps[table.Name], _ = t.jumps(table, saved)
	}
	fragments := slices.Collect(t.fragments())
	for _, text := range whole(t.base, fragments, there, jumps, t.chunk(len(fragments)), t.config.Chains) {
		if err := t.restore(ctx, text); err != nil {
			return fmt.Errorf("writing rules: %w", err)
		}
	}
	// Others, as the pod network that starts at the same time, may have come ahead of our jumps meanwhile, and accept what is to be refused.
	for _, table := range t.base {
		saved, _, err := t.save(ctx, table)
		if err != nil {
			return err
		}
		if _, err := t.ensureJumps(ctx, table, saved); err != nil {
			return err
		}
	}
	t.trusted = true
	return nil
}

// save returns a table as iptables-save prints it. If somebody has made rules there by another program, for which it is not shown, it
// returns those of our jumps that are there: what is thought to be missing would be added again and again.
func (t *Table) save(ctx context.Context, table rules.Table) (saved string, shown bool, err error) {
	saved, err = t.commands.Save(ctx, table.Name)
	if !errors.Is(err, xtables.ErrForeign) {
		if err != nil {
			return "", false, fmt.Errorf("reading table %q: %w", table.Name, err)
		}
		return saved, true, nil
	}
	for _, j := range table.Jumps {
		has, err := t.commands.Has(ctx, table.Name, j.Parent, j.Rule)
		if err != nil {
			return "", false, fmt.Errorf("looking for jumps in table %q: %w", table.Name, err)
		}
		if has {
			saved += "-A " + j.Parent + " " + j.Rule + "\n"
		}
	}
	return saved, false, nil
}

// chunkServices is how many services go into one restore on nf_tables. The time of a restore grows more than linearly there, and no
// lock should be held for seconds.
const chunkServices = 250

// chunk is how many of n services go into one restore. The legacy programs read and write the whole table each time.
func (t *Table) chunk(n int) int {
	if _, numbered := t.commands.Generation(); numbered {
		return chunkServices
	}
	return max(n, 1)
}

func (t *Table) restore(ctx context.Context, text string) error {
	if text == "" {
		return nil
	}
	t.written.text(text, t.config.Chains.Owns)
	return t.commands.Restore(ctx, text)
}

// Check implements backend.Backend. Chains of ours are compared with how the kernel showed them the first time after they were
// written, and then by the number of their rules. The order of our jumps is repaired here, as Docker inserts its own ahead of them.
// Of tables that are not shown it is known only whether they still have the jumps, which go when somebody flushes them.
func (t *Table) Check(ctx context.Context) (intact bool, err error) {
	if !t.trusted {
		return false, nil
	}
	generation, numbered := t.commands.Generation()
	if numbered && t.checked != nil && *t.checked == generation {
		return true, nil
	}
	t.checked = nil
	now, all := inventory{}, true
	for _, table := range t.base {
		saved, shown, err := t.save(ctx, table)
		if err != nil {
			return false, err
		}
		all = all && shown
		now.read(table.Name, saved, t.config.Chains.Owns)
		lost, err := t.ensureJumps(ctx, table, saved)
		if err != nil || lost {
			t.trusted = false
			return false, err
		}
	}
	if all && !now.matches(wanted(t.base, t.fragments()), t.seen) {
		t.trusted = false
		return false, nil
	}
	if t.seen = now; !all {
		t.seen = inventory{}
	}
	if numbered {
		t.checked = &generation
	}
	return true, nil
}

// Purge implements backend.Backend.
func (t *Table) Purge(ctx context.Context) error {
	t.trusted = false
	var errs []error
	for _, table := range t.base {
		saved, _, err := t.save(ctx, table)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		for _, text := range purge(table.Name, saved, t.config.Chains) {
			if err := t.commands.Restore(ctx, text); err != nil {
				errs = append(errs, fmt.Errorf("removing rules: %w", err))
				break
			}
		}
	}
	return errors.Join(errs...)
}

// Last implements backend.Backend.
func (t *Table) Last() backend.Sync {
	s := backend.Sync{Everything: t.everything, Rules: map[string]backend.Rules{}}
	for _, table := range t.base {
		s.Rules[table.Name] = backend.Rules{All: t.all[table.Name], Written: t.written[table.Name]}
	}
	return s
}

// ensureJumps repairs the jumps of a saved table and tells whether one was missing.
func (t *Table) ensureJumps(ctx context.Context, table rules.Table, saved string) (lost bool, err error) {
	edits, lost := t.jumps(table, saved)
	if len(edits) == 0 {
		return lost, nil
	}
	text := "*" + table.Name + "\n" + strings.Join(edits, "\n") + "\nCOMMIT\n"
	if err := t.commands.Restore(ctx, text); err != nil {
		return lost, fmt.Errorf("inserting jumps: %w", err)
	}
	return lost, nil
}

// jumps returns the lines that repair the jumps of a saved table, and tells whether one is missing.
func (t *Table) jumps(table rules.Table, saved string) (edits []string, lost bool) {
	lines := map[string][]string{}
	for i := range table.Jumps {
		lines[table.Jumps[i].Parent] = nil
	}
	for line := range strings.Lines(saved) {
		if parent, rule, ok := ruleOf(line); ok {
			if list, ours := lines[parent]; ours {
				lines[parent] = append(list, rule)
			}
		}
	}
	for i := 0; i < len(table.Jumps); {
		parent := table.Jumps[i].Parent
		var want []string
		for ; i < len(table.Jumps) && table.Jumps[i].Parent == parent; i++ {
			want = append(want, table.Jumps[i].Rule)
		}
		change, missing := jumpEdits(parent, lines[parent], want, t.config.Chains.Owns)
		edits = append(edits, change...)
		lost = lost || missing
	}
	return edits, lost
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
	for _, rule := range listed {
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
