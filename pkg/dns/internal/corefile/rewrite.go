// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package corefile

import (
	"regexp"
	"slices"
	"strings"

	"github.com/miekg/dns"
)

var matches = []string{"exact", "prefix", "suffix", "substring", "regex"}

// parseRewrite reads rewrite [continue|stop] FIELD ..., or the same with the rule and its answers in braces.
func parseRewrite(s *Server, d statement) error {
	r := Rewrite{}
	words := d.args()
	if len(words) > 0 && (words[0] == "continue" || words[0] == "stop") {
		r.Continue = words[0] == "continue"
		words = words[1:]
	}
	lines := []statement{{line: d.line, words: words}}
	if d.braces {
		if len(words) > 0 {
			return wrong(d.line, "rewrite: a rule stands on the line or in braces, not both")
		}
		lines = d.body
	}
	if len(lines) == 0 || len(lines[0].words) == 0 {
		return wrong(d.line, "rewrite wants a rule")
	}
	for i, l := range lines {
		if err := r.parse(l, i > 0); err != nil {
			return err
		}
	}
	s.Rewrite = append(s.Rewrite, r)
	return nil
}

func (r *Rewrite) parse(l statement, further bool) error {
	switch {
	case l.name() == "answer":
		if !further {
			return wrong(l.line, "rewrite: answer comes after a rule for name")
		}
		return r.answers(l, l.words)
	case further:
		return wrong(l.line, "rewrite: one rule only can stand in braces, found %q", l.name())
	case l.name() == "name":
		return r.name(l)
	case l.name() == "type":
		if err := l.count(2, 2); err != nil {
			return err
		}
		for i, to := range []*uint16{&r.FromType, &r.ToType} {
			t, ok := dns.StringToType[strings.ToUpper(l.args()[i])]
			if !ok {
				return wrong(l.line, "rewrite: %q is no type of records", l.args()[i])
			}
			*to = t
		}
		return nil
	}
	return wrong(l.line, "rewrite: field %q is not supported: there are name, type", l.name())
}

// name reads name [MATCH] FROM TO [answer ...].
func (r *Rewrite) name(l statement) error {
	args := l.args()
	r.Match = "exact"
	if len(args) > 2 && slices.Contains(matches, args[0]) {
		r.Match, args = args[0], args[1:]
	}
	if len(args) < 2 {
		return wrong(l.line, "rewrite name wants what to look for and what to put in its place")
	}
	r.From, r.To = strings.ToLower(args[0]), strings.ToLower(args[1])
	var err error
	switch r.Match {
	case "exact":
		r.From, r.To, r.AnswerAuto = dns.Fqdn(r.From), dns.Fqdn(r.To), true
	case "prefix", "suffix", "substring": // all end with a label, as in CoreDNS
		r.From, r.To = dns.Fqdn(r.From), dns.Fqdn(r.To)
	case "regex":
		if r.Pattern, err = regexp.Compile(args[0]); err != nil {
			return wrong(l.line, "rewrite: %v", err)
		}
	}
	if args[0] == "" {
		return wrong(l.line, "rewrite: nothing to look for")
	}
	return r.answers(l, args[2:])
}

// answers reads auto, name FROM TO and value FROM TO, as many as there are. The word answer stands before the first, and may before others.
func (r *Rewrite) answers(l statement, words []string) error {
	if len(words) == 0 {
		return nil
	}
	if r.Match == "" {
		return wrong(l.line, "rewrite: answer comes after a rule for name")
	}
	if words[0] != "answer" {
		return wrong(l.line, "rewrite: %q is not answer", words[0])
	}
	for len(words) > 0 {
		if words[0] == "answer" {
			words = words[1:]
		}
		switch {
		case len(words) > 0 && words[0] == "auto":
			r.AnswerAuto, words = true, words[1:]
		case slices.Equal(words, []string{"name", "auto"}): // as the documentation of CoreDNS has it
			r.AnswerAuto, words = true, nil
		case len(words) > 2 && (words[0] == "name" || words[0] == "value"):
			pattern, err := regexp.Compile(words[1])
			if err != nil {
				return wrong(l.line, "rewrite: %v", err)
			}
			r.Answers = append(r.Answers, AnswerRewrite{Value: words[0] == "value", From: pattern, To: words[2]})
			words = words[3:]
		default:
			return wrong(l.line, "rewrite: answer is auto, name FROM TO or value FROM TO")
		}
	}
	return nil
}
