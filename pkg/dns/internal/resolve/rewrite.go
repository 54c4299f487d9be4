// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package resolve

import (
	"strconv"
	"strings"

	"github.com/miekg/dns"

	"minik8s.io/minik8s/pkg/dns/internal/corefile"
	"minik8s.io/minik8s/pkg/dns/internal/message"
)

// rewrite changes a question by the first rule that fits, and by further ones as long as rules say so. It returns the rules
// that were used.
func rewrite(rules []corefile.Rewrite, q message.Question) (message.Question, []*corefile.Rewrite) {
	var used []*corefile.Rewrite
	for i := range rules {
		r := &rules[i]
		next, ok := apply(r, q)
		if !ok {
			continue
		}
		q = next
		used = append(used, r)
		if !r.Continue {
			break
		}
	}
	return q, used
}

// apply changes a question by a rule. A rule that would make a name that cannot be does not fit.
func apply(r *corefile.Rewrite, q message.Question) (message.Question, bool) {
	if r.Match == "" {
		if q.Type != r.FromType {
			return q, false
		}
		q.Type = r.ToType
		return q, true
	}
	name := q.Name
	switch r.Match {
	case "exact":
		if name != r.From {
			return q, false
		}
		name = r.To
	case "prefix":
		rest, ok := strings.CutPrefix(name, r.From)
		if !ok {
			return q, false
		}
		name = r.To + rest
	case "suffix":
		rest, ok := strings.CutSuffix(name, r.From)
		if !ok {
			return q, false
		}
		name = rest + r.To
	case "substring":
		if !strings.Contains(name, r.From) {
			return q, false
		}
		name = strings.ReplaceAll(name, r.From, r.To)
	case "regex":
		groups := r.Pattern.FindStringSubmatch(name)
		if groups == nil {
			return q, false
		}
		name = fill(r.To, groups)
	}
	if _, ok := dns.IsDomainName(name); !ok || name == "" {
		return q, false
	}
	q.Name = dns.CanonicalName(name)
	return q, true
}

// fill puts the groups of a match in place of {0}, {1} and so on.
func fill(text string, groups []string) string {
	for i, g := range groups {
		text = strings.ReplaceAll(text, "{"+strconv.Itoa(i)+"}", g)
	}
	return text
}

// revert gives the records of an answer the names that the client knows.
func revert(rules []*corefile.Rewrite, asked, changed message.Question, r message.Reply) message.Reply {
	auto := false
	var answers []corefile.AnswerRewrite
	for _, rule := range rules {
		auto = auto || rule.AnswerAuto
		answers = append(answers, rule.Answers...)
	}
	if !auto && len(answers) == 0 {
		return r
	}
	name := func(n string, value bool) string {
		if auto && !value && strings.EqualFold(n, changed.Name) {
			return asked.Name
		}
		for _, a := range answers {
			if value && !a.Value {
				continue
			}
			groups := a.From.FindStringSubmatch(n)
			if groups == nil {
				continue
			}
			if next := fill(a.To, groups); valid(next) {
				n = dns.Fqdn(next)
			}
		}
		return n
	}
	r.Answer, r.Extra = renamed(r.Answer, name), renamed(r.Extra, name)
	return r
}

func valid(name string) bool {
	_, ok := dns.IsDomainName(name)
	return ok && name != ""
}

func renamed(rrs []dns.RR, name func(n string, value bool) string) []dns.RR {
	out := make([]dns.RR, len(rrs))
	for i, rr := range rrs {
		c := dns.Copy(rr)
		c.Header().Name = name(c.Header().Name, false)
		switch v := c.(type) {
		case *dns.CNAME:
			v.Target = name(v.Target, true)
		case *dns.SRV:
			v.Target = name(v.Target, true)
		case *dns.PTR:
			v.Ptr = name(v.Ptr, true)
		case *dns.MX:
			v.Mx = name(v.Mx, true)
		case *dns.NS:
			v.Ns = name(v.Ns, true)
		}
		out[i] = c
	}
	return out
}
