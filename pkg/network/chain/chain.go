// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package chain keeps chains of iptables as they should be, with the jumps to them. Touch it when a rule that is described rightly is
// not in the kernel.
package chain

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"minik8s.io/minik8s/pkg/network/xtables"
)

// Chain is a chain of ours with all the rules in it, and the jumps to it from one of the kernel's, where they come first. Rules and jumps
// are in the words of iptables-save, by which they are compared, and none of their words has spaces.
type Chain struct {
	Table, Name string
	Rules       [][]string
	From        string
	Jumps       [][]string
	// Behind begins the names of chains that a new jump comes behind: what it accepts may be refused there. Empty: it comes first.
	Behind string
}

// Programs are what is needed of those of iptables.
type Programs interface {
	Restore(ctx context.Context, text string) error
	Rules(ctx context.Context, table, chain string) (rules []string, there bool, err error)
	Has(ctx context.Context, table, chain, rule string) (bool, error)
}

var _ Programs = xtables.Programs{}

// Ensure makes all chains and jumps of a family (IPv6, or else IPv4) be there as they should, in the network namespace of the calling
// thread. What is right is not touched. What is wrong of a chain is put right in one step.
func Ensure(six bool, list []Chain) error { return each(xtables.Programs{Six: six}, list, ensure) }

// Remove removes all chains and every jump to them, whatever its conditions are, from the network namespace of the calling thread.
func Remove(six bool, list []Chain) error { return each(xtables.Programs{Six: six}, list, remove) }

// each does something to all chains, of which one that fails keeps no other.
func each(p Programs, list []Chain, do func(Programs, Chain) error) error {
	var errs []error
	for _, c := range list {
		if err := do(p, c); err != nil {
			errs = append(errs, fmt.Errorf("chain %s: %w", c.Name, err))
		}
	}
	return errors.Join(errs...)
}

func ensure(p Programs, c Chain) error {
	ctx := context.Background() // programs have their own deadlines
	have, there, err := p.Rules(ctx, c.Table, c.Name)
	if err != nil {
		return err
	}
	var from []string
	switch {
	case there:
		from, err = c.from(ctx, p)
	case c.Behind != "": // else it does not matter: nothing can jump there
		from, _, err = p.Rules(ctx, c.Table, c.From)
	}
	if err != nil {
		return err
	}
	return restore(ctx, p, c.Table, c.missing(have, there, from))
}

// from are the rules of where the chain is jumped to from. If somebody has made rules there by another program iptables shows none, and
// they are those of our jumps that are found: what is thought to be missing would be added again and again.
func (c Chain) from(ctx context.Context, p Programs) ([]string, error) {
	rules, shown, err := p.Rules(ctx, c.Table, c.From)
	if err != nil || shown {
		return rules, err
	}
	for _, jump := range c.Jumps {
		has, err := p.Has(ctx, c.Table, c.From, strings.Join(jump, " "))
		if err != nil {
			return nil, err
		}
		if has {
			rules = append(rules, appended(c.From, jump))
		}
	}
	return rules, nil
}

func remove(p Programs, c Chain) error {
	ctx := context.Background()
	_, there, err := p.Rules(ctx, c.Table, c.Name)
	if err != nil || !there {
		return err
	}
	from, err := c.from(ctx, p)
	if err != nil {
		return err
	}
	return restore(ctx, p, c.Table, c.removal(from))
}

func restore(ctx context.Context, p Programs, table string, lines []string) error {
	if len(lines) == 0 {
		return nil
	}
	return p.Restore(ctx, "*"+table+"\n"+strings.Join(lines, "\n")+"\nCOMMIT\n")
}

// missing are the lines for iptables-restore that make the chain what it should be, none if it is; have are its rules, from those of where
// it is jumped to from.
func (c Chain) missing(have []string, there bool, from []string) (lines []string) {
	want := make([]string, len(c.Rules))
	for i, r := range c.Rules {
		want[i] = appended(c.Name, r)
	}
	if !there || !slices.EqualFunc(want, have, same) {
		lines = append([]string{declared(c.Name)}, want...) // to declare a chain empties it
	}
	for _, jump := range c.Jumps {
		line := appended(c.From, jump)
		if !slices.ContainsFunc(from, func(other string) bool { return same(line, other) }) {
			lines = append(lines, "-I "+c.From+" "+strconv.Itoa(c.position(from))+" "+strings.Join(jump, " "))
		}
	}
	return lines
}

// position is where a new jump comes.
func (c Chain) position(from []string) int {
	if c.Behind == "" {
		return 1
	}
	for i, rule := range slices.Backward(from) {
		if strings.HasPrefix(target(rule), c.Behind) {
			return i + 2
		}
	}
	return 1
}

// target is the chain that a rule jumps to, "" if it jumps to none.
func target(rule string) string {
	words := strings.Fields(rule)
	if i := slices.Index(words, "-j"); i >= 0 && i+1 < len(words) {
		return words[i+1]
	}
	return ""
}

// removal are the lines for iptables-restore that take the chain away, with all jumps to it.
func (c Chain) removal(from []string) []string {
	lines := []string{declared(c.Name)}
	for _, rule := range from {
		if target(rule) == c.Name {
			lines = append(lines, "-D"+strings.TrimPrefix(rule, "-A"))
		}
	}
	return append(lines, "-X "+c.Name)
}

func declared(name string) string { return ":" + name + " - [0:0]" }

func appended(chain string, rule []string) string {
	return "-A " + chain + " " + strings.Join(rule, " ")
}

// same compares two rules, of which one may have its words in quotation marks.
func same(a, b string) bool { return strings.ReplaceAll(a, `"`, "") == strings.ReplaceAll(b, `"`, "") }
