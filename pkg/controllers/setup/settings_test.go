// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package setup

import (
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestSettings_Completed(t *testing.T) {
	for field, value := range reflect.ValueOf(Settings{}.Completed()).Fields() {
		if value.IsNil() {
			t.Errorf("%s has no default", field.Name)
		}
	}
	want := DefaultSettings()
	want.NodeMonitorGracePeriod = &metav1.Duration{Duration: time.Second}
	want.TerminatedPodGCThreshold = new(int32(0))
	got := Settings{NodeMonitorGracePeriod: want.NodeMonitorGracePeriod, TerminatedPodGCThreshold: new(int32(0))}.Completed()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("two that are set (-want +got):\n%s", diff)
	}
}

func TestSettings_Validate(t *testing.T) {
	lasting := func(d time.Duration) *metav1.Duration { return &metav1.Duration{Duration: d} }
	for _, tt := range []struct {
		name     string
		settings Settings
		want     string // what the error begins with; "" is none
	}{
		{"none", Settings{}, ""},
		{"defaults", DefaultSettings(), ""},
		{"nothing where it may be", Settings{
			HorizontalPodAutoscalerTolerance: new(0.0), HorizontalPodAutoscalerDownscaleStabilization: lasting(0), NodeEvictionRate: new(0.0), TerminatedPodGCThreshold: new(int32(-1)),
		}, ""},
		{"no patience", Settings{NodeMonitorGracePeriod: lasting(0)}, "nodeMonitorGracePeriod must be at least 1s, is 0s"},
		{"always", Settings{HorizontalPodAutoscalerSyncPeriod: lasting(time.Millisecond)}, "horizontalPodAutoscalerSyncPeriod must"},
		{"the future", Settings{HorizontalPodAutoscalerDownscaleStabilization: lasting(-time.Second)}, "horizontalPodAutoscalerDownscaleStabilization must"},
		{"a negative rate", Settings{SecondaryNodeEvictionRate: new(-0.1)}, "secondaryNodeEvictionRate must be at least 0, is -0.1"},
		{"no number", Settings{HorizontalPodAutoscalerTolerance: new(math.NaN())}, "horizontalPodAutoscalerTolerance must"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := tt.settings.Validate()
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.HasPrefix(err.Error(), tt.want)) {
				t.Errorf("error %v, want %q", err, tt.want)
			}
		})
	}
}
