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

// Save returns a table as iptables-save prints it.
func (p Programs) Save(ctx context.Context, table string) (string, error) {
	return p.run(ctx, "", p.name()+"-save", "-t", table)
}

// Rules are those of a chain, each in the words of iptables-save; there is false if there is no such chain.
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
