// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
)

// who is one of the two servers.
type who int

const (
	upstream who = iota
	ours
)

func (w who) String() string { return [...]string{"upstream", "ours"}[w] }

// figure is one line of the result.
type figure struct {
	Name string `json:"name"`
	Unit string `json:"unit"`
	// AtMost and AtLeast bound what is aimed at: ours divided by upstream's. 0: no bound.
	AtMost  float64 `json:"atMost,omitempty"`
	AtLeast float64 `json:"atLeast,omitempty"`
	// Upstream and Ours are medians, Values all that was measured.
	Upstream float64      `json:"upstream"`
	Ours     float64      `json:"ours"`
	Ratio    float64      `json:"ratio"`
	Values   [2][]float64 `json:"values"`
}

// add notes what was measured once.
func (b *bench) add(s *server, f figure, value float64) {
	i := slices.IndexFunc(b.figures, func(g *figure) bool { return g.Name == f.Name })
	if i < 0 {
		i = len(b.figures)
		b.figures = append(b.figures, &f)
	}
	b.figures[i].Values[s.who] = append(b.figures[i].Values[s.who], value)
}

// conclude fills in the medians and their ratio, which is 0 if upstream's is.
func (f *figure) conclude() {
	f.Upstream, f.Ours = median(f.Values[upstream]), median(f.Values[ours])
	if f.Upstream != 0 {
		f.Ratio = f.Ours / f.Upstream
	}
}

// wanted tells what is aimed at, and whether it is missed.
func (f *figure) wanted() string {
	switch {
	case f.AtMost != 0 && f.Ratio > f.AtMost:
		return fmt.Sprintf("at most %.2f: missed", f.AtMost)
	case f.AtMost != 0:
		return fmt.Sprintf("at most %.2f", f.AtMost)
	case f.AtLeast != 0 && f.Ratio < f.AtLeast:
		return fmt.Sprintf("at least %.2f: missed", f.AtLeast)
	case f.AtLeast != 0:
		return fmt.Sprintf("at least %.2f", f.AtLeast)
	}
	return ""
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

// quantile of values that are not empty; q is between 0 and 1.
func quantile(values []float64, q float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]
}

func (b *bench) print(out io.Writer) error {
	for _, f := range b.figures {
		f.conclude()
	}
	load, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return err
	}
	average := strings.Join(strings.Fields(string(load))[:3], " ")
	if b.output == "json" {
		e := json.NewEncoder(out)
		e.SetIndent("", "  ")
		return e.Encode(map[string]any{"load": average, "figures": b.figures})
	}
	fmt.Fprintf(out, "load of the machine at the end: %s\n\n", average)
	w := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(w, "FIGURE\tUNIT\tUPSTREAM\tOURS\tRATIO\tWANTED")
	for _, f := range b.figures {
		fmt.Fprintf(w, "%s\t%s\t%.1f\t%.1f\t%.2f\t%s\n", f.Name, f.Unit, f.Upstream, f.Ours, f.Ratio, f.wanted())
	}
	return w.Flush()
}
