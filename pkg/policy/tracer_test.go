// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"net/netip"
	"slices"

	"minik8s.io/minik8s/pkg/policy/rules"
)

// tracer leads packets of connections through a table, as the kernel does.
type tracer struct {
	chains map[string][]rules.Rule
	sets   map[string]rules.Set
	hooks  map[rules.Hook][]string
}

func newTracer(t *rules.Table) *tracer {
	out := &tracer{chains: map[string][]rules.Rule{}, sets: map[string]rules.Set{}, hooks: map[rules.Hook][]string{}}
	for _, s := range t.Sets {
		out.sets[s.Name] = s
	}
	for _, c := range t.Chains {
		out.chains[c.Name] = c.Rules
		out.hooks[c.Hook] = append(out.hooks[c.Hook], c.Name)
	}
	return out
}

// passes tells whether the table lets packets of the connection through at a hook. tracked is false for those of which the kernel knows
// no connection; the client has sent them.
func (t *tracer) passes(at rules.Hook, c connection, tracked bool) bool {
	for _, chain := range t.hooks[at] {
		if verdict, decided := t.walk(chain, c, tracked); decided && verdict == rules.Drop {
			return false
		}
	}
	return true
}

func (t *tracer) walk(chain string, c connection, tracked bool) (verdict rules.Verdict, decided bool) {
	list, ok := t.chains[chain]
	if !ok {
		panic("no chain " + chain)
	}
	for _, r := range list {
		matches, key := r.Matches, rules.Match{}
		if r.Verdict == rules.Goto {
			key, matches = matches[len(matches)-1], matches[:len(matches)-1]
		}
		if !t.match(matches, c, tracked) {
			continue
		}
		switch r.Verdict {
		case rules.Accept, rules.Drop:
			return r.Verdict, true
		case rules.Jump:
			if verdict, decided = t.walk(r.Target, c, tracked); decided {
				return verdict, true
			}
		case rules.Goto:
			a, ok := address(key, c, tracked)
			set := t.sets[r.Target]
			i := slices.IndexFunc(set.Elements, func(e rules.Element) bool { return e.Addr == a })
			if ok && i >= 0 {
				return t.walk(set.Elements[i].Chain, c, tracked) // and, undecided, back to who jumped here
			}
		}
	}
	return 0, false
}

// address is the value of a field with one, not ok if the packet has none of the family.
func address(m rules.Match, c connection, tracked bool) (a netip.Addr, ok bool) {
	switch m.Field {
	case rules.Client, rules.Source, rules.Self:
		a = c.client
	case rules.Server, rules.Destination, rules.Called:
		a = c.server
	case rules.Asked:
		a = c.asked
	}
	inPacket := m.Field == rules.Source || m.Field == rules.Destination
	return a, a.Is6() == m.Six && (tracked || inPacket)
}

func (t *tracer) match(matches []rules.Match, c connection, tracked bool) bool {
	for _, m := range matches {
		switch m.Field {
		case rules.Protocol:
			if !tracked || m.Is != c.protocol {
				return false
			}
		case rules.Port:
			if !tracked || c.port < m.First || c.port > m.Last {
				return false
			}
		case rules.Untracked:
			if tracked {
				return false
			}
		default:
			a, ok := address(m, c, tracked)
			if !ok || m.Set == "" && a != m.Addr || m.Set != "" && t.in(m.Set, a, c) == m.Not {
				return false
			}
		}
	}
	return true
}

func (t *tracer) in(name string, a netip.Addr, c connection) bool {
	set, ok := t.sets[name]
	if !ok {
		panic("no set " + name)
	}
	return slices.ContainsFunc(set.Elements, func(e rules.Element) bool {
		switch set.Kind {
		case rules.Ranges:
			return !a.Less(e.Addr) && !e.Last.Less(a)
		case rules.Endpoints:
			return e.Addr == a && e.Protocol == c.protocol && e.Port == c.port
		case rules.Pairs:
			return e.Addr == c.client && e.Addr == c.server
		default:
			return e.Addr == a
		}
	})
}
