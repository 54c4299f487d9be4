// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package figure compares what was measured of upstream's programs with the same of ours, and tells which aims are missed.
// Touch it for how results are printed.
package figure

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
)

// Side is whose program was measured.
type Side int

// The sides, in the order in which they are printed. Plain is ours without a profile for the compiler: the profile is taken
// from these very measurements, and upstream is built without one.
const (
	Upstream Side = iota
	Ours
	Plain
)

var sideNames = [...]string{"upstream", "ours", "plain"}

func (s Side) String() string { return sideNames[s] }

// Sides are those that are measured, a flag.
type Sides []Side

// String is for flag.
func (s *Sides) String() string {
	var names []string
	for _, side := range *s {
		names = append(names, side.String())
	}
	return strings.Join(names, ",")
}

// Set is for flag.
func (s *Sides) Set(list string) error {
	*s = nil
	for name := range strings.SplitSeq(list, ",") {
		side := slices.Index(sideNames[:], name)
		if side < 0 {
			return fmt.Errorf("want some of %s", strings.Join(sideNames[:], ","))
		}
		*s = append(*s, Side(side))
	}
	return nil
}

// InRun returns the sides in the order in which they are measured in a run: every other run begins with the last, for who comes
// later finds a warmer machine.
func (s *Sides) InRun(run int) []Side {
	order := slices.Clone(*s)
	if run%2 == 1 {
		slices.Reverse(order)
	}
	return order
}

// Figure is what is measured, and what is aimed at. A bound of 0 is none.
type Figure struct {
	Name string `json:"name"`
	Unit string `json:"unit"`
	// AtMost and AtLeast bound ours divided by upstream's. Plain is only for comparison.
	AtMost  float64 `json:"atMost,omitempty"`
	AtLeast float64 `json:"atLeast,omitempty"`
	// Within and NotBelow bound ours, in the unit.
	Within   float64 `json:"within,omitempty"`
	NotBelow float64 `json:"notBelow,omitempty"`
}

// Verdicts on what is aimed at.
const (
	nothingWanted = ""
	reached       = "reached"
	missed        = "missed"
	notMeasured   = "not measured"
)

// row is a figure with all that was measured, and what follows from it.
type row struct {
	Figure
	// Upstream, Ours and Plain are medians. They and the ratios to upstream's are nil if they cannot be told.
	Upstream   *float64                  `json:"upstream"`
	Ours       *float64                  `json:"ours"`
	Plain      *float64                  `json:"plain"`
	Ratio      *float64                  `json:"ratio"`
	PlainRatio *float64                  `json:"plainRatio"`
	Verdict    string                    `json:"verdict,omitempty"`
	Values     [len(sideNames)][]float64 `json:"values"`
}

// conclude fills in what follows from the values.
func (r *row) conclude() {
	for side, to := range map[Side]**float64{Upstream: &r.Upstream, Ours: &r.Ours, Plain: &r.Plain} {
		if values := r.Values[side]; len(values) > 0 {
			*to = new(Median(values))
		}
	}
	both := r.Upstream != nil && r.Ours != nil
	r.Ratio, r.PlainRatio = ratio(r.Ours, r.Upstream), ratio(r.Plain, r.Upstream)
	compared := r.AtMost != 0 || r.AtLeast != 0
	switch {
	case !compared && r.Within == 0 && r.NotBelow == 0:
		r.Verdict = nothingWanted
	case both && r.AtMost != 0 && *r.Ours > r.AtMost**r.Upstream,
		both && r.AtLeast != 0 && *r.Ours < r.AtLeast**r.Upstream,
		r.Ours != nil && r.Within != 0 && *r.Ours > r.Within,
		r.Ours != nil && r.NotBelow != 0 && *r.Ours < r.NotBelow:
		r.Verdict = missed
	case r.Ours == nil, compared && r.Upstream == nil:
		r.Verdict = notMeasured
	default:
		r.Verdict = reached
	}
}

// ratio of two figures, nil if one of them is not known or the second is 0.
func ratio(a, b *float64) *float64 {
	if a == nil || b == nil || *b == 0 {
		return nil
	}
	return new(*a / *b)
}

// line is the row with tabs between its cells.
func (r *row) line() string {
	number := func(value *float64) string {
		if value == nil {
			return ""
		}
		return fmt.Sprintf("%.2f", *value)
	}
	return strings.Join([]string{
		r.Name, r.Unit, r.cell(Upstream), r.cell(Ours), number(r.Ratio), r.cell(Plain), number(r.PlainRatio), r.wanted(),
	}, "\t")
}

