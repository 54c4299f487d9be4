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
		return r.answer(l, l.args())
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
	case "suffix":
		r.From, r.To = dns.Fqdn(r.From), dns.Fqdn(r.To)
	case "regex":
		if r.Pattern, err = regexp.Compile(args[0]); err != nil {
			return wrong(l.line, "rewrite: %v", err)
		}
	}
	if r.From == "" {
		return wrong(l.line, "rewrite: nothing to look for")
	}
	rest := args[2:]
	for len(rest) > 0 {
		if rest[0] != "answer" {
			return wrong(l.line, "rewrite: %q is not answer", rest[0])
		}
		end := slices.Index(rest[1:], "answer") + 1
		if end == 0 {
			end = len(rest)
		}
		if err := r.answer(l, rest[1:end]); err != nil {
			return err
		}
		rest = rest[end:]
	}
	return nil
}

// answer reads auto, name FROM TO or value FROM TO.
func (r *Rewrite) answer(l statement, args []string) error {
	if r.Match == "" {
		return wrong(l.line, "rewrite: answer comes after a rule for name")
	}
	if len(args) == 1 && args[0] == "auto" {
		r.AnswerAuto = true
		return nil
	}
	if len(args) != 3 || args[0] != "name" && args[0] != "value" {
		return wrong(l.line, "rewrite: answer is auto, name FROM TO or value FROM TO")
	}
	pattern, err := regexp.Compile(args[1])
	if err != nil {
		return wrong(l.line, "rewrite: %v", err)
	}
	r.Answers = append(r.Answers, AnswerRewrite{Value: args[0] == "value", From: pattern, To: args[2]})
	return nil
}
