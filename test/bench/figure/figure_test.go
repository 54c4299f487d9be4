// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package figure

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestRow(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		figure  Figure
		values  [3][]float64
		line    string
		verdict string
	}{
		{"small enough", Figure{AtMost: 0.5}, [3][]float64{{10, 30, 20}, {9, 1000, 10}, {}}, "a\ts\t20.00 (10.00 to 30.00)\t10.00 (9.00 to 1000.00)\t0.50\t\t\tat most 0.50", reached},
		{"too much", Figure{AtMost: 0.4}, [3][]float64{{4}, {1, 3}, nil}, "a\ts\t4.00\t2.00 (1.00 to 3.00)\t0.50\t\t\tat most 0.40: missed", missed},
		{"too little", Figure{AtLeast: 1}, [3][]float64{{40}, {10}, nil}, "a\ts\t40.00\t10.00\t0.25\t\t\tat least 1.00: missed", missed},
		{"enough", Figure{AtLeast: 1}, [3][]float64{{20}, {20}, nil}, "a\ts\t20.00\t20.00\t1.00\t\t\tat least 1.00", reached},
		{"the plain one is not judged", Figure{AtLeast: 1}, [3][]float64{{20}, {20}, {10}}, "a\ts\t20.00\t20.00\t1.00\t10.00\t0.50\tat least 1.00", reached},
		{"nothing wanted", Figure{}, [3][]float64{{0}, {20}, {30}}, "a\ts\t0.00\t20.00\t\t30.00\t\t", nothingWanted},
		{"more than nothing", Figure{AtMost: 1}, [3][]float64{{0}, {20}, nil}, "a\ts\t0.00\t20.00\t\t\t\tat most 1.00: missed", missed},
		{"too long", Figure{AtMost: 0.7, Within: 1}, [3][]float64{{4}, {2}, nil}, "a\ts\t4.00\t2.00\t0.50\t\t\tat most 0.70, within 1 s: missed", missed},
		{"too few", Figure{NotBelow: 3}, [3][]float64{nil, {2}, nil}, "a\ts\t\t2.00\t\t\t\tnot below 3 s: missed", missed},
		{"a difference below nothing", Figure{Within: 2}, [3][]float64{nil, {-1}, nil}, "a\ts\t\t-1.00\t\t\t\twithin 2 s", reached},
		{"soon enough", Figure{Within: 2}, [3][]float64{nil, {2}, nil}, "a\ts\t\t2.00\t\t\t\twithin 2 s", reached},
		{"without ours", Figure{AtMost: 0.4}, [3][]float64{{4}, nil, {2}}, "a\ts\t4.00\t\t\t2.00\t0.50\tat most 0.40: not measured", notMeasured},
		{"without upstream's", Figure{AtLeast: 0.4, Within: 3}, [3][]float64{nil, {2}, nil}, "a\ts\t\t2.00\t\t\t\tat least 0.40, within 3 s: not measured", notMeasured},
		{"without upstream's, too long", Figure{AtMost: 0.4, Within: 1}, [3][]float64{nil, {2}, nil}, "a\ts\t\t2.00\t\t\t\tat most 0.40, within 1 s: missed", missed},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			test.figure.Name, test.figure.Unit = "a", "s"
			r := row{Figure: test.figure, Values: test.values}
			r.conclude()
			if r.line() != test.line || r.Verdict != test.verdict {
				t.Errorf("got %q, %q, want %q, %q", r.line(), r.Verdict, test.line, test.verdict)
			}
		})
	}
}

