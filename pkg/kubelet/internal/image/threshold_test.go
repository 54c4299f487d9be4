// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"

	"minik8s.io/minik8s/pkg/kubelet/container/fake"
)

func TestExcess(t *testing.T) {
	for _, tc := range []struct {
		name                string
		available, capacity int64
		high, low           int32
		want                int64
	}{
		{"below", 160, 1000, 85, 80, 0},
		{"at the threshold", 150, 1000, 85, 80, 50},
		{"full", 0, 1000, 85, 80, 200},
		{"nothing known", 0, 0, 85, 80, 0},
		{"more available than there is", 2000, 1000, 85, 80, 0},
		{"always", 1000, 1000, 0, 0, 0},
	} {
		if got := excess(tc.available, tc.capacity, tc.high, tc.low); got != tc.want {
			t.Errorf("%s: %d, want %d", tc.name, got, tc.want)
		}
	}
}

// TestCollector_Start: that a disk is too full is told at once, and that images cannot be looked after when it is so for long.
func TestCollector_Start(t *testing.T) {
	const full = "Insufficient free disk space on the node's image filesystem (96% of 1.5 KiB used). Failed to free sufficient space by deleting unused " +
		"images (freed 0 bytes). Investigate disk usage, as it could be used by active images, logs, volumes, or other data."
	for _, tc := range []struct {
		name                string
		available, capacity int64
		want                []string
	}{
		{"room", 1 << 10, 1536, nil},
		{"full", 64, 1536, []string{"Warning FreeDiskSpaceFailed " + full, "Warning FreeDiskSpaceFailed " + full, "Warning ImageGCFailed " + full}},
		{"no disk", 0, 0, []string{
			"Warning InvalidDiskCapacity invalid capacity 0 on image filesystem",
			"Warning InvalidDiskCapacity invalid capacity 0 on image filesystem",
			"Warning ImageGCFailed invalid capacity 0 on image filesystem",
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				engine := fake.New(fake.Config{})
				defer engine.Close()
				p, err := New(Config{Runtime: engine, Clock: clock.RealClock{}})
				if err != nil {
					t.Fatal(err)
				}
				events := record.NewFakeRecorder(10)
				c := NewCollector(p, Limits{HighPercent: 85, LowPercent: 80, Disk: func(context.Context) (int64, int64, error) { return tc.available, tc.capacity, nil }})
				ctx, cancel := context.WithTimeout(t.Context(), collectEvery+time.Second)
				defer cancel()
				c.Start(ctx, events, &corev1.ObjectReference{Kind: "Node", Name: "n"})
				close(events.Events)
				var got []string
				for e := range events.Events {
					got = append(got, e)
				}
				if diff := cmp.Diff(tc.want, got); diff != "" {
					t.Error(diff)
				}
			})
		})
	}
}

func TestSize(t *testing.T) {
	for bytes, want := range map[int64]string{1: "1 B", 1023: "1023 B", 1024: "1.0 KiB", 3 << 19: "1.5 MiB", 10 << 30: "10.0 GiB", 1 << 52: "4096.0 TiB"} {
		if got := size(bytes); got != want {
			t.Errorf("%d: %s, want %s", bytes, got, want)
		}
	}
}
