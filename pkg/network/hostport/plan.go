// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package hostport

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// kernel is what a family of the kernel's tables has.
type kernel struct {
	// there are the chains of ours that it has, rules those in them that are of pods.
	there []string
	rules []Rule
	// from are the rules of the chains from which ours are jumped to.
	from []Rule
}

// change is what iptables-restore is to do, and the rules of pods that come or go by it.
type change struct {
	lines []string
	rules []Rule
}

// replace makes want the rules of some pods. Chains and jumps are put right if there is one. The jumps come first, where rules of Docker's
// and of the service proxy do not hide them.
func (c Chains) replace(have kernel, of func(types.UID) bool, want []Rule) change {
	var todo change
	if len(want) > 0 {
		for _, chain := range c.all() {
			if !slices.Contains(have.there, chain) {
				todo.lines = append(todo.lines, declared(chain))
			}
		}
		for _, j := range c.jumps() {
			if !slices.Contains(have.from, j) {
				todo.lines = append(todo.lines, "-I "+j.Chain+" 1 "+j.Spec)
			}
		}
	}
	for _, r := range want {
		if !slices.Contains(have.rules, r) {
			todo.lines, todo.rules = append(todo.lines, "-A "+r.Chain+" "+r.Spec), append(todo.rules, r)
		}
	}
	for _, r := range have.rules {
		if uid, _ := r.pod(); of(uid) && !slices.Contains(want, r) {
			todo.lines, todo.rules = append(todo.lines, "-D "+r.Chain+" "+r.Spec), append(todo.rules, r)
		}
	}
	return todo
}

// removal takes the chains away, with all jumps to them.
func (c Chains) removal(have kernel) (lines []string) {
	for _, chain := range have.there {
		lines = append(lines, declared(chain)) // which empties it
		for _, r := range have.from {
			if strings.HasSuffix(" "+r.Spec, " -j "+chain) {
				lines = append(lines, "-D "+r.Chain+" "+r.Spec)
			}
		}
		lines = append(lines, "-X "+chain)
	}
	return lines
}

func declared(chain string) string { return ":" + chain + " - [0:0]" }
