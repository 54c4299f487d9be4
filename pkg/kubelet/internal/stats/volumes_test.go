// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package stats

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	statsv1alpha1 "k8s.io/kubelet/pkg/apis/stats/v1alpha1"
	"k8s.io/utils/clock"

	"minik8s.io/minik8s/pkg/kubelet/internal/volume"
)

// TestVolumes_Hang checks that a file system that hangs holds up neither the figures of others nor the end.
func TestVolumes_Hang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pods := []*corev1.Pod{{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", UID: "hangs"}}, {ObjectMeta: metav1.ObjectMeta{Namespace: "ns", UID: "u"}}}
		v := NewVolumes(VolumesConfig{
			Clock: clock.RealClock{}, Period: time.Minute, Pods: func() []*corev1.Pod { return pods },
			Places: func(p *corev1.Pod) []volume.Place {
				return []volume.Place{{Name: "broken", Path: "broken"}, {Name: "v", Path: string(p.UID), Claim: "data"}}
			},
		})
		var asked atomic.Int32
		mended := make(chan struct{})
		v.measure = func(_ context.Context, p volume.Place) (statsv1alpha1.FsStats, error) {
			switch p.Path {
			case "broken":
				return statsv1alpha1.FsStats{}, errors.New("no such luck")
			case "hangs":
				asked.Add(1)
				<-mended
			}
			return statsv1alpha1.FsStats{UsedBytes: new(uint64(5))}, nil
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); v.Start(ctx) }()
		<-time.After(volumePatience + time.Second)
		want := []statsv1alpha1.VolumeStats{{Name: "v", FsStats: statsv1alpha1.FsStats{UsedBytes: new(uint64(5))}, PVCRef: &statsv1alpha1.PVCReference{Namespace: "ns", Name: "data"}}}
		if diff := cmp.Diff(want, v.Of("u")); diff != "" || len(v.Of("hangs")) > 0 {
			t.Errorf("(-want +got):\n%s", diff)
		}
		<-time.After(3 * time.Minute)
		if asked.Load() != 1 {
			t.Errorf("what hangs was asked %d times", asked.Load())
		}
		cancel()
		<-ended
		close(mended)
		synctest.Wait()
		if len(v.Of("hangs")) != 1 || len(v.All()) != 2 {
			t.Errorf("after it went on: %v", v.All())
		}
		deleted := *pods[0]
		deleted.DeletionTimestamp = new(metav1.Now())
		pods = []*corev1.Pod{&deleted}
		v.look(t.Context())
		if got := v.All(); len(got) != 1 || asked.Load() != 1 {
			t.Errorf("of a pod that is being deleted the last figures count: %v, asked %d times", got, asked.Load())
		}
		pods = nil
		v.look(t.Context())
		if got := v.All(); len(got) > 0 {
			t.Errorf("figures of pods that are gone: %v", got)
		}
	})
}

// A volume that hangs does not keep the others of its pod from new figures, and keeps its own.
func TestVolumes_OneHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", UID: "u"}}
		v := NewVolumes(VolumesConfig{
			Clock: clock.RealClock{}, Period: time.Minute, Pods: func() []*corev1.Pod { return []*corev1.Pod{pod} },
			Places: func(*corev1.Pod) []volume.Place { return []volume.Place{{Name: "hangs"}, {Name: "later"}} },
		})
		size := uint64(5)
		v.measure = func(ctx context.Context, p volume.Place) (statsv1alpha1.FsStats, error) {
			if p.Name == "hangs" && size > 5 {
				<-ctx.Done()
				<-time.After(time.Hour) // in the kernel, which knows of no context
			}
			return statsv1alpha1.FsStats{UsedBytes: new(size)}, ctx.Err()
		}
		figures := func() (out []uint64) {
			for _, s := range v.Of("u") {
				out = append(out, *s.UsedBytes)
			}
			return out
		}
		v.look(t.Context())
		if diff := cmp.Diff([]uint64{5, 5}, figures()); diff != "" {
			t.Errorf("at first (-want +got):\n%s", diff)
		}
		size = 7
		v.look(t.Context())
		if diff := cmp.Diff([]uint64{5, 7}, figures()); diff != "" {
			t.Errorf("while one hangs (-want +got):\n%s", diff)
		}
		<-time.After(2 * time.Hour)
		if diff := cmp.Diff([]uint64{7}, figures()); diff != "" {
			t.Errorf("when it has failed (-want +got):\n%s", diff)
		}
	})
}

func TestFromDisk(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, size int) {
		t.Helper()
		file := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, make([]byte, size), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	v := NewVolumes(VolumesConfig{Clock: clock.RealClock{}})
	empty, err := v.fromDisk(t.Context(), volume.Place{Path: dir})
	if err != nil {
		t.Fatal(err)
	}
	write("a/one", 8192)
	if err := errors.Join(os.Link(filepath.Join(dir, "a/one"), filepath.Join(dir, "two")), os.Symlink("/", filepath.Join(dir, "root"))); err != nil {
		t.Fatal(err)
	}
	got, err := v.fromDisk(t.Context(), volume.Place{Path: dir})
	// The file counts once, the link is not followed; there is a directory more.
	if grown := *got.UsedBytes - *empty.UsedBytes; err != nil || grown < 8192 || grown > 8192+3*4096 || *got.InodesUsed != *empty.InodesUsed+3 {
		t.Errorf("%d bytes, %d inodes more, %v", *got.UsedBytes-*empty.UsedBytes, *got.InodesUsed-*empty.InodesUsed, err)
	}
	if *got.CapacityBytes == 0 || *got.Inodes == 0 {
		t.Errorf("file system %+v", got)
	}
	whole, err := v.fromDisk(t.Context(), volume.Place{Path: dir, Alone: true})
	if err != nil || *whole.CapacityBytes != *got.CapacityBytes || *whole.UsedBytes > *whole.CapacityBytes {
		t.Errorf("of a claim: %+v, %v", whole, err)
	}
	for _, path := range []string{filepath.Join(dir, "absent"), filepath.Join(dir, "two")} {
		if _, err := v.fromDisk(t.Context(), volume.Place{Path: path}); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: %v", path, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := v.fromDisk(ctx, volume.Place{Path: dir}); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end: %v", err)
	}
}

func TestLogFiles(t *testing.T) {
	dir := filepath.Join(t.TempDir(), `[*?\`)
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, size := range map[string]int{"x-json.log": 100, "x-json.log.1": 30, "config.json": 7} {
		if err := os.WriteFile(filepath.Join(dir, name), make([]byte, size), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got := logFiles(filepath.Join(dir, "x-json.log"), time.Now())
	if got == nil || *got.UsedBytes != 130 || *got.InodesUsed != 2 || *got.CapacityBytes == 0 {
		t.Errorf("got %+v", got)
	}
	for _, path := range []string{"", filepath.Join(dir, "absent")} {
		if got := logFiles(path, time.Now()); got != nil {
			t.Errorf("%q: %+v", path, got)
		}
	}
}
