// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package resolve

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/miekg/dns"

	"minik8s.io/minik8s/pkg/dns/internal/corefile"
	"minik8s.io/minik8s/pkg/dns/internal/message"
)

// change is a rule that was used, with the name before it and after.
type change struct {
	rule          *corefile.Rewrite
	before, after string
}

// rewrite changes a question by the first rule that fits, and by further ones as long as rules say so. It fails if that makes something
// that is no name.
func rewrite(rules []corefile.Rewrite, q message.Question) (message.Question, []change, error) {
	var used []change
	for i := range rules {
		r := &rules[i]
		next, ok := apply(r, q)
		if !ok {
			continue
		}
		if !valid(next.Name) {
			return q, nil, fmt.Errorf("rewriting %q: %q is no name", q.Name, next.Name)
		}
		next.Name = dns.CanonicalName(next.Name)
		used = append(used, change{r, q.Name, next.Name})
		q = next
		if !r.Continue {
			break
		}
	}
	return q, used, nil
}

// apply changes a question by a rule, if that fits.
func apply(r *corefile.Rewrite, q message.Question) (message.Question, bool) {
	ok := false
	switch name := q.Name; r.Match {
	case "":
		ok, q.Type = q.Type == r.FromType, r.ToType
	case "exact":
		ok, q.Name = name == r.From, r.To
	case "prefix":
		q.Name, ok = strings.CutPrefix(name, r.From)
		q.Name = r.To + q.Name
	case "suffix":
		q.Name, ok = strings.CutSuffix(name, r.From)
		q.Name += r.To
	case "substring":
		ok, q.Name = strings.Contains(name, r.From), strings.ReplaceAll(name, r.From, r.To)
	case "regex":
		groups := r.Pattern.FindStringSubmatch(name)
		ok, q.Name = groups != nil, fill(r.To, groups)
	}
	return q, ok
}

// fill puts the groups of a match in place of {0}, {1} and so on.
func fill(text string, groups []string) string {
	for i, g := range groups {
		text = strings.ReplaceAll(text, "{"+strconv.Itoa(i)+"}", g)
	}
	return text
}

// renaming changes the names of records, or what they point at.
type renaming struct {
	name, value bool
	of          func(string) string
}

// undo are the renamings by which a change is undone, in CoreDNS's order.
func (c change) undo() []renaming {
	var all []renaming
	if c.rule.AnswerAuto {
		of := func(n string) string { return swapped(n, c.after, c.before, true) }
		if c.rule.Match == "suffix" {
			of = func(n string) string { return swapped(n, c.rule.To, c.rule.From, false) }
		}
		all = append(all, renaming{name: true, value: true, of: of})
	}
	for _, a := range c.rule.Answers {
		all = append(all, renaming{name: !a.Value, value: a.Value, of: func(n string) string {
			groups := a.From.FindStringSubmatch(n)
			if groups == nil {
				return n
			}
			return fill(a.To, groups)
		}})
	}
	return all
}

// swapped puts something else in the place of the end of a name, of whole labels or of any part of one.
func swapped(name, end, other string, labels bool) string {
	at := len(name) - len(end)
	if at < 0 || !strings.EqualFold(name[at:], end) || labels && at > 0 && name[at-1] != '.' {
		return name
	}
	return name[:at] + other
}

// revert gives the records of an answer the names that the client knows. What was done last is undone first.
func revert(used []change, r message.Reply) message.Reply {
	var undo []renaming
	for _, c := range used {
		undo = append(undo, c.undo()...)
	}
	if len(undo) == 0 {
		return r
	}
	slices.Reverse(undo)
	of := func(n string, value bool) string {
		for _, u := range undo {
			if value && !u.value || !value && !u.name {
				continue
			}
			if next := u.of(n); valid(next) {
				n = dns.Fqdn(next)
			}
		}
		return n
	}
	r.Answer, r.Authority, r.Extra = renamed(r.Answer, of), renamed(r.Authority, of), renamed(r.Extra, of)
	return r
}

func valid(name string) bool {
	_, ok := dns.IsDomainName(name)
	return ok && name != ""
}

func renamed(rrs []dns.RR, of func(n string, value bool) string) []dns.RR {
	out := make([]dns.RR, len(rrs))
	for i, rr := range rrs {
		out[i] = dns.Copy(rr)
		out[i].Header().Name = of(rr.Header().Name, false)
		if value := pointsAt(out[i]); value != nil && *value != "" {
			*value = of(*value, true)
		}
	}
	return out
}

// pointsAt is the name that a record points at, nil for one of another type.
func pointsAt(rr dns.RR) *string {
	switch v := rr.(type) {
	case *dns.CNAME:
		return &v.Target
	case *dns.DNAME:
		return &v.Target
	case *dns.SRV:
		return &v.Target
	case *dns.PTR:
		return &v.Ptr
	case *dns.MX:
		return &v.Mx
	case *dns.NS:
		return &v.Ns
	case *dns.SOA:
		return &v.Ns
	case *dns.NAPTR:
		return &v.Replacement
	}
	return nil
}
