// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"

	"minik8s.io/minik8s/pkg/kubelet/container/fake"
)

// TestDescriber_EngineAway: a node whose engine is away for as long as a restart takes stays Ready.
func TestDescriber_EngineAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine := fake.New(fake.Config{})
		var blocked error
		d := &Describer{
			Name: "n1", Runtime: engine, Clock: clock.RealClock{},
			Resources: Resources{
				Host: Host{Root: "/"}, Dir: t.TempDir(), Reserved: func(corev1.ResourceList) []corev1.ResourceList { return nil },
				Devices: func() (all, healthy corev1.ResourceList) { return nil, nil },
			},
			NotReady: func() error { return blocked }, Pressure: func() []corev1.NodeConditionType { return nil },
			VolumesInUse: func() []corev1.UniqueVolumeName { return nil },
		}
		for _, step := range []struct {
			away    bool
			blocked error
			pass    time.Duration
			want    string
		}{
			{pass: 0},
			{away: true, pass: 10 * time.Second},
			{away: true, pass: 20 * time.Second},
			{away: true, pass: time.Second, want: "container runtime is down"},
			{away: true, pass: time.Second, blocked: errors.New("no network"), want: "no network"},
			{pass: 0},
			{away: true, pass: 30 * time.Second},
		} {
			blocked = step.blocked
			engine.SetUnavailable(step.away)
			<-time.After(step.pass)
			if got := d.Machine(t.Context()).NotReady; got != step.want {
				t.Errorf("%+v: not ready: %q", step, got)
			}
		}
	})
}
