// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package outcome

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const events = `{"Action":"start","Package":"x/suite"}
{"Action":"run","Package":"x/suite","Test":"TestSource"}
{"Action":"output","Package":"x/suite","Test":"TestSource","Output":"\u001b[38;5;9m\u001b[1m[FAIL]\u001b[0m Client should list\n"}
{"Action":"output","Package":"x/suite","Test":"TestSource","Output":"FAIL! -- "}
{"Action":"output","Package":"x/suite","Test":"TestSource","Output":"\u001b[1m27 Passed\u001b[0m | 1 Failed | 0 Pending | 0 Skipped\n"}
{"Action":"fail","Package":"x/suite","Test":"TestSource","Elapsed":2}
{"Action":"pass","Package":"x/suite","Test":"TestParse/one","Elapsed":0}
{"Action":"pass","Package":"x/suite","Test":"TestParse","Elapsed":0}
{"Action":"fail","Package":"x/suite","Elapsed":2.5}
{"Action":"output","Package":"x/broken","Output":"FAIL\tx/broken [build failed]\n"}
{"Action":"fail","Package":"x/broken","Elapsed":0}
{"Action":"output","Package":"x/none","Output":"?   \tx/none\t[no test files]\n"}
{"Action":"skip","Package":"x/none","Elapsed":0}
{"Action":"pass","Package":"x/fine","Test":"TestOne","Elapsed":0.1}
{"Action":"pass","Package":"x/fine","Elapsed":0.1}
`

func TestRead(t *testing.T) {
	got, err := Read("minik8s", strings.NewReader(events))
	if err != nil {
		t.Fatal(err)
	}
	want := Run{Name: "minik8s", Packages: map[string]*Package{
		"x/suite":  {Passed: 28, Failed: []string{"Client should list"}, Elapsed: 2500 * time.Millisecond},
		"x/broken": {Failed: []string{"the package (does it compile?)"}},
		"x/fine":   {Passed: 1, Elapsed: 100 * time.Millisecond},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestRead_NoJSON(t *testing.T) {
	if _, err := Read("minik8s", strings.NewReader("go: no such package\n")); err == nil {
		t.Error("no error")
	}
}

func TestMissing(t *testing.T) {
	run := func(packages map[string][]string) Run {
		r := Run{Packages: map[string]*Package{}}
		for name, failed := range packages {
			r.Packages[name] = &Package{Failed: failed}
		}
		return r
	}
	want := run(map[string][]string{"a": {"net"}, "b": nil, "c": nil})
	got := run(map[string][]string{"a": {"net", "list"}, "b": {"watch"}})
	if diff := cmp.Diff([]string{"a: list", "b: watch", "c: no result"}, Missing(want, got)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestTable(t *testing.T) {
	r := Run{Name: "minik8s", Elapsed: 9 * time.Second, Packages: map[string]*Package{
		"fast": {Passed: 2, Elapsed: time.Millisecond},
		"slow": {Passed: 3, Elapsed: 3 * time.Second},
		"bad":  {Passed: 1, Failed: []string{"x"}},
	}}
	var got [][]string
	for _, line := range Table([]Run{r}) {
		got = append(got, strings.Fields(line))
	}
	want := [][]string{
		{"package", "minik8s", "passed", "failed"},
		{"slow", "3.0s", "3", "0"},
		{"bad", "0.0s", "1", "1"},
		{"all", "packages", "3.0s", "6", "1"},
		{"the", "whole", "run,", "with", "compilation", "9.0s"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
