// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package fake

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// Packet is the first packet of a flow.
type Packet struct {
	Src, Dst netip.Addr
	Protocol string // tcp, udp or sctp
	Port     int
	// Local are the node's own addresses. A packet from one of them starts in OUTPUT, any other in PREROUTING.
	Local []netip.Addr
	// Seen are the xt_recent lists that hold the source.
	Seen []string
}

// Trace returns every fate that the packet can have, sorted and without repetition: random matches are followed both ways.
// A fate is "REJECT", "DROP", "PASS" (untouched) or "DNAT <addr:port>", followed by " MASQUERADE" where the source changes.
func (t *Tables) Trace(p Packet) ([]string, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	hook := "PREROUTING"
	if p.local(p.Src) {
		hook = "OUTPUT"
	}
	var fates []string
	for _, nat := range t.walk("nat", hook, state{Packet: p}) {
		if nat.err != nil {
			return nil, nat.err
		}
		path := []string{"FORWARD"}
		switch {
		case hook == "OUTPUT" && nat.local(nat.Dst):
			path = []string{"OUTPUT", "INPUT"}
		case hook == "OUTPUT":
			path = []string{"OUTPUT"}
		case nat.local(nat.Dst):
			path = []string{"INPUT"}
		}
		fate := ""
		nat.verdict = ""
		for _, h := range path {
			end := t.walk("filter", h, nat)[0]
			if end.err != nil {
				return nil, end.err
			}
			if end.verdict == "DROP" || end.verdict == "REJECT" {
				fate = end.verdict
				break
			}
		}
		if fate == "" {
			fate = "PASS"
			if nat.dnat != "" {
				fate = "DNAT " + nat.dnat
			}
			end := t.walk("nat", "POSTROUTING", nat)[0]
			if end.err != nil {
				return nil, end.err
			}
			if end.verdict == "MASQUERADE" {
				fate += " MASQUERADE"
			}
		}
		fates = append(fates, fate)
	}
	slices.Sort(fates)
	return slices.Compact(fates), nil
}

func (p Packet) local(a netip.Addr) bool { return a.IsLoopback() || slices.Contains(p.Local, a) }

// state is a packet on its way through one chain.
type state struct {
	Packet
	mark    uint64
	dnat    string
	verdict string // empty: fell off the end of the chain
	err     error
}

// walk returns the states in which the packet can leave a chain.
func (t *Tables) walk(table, chain string, s state) []state {
	active := []state{s}
	var done []state
	for _, text := range t.tables[table][chain] {
		rule, err := parse(text)
		if err != nil {
			s.err = fmt.Errorf("chain %s, rule %q: %w", chain, text, err)
			return []state{s}
		}
		var still []state
		for _, st := range active {
			if !rule.matches(st) {
				still = append(still, st)
				continue
			}
			if rule.random {
				still = append(still, st)
			}
			switch rule.target {
			case "":
				still = append(still, st)
			case "MARK":
				st.mark = (st.mark | rule.or) ^ rule.xor
				still = append(still, st)
			case "RETURN":
				done = append(done, st)
			case "DNAT":
				st.verdict, st.dnat = "DNAT", rule.to
				if ap, err := netip.ParseAddrPort(rule.to); err != nil {
					st.err = err
				} else {
					st.Dst, st.Port = ap.Addr(), int(ap.Port())
				}
				done = append(done, st)
			case "ACCEPT", "DROP", "REJECT", "MASQUERADE":
				st.verdict = rule.target
				done = append(done, st)
			default:
				for _, back := range t.walk(table, rule.target, st) {
					if back.verdict != "" || back.err != nil {
						done = append(done, back)
					} else {
						still = append(still, back)
					}
				}
			}
		}
		active = still
	}
	return append(done, active...)
}

type rule struct {
	conditions []func(state) bool
	random     bool
	target     string
	to         string
	or, xor    uint64
}

func (r rule) matches(s state) bool {
	for _, c := range r.conditions {
		if !c(s) {
			return false
		}
	}
	return true
}

func parse(text string) (rule, error) {
	var r rule
	words, err := split(text)
	if err != nil {
		return r, err
	}
	negate := false
	for i := 0; i < len(words); i++ {
		w := words[i]
		if w == "!" {
			negate = true
			continue
		}
		flagOnly := w == "--rcheck" || w == "--reap" || w == "--set" || w == "--random-fully"
		value := ""
		if !flagOnly {
			if i++; i >= len(words) {
				return r, fmt.Errorf("%s has no value", w)
			}
			value = words[i]
		}
		not := negate
		negate = false
		when := func(c func(state) bool) {
			r.conditions = append(r.conditions, func(s state) bool { return c(s) != not })
		}
		switch w {
		case "-m", "--comment", "--mode", "--seconds", "--reap", "--set", "--random-fully":
		case "-p":
			when(func(s state) bool { return s.Protocol == value })
		case "-s", "-d":
			prefix, err := netip.ParsePrefix(value)
			if err != nil {
				return r, err
			}
			if w == "-s" {
				when(func(s state) bool { return prefix.Contains(s.Src) })
			} else {
				when(func(s state) bool { return prefix.Contains(s.Dst) })
			}
		case "--dport":
			when(func(s state) bool { return strconv.Itoa(s.Port) == value })
		case "--src-type":
			when(func(s state) bool { return s.local(s.Src) })
		case "--dst-type":
			when(func(s state) bool { return s.local(s.Dst) })
		case "--ctstate":
			states := strings.Split(value, ",")
			when(func(s state) bool {
				return slices.Contains(states, "NEW") || s.dnat != "" && slices.Contains(states, "DNAT")
			})
		case "--mark":
			v, _, _ := strings.Cut(value, "/")
			bit, err := strconv.ParseUint(v, 0, 32)
			if err != nil {
				return r, err
			}
			when(func(s state) bool { return s.mark&bit == bit })
		case "--probability":
			r.random = true
		case "--name":
			// The list is tested by --rcheck and written by --set, whichever follows.
			if i+1 < len(words) && words[i+1] == "--rcheck" {
				when(func(s state) bool { return slices.Contains(s.Seen, value) })
			}
		case "--rcheck":
		case "-j":
			r.target = value
		case "--to-destination":
			r.to = value
		case "--or-mark", "--xor-mark":
			v, err := strconv.ParseUint(value, 0, 32)
			if err != nil {
				return r, err
			}
			if w == "--or-mark" {
				r.or = v
			} else {
				r.xor = v
			}
		default:
			return r, fmt.Errorf("unknown option %q", w)
		}
	}
	return r, nil
}

func split(text string) ([]string, error) {
	var words []string
	for text = strings.TrimSpace(text); text != ""; text = strings.TrimSpace(text) {
		if quoted, ok := strings.CutPrefix(text, `"`); ok {
			word, rest, ok := strings.Cut(quoted, `"`)
			if !ok {
				return nil, fmt.Errorf("unterminated quote")
			}
			words, text = append(words, word), rest
			continue
		}
		word, rest, _ := strings.Cut(text, " ")
		words, text = append(words, word), rest
	}
	return words, nil
}
