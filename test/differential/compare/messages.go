// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package compare

import (
	"cmp"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// valueOf begins a value in the text of a cause.
var valueOf = regexp.MustCompile(`(?:Invalid|Unsupported|Duplicate) value: (?:null\b|[{\[]|"\{\\")`)

// goType is a type of Go: upstream names its internal ones.
var goType = regexp.MustCompile(`(\(\*?)[a-z0-9]+(\.[A-Z]\w*\))`)

// longName is a name that was generated: from a prefix that was cut off, or from that of the requests (run/reads.go).
var longName = regexp.MustCompile(`"([^" ]{58}|made-)[a-z0-9]{5}"`)

// Message returns the text of an error without what upstream cannot but spell otherwise: whole objects, which it prints with
// the fields of its internal types, differences of such objects, and the packages of these types. All else counts.
func Message(s string) string {
	var b strings.Builder
	for {
		at := valueOf.FindStringIndex(s)
		if at == nil {
			break
		}
		begin := strings.Index(s[at[0]:], ": ") + at[0] + 2
		b.WriteString(s[:begin] + "<value>")
		s = s[begin+composite(s[begin:]):]
	}
	b.WriteString(s)
	s = longName.ReplaceAllString(withoutDifference(b.String()), `"$1<random>"`)
	return goType.ReplaceAllString(s, "${1}types$2")
}

// composite is the length of the JSON that s begins with.
func composite(s string) int {
	if strings.HasPrefix(s, "null") {
		return len("null")
	}
	depth, quoted := 0, false
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			if quoted = !quoted; !quoted && depth == 0 {
				return i + 1 // a string with an object in it
			}
		case quoted:
		case c == '{' || c == '[':
			depth++
		case c == '}' || c == ']':
			if depth--; depth == 0 {
				return i + 1
			}
		}
	}
	return len(s) // it was cut off
}

// withoutDifference takes out the lines of a difference between two objects: those that begin with a sign or a space.
func withoutDifference(s string) string {
	lines := strings.Split(s, "\n")
	kept := []string{lines[0]}
	for _, line := range lines[1:] {
		if line == "" || strings.ContainsAny(line[:1], " +-@}\t") || strings.HasPrefix(line, "\u00a0") {
			continue
		}
		kept = append(kept, line)
	}
	return strings.Join(kept, "\n")
}

// said is what a Status says of each cause.
func said(status any) map[string][]string {
	all := map[string][]string{}
	for _, c := range listOf(status, "details", "causes") {
		cause := strings.TrimSpace(text(c, "reason") + " " + text(c, "field"))
		all[cause] = append(all[cause], strings.TrimPrefix(text(c, "field")+": ", ": ")+Message(text(c, "message")))
	}
	for _, texts := range all {
		slices.Sort(texts)
	}
	return all
}

// messages compares what two refusals say of the causes that both have, and all that they say where one has none.
func messages(u, o any) []Difference {
	var all []Difference
	us, os := said(u), said(o)
	whole, ours := Message(text(u, "message")), Message(text(o, "message"))
	if len(us) > 0 && len(os) > 0 { // the rest is made of the causes
		whole, _, _ = strings.Cut(whole, ": ")
		ours, _, _ = strings.Cut(ours, ": ")
	}
	if whole != ours {
		all = append(all, Difference{Check: "message", Upstream: whole, Ours: ours, Says: whole})
	}
	for _, cause := range slices.Sorted(maps.Keys(us)) {
		ours, ok := os[cause]
		if !ok {
			continue // told as a cause
		}
		if a, b := strings.Join(us[cause], ", "), strings.Join(ours, ", "); a != b {
			all = append(all, Difference{Check: "message", Upstream: a, Ours: b, Says: a})
		}
	}
	return all
}

// says is what upstream refuses with, or else ours.
func says(u, o any) string { return Message(cmp.Or(text(u, "message"), text(o, "message"))) }
