// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package figure compares what was measured of upstream's programs with the same of ours, and tells which aims are missed.
// Touch it for how results are printed.
package figure

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
)

// Side is whose program was measured.
type Side int

// The two sides, in the order in which they are measured and printed.
const (
	Upstream Side = iota
	Ours
)

var sideNames = [...]string{"upstream", "ours"}

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

// Figure is what is measured, and what is aimed at. A bound of 0 is none.
type Figure struct {
	Name string `json:"name"`
	Unit string `json:"unit"`
	// AtMost and AtLeast bound ours divided by upstream's.
	AtMost  float64 `json:"atMost,omitempty"`
	AtLeast float64 `json:"atLeast,omitempty"`
	// Within bounds ours, in the unit.
	Within float64 `json:"within,omitempty"`
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
	// Upstream and Ours are medians. They and their ratio are nil if they cannot be told.
	Upstream *float64     `json:"upstream"`
	Ours     *float64     `json:"ours"`
	Ratio    *float64     `json:"ratio"`
	Verdict  string       `json:"verdict,omitempty"`
	Values   [2][]float64 `json:"values"`
}

// conclude fills in what follows from the values.
func (r *row) conclude() {
	for side, to := range map[Side]**float64{Upstream: &r.Upstream, Ours: &r.Ours} {
		if values := r.Values[side]; len(values) > 0 {
			*to = new(Median(values))
		}
	}
	both := r.Upstream != nil && r.Ours != nil
	if both && *r.Upstream != 0 {
		r.Ratio = new(*r.Ours / *r.Upstream)
	}
	compared := r.AtMost != 0 || r.AtLeast != 0
	switch {
	case !compared && r.Within == 0:
		r.Verdict = nothingWanted
	case both && r.AtMost != 0 && *r.Ours > r.AtMost**r.Upstream,
		both && r.AtLeast != 0 && *r.Ours < r.AtLeast**r.Upstream,
		r.Ours != nil && r.Within != 0 && *r.Ours > r.Within:
		r.Verdict = missed
	case r.Ours == nil, compared && r.Upstream == nil:
		r.Verdict = notMeasured
	default:
		r.Verdict = reached
	}
}

// line is the row with tabs between its cells.
func (r *row) line() string {
	cell := func(format string, value *float64) string {
		if value == nil {
			return ""
		}
		return fmt.Sprintf(format, *value)
	}
	format := "%.1f"
	if r.Unit == "s" {
		format = "%.2f" // the system counts the time of processes in hundredths
	}
	return strings.Join([]string{r.Name, r.Unit, cell(format, r.Upstream), cell(format, r.Ours), cell("%.2f", r.Ratio), r.wanted()}, "\t")
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
	wanted := strings.Join(bounds, ", ")
	if r.Verdict == missed || r.Verdict == notMeasured {
		wanted += ": " + r.Verdict
	}
	return wanted
}

// Table collects figures in the order in which they come.
type Table struct{ rows []*row }

// Add notes what was measured once.
func (t *Table) Add(s Side, f Figure, value float64) {
	i := slices.IndexFunc(t.rows, func(r *row) bool { return r.Name == f.Name })
	if i < 0 {
		i = len(t.rows)
		t.rows = append(t.rows, &row{Figure: f})
	}
	t.rows[i].Values[s] = append(t.rows[i].Values[s], value)
}

// Print writes the table in a format, with the load of the machine.
func (t *Table) Print(out io.Writer, format Format) error {
	load, err := Load()
	if err != nil {
		return err
	}
	for _, r := range t.rows {
		r.conclude()
	}
	if format == JSON {
		e := json.NewEncoder(out)
		e.SetIndent("", "  ")
		return e.Encode(map[string]any{"load": load, "figures": t.rows})
	}
	fmt.Fprintf(out, "load of the machine at the end: %s\n\n", load)
	w := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(w, "FIGURE\tUNIT\tUPSTREAM\tOURS\tRATIO\tWANTED")
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

// Load is the average number of processes that have wanted a processor of the machine: in one minute, five and fifteen.
func Load() (string, error) {
	data, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "", err
	}
	return strings.Join(strings.Fields(string(data))[:3], " "), nil
}