// cell is the median of what was measured of a side, with the least and the most if it was measured more than once.
func (r *row) cell(side Side) string {
	values := r.Values[side]
	if len(values) == 0 {
		return ""
	}
	format := "%.1f"
	if r.Unit == "s" {
		format = "%.2f" // the system counts the time of processes in hundredths
	}
	text := fmt.Sprintf(format, Median(values))
	if len(values) > 1 {
		text += fmt.Sprintf(" ("+format+" to "+format+")", slices.Min(values), slices.Max(values))
	}
	return text
}

// wanted tells what is aimed at, and if it is not known to be reached, that.
func (r *row) wanted() string {
	var bounds []string
	if r.AtMost != 0 {
		bounds = append(bounds, fmt.Sprintf("at most %.2f", r.AtMost))
	}
	if r.AtLeast != 0 {
		bounds = append(bounds, fmt.Sprintf("at least %.2f", r.AtLeast))
	}
	if r.Within != 0 {
		bounds = append(bounds, fmt.Sprintf("within %.0f %s", r.Within, r.Unit))
	}
	if r.NotBelow != 0 {
		bounds = append(bounds, fmt.Sprintf("not below %.0f %s", r.NotBelow, r.Unit))
	}
	wanted := strings.Join(bounds, ", ")
	if r.Verdict == missed || r.Verdict == notMeasured {
		wanted += ": " + r.Verdict
	}
	return wanted
}

// Table collects figures in the order in which they come.
type Table struct {
	// PrintOnly makes a missed aim no error.
	PrintOnly bool
	// Beside is the heading of the column of Upstream. Default: UPSTREAM.
	Beside string

	rows []*row
}

// Add notes what was measured once.
func (t *Table) Add(s Side, f Figure, value float64) {
	i := slices.IndexFunc(t.rows, func(r *row) bool { return r.Name == f.Name })
	if i < 0 {
		i = len(t.rows)
		t.rows = append(t.rows, &row{Figure: f})
	}
	t.rows[i].Values[s] = append(t.rows[i].Values[s], value)
}

// Print writes the table in a format, with the load of the machine. The error tells what was missed, if anything.
func (t *Table) Print(out io.Writer, format Format) error {
	load, err := Load()
	if err != nil {
		return err
	}
	var short []error
	for _, r := range t.rows {
		r.conclude()
		if r.Verdict == missed {
			short = append(short, fmt.Errorf("%s: %s", r.Name, r.wanted()))
		}
	}
	if err := t.write(out, format, load); err != nil {
		return err
	}
	if len(short) > 0 && !t.PrintOnly {
		return &MissedError{errors.Join(short...)}
	}
	return nil
}

// MissedError tells which aims were missed, a line each.
type MissedError struct{ error }

func (t *Table) write(out io.Writer, format Format, load string) error {
	if format == JSON {
		e := json.NewEncoder(out)
		e.SetIndent("", "  ")
		return e.Encode(map[string]any{"load": load, "figures": t.rows})
	}
	_, _ = fmt.Fprintf(out, "load of the machine at the end: %s\n\n", load)
	w := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(w, "FIGURE\tUNIT\t"+cmp.Or(t.Beside, "UPSTREAM")+"\tOURS\tRATIO\tWITHOUT PROFILE\tRATIO\tWANTED")
	for _, r := range t.rows {
		fmt.Fprintln(w, r.line())
	}
	return w.Flush()
}

// Format is how a table is printed, a flag.
type Format string

// The formats.
const (
	Text Format = "table"
	JSON Format = "json"
)

// String is for flag.
func (f *Format) String() string { return string(*f) }

// Set is for flag.
func (f *Format) Set(s string) error {
	if *f = Format(s); *f != Text && *f != JSON {
		return fmt.Errorf("want %s or %s", Text, JSON)
	}
	return nil
}

// Median of some values, 0 of none.
func Median[N ~int64 | ~float64](values []N) N {
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

// Percentile is the least of some values, at least one, that the part p of them does not exceed.
func Percentile[N ~int64 | ~float64](values []N, p float64) N {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[min(int(p*float64(len(sorted))), len(sorted)-1)]
}

// Load is the average number of processes that have wanted a processor of the machine: in one minute, five and fifteen.
func Load() (string, error) {
	data, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "", err
	}
	return strings.Join(strings.Fields(string(data))[:3], " "), nil
}
