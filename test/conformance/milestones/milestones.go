// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Command milestones chooses conformance tests by milestone, SIG or name, and counts their results: change it when a run
// needs another way to choose or to report. The list of tests is milestones.csv.
package main

import (
	"encoding/csv"
	"encoding/xml"
	"flag"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"text/tabwriter"
)

// test is a row of milestones.csv.
type test struct {
	milestone, sig string
	// name is the full text of the Ginkgo spec.
	name string
}

func (t test) serial() bool { return strings.Contains(t.name, "[Serial]") }

// outcome of a test in a run.
type outcome int

const (
	notRun outcome = iota
	passed
	failed
)

// choice says which tests are meant. Empty fields exclude nothing.
type choice struct {
	milestones, sigs []string
	focus            *regexp.Regexp
	// order is "parallel", "serial" or empty.
	order string
	// done excludes the tests that passed already.
	done map[string]outcome
}

func (c choice) includes(t test) bool {
	switch {
	case len(c.milestones) > 0 && !slices.Contains(c.milestones, t.milestone),
		len(c.sigs) > 0 && !slices.Contains(c.sigs, t.sig),
		c.focus != nil && !c.focus.MatchString(t.name),
		c.order == "parallel" && t.serial(),
		c.order == "serial" && !t.serial(),
		c.done[t.name] == passed:
		return false
	}
	return true
}

func (c choice) of(tests []test) []test {
	var chosen []test
	for _, t := range tests {
		if c.includes(t) {
			chosen = append(chosen, t)
		}
	}
	return chosen
}

// focus is a regular expression that Ginkgo's --focus understands and that matches these tests only.
func focus(tests []test) string {
	names := make([]string, len(tests))
	for i, t := range tests {
		names[i] = regexp.QuoteMeta(t.name)
	}
	return strings.Join(names, "|")
}

func readTests(r io.Reader) ([]test, error) {
	rows, err := csv.NewReader(r).ReadAll()
	if err != nil {
		return nil, fmt.Errorf("reading the list of tests: %w", err)
	}
	if len(rows) == 0 || !slices.Equal(rows[0], []string{"milestone", "sig", "test"}) {
		return nil, fmt.Errorf("reading the list of tests: the first row is not milestone,sig,test")
	}
	tests := make([]test, 0, len(rows)-1)
	for _, row := range rows[1:] {
		tests = append(tests, test{milestone: row[0], sig: row[1], name: row[2]})
	}
	return tests, nil
}

// readJUnit adds the outcomes of a JUnit file. A later file overrides an earlier one.
func readJUnit(r io.Reader, outcomes map[string]outcome) error {
	var report struct {
		Suites []struct {
			Cases []struct {
				Name   string `xml:"name,attr"`
				Status string `xml:"status,attr"`
			} `xml:"testcase"`
		} `xml:"testsuite"`
	}
	if err := xml.NewDecoder(r).Decode(&report); err != nil {
		return fmt.Errorf("reading JUnit: %w", err)
	}
	for _, suite := range report.Suites {
		for _, c := range suite.Cases {
			name := strings.TrimPrefix(c.Name, "[It] ")
			switch c.Status {
			case "passed":
				outcomes[name] = passed
			case "failed", "panicked", "timedout", "aborted", "interrupted":
				outcomes[name] = failed
			}
		}
	}
	return nil
}

// report writes passed/failed/total per milestone and per SIG, and the names of what did not pass.
func report(w io.Writer, tests []test, outcomes map[string]outcome) error {
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	table := func(title string, group func(test) string) {
		var groups []string
		counts := map[string]*[3]int{}
		for _, t := range tests {
			g := group(t)
			if counts[g] == nil {
				counts[g] = new([3]int)
				groups = append(groups, g)
			}
			counts[g][outcomes[t.name]]++
		}
		fmt.Fprintf(out, "%s\tPASSED\tFAILED\tNOT RUN\tTOTAL\n", title)
		var sum [3]int
		for _, g := range groups {
			c := counts[g]
			fmt.Fprintf(out, "%s\t%d\t%d\t%d\t%d\n", g, c[passed], c[failed], c[notRun], c[0]+c[1]+c[2])
			for i := range sum {
				sum[i] += c[i]
			}
		}
		fmt.Fprintf(out, "all\t%d\t%d\t%d\t%d\n\n", sum[passed], sum[failed], sum[notRun], sum[0]+sum[1]+sum[2])
	}
	table("MILESTONE", func(t test) string { return t.milestone })
	table("SIG", func(t test) string { return t.sig })
	if err := out.Flush(); err != nil {
		return err
	}
	for _, t := range tests {
		switch outcomes[t.name] {
		case failed:
			fmt.Fprintf(w, "failed   %s  %s\n", t.milestone, t.name)
		case notRun:
			fmt.Fprintf(w, "not run  %s  %s\n", t.milestone, t.name)
		}
	}
	return nil
}

func run(args []string, stdout io.Writer) error {
	flags := flag.NewFlagSet("milestones", flag.ContinueOnError)
	list := flags.String("list", "milestones.csv", "the list of tests")
	milestones := flags.String("milestones", "", `only these milestones, such as "M1a M3"`)
	sigs := flags.String("sigs", "", `only these SIGs, such as "sig-node"`)
	focused := flags.String("focus", "", "only tests whose name matches this regular expression")
	order := flags.String("order", "", "only tests that may run in parallel (parallel), or that may not (serial)")
	flags.Usage = func() {
		fmt.Fprintln(flags.Output(), `Usage: milestones [FLAGS] focus [JUNIT...]    print Ginkgo's --focus for the tests that did not pass in JUNIT
       milestones [FLAGS] report [JUNIT...]   print the counts of JUNIT; fails if a test did not pass`)
		flags.PrintDefaults()
	}
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *order != "" && *order != "parallel" && *order != "serial" {
		return fmt.Errorf("unknown order %q: choose parallel or serial", *order)
	}
	file, err := os.Open(*list)
	if err != nil {
		return err
	}
	defer file.Close()
	tests, err := readTests(file)
	if err != nil {
		return err
	}
	c := choice{milestones: strings.Fields(*milestones), sigs: strings.Fields(*sigs), order: *order}
	if *focused != "" {
		if c.focus, err = regexp.Compile(*focused); err != nil {
			return err
		}
	}
	outcomes := map[string]outcome{}
	for _, path := range flags.Args()[min(1, flags.NArg()):] {
		if err := readJUnitFile(path, outcomes); err != nil {
			return err
		}
	}
	switch flags.Arg(0) {
	case "focus":
		c.done = outcomes
		fmt.Fprintln(stdout, focus(c.of(tests)))
		return nil
	case "report":
		chosen := c.of(tests)
		if len(chosen) == 0 {
			return fmt.Errorf("no test is chosen")
		}
		if err := report(stdout, chosen, outcomes); err != nil {
			return err
		}
		if i := slices.IndexFunc(chosen, func(t test) bool { return outcomes[t.name] != passed }); i >= 0 {
			return fmt.Errorf("not every test passed")
		}
		return nil
	default:
		flags.Usage()
		return fmt.Errorf("unknown command %q", flags.Arg(0))
	}
}

func readJUnitFile(path string, outcomes map[string]outcome) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	return readJUnit(file, outcomes)
}

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}
