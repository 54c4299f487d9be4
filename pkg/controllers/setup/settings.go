// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package setup

import (
	"fmt"
	"reflect"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Settings are what flags of kube-controller-manager set. Each is named after its flag and means the same; nil is the flag's default.
// https://kubernetes.io/docs/reference/command-line-tools-reference/kube-controller-manager/
type Settings struct {
	// NodeMonitorGracePeriod is how long a node may be silent before it counts as unhealthy, NodeStartupGracePeriod how long a new one;
	// default 50s and 1m.
	NodeMonitorGracePeriod *metav1.Duration `json:"nodeMonitorGracePeriod,omitempty"`
	NodeStartupGracePeriod *metav1.Duration `json:"nodeStartupGracePeriod,omitempty"`
	// NodeEvictionRate is of how many nodes of a zone pods are evicted a second, SecondaryNodeEvictionRate of how many where the share
	// UnhealthyZoneThreshold of the nodes, and at least three, is not ready, and there are more than LargeClusterSizeThreshold nodes;
	// where there are not, it is none. Default 0.1, 0.01, 0.55 and 50.
	NodeEvictionRate          *float64 `json:"nodeEvictionRate,omitempty"`
	SecondaryNodeEvictionRate *float64 `json:"secondaryNodeEvictionRate,omitempty"`
	UnhealthyZoneThreshold    *float64 `json:"unhealthyZoneThreshold,omitempty"`
	LargeClusterSizeThreshold *int32   `json:"largeClusterSizeThreshold,omitempty"`
	// TerminatedPodGCThreshold is how many pods that have ended are kept; 0 and less are all. Default 12500.
	TerminatedPodGCThreshold *int32 `json:"terminatedPodGCThreshold,omitempty"`
	// ClusterSigningDuration is how long certificates last that do not ask for less; default 8760h.
	ClusterSigningDuration *metav1.Duration `json:"clusterSigningDuration,omitempty"`
	// HorizontalPodAutoscalerSyncPeriod is the time between two looks at an autoscaler; default 15s.
	HorizontalPodAutoscalerSyncPeriod *metav1.Duration `json:"horizontalPodAutoscalerSyncPeriod,omitempty"`
	// HorizontalPodAutoscalerDownscaleStabilization is how long a recommendation keeps the number of pods from falling below it, where
	// behavior.scaleDown.stabilizationWindowSeconds of an autoscaler says nothing else; default 5m.
	HorizontalPodAutoscalerDownscaleStabilization *metav1.Duration `json:"horizontalPodAutoscalerDownscaleStabilization,omitempty"`
	// HorizontalPodAutoscalerTolerance is how far from its target a usage may be, as a part of it, where behavior.*.tolerance of an
	// autoscaler says nothing else; default 0.1.
	HorizontalPodAutoscalerTolerance *float64 `json:"horizontalPodAutoscalerTolerance,omitempty"`
	// HorizontalPodAutoscalerCPUInitializationPeriod is how long after its start a pod's processor time may be that of its start;
	// default 5m.
	HorizontalPodAutoscalerCPUInitializationPeriod *metav1.Duration `json:"horizontalPodAutoscalerCPUInitializationPeriod,omitempty"`
	// HorizontalPodAutoscalerInitialReadinessDelay is within which time after its start a pod that becomes unready has never been
	// ready; default 30s.
	HorizontalPodAutoscalerInitialReadinessDelay *metav1.Duration `json:"horizontalPodAutoscalerInitialReadinessDelay,omitempty"`
}

// DefaultSettings returns those of kube-controller-manager, all of them set.
func DefaultSettings() Settings {
	lasting := func(d time.Duration) *metav1.Duration { return &metav1.Duration{Duration: d} }
	return Settings{
		NodeMonitorGracePeriod:                         lasting(50 * time.Second),
		NodeStartupGracePeriod:                         lasting(time.Minute),
		NodeEvictionRate:                               new(0.1),
		SecondaryNodeEvictionRate:                      new(0.01),
		UnhealthyZoneThreshold:                         new(0.55),
		LargeClusterSizeThreshold:                      new(int32(50)),
		TerminatedPodGCThreshold:                       new(int32(12500)),
		ClusterSigningDuration:                         lasting(365 * 24 * time.Hour),
		HorizontalPodAutoscalerSyncPeriod:              lasting(15 * time.Second),
		HorizontalPodAutoscalerDownscaleStabilization:  lasting(5 * time.Minute),
		HorizontalPodAutoscalerTolerance:               new(0.1),
		HorizontalPodAutoscalerCPUInitializationPeriod: lasting(5 * time.Minute),
		HorizontalPodAutoscalerInitialReadinessDelay:   lasting(30 * time.Second),
	}
}

// Completed returns the settings with the defaults of those that are nil.
func (s Settings) Completed() Settings {
	all := DefaultSettings()
	to := reflect.ValueOf(&all).Elem()
	for field, value := range reflect.ValueOf(s).Fields() {
		if !value.IsNil() {
			to.FieldByIndex(field.Index).Set(value)
		}
	}
	return all
}

// Validate returns what is wrong with the first setting that is. Of most durations nothing is as good as a little.
func (s Settings) Validate() error {
	for _, d := range []struct {
		name  string
		value *metav1.Duration
		least time.Duration
	}{
		{"nodeMonitorGracePeriod", s.NodeMonitorGracePeriod, time.Second},
		{"nodeStartupGracePeriod", s.NodeStartupGracePeriod, 0},
		{"clusterSigningDuration", s.ClusterSigningDuration, time.Second},
		{"horizontalPodAutoscalerSyncPeriod", s.HorizontalPodAutoscalerSyncPeriod, time.Second},
		{"horizontalPodAutoscalerDownscaleStabilization", s.HorizontalPodAutoscalerDownscaleStabilization, 0},
		{"horizontalPodAutoscalerCPUInitializationPeriod", s.HorizontalPodAutoscalerCPUInitializationPeriod, 0},
		{"horizontalPodAutoscalerInitialReadinessDelay", s.HorizontalPodAutoscalerInitialReadinessDelay, 0},
	} {
		if d.value != nil && d.value.Duration < d.least {
			return fmt.Errorf("%s must be at least %v, is %v", d.name, d.least, d.value.Duration)
		}
	}
	for _, n := range []struct {
		name  string
		value *float64
	}{
		{"nodeEvictionRate", s.NodeEvictionRate},
		{"secondaryNodeEvictionRate", s.SecondaryNodeEvictionRate},
		{"unhealthyZoneThreshold", s.UnhealthyZoneThreshold},
		{"horizontalPodAutoscalerTolerance", s.HorizontalPodAutoscalerTolerance},
	} {
		if n.value != nil && !(*n.value >= 0) {
			return fmt.Errorf("%s must be at least 0, is %v", n.name, *n.value)
		}
	}
	return nil
}
