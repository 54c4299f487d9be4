// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const sample = `milestone,sig,test
M1a,sig-node,[sig-node] Lease should work [Conformance]
M3,sig-node,[sig-node] Pods (a+b) should run [Conformance]
M5,sig-apps,[sig-apps] Daemon set should run [Serial] [Conformance]
`

func TestChoice(t *testing.T) {
	tests, err := readTests(strings.NewReader(sample))
	if err != nil {
		t.Fatal(err)
	}
	lease, pods, daemons := tests[0], tests[1], tests[2]
	for _, tc := range []struct {
		name   string
		choice choice
		want   []test
	}{
		{name: "everything", want: tests},
		{name: "milestones", choice: choice{milestones: []string{"M1a", "M5"}}, want: []test{lease, daemons}},
		{name: "SIGs", choice: choice{sigs: []string{"sig-node"}}, want: []test{lease, pods}},
		{name: "focus", choice: choice{focus: regexp.MustCompile("Lease|Daemon")}, want: []test{lease, daemons}},
		{name: "parallel", choice: choice{order: "parallel"}, want: []test{lease, pods}},
		{name: "serial", choice: choice{order: "serial"}, want: []test{daemons}},
		{
			name:   "what failed is done again",
			choice: choice{done: map[string]outcome{lease.name: passed, pods.name: failed}},
			want:   []test{pods, daemons},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, tc.choice.of(tests), cmp.AllowUnexported(test{})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestFocusMatchesChosenTestsOnly(t *testing.T) {
	file, err := os.Open("../milestones.csv")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	tests, err := readTests(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, milestone := range []string{"M1a", "M3", "M11"} {
		pattern := regexp.MustCompile(focus(choice{milestones: []string{milestone}}.of(tests)))
		for _, each := range tests {
			if got, want := pattern.MatchString(each.name), each.milestone == milestone; got != want {
				t.Errorf("focus of %s matches %q: %t, want %t", milestone, each.name, got, want)
			}
		}
	}
}

func TestReadTestsRefusesOtherTables(t *testing.T) {
	if _, err := readTests(strings.NewReader("a,b\n1,2\n")); err == nil {
		t.Error("a table with other columns is read without an error")
	}
}

func TestReport(t *testing.T) {
	tests, err := readTests(strings.NewReader(sample))
	if err != nil {
		t.Fatal(err)
	}
	outcomes := map[string]outcome{}
	for _, junit := range []string{
		`<testsuites><testsuite>
			<testcase name="[It] [sig-node] Lease should work [Conformance]" status="failed"/>
			<testcase name="[It] [sig-node] Pods (a+b) should run [Conformance]" status="timedout"/>
			<testcase name="[It] [sig-apps] Daemon set should run [Serial] [Conformance]" status="skipped"/>
			<testcase name="[SynchronizedBeforeSuite]" status="passed"/>
		</testsuite></testsuites>`,
		`<testsuites><testsuite>
			<testcase name="[It] [sig-node] Lease should work [Conformance]" status="passed"/>
		</testsuite></testsuites>`,
	} {
		if err := readJUnit(strings.NewReader(junit), outcomes); err != nil {
			t.Fatal(err)
		}
	}
	var got strings.Builder
	if err := report(&got, tests, outcomes); err != nil {
		t.Fatal(err)
	}
	want := `MILESTONE  PASSED  FAILED  NOT RUN  TOTAL
M1a        1       0       0        1
M3         0       1       0        1
M5         0       0       1        1
all        1       1       1        3

SIG       PASSED  FAILED  NOT RUN  TOTAL
sig-node  1       1       0        2
sig-apps  0       0       1        1
all       1       1       1        3

failed   M3  [sig-node] Pods (a+b) should run [Conformance]
not run  M5  [sig-apps] Daemon set should run [Serial] [Conformance]
`
	if diff := cmp.Diff(want, got.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
