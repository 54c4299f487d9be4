// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package flags

import (
	"maps"
	"slices"
	"strings"
	"testing"

	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/featuregate"

	"minik8s.io/minik8s/pkg/apis/feature"
)

// gates are the process's own, with their defaults, to be changed by a test.
func gates(t *testing.T) featuregate.MutableVersionedFeatureGate {
	t.Helper()
	feature.AddUpstream()
	return utilfeature.DefaultMutableFeatureGate.DeepCopy()
}

// Every gate that the libraries bring is switched by them, or refused, or locked. Whoever upgrades them decides about new ones.
func TestEveryGateIsJudged(t *testing.T) {
	t.Parallel()
	all, kept := gates(t).GetAll(), keep()
	for name, spec := range all {
		switch _, refused := kept[name]; {
		case refused && slices.Contains(switchable, name):
			t.Errorf("%s is in two lists", name)
		case !refused && !slices.Contains(switchable, name) && !spec.LockToDefault:
			t.Errorf("%s=%t is in no list: does this server do what it switches?", name, spec.Default)
		}
	}
	for _, name := range append(slices.Clone(switchable), slices.Collect(maps.Keys(unhonoured))...) {
		if _, known := all[name]; !known {
			t.Errorf("%s is gone: remove it from its list", name)
		}
	}
}

func TestCheckGates(t *testing.T) {
	t.Parallel()
	for name, spec := range gates(t).GetAll() {
		if name == "AllAlpha" || name == "AllBeta" {
			continue // they stand for others
		}
		t.Run(string(name), func(t *testing.T) {
			t.Parallel()
			why, kept := keep()[name]
			for _, value := range []bool{true, false} {
				g := gates(t)
				err := g.SetFromMap(map[string]bool{string(name): value})
				if err == nil {
					err = CheckGates(g)
				}
				switch {
				case value == spec.Default && err != nil:
					t.Errorf("the default is refused: %v", err)
				case value == spec.Default:
				case (kept || spec.LockToDefault) && err == nil:
					t.Errorf("%s=%t is accepted, with nothing behind", name, value)
				case kept && !spec.LockToDefault && !strings.Contains(err.Error(), why):
					t.Errorf("error is %v, want %q", err, why)
				case !kept && !spec.LockToDefault && err != nil:
					t.Errorf("%s=%t is refused: %v", name, value, err)
				}
			}
		})
	}
}

// What switches many gates at once switches none of those that nothing stands behind.
func TestCheckGates_All(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name  string
		value bool
		want  string
	}{
		{"AllAlpha", true, "feature gate APIServerWebhookAuthenticationToken=true is not supported: tokens are not bound to webhooks"},
		{"AllAlpha", false, ""},
		{"AllBeta", false, "feature gate APIServerIdentity=false is not supported"},
	} {
		g := gates(t)
		if err := g.SetFromMap(map[string]bool{tc.name: tc.value}); err != nil {
			t.Fatal(err)
		}
		err := CheckGates(g)
		if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s=%t: %v, want %q", tc.name, tc.value, err, tc.want)
		}
	}
}
