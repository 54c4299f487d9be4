// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package networkpolicy is the Network Policy API's own conformance suite, told what nodes are to enforce. Touch it for another version
// of the suite. The flags are the suite's.
package networkpolicy

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/config"
	"sigs.k8s.io/network-policy-api/apis/v1alpha2"
	"sigs.k8s.io/network-policy-api/conformance/apis/v1alpha1"
	"sigs.k8s.io/network-policy-api/conformance/tests"
	"sigs.k8s.io/network-policy-api/conformance/utils/suite"
	"sigs.k8s.io/yaml"
)

func TestConformance(t *testing.T) {
	rest, err := config.GetConfig()
	if err != nil {
		t.Fatal(err)
	}
	rest.QPS = -1
	c, err := client.New(rest, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := v1alpha2.Install(c.Scheme()); err != nil {
		t.Fatal(err)
	}
	s, err := suite.NewConformanceProfileTestSuite(suite.ConformanceProfileOptions{
		Options: suite.Options{
			Client: c, ClientSet: kubernetes.NewForConfigOrDie(rest), KubeConfig: *rest, CleanupBaseResources: true, EnableAllSupportedFeatures: true,
		},
		Implementation: v1alpha1.Implementation{
			Organization: "minik8s.io", Project: "minik8s", URL: "https://minik8s.io", Version: "devel", Contact: []string{"https://minik8s.io"},
		},
		ConformanceProfiles: sets.New(suite.CNPConformanceProfileName),
	})
	if err != nil {
		t.Fatal(err)
	}
	only := os.Getenv("ONLY")
	var chosen []suite.ConformanceTest
	results := map[string]string{}
	for _, test := range tests.ConformanceTests {
		if only != "" && test.ShortName != only {
			continue
		}
		run := test.Test
		test.Test = func(t *testing.T, s *suite.ConformanceTestSuite) {
			results[test.ShortName] = "failed"
			t.Cleanup(func() {
				if !t.Failed() {
					results[test.ShortName] = "passed"
				}
			})
			run(t, s)
		}
		chosen = append(chosen, test)
	}
	if len(chosen) == 0 {
		t.Fatalf("the suite has no test %q", only)
	}
	t.Cleanup(func() { fmt.Print(table(chosen, results)) })
	s.Setup(t)
	s.Run(t, chosen)
	report, err := s.Report()
	if err != nil {
		t.Fatal(err)
	}
	text, err := yaml.Marshal(report)
	if err != nil {
		t.Fatal(err)
	}
	if path := os.Getenv("REPORT"); path != "" {
		if err := os.WriteFile(path, text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// table has a line for each test, and their numbers.
func table(all []suite.ConformanceTest, results map[string]string) string {
	var out strings.Builder
	count := map[string]int{}
	for _, test := range all {
		result := results[test.ShortName]
		if result == "" {
			result = "skipped"
		}
		count[result]++
		fmt.Fprintf(&out, "%s: %s\n", result, test.ShortName)
	}
	fmt.Fprintf(&out, "tests: %d passed, %d failed, %d skipped\n", count["passed"], count["failed"], count["skipped"])
	return out.String()
}
