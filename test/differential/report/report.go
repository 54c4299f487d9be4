// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package report gathers differences, puts those together that are one thing, and sets apart those that are explained.
// Touch it to group differently or to write another file.
package report

import (
	"bufio"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"minik8s.io/minik8s/test/differential/compare"
	"minik8s.io/minik8s/test/differential/mutate"
)

// Request is what was asked, so that a reader can ask it again.
type Request struct {
	// Kind is what the request is about, in kubectl's spelling, such as deployments.apps or openapi.
	Kind   string `json:"kind"`
	Method string `json:"method"`
	Path   string `json:"path"`
	// Accept and ContentType are set when they are not JSON.
	Accept      string `json:"accept,omitempty"`
	ContentType string `json:"contentType,omitempty"`
	// Change is the mutation.
	Change string `json:"change,omitempty"`
	Body   any    `json:"body,omitempty"`
}

// Finding is a difference with one example of a request that shows it.
type Finding struct {
	Kind     string  `json:"kind"`
	Check    string  `json:"check"`
	Path     string  `json:"path"`
	Upstream string  `json:"upstream"`
	Ours     string  `json:"ours"`
	Count    int     `json:"count"`
	Example  Request `json:"example"`
	// Says is the text of a refusal.
	Says string `json:"says,omitempty"`
	// Explained is the reason why it may be there.
	Explained string `json:"explained,omitempty"`
}

// Report gathers. Safe for concurrent use.
type Report struct {
	mu       sync.Mutex
	findings map[string]*Finding
	requests int
	changed  int
}

// New returns an empty report.
func New() *Report { return &Report{findings: map[string]*Finding{}} }

// Add takes in what came out of one request.
func (r *Report) Add(request Request, differences []compare.Difference) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.requests++
	if request.Change != "" {
		r.changed++
	}
	for _, d := range differences {
		f := Finding{Kind: request.Kind, Check: d.Check, Path: mutate.Pattern(d.Path), Upstream: d.Upstream, Ours: d.Ours, Says: d.Says, Example: request}
		key := group(f, request)
		if have := r.findings[key]; have != nil {
			have.Count++
			continue
		}
		f.Count = 1
		r.findings[key] = &f
	}
}

// group is what differences that are the same thing have in common.
func group(f Finding, r Request) string {
	parts := []string{f.Kind, f.Check, f.Path}
	switch f.Check {
	case "accept":
		// What was refused by which side; without causes, of what was changed.
		parts = append(parts, first(f.Upstream, 2), first(f.Ours, 2))
		if strings.Contains(f.Path, " -> ") && (aboutField(f.Upstream) || aboutField(f.Ours)) {
			parts = append(parts, field(r.Change))
		}
	case "path", "schema", "definition":
		// The same in many of them is one thing.
		if _, within, ok := strings.Cut(f.Path, " "); ok {
			parts[2], _, _ = strings.Cut(within, ".{") // entries of a set of objects are one thing too
		}
		parts = append(parts, f.Upstream, f.Ours)
	case "code":
		parts = append(parts, first(f.Upstream, 1), first(f.Ours, 1), mutate.Pattern(letters(f.Says)))
	case "reason", "kind", "media type", "details":
		parts = append(parts, f.Upstream, f.Ours)
	case "message":
		parts = append(parts, mutate.Pattern(letters(f.Upstream)), mutate.Pattern(letters(f.Ours)))
	default:
		parts = append(parts, fmt.Sprint(f.Upstream == "-"), fmt.Sprint(f.Ours == "-"))
	}
	return strings.Join(parts, "\x00")
}

// aboutField tells whether a refusal may be one of a field.
func aboutField(verdict string) bool {
	return slices.Contains([]string{"400", "403", "422"}, first(verdict, 1))
}

func first(s string, words int) string {
	f := strings.Fields(s)
	return strings.Join(f[:min(words, len(f))], " ")
}

// field is the path in the name of a mutation, its last word.
func field(change string) string {
	f := strings.Fields(change)
	if len(f) == 0 {
		return ""
	}
	return mutate.Pattern(f[len(f)-1])
}

// letters keeps what two messages about different values have in common.
func letters(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' {
			return -1
		}
		return r
	}, s[:min(60, len(s))])
}

// Requests returns how many requests were compared, and how many of them had a changed object.
func (r *Report) Requests() (all, changed int) { return r.requests, r.changed }

