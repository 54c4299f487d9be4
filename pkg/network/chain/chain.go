// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package chain keeps chains of iptables as they should be, with the jumps to them. Touch it when a rule that is described rightly is
// not in the kernel.
package chain

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/coreos/go-iptables/iptables"
)

// lockSeconds is how long another user of iptables is waited for.
const lockSeconds = 10

// Chain is a chain of ours with all the rules in it, and the jumps to it from one of the kernel's, where they come first.
type Chain struct {
	Table, Name string
	Rules       [][]string
	From        string
	Jumps       [][]string
}

// Ensure makes all chains and jumps of a family (IPv6, or else IPv4) be there as they should, in the network namespace of the calling
// thread. What is right is not touched.
func Ensure(six bool, list []Chain) error { return each(six, list, ensure) }

// Remove removes all chains and every jump to them, whatever its conditions are, from the network namespace of the calling thread.
func Remove(six bool, list []Chain) error { return each(six, list, remove) }

func each(six bool, list []Chain, f func(*iptables.IPTables, Chain) error) error {
	if len(list) == 0 {
		return nil
	}
	protocol := iptables.ProtocolIPv4
	if six {
		protocol = iptables.ProtocolIPv6
	}
	ipt, err := iptables.New(iptables.IPFamily(protocol), iptables.Timeout(lockSeconds))
	if err != nil {
		return fmt.Errorf("finding iptables: %w", err)
	}
	var errs []error
	for _, c := range list {
		if err := f(ipt, c); err != nil {
			errs = append(errs, fmt.Errorf("chain %s: %w", c.Name, err))
		}
	}
	return errors.Join(errs...)
}

func ensure(ipt *iptables.IPTables, c Chain) error {
	exists, err := ipt.ChainExists(c.Table, c.Name)
	if err != nil {
		return err
	}
	if !exists {
		if err := ipt.NewChain(c.Table, c.Name); err != nil {
			return err
		}
	}
	right, err := hasExactly(ipt, c)
	if err != nil {
		return err
	}
	if !right {
		if err := ipt.ClearChain(c.Table, c.Name); err != nil {
			return err
		}
		for _, rule := range c.Rules {
			if err := ipt.Append(c.Table, c.Name, rule...); err != nil {
				return err
			}
		}
	}
	for _, jump := range c.Jumps {
		if err := ipt.InsertUnique(c.Table, c.From, 1, jump...); err != nil {
			return err
		}
	}
	return nil
}

// hasExactly tells whether a chain holds its rules and no others; their order was ours if so.
func hasExactly(ipt *iptables.IPTables, c Chain) (bool, error) {
	list, err := ipt.List(c.Table, c.Name)
	if err != nil {
		return false, err
	}
	if len(list) != len(c.Rules)+1 { // the first line declares the chain
		return false, nil
	}
	for _, rule := range c.Rules {
		if ok, err := ipt.Exists(c.Table, c.Name, rule...); err != nil || !ok {
			return false, err
		}
	}
	return true, nil
}

func remove(ipt *iptables.IPTables, c Chain) error {
	exists, err := ipt.ChainExists(c.Table, c.Name)
	if err != nil || !exists {
		return err
	}
	list, err := ipt.List(c.Table, c.From)
	if err != nil {
		return err
	}
	for _, rule := range list {
		if spec := jumpTo(rule, c.Name); spec != nil {
			if err := ipt.DeleteIfExists(c.Table, c.From, spec...); err != nil {
				return err
			}
		}
	}
	return ipt.ClearAndDeleteChain(c.Table, c.Name)
}

// jumpTo returns the specification of a rule in iptables-save's form if it ends in a jump to a chain, nil else.
func jumpTo(rule, name string) []string {
	fields := strings.Fields(rule)
	i := slices.Index(fields, "-j")
	if len(fields) < 3 || fields[0] != "-A" || i < 0 || i+1 >= len(fields) || fields[i+1] != name {
		return nil
	}
	for i := range fields {
		fields[i] = strings.Trim(fields[i], `"`) // our comments are single words
	}
	return fields[2:]
}
