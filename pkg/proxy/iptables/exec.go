// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package iptables

import (
	"context"

	"minik8s.io/minik8s/pkg/network/namespace"
	"minik8s.io/minik8s/pkg/network/ruleset"
	"minik8s.io/minik8s/pkg/network/xtables"
	"minik8s.io/minik8s/pkg/proxy/model"
)

// Commands runs the iptables programs of one family. The fake of the tests keeps the tables in memory.
type Commands interface {
	// Restore applies iptables-restore text without flushing what it does not mention. Each table is changed
	// atomically.
	Restore(ctx context.Context, text string) error
	// Save returns a table as iptables-save prints it. If that does not show it, for somebody has made rules there by another program, the
	// error is xtables.ErrForeign.
	Save(ctx context.Context, table string) (string, error)
	// Has tells whether a chain has a rule, also if the table is not shown.
	Has(ctx context.Context, table, chain, rule string) (bool, error)
	// Generation is a number that the rules of all tables and families have as long as nobody changes any; not ok if there is none.
	// It runs no program.
	Generation() (generation uint32, ok bool)
}

// Exec runs the real programs.
type Exec struct {
	Family model.Family
	// NetNS is the path of the network namespace to work in, empty for the process's own.
	NetNS string
}

var _ Commands = Exec{}

func (e Exec) programs() xtables.Programs {
	return xtables.Programs{Six: e.Family == model.IPv6, NetNS: e.NetNS}
}

// Restore implements Commands.
func (e Exec) Restore(ctx context.Context, text string) error { return e.programs().Restore(ctx, text) }

// Save implements Commands.
func (e Exec) Save(ctx context.Context, table string) (string, error) {
	return e.programs().Save(ctx, table)
}

// Has implements Commands.
func (e Exec) Has(ctx context.Context, table, chain, rule string) (bool, error) {
	return e.programs().Has(ctx, table, chain, rule)
}

// Generation implements Commands.
func (e Exec) Generation() (generation uint32, ok bool) {
	if err := namespace.Do(e.NetNS, func() error {
		generation, ok = ruleset.Generation()
		return nil
	}); err != nil {
		return 0, false
	}
	return generation, ok
}
