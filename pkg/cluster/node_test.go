// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"minik8s.io/minik8s/pkg/kubelet/configuration"
)

// A sign of life waits neither for an answer that is lost nor for what else the kubelet has to say.
func TestHeartbeats(t *testing.T) {
	for _, tc := range []struct {
		status time.Duration
		lease  int32
		want   time.Duration
	}{
		{status: 0, lease: 0, want: 10 * time.Second},
		{status: time.Minute, lease: 20, want: 20 * time.Second},
		{status: 5 * time.Second, lease: 40, want: 5 * time.Second},
	} {
		settings := configuration.Default()
		if tc.lease > 0 {
			settings.NodeStatusUpdateFrequency.Duration, settings.NodeLeaseDurationSeconds = tc.status, tc.lease
		}
		shared := &rest.Config{QPS: 5, Burst: 10}
		if got := heartbeats(shared, settings); got.Timeout != tc.want || got.QPS >= 0 {
			t.Errorf("status every %v, lease of %d s: gives up after %v, %v a second", tc.status, tc.lease, got.Timeout, got.QPS)
		}
		if shared.Timeout != 0 || shared.QPS != 5 {
			t.Errorf("the client of all else is another one: %+v", shared)
		}
	}
}