// Findings returns all, sorted: per kind, gravest first.
func (r *Report) Findings() []Finding {
	var all []Finding
	for _, f := range r.findings {
		all = append(all, *f)
	}
	slices.SortFunc(all, func(a, b Finding) int {
		return strings.Compare(order(a), order(b))
	})
	return all
}

var checks = []string{"served", "panic", "accept", "code", "reason", "cause", "object", "item", "column", "row", "warning"}

func order(f Finding) string {
	i := slices.Index(checks, f.Check)
	if i < 0 {
		i = len(checks)
	}
	return fmt.Sprintf("%s\x00%02d\x00%s\x00%s\x00%s\x00%s", f.Kind, i, f.Check, f.Path, f.Upstream, f.Ours)
}

// Explanation is a line of the list of differences that may be there; * in a pattern stands for anything. A path may go on with
// a colon and what the refusal says.
type Explanation struct {
	Kind, Check, Path, Reason string
	used                      bool
}

// ReadExplanations reads the list: kind,check,path,reason with a head line. Lines with # are comments.
func ReadExplanations(r io.Reader) ([]*Explanation, error) {
	c := csv.NewReader(bufio.NewReader(r))
	c.Comment = '#'
	c.FieldsPerRecord = 4
	rows, err := c.ReadAll()
	if err != nil {
		return nil, fmt.Errorf("reading explanations: %w", err)
	}
	if len(rows) == 0 || !slices.Equal(rows[0], []string{"kind", "check", "path", "reason"}) {
		return nil, errors.New("reading explanations: the first line must be kind,check,path,reason")
	}
	var all []*Explanation
	for _, row := range rows[1:] {
		if strings.TrimSpace(row[3]) == "" {
			return nil, fmt.Errorf("explanation %v gives no reason", row)
		}
		all = append(all, &Explanation{Kind: row[0], Check: row[1], Path: row[2], Reason: row[3]})
	}
	return all, nil
}

// Explain marks the findings that the list explains, and returns the lines that explain nothing: they are out of date. A
// reason that begins with "sometimes: " need not have anything to explain.
func Explain(findings []Finding, list []*Explanation) (unused []*Explanation) {
	for i := range findings {
		f := &findings[i]
		for _, e := range list {
			if match(e.Kind, f.Kind) && match(e.Check, f.Check) && (match(e.Path, f.Path) || f.Says != "" && match(e.Path, strings.TrimPrefix(f.Path+": "+f.Says, ": "))) {
				f.Explained, e.used = e.Reason, true
				break
			}
		}
	}
	for _, e := range list {
		if !e.used && !strings.HasPrefix(e.Reason, "sometimes: ") {
			unused = append(unused, e)
		}
	}
	return unused
}

// match tells whether a text fits a pattern, in which * stands for any run of characters.
func match(pattern, s string) bool {
	parts := strings.Split(pattern, "*")
	if len(parts) == 1 {
		return pattern == s
	}
	if !strings.HasPrefix(s, parts[0]) {
		return false
	}
	s = s[len(parts[0]):]
	last := parts[len(parts)-1]
	for _, p := range parts[1 : len(parts)-1] {
		i := strings.Index(s, p)
		if i < 0 {
			return false
		}
		s = s[i+len(p):]
	}
	return strings.HasSuffix(s, last)
}

// Write puts findings.json and summary.txt into dir.
func Write(dir string, findings []Finding, head string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	data, err := json.MarshalIndent(findings, "", " ")
	if err != nil {
		return err
	}
	return errors.Join(
		os.WriteFile(filepath.Join(dir, "findings.json"), data, 0o644),
		os.WriteFile(filepath.Join(dir, "summary.txt"), []byte(head+Summary(findings)), 0o644),
	)
}

// Summary is a line per finding that nothing explains, per kind.
func Summary(findings []Finding) string {
	var b strings.Builder
	kind := ""
	for _, f := range findings {
		if f.Explained != "" {
			continue
		}
		if f.Kind != kind {
			kind = f.Kind
			fmt.Fprintf(&b, "\n%s\n", kind)
		}
		fmt.Fprintf(&b, "  %-9s %s: upstream %s, ours %s (%d times, as %s %s", f.Check, f.Path, short(f.Upstream), short(f.Ours), f.Count, f.Example.Method, f.Example.Path)
		if f.Example.Change != "" {
			fmt.Fprintf(&b, ", %s", f.Example.Change)
		}
		b.WriteString(")\n")
	}
	return b.String()
}

func short(s string) string {
	if len(s) <= 160 {
		return s
	}
	return strings.ToValidUTF8(s[:157], "") + "…"
}
