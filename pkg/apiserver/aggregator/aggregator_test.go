// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package aggregator

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	featuregatetesting "k8s.io/component-base/featuregate/testing"

	"minik8s.io/minik8s/pkg/apis/feature"
	"minik8s.io/minik8s/pkg/registry/groups"
)

// TestPriorities_AllGroups fails for a group that is served and that no client would find.
func TestPriorities_AllGroups(t *testing.T) {
	featuregatetesting.SetFeatureGateDuringTest(t, feature.Gates, feature.GenericWorkload, true)
	for _, g := range groups.All() {
		for _, v := range g.Versions {
			if _, ok := priorities[schema.GroupVersion{Group: g.Name, Version: v.Name}]; !ok {
				t.Errorf("%s/%s has no priority", g.Name, v.Name)
			}
		}
	}
}

func TestBuiltInServices(t *testing.T) {
	var got []string
	for _, s := range builtInServices([]string{"/", "/api", "/api/v1", "/apis", "/apis/apps", "/apis/apps/v1", "/apis/unknown/v1", "/apis/apps/v1/x", "/healthz"}) {
		got = append(got, s.Name)
		if s.Spec.GroupPriorityMinimum < 17000 || s.Spec.Service != nil {
			t.Errorf("%s: %+v", s.Name, s.Spec)
		}
	}
	if diff := cmp.Diff([]string{"v1.", "v1.apps"}, got); diff != "" {
		t.Errorf("APIServices (-want +got):\n%s", diff)
	}
}

func TestServes(t *testing.T) {
	crds := []*apiextensionsv1.CustomResourceDefinition{{Spec: apiextensionsv1.CustomResourceDefinitionSpec{
		Group: "a", Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v1", Served: true}, {Name: "v2"}},
	}}}
	for gv, want := range map[schema.GroupVersion]bool{
		{Group: "a", Version: "v1"}: true, {Group: "a", Version: "v2"}: false, {Group: "a", Version: "v3"}: false, {Group: "b", Version: "v1"}: false,
	} {
		if got := serves(crds, gv); got != want {
			t.Errorf("serves %s = %t, want %t", gv, got, want)
		}
	}
}
