// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"minik8s.io/minik8s/test/differential/compare"
)

func TestGroups(t *testing.T) {
	r := New()
	pod := Request{Kind: "pods", Change: "set -1 spec.x[0]"}
	r.Add(pod, []compare.Difference{{Check: "cause", Path: "Invalid spec.x[0]", Upstream: "-", Ours: "Invalid spec.x[0]"}})
	r.Add(pod, []compare.Difference{{Check: "cause", Path: "Invalid spec.x[7]", Upstream: "-", Ours: "Invalid spec.x[7]"}})
	r.Add(pod, []compare.Difference{{Check: "cause", Path: "Invalid spec.x[7]", Upstream: "Invalid spec.x[7]", Ours: "-"}})
	r.Add(Request{Kind: "nodes"}, nil)
	var got []string
	for _, f := range r.Findings() {
		got = append(got, strings.Join([]string{f.Kind, f.Check, f.Path, f.Upstream, f.Ours, strings.Repeat("|", f.Count)}, " "))
	}
	want := []string{"pods cause Invalid spec.x[*] - Invalid spec.x[0] ||", "pods cause Invalid spec.x[*] Invalid spec.x[7] - |"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if all, changed := r.Requests(); all != 4 || changed != 3 {
		t.Errorf("%d requests, %d changed", all, changed)
	}
}

func TestExplain(t *testing.T) {
	list, err := ReadExplanations(strings.NewReader("kind,check,path,reason\n# comment\npods,object,spec.*,because\nnodes,*,*,old\nevents,*,*,sometimes: late\n"))
	if err != nil {
		t.Fatal(err)
	}
	findings := []Finding{{Kind: "pods", Check: "object", Path: "spec.a"}, {Kind: "pods", Check: "cause", Path: "spec.a"}}
	unused := Explain(findings, list)
	if findings[0].Explained != "because" || findings[1].Explained != "" {
		t.Errorf("explained %q and %q", findings[0].Explained, findings[1].Explained)
	}
	if len(unused) != 1 || unused[0].Kind != "nodes" {
		t.Errorf("unused: %v", unused)
	}
	if summary := Summary(findings); strings.Contains(summary, "object") || !strings.Contains(summary, "cause") {
		t.Errorf("summary: %s", summary)
	}
	for _, bad := range []string{"", "a,b,c,d\n", "kind,check,path,reason\npods,object,x,\n", "kind,check,path,reason\npods\n"} {
		if _, err := ReadExplanations(strings.NewReader(bad)); err == nil {
			t.Errorf("%q is taken for a list of explanations", bad)
		}
	}
}

// TestExplain_Says: an explanation may name what is said, and then explains nothing else.
func TestExplain_Says(t *testing.T) {
	list, err := ReadExplanations(strings.NewReader("kind,check,path,reason\n*,code,500 -> 400 BadRequest: failed to*,because\npods,message,spec.a: *,words\n"))
	if err != nil {
		t.Fatal(err)
	}
	findings := []Finding{
		{Kind: "pods", Check: "code", Path: "500 -> 400 BadRequest", Says: "failed to create"}, {Kind: "pods", Check: "code", Path: "500 -> 400 BadRequest", Says: "etcd is gone"},
		{Kind: "pods", Check: "message", Says: "spec.a: must"}, {Kind: "pods", Check: "message", Says: "spec.b: must"},
	}
	if unused := Explain(findings, list); len(unused) != 0 {
		t.Errorf("unused: %v", unused)
	}
	for i, want := range []string{"because", "", "words", ""} {
		if findings[i].Explained != want {
			t.Errorf("%s is explained by %q, want %q", findings[i].Says, findings[i].Explained, want)
		}
	}
	if summary := Summary(findings); !strings.Contains(summary, "spec.b") && !strings.Contains(summary, "message") {
		t.Errorf("a message that differs is not told: %s", summary)
	}
}

func TestMatch(t *testing.T) {
	for _, c := range []struct {
		pattern, s string
		want       bool
	}{
		{"a", "a", true}, {"a", "ab", false}, {"a*", "ab", true}, {"*", "", true}, {"a*c*e", "abcde", true}, {"a*c*e", "abde", false}, {"*[*]", "x[*]", true}, {"ab*b", "ab", false},
	} {
		if got := match(c.pattern, c.s); got != c.want {
			t.Errorf("match(%q, %q) = %v", c.pattern, c.s, got)
		}
	}
}
