// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package iptables

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"minik8s.io/minik8s/pkg/network/namespace"
	"minik8s.io/minik8s/pkg/network/ruleset"
	"minik8s.io/minik8s/pkg/proxy/model"
)

// Commands runs the iptables programs of one family. The fake of the tests keeps the tables in memory.
type Commands interface {
	// Restore applies iptables-restore text without flushing what it does not mention. Each table is changed
	// atomically.
	Restore(ctx context.Context, text string) error
	// Save returns a table as iptables-save prints it.
	Save(ctx context.Context, table string) (string, error)
	// Generation is a number that the rules of all tables and families have as long as nobody changes any; not ok if there is none.
	// It runs no program.
	Generation() (generation uint32, ok bool)
}

// Exec runs the real programs, in the nf_tables or the legacy flavour, whichever the host has.
type Exec struct {
	Family model.Family
	// NetNS is the path of the network namespace to work in, empty for the process's own.
	NetNS string
}

var _ Commands = Exec{}

// lockWait is how long, in seconds, the programs wait for the lock that all users of legacy iptables share.
const lockWait = "5"

// Restore implements Commands.
func (e Exec) Restore(ctx context.Context, text string) error {
	_, err := e.run(ctx, text, e.program()+"-restore", "--noflush", "-w", lockWait)
	return err
}

// Save implements Commands.
func (e Exec) Save(ctx context.Context, table string) (string, error) {
	return e.run(ctx, "", e.program()+"-save", "-t", table)
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

func (e Exec) program() string {
	if e.Family == model.IPv6 {
		return "ip6tables"
	}
	return "iptables"
}

// patience is how long a program may take; one that restores 5,000 Services at once takes seconds.
const patience = 2 * time.Minute

func (e Exec) run(ctx context.Context, stdin, name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Stdin = strings.NewReader(stdin)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := namespace.Do(e.NetNS, cmd.Start); err != nil {
		return "", fmt.Errorf("starting %s: %w", name, err)
	}
	if err := cmd.Wait(); err != nil {
		return "", fmt.Errorf("running %s %s: %w: %s", name, strings.Join(args, " "), err, strings.TrimSpace(stderr.String()))
	}
	return stdout.String(), nil
}
