// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// who is one of the two managers.
type who int

const (
	upstream who = iota
	ours
)

func (w who) String() string { return [...]string{"upstream", "ours"}[w] }

// figure is one line of the result.
type figure struct {
	name, unit string
	// atMost is what is aimed at: ours divided by upstream's. 0: no bound.
	atMost float64
	// within bounds ours absolutely; 0: no bound.
	within time.Duration
	values [2][]float64
}

// table collects figures in the order they come.
type table struct{ figures []*figure }

// add notes what was measured once.
func (t *table) add(w who, f figure, value float64) {
	i := slices.IndexFunc(t.figures, func(g *figure) bool { return g.name == f.name })
	if i < 0 {
		i = len(t.figures)
		t.figures = append(t.figures, &f)
	}
	t.figures[i].values[w] = append(t.figures[i].values[w], value)
}

// row is a figure's line: medians, their ratio and what is wanted.
func (f *figure) row() string {
	if len(f.values[ours]) == 0 { // the run was cut off
		return fmt.Sprintf("%s\t%s\t%.1f\t\t\tnot measured", f.name, f.unit, median(f.values[upstream]))
	}
	theirs, mine := median(f.values[upstream]), median(f.values[ours])
	ratio, wanted := 0.0, ""
	if theirs > 0 {
		ratio = mine / theirs
	}
	if f.atMost > 0 {
		wanted = fmt.Sprintf("at most %.2f", f.atMost)
	}
	missed := f.atMost > 0 && ratio > f.atMost
	if f.within > 0 {
		wanted += fmt.Sprintf(", %.0f s", f.within.Seconds())
		missed = missed || mine > f.within.Seconds()
	}
	if missed {
		wanted += ": missed"
	}
	return fmt.Sprintf("%s\t%s\t%.1f\t%.1f\t%.2f\t%s", f.name, f.unit, theirs, mine, ratio, wanted)
}

// median of some values, 0 of none.
func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}

func (t *table) print(out io.Writer) error {
	load, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "load of the machine at the end: %s\n\n", strings.Join(strings.Fields(string(load))[:3], " "))
	w := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(w, "FIGURE\tUNIT\tUPSTREAM\tOURS\tRATIO\tWANTED")
	for _, f := range t.figures {
		fmt.Fprintln(w, f.row())
	}
	return w.Flush()
}
