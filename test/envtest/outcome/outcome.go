// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package outcome reads what "go test -json" says of packages, many of which are Ginkgo suites: one Go test of many specs.
// Touch it when another figure of a run is wanted.
package outcome

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Run is one run of a suite.
type Run struct {
	Name     string
	Packages map[string]*Package
	// Elapsed is what the whole run took, with compilation.
	Elapsed time.Duration
}

// Package is what the tests of a package came to. Passed and Failed count leaves: specs, and Go tests that are no suites
// and have no subtests.
type Package struct {
	Passed  int
	Failed  []string
	Elapsed time.Duration
}

// event is one line of go test -json.
type event struct {
	Action, Package, Test, Output string
	Elapsed                       float64
}

var (
	escapes = regexp.MustCompile("\x1b\\[[0-9;]*m")
	counts  = regexp.MustCompile(`-- (\d+) Passed \|`)
	failed  = regexp.MustCompile(`^\s*\[(?:FAIL|PANICKED!|TIMEDOUT|INTERRUPTED)\] (.*)`)
)

// Read reads the events of a run to their end.
func Read(name string, in io.Reader) (Run, error) {
	r := Run{Name: name, Packages: map[string]*Package{}}
	open := map[string]*reader{}
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return r, fmt.Errorf("%q: %w", lines.Text(), err)
		}
		if e.Package == "" {
			continue
		}
		p := open[e.Package]
		if p == nil {
			p = &reader{suites: map[string]bool{}}
			open[e.Package] = p
		}
		if result, done := p.add(e); done {
			r.Packages[e.Package] = result
		}
	}
	return r, lines.Err()
}

// reader gathers what is said of one package.
type reader struct {
	passed int
	specs  []string        // failed ones
	tests  []event         // that have ended
	suites map[string]bool // Go tests that are suites
	line   map[string]string
}

// add reads an event. The package is done with its own pass or fail; without tests it has no result.
func (p *reader) add(e event) (*Package, bool) {
	switch e.Action {
	case "output":
		p.output(e)
	case "pass", "fail":
		if e.Test != "" {
			p.tests = append(p.tests, e)
			return nil, false
		}
		return p.result(e), true
	}
	return nil, false
}

// output looks for the summary of a suite. A line may come in several events.
func (p *reader) output(e event) {
	if p.line == nil {
		p.line = map[string]string{}
	}
	text := p.line[e.Test] + e.Output
	if !strings.HasSuffix(text, "\n") {
		p.line[e.Test] = text
		return
	}
	delete(p.line, e.Test)
	text = strings.TrimRight(escapes.ReplaceAllString(text, ""), "\n")
	if m := counts.FindStringSubmatch(text); m != nil {
		n, _ := strconv.Atoi(m[1]) // digits
		p.passed += n
		p.suites[e.Test] = true
	}
	if m := failed.FindStringSubmatch(text); m != nil {
		p.specs = append(p.specs, m[1])
		p.suites[e.Test] = true
	}
}

func (p *reader) result(e event) *Package {
	result := &Package{Passed: p.passed, Failed: p.specs, Elapsed: seconds(e.Elapsed)}
	parents := map[string]bool{}
	for _, t := range p.tests {
		for name := path.Dir(t.Test); name != "."; name = path.Dir(name) {
			parents[name] = true
		}
	}
	for _, t := range p.tests {
		switch {
		case p.suites[t.Test] || parents[t.Test]:
		case t.Action == "pass":
			result.Passed++
		default:
			result.Failed = append(result.Failed, t.Test)
		}
	}
	if e.Action == "fail" && len(result.Failed) == 0 {
		result.Failed = []string{"the package (does it compile?)"}
	}
	slices.Sort(result.Failed)
	result.Failed = slices.Compact(result.Failed)
	return result
}

func seconds(s float64) time.Duration {
	return time.Duration(s * float64(time.Second)).Round(time.Millisecond)
}

// Failures are the names of all failed tests, sorted, each with its package.
func (r Run) Failures() []string {
	var names []string
	for _, pkg := range slices.Sorted(maps.Keys(r.Packages)) {
		for _, name := range r.Packages[pkg].Failed {
			names = append(names, pkg+": "+name)
		}
	}
	return names
}

// Missing are the tests that fail in got and do not in want, and the packages that have a result in want only.
func Missing(want, got Run) []string {
	expected := want.Failures()
	names := slices.DeleteFunc(got.Failures(), func(name string) bool { return slices.Contains(expected, name) })
	for _, pkg := range slices.Sorted(maps.Keys(want.Packages)) {
		if got.Packages[pkg] == nil {
			names = append(names, pkg+": no result")
		}
	}
	return names
}

// Table shows runs side by side: the packages that take a second or more or fail, slowest first, and the sums.
func Table(runs []Run) []string {
	packages := map[string]time.Duration{}
	for _, r := range runs {
		for name, p := range r.Packages {
			if p.Elapsed >= time.Second || len(p.Failed) > 0 {
				packages[name] = max(packages[name], p.Elapsed)
			}
		}
	}
	names := slices.SortedFunc(maps.Keys(packages), func(a, b string) int {
		return cmp.Or(cmp.Compare(packages[b], packages[a]), cmp.Compare(a, b))
	})
	lines := []string{header(runs)}
	for _, name := range names {
		var row strings.Builder
		fmt.Fprintf(&row, "%-70s", name)
		for _, r := range runs {
			row.WriteString(cell(r.Packages[name]))
		}
		lines = append(lines, row.String())
	}
	sum, whole := fmt.Sprintf("%-70s", "all packages"), fmt.Sprintf("%-70s", "the whole run, with compilation")
	for _, r := range runs {
		var all Package
		for _, p := range r.Packages {
			all.Passed, all.Elapsed, all.Failed = all.Passed+p.Passed, all.Elapsed+p.Elapsed, append(all.Failed, p.Failed...)
		}
		sum += cell(&all)
		whole += fmt.Sprintf("  %9.1fs %7s %7s", r.Elapsed.Seconds(), "", "")
	}
	return append(lines, sum, whole)
}

func header(runs []Run) string {
	var line strings.Builder
	fmt.Fprintf(&line, "%-70s", "package")
	for _, r := range runs {
		fmt.Fprintf(&line, "  %10s %7s %7s", r.Name, "passed", "failed")
	}
	return line.String()
}

func cell(p *Package) string {
	if p == nil {
		return fmt.Sprintf("  %10s %7s %7s", "-", "-", "-")
	}
	return fmt.Sprintf("  %9.1fs %7d %7d", p.Elapsed.Seconds(), p.Passed, len(p.Failed))
}
