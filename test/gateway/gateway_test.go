// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package gateway is the Gateway API's own conformance suite, told what the router is to be able to do. Touch it when the router
// learns a feature, or for another version of the suite. The flags are the suite's.
package gateway

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	"sigs.k8s.io/gateway-api/conformance"
	confv1 "sigs.k8s.io/gateway-api/conformance/apis/v1"
	"sigs.k8s.io/gateway-api/conformance/tests"
	"sigs.k8s.io/gateway-api/conformance/utils/suite"
	"sigs.k8s.io/gateway-api/pkg/features"
)

// The addresses that run has the router take for Gateways are 198.18.53.0/24.
const usable, unusable = "198.18.53.200", "192.0.2.1"

func TestConformance(t *testing.T) {
	options := conformance.DefaultOptions(t)
	options.Implementation = confv1.Implementation{
		Organization: "minik8s.io", Project: "minik8s", URL: "https://minik8s.io", Version: "devel", Contact: []string{"https://minik8s.io"},
	}
	options.ConformanceProfiles = []suite.ConformanceProfileName{
		suite.GatewayHTTPConformanceProfileName, suite.GatewayGRPCConformanceProfileName, suite.GatewayTLSConformanceProfileName,
		suite.GatewayTCPConformanceProfileName, suite.GatewayUDPConformanceProfileName,
	}
	for _, f := range features.AllFeatures.UnsortedList() {
		if !features.MeshCoreFeatures.Has(f) && !features.MeshExtendedFeatures.Has(f) {
			options.SupportedFeatures = append(options.SupportedFeatures, f.Name)
		}
	}
	claimed(t, options)
	kind := gatewayv1.IPAddressType
	options.UsableNetworkAddresses = []gatewayv1.GatewaySpecAddress{{Type: &kind, Value: usable}}
	options.UnusableNetworkAddresses = []gatewayv1.GatewaySpecAddress{{Type: &kind, Value: unusable}}

	r := &results{failed: map[string]bool{}}
	for i := range tests.ConformanceTests {
		r.watch(&tests.ConformanceTests[i])
	}
	t.Cleanup(func() { fmt.Print(r.table(tests.ConformanceTests, options.SupportedFeatures)) })
	conformance.RunConformanceWithOptions(t, options)
}

// claimed fails unless the class says that the router has the features that are tested, and no other.
func claimed(t *testing.T, options suite.ConformanceOptions) {
	t.Helper()
	var class gatewayv1.GatewayClass
	if err := options.Client.Get(t.Context(), client.ObjectKey{Name: options.GatewayClassName}, &class); err != nil {
		t.Fatal(err)
	}
	want := make([]gatewayv1.SupportedFeature, 0, len(options.SupportedFeatures))
	for _, f := range slices.Sorted(slices.Values(options.SupportedFeatures)) {
		want = append(want, gatewayv1.SupportedFeature{Name: gatewayv1.FeatureName(f)})
	}
	if !slices.Equal(want, class.Status.SupportedFeatures) {
		t.Errorf("features of the class: %v\nthose that are tested: %v", class.Status.SupportedFeatures, want)
	}
}

// results are those of the tests that ran.
type results struct {
	mu     sync.Mutex
	failed map[string]bool // by name of test; guarded by mu
}

// watch has a test leave its result here.
func (r *results) watch(test *suite.ConformanceTest) {
	run, name := test.Test, test.ShortName
	test.Test = func(t *testing.T, s *suite.ConformanceTestSuite) {
		t.Cleanup(func() {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.failed[name] = t.Failed()
		})
		run(t, s)
	}
}

// table counts the tests of each feature. A test counts for all features that it needs.
func (r *results) table(all []suite.ConformanceTest, supported []features.FeatureName) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	type count struct{ passed, failed int }
	counts, total := map[features.FeatureName]*count{}, count{}
	var failed []string
	for _, f := range supported {
		counts[f] = &count{}
	}
	for _, test := range all {
		bad, ran := r.failed[test.ShortName]
		if !ran {
			continue
		}
		for _, f := range test.Features {
			if counts[f] == nil {
				counts[f] = &count{}
			}
			if bad {
				counts[f].failed++
			} else {
				counts[f].passed++
			}
		}
		if bad {
			total.failed++
			failed = append(failed, test.ShortName)
		} else {
			total.passed++
		}
	}
	names := make([]string, 0, len(counts))
	for f, c := range counts {
		if c.passed+c.failed > 0 {
			names = append(names, string(f))
		}
	}
	slices.Sort(names)
	var out strings.Builder
	fmt.Fprintf(&out, "\n%-66s passed failed\n", "feature")
	for _, name := range names {
		c := counts[features.FeatureName(name)]
		fmt.Fprintf(&out, "%-66s %6d %6d\n", name, c.passed, c.failed)
	}
	fmt.Fprintf(&out, "%-66s %6d %6d\n", "tests", total.passed, total.failed)
	for _, name := range failed {
		fmt.Fprintf(&out, "failed: %s\n", name)
	}
	return out.String()
}
