// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"

	"minik8s.io/minik8s/pkg/kubelet/container"
	"minik8s.io/minik8s/pkg/kubelet/container/fake"
)

// describer describes a node that is as it should be, on an engine.
func describer(t *testing.T, engine container.Runtime) *Describer {
	t.Helper()
	return &Describer{
		Name: "n1", Runtime: engine, Clock: clock.RealClock{}, MaxImages: 50,
		Resources: Resources{
			Host: Host{Root: "/"}, Dir: t.TempDir(), Reserved: func(corev1.ResourceList) []corev1.ResourceList { return nil },
			Devices: func() (all, healthy corev1.ResourceList) { return nil, nil },
		},
		NotReady: func() error { return nil }, Pressure: func() []corev1.NodeConditionType { return nil },
		VolumesInUse: func() []corev1.UniqueVolumeName { return nil },
	}
}

// slowLister is an engine that takes as long as wait says to list its images.
type slowLister struct {
	*fake.Runtime
	wait time.Duration
}

func (s *slowLister) Images(ctx context.Context) ([]*container.Image, error) {
	select {
	case <-time.After(s.wait):
		return []*container.Image{{RepoTags: []string{s.wait.String()}}}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// TestDescriber_SlowImages: what is told of a node waits for the list of images for a moment only, and that once a minute.
func TestDescriber_SlowImages(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		engine := &slowLister{Runtime: fake.New(fake.Config{})}
		d := describer(t, engine)
		for _, step := range []struct {
			pass, wait, took time.Duration
			want             string
		}{
			{wait: time.Second, took: time.Second, want: "1s"},
			{pass: 10 * time.Second, wait: time.Hour, want: "1s"},
			{pass: 50 * time.Second, wait: time.Hour, took: 5 * time.Second, want: "1s"},
			{pass: 10 * time.Second, wait: 2 * time.Second, want: "1s"},
			{pass: 50 * time.Second, wait: 2 * time.Second, took: 2 * time.Second, want: "2s"},
		} {
			<-time.After(step.pass)
			engine.wait = step.wait
			began := time.Now()
			m := d.Machine(t.Context())
			if took := time.Since(began); took != step.took || len(m.Images) != 1 || m.Images[0].Names[0] != step.want || m.NotReady != "" {
				t.Errorf("%+v: after %s %v, not ready: %q", step, took, m.Images, m.NotReady)
			}
		}
	})
}

// TestDescriber_EngineAway: a node whose engine is away for as long as a restart takes stays Ready.
func TestDescriber_EngineAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine := fake.New(fake.Config{})
		var blocked error
		d := describer(t, engine)
		d.NotReady = func() error { return blocked }
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
