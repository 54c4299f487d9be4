// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package xtables runs the programs of iptables, in the nf_tables or the legacy flavour, whichever the machine has. Touch it when they
// are called wrongly or wait too long.
package xtables

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"minik8s.io/minik8s/pkg/network/namespace"
)

// Programs are those of one family. The zero value has those of IPv4, in the network namespace of the calling thread. Each takes two
// minutes at most. Safe for concurrent use.
type Programs struct {
	// Six says that they are for IPv6.
	Six bool
	// NetNS is the path of the network namespace to work in, empty for that of the calling thread.
	NetNS string
}

// lockWait is how long, in seconds, the programs wait for the lock that all users of legacy iptables share.
const lockWait = "10"

// patience is how long a program may take; one that restores 5,000 Services at once takes seconds.
const patience = 2 * time.Minute

// dying is how long what a program has started, such as modprobe, may hold its output open after it has ended or was killed.
const dying = 2 * time.Second

// Restore applies iptables-restore text without flushing what it does not mention. Each table is changed atomically.
func (p Programs) Restore(ctx context.Context, text string) error {
	_, err := p.run(ctx, text, p.name()+"-restore", "--noflush", "-w", lockWait)
	return err
}

// ErrForeign is that of a table in which somebody has rules that are not of iptables, such as those of the nft program may be. It can be
// changed all the same, and is not shown.
var ErrForeign = errors.New("iptables does not show it, for there are rules of another program")

// Save returns a table as iptables-save prints it. The error of one that is not shown is ErrForeign.
func (p Programs) Save(ctx context.Context, table string) (string, error) {
	out, err := p.run(ctx, "", p.name()+"-save", "-t", table)
	if err == nil && foreign(out) {
		return "", fmt.Errorf("table %s: %w", table, ErrForeign)
	}
	return out, err
}

// foreign tells whether iptables-save has printed that a table is not shown, which it does not call a failure.
func foreign(out string) bool {
	return strings.HasPrefix(out, "# Table `") && strings.HasSuffix(strings.TrimSpace(out), "is incompatible, use 'nft' tool.")
}

// resourceProblem is with what the programs exit when they have not got the lock, or no memory.
const resourceProblem = 4

// Has tells whether a chain has a rule, in the words of iptables-restore, also where rules are not shown. One that stands behind rules of
// another program may not be found.
func (p Programs) Has(ctx context.Context, table, chain, rule string) (bool, error) {
	err := p.Restore(ctx, "*"+table+"\n-C "+chain+" "+rule+"\nCOMMIT\n")
	if failed, is := errors.AsType[*exec.ExitError](err); is && failed.ExitCode() > 0 && failed.ExitCode() != resourceProblem {
		return false, nil
	}
	return err == nil, err
}

// Rules are those of a chain, each in the words of iptables-save; there is false if there is no such chain, or it has rules that are not of
// iptables.
func (p Programs) Rules(ctx context.Context, table, chain string) (rules []string, there bool, err error) {
	out, err := p.run(ctx, "", p.name(), "-w", lockWait, "-t", table, "-S", chain)
	if failed, is := errors.AsType[*exec.ExitError](err); is && failed.ExitCode() == 1 && ctx.Err() == nil {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	for line := range strings.Lines(out) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "-A ") {
			rules = append(rules, line)
		}
	}
	return rules, true, nil
}

func (p Programs) name() string {
	if p.Six {
		return "ip6tables"
	}
	return "iptables"
}

func (p Programs) run(ctx context.Context, stdin, name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Stdin, cmd.WaitDelay = strings.NewReader(stdin), dying
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := namespace.Do(p.NetNS, cmd.Start); err != nil {
		return "", fmt.Errorf("starting %s: %w", name, err)
	}
	if err := cmd.Wait(); err != nil {
		return "", fmt.Errorf("running %s %s: %w: %s", name, strings.Join(args, " "), err, strings.TrimSpace(stderr.String()))
	}
	return stdout.String(), nil
}