func TestTable_text(t *testing.T) {
	t.Parallel()
	var table Table
	table.Add(Upstream, Figure{Name: "time", Unit: "s", AtMost: 0.7}, 4)
	table.Add(Ours, Figure{Name: "time", Unit: "s", AtMost: 0.7}, 3)
	table.Add(Upstream, Figure{Name: "memory at rest", Unit: "MiB", AtMost: 0.5}, 100)
	table.Add(Plain, Figure{Name: "memory at rest", Unit: "MiB", AtMost: 0.5}, 60)
	table.Add(Plain, Figure{Name: "memory at rest", Unit: "MiB", AtMost: 0.5}, 40)
	var out bytes.Buffer
	var short *MissedError
	if err := table.Print(&out, Text); !errors.As(err, &short) || err.Error() != "time: at most 0.70: missed" {
		t.Errorf("got error %v", err)
	}
	_, got, _ := bytes.Cut(out.Bytes(), []byte("\n\n"))
	const want = `FIGURE           UNIT   UPSTREAM   OURS   RATIO   WITHOUT PROFILE       RATIO   WANTED
time             s      4.00       3.00   0.75                                  at most 0.70: missed
memory at rest   MiB    100.0                     50.0 (40.0 to 60.0)   0.50    at most 0.50: not measured
`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestTable_verdict(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name      string
		aim       float64
		printOnly bool
		fails     bool
	}{{"reached", 0.75, false, false}, {"missed", 0.7, false, true}, {"missed, and only printed", 0.7, true, false}}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			table := Table{PrintOnly: test.printOnly}
			table.Add(Upstream, Figure{Name: "time", Unit: "s", AtMost: test.aim}, 4)
			table.Add(Ours, Figure{Name: "time", Unit: "s", AtMost: test.aim}, 3)
			if err := table.Print(io.Discard, Text); (err != nil) != test.fails {
				t.Errorf("got error %v", err)
			}
		})
	}
}

func TestTable_json(t *testing.T) {
	t.Parallel()
	var table Table
	table.Add(Upstream, Figure{Name: "time", Unit: "s", AtMost: 0.7, Within: 60}, 4)
	table.Add(Ours, Figure{Name: "time", Unit: "s", AtMost: 0.7, Within: 60}, 3)
	table.Add(Upstream, Figure{Name: "memory", Unit: "MiB"}, 100)
	var out bytes.Buffer
	var short *MissedError
	if err := table.Print(&out, JSON); !errors.As(err, &short) {
		t.Errorf("got error %v", err)
	}
	var got struct{ Figures []map[string]any }
	if err := json.Unmarshal(out.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	want := []map[string]any{
		{"name": "time", "unit": "s", "atMost": 0.7, "within": 60.0, "upstream": 4.0, "ours": 3.0, "plain": nil, "ratio": 0.75, "plainRatio": nil, "verdict": "missed", "values": []any{[]any{4.0}, []any{3.0}, nil}},
		{"name": "memory", "unit": "MiB", "upstream": 100.0, "ours": nil, "plain": nil, "ratio": nil, "plainRatio": nil, "values": []any{[]any{100.0}, nil, nil}},
	}
	if diff := cmp.Diff(want, got.Figures); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestFormat(t *testing.T) {
	t.Parallel()
	for name, fine := range map[string]bool{"table": true, "json": true, "yaml": false, "": false} {
		if err := new(Format).Set(name); (err == nil) != fine {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestMedian(t *testing.T) {
	t.Parallel()
	for _, values := range [][]time.Duration{{3}, {9, 1, 3}, {4, 1, 9, 2}} {
		if got := Median(values); got != 3 {
			t.Errorf("of %v: %d, want 3", values, got)
		}
	}
	if got := Median[float64](nil); got != 0 {
		t.Errorf("of none: %v, want 0", got)
	}
}

func TestSides(t *testing.T) {
	t.Parallel()
	for list, want := range map[string]string{"ours": "ours", "ours,upstream": "ours,upstream", "": "", "theirs": "", "ours,": ""} {
		var s Sides
		if err := s.Set(list); (err == nil) != (want != "") {
			t.Errorf("Set(%q): %v", list, err)
		}
		if got := s.String(); want != "" && got != want {
			t.Errorf("Set(%q) = %s", list, got)
		}
	}
}

func TestSides_InRun(t *testing.T) {
	t.Parallel()
	s := Sides{Upstream, Ours, Plain}
	want := [][]Side{{Upstream, Ours, Plain}, {Plain, Ours, Upstream}, {Upstream, Ours, Plain}}
	for run, want := range want {
		if diff := cmp.Diff(want, s.InRun(run)); diff != "" {
			t.Errorf("run %d, -want +got:\n%s", run, diff)
		}
	}
}

func TestPercentile(t *testing.T) {
	t.Parallel()
	values := []float64{5, 1, 4, 2, 3}
	for q, want := range map[float64]float64{0: 1, 0.5: 3, 0.99: 5, 1: 5} {
		if got := Percentile(values, q); got != want {
			t.Errorf("%v: got %v, want %v", q, got, want)
		}
	}
}
