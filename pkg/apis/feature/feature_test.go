// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package feature

import (
	"testing"

	"k8s.io/component-base/featuregate"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
)

func TestEnabled(t *testing.T) {
	if Enabled(GenericWorkload) {
		t.Error("a beta feature that upstream has off is on")
	}
	featuregatetesting.SetFeatureGateDuringTest(t, Gates, GenericWorkload, true)
	if !Enabled(GenericWorkload) {
		t.Error("it does not go on")
	}
}

func TestKnown(t *testing.T) {
	for gate, want := range map[featuregate.Feature]bool{GenericWorkload: true, "NodeSwap": true, "ContextualLogging": true, "AllAlpha": true, "X": false} {
		if got := Known(gate); got != want {
			t.Errorf("%s: %v", gate, got)
		}
	}
}
