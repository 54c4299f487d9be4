// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package corefile

import (
	"fmt"
	"slices"
	"strings"

	"github.com/coredns/caddy/caddyfile"
)

// Error is what is wrong at a line of a Corefile.
type Error struct {
	Line int
	Text string
}

func (e *Error) Error() string { return fmt.Sprintf("Corefile:%d: %s", e.Line, e.Text) }

func wrong(line int, format string, args ...any) error {
	return &Error{Line: line, Text: fmt.Sprintf(format, args...)}
}

// statement is one line: a word and its arguments, and the lines between the braces that it may end with.
type statement struct {
	line  int
	words []string
	body  []statement
	// braces tells that there is a body, which may be empty.
	braces bool
}

func (s statement) name() string   { return s.words[0] }
func (s statement) args() []string { return s.words[1:] }

// block is a server block before its plugins are understood.
type block struct {
	line       int
	keys       []string
	statements []statement
}

type token struct {
	line int
	text string
	// first tells that no other token is before it on its line.
	first bool
}

// tokens splits a text by CoreDNS's own lexer. Its parser is not used: that replaces variables of the environment and reads
// the files of import lines, and here these would be the machine's.
func tokens(text string) []token {
	d := caddyfile.NewDispenser("Corefile", strings.NewReader(text))
	var list []token
	end := 0 // the line on which the last token ended
	for d.Next() {
		t := token{line: d.Line(), text: d.Val(), first: d.Line() != end}
		end = t.line + strings.Count(t.text, "\n")
		list = append(list, t)
	}
	return list
}

// structure groups tokens into server blocks.
func structure(list []token) ([]block, error) {
	r := reader{list: list}
	var blocks []block
	for len(r.list) > 0 {
		b, err := r.block()
		if err != nil {
			return nil, err
		}
		blocks = append(blocks, b)
	}
	return blocks, nil
}

type reader struct{ list []token }

func (r *reader) take() token {
	t := r.list[0]
	r.list = r.list[1:]
	return t
}

func (r *reader) block() (block, error) {
	b := block{line: r.list[0].line}
	for len(r.list) > 0 {
		t := r.take()
		switch {
		case t.text == "{" && len(b.keys) > 0:
			var err error
			b.statements, err = r.statements(t, false)
			return b, err
		case t.text == "{" || t.text == "}":
			return b, wrong(t.line, "a server block begins with its zones, not with %q", t.text)
		}
		for key := range strings.SplitSeq(t.text, ",") {
			if key != "" {
				b.keys = append(b.keys, key)
			}
		}
	}
	return b, wrong(b.line, "server block %q has no braces", strings.Join(b.keys, " "))
}

// statements reads up to the brace that closes the one at open.
func (r *reader) statements(open token, nested bool) ([]statement, error) {
	var list []statement
	for len(r.list) > 0 {
		t := r.take()
		if t.text == "}" {
			return list, nil
		}
		if t.text == "{" {
			return nil, wrong(t.line, "a line cannot begin with a brace")
		}
		s := statement{line: t.line, words: []string{t.text}}
		for len(r.list) > 0 && !r.list[0].first && r.list[0].text != "}" {
			next := r.take()
			if next.text != "{" {
				s.words = append(s.words, next.text)
				continue
			}
			if nested {
				return nil, wrong(next.line, "braces within braces of a plugin")
			}
			var err error
			if s.body, err = r.statements(next, true); err != nil {
				return nil, err
			}
			s.braces = true
			break
		}
		list = append(list, s)
	}
	return nil, wrong(open.line, "the brace is not closed")
}

// count refuses a number of arguments outside of a range; at most -1 is any number.
func (s statement) count(least, most int) error {
	n := len(s.args())
	switch {
	case n < least:
		return wrong(s.line, "%s wants %s", s.name(), plural(least, "argument"))
	case most >= 0 && n > most:
		return wrong(s.line, "%s takes at most %s, found %q", s.name(), plural(most, "argument"), s.args()[most])
	}
	return nil
}

// bare refuses braces.
func (s statement) bare() error {
	if s.braces {
		return wrong(s.line, "%s takes no braces", s.name())
	}
	return nil
}

// among refuses a property that is none of the known ones.
func (s statement) among(of string, known []string) error {
	if slices.Contains(known, s.name()) {
		return nil
	}
	return wrong(s.line, "%s has no property %q here: there are %s", of, s.name(), strings.Join(known, ", "))
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
