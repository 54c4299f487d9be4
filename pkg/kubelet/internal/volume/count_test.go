// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package volume

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	testingclock "k8s.io/utils/clock/testing"
)

// operations are those that somebody was told of.
type operations struct {
	mu  sync.Mutex // guards all
	all []string
}

func (o *operations) StorageOperation(plugin, operation string, _ time.Duration, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.all = append(o.all, fmt.Sprintf("%s %s %t", operation, plugin, err == nil))
}

func (o *operations) VolumeMounted(plugin string, took time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.all = append(o.all, fmt.Sprintf("whole %s %s", plugin, took))
}

func (o *operations) CSICall(string, string, time.Duration, error) {}

func (o *operations) ImageMounted(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.all = append(o.all, fmt.Sprint("image ", err == nil))
}

// told are those since the last call, by name.
func (o *operations) told() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	all := o.all
	o.all = nil
	slices.Sort(all)
	return all
}

func TestCounts(t *testing.T) {
	f := setUp(t)
	var o operations
	clock := testingclock.NewFakeClock(time.Unix(1700000000, 0))
	f.config.Operations, f.config.Clock = &o, clock
	check := func(what string, told []string, desired, actual map[string]int) {
		t.Helper()
		if diff := cmp.Diff(told, o.told()); diff != "" {
			t.Errorf("%s, told (-want +got):\n%s", what, diff)
		}
		d, a := f.Counts()
		if diff := cmp.Diff(desired, d) + cmp.Diff(actual, a); diff != "" {
			t.Errorf("%s, counts (-want +got):\n%s", what, diff)
		}
	}
	const empty, config, claim = "kubernetes.io/empty-dir", "kubernetes.io/configmap", "kubernetes.io/local-volume"
	pod := podWith(volumeOf("e", corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}), configMapVolume("c", "cm"),
		volumeOf("d", corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{Driver: "x.test"}}),
		volumeOf("p", corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "none"}}))
	all := map[string]int{empty: 1, config: 1, "kubernetes.io/csi:x.test": 1, claim: 1}
	failed := []string{"volume_mount " + config + " false", "volume_mount kubernetes.io/csi:x.test false", "volume_mount " + claim + " false"}
	if err := f.Mount(f.ctx, pod, nil); err == nil {
		t.Fatal("all of them are there")
	}
	check("one of several", append(slices.Insert(slices.Clone(failed), 2, "volume_mount "+empty+" true"), "whole "+empty+" 0s"), all, map[string]int{empty: 1})
	if err := f.Mount(f.ctx, pod, nil); err == nil {
		t.Fatal("all of them are there")
	}
	check("once more", failed, all, map[string]int{empty: 1})

	busy := filepath.Join(f.root, "pods/u/volumes/kubernetes.io~empty-dir/e")
	if err := f.fake.Tmpfs(busy, 0o755, 0, 0); err != nil {
		t.Fatal(err)
	}
	f.fake.Busy = map[string]error{busy: errors.New("busy")}
	if err := f.Unmount(f.ctx, "u"); err == nil {
		t.Fatal("it was in use")
	}
	check("in use", []string{"volume_unmount " + empty + " false"}, all, map[string]int{empty: 1})
	f.fake.Busy = nil
	for range 2 {
		if err := f.Unmount(f.ctx, "u"); err != nil {
			t.Fatal(err)
		}
	}
	clock.Step(time.Hour)
	check("gone", []string{"volume_unmount " + empty + " true"}, map[string]int{}, map[string]int{})
}

// How long a pod has waited for a volume is from when it was to have it, and told once.
func TestCounts_Whole(t *testing.T) {
	f := setUp(t)
	var o operations
	clock := testingclock.NewFakeClock(time.Unix(1700000000, 0))
	f.config.Operations, f.config.Clock = &o, clock
	pod := podWith(volumeOf("e", corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: "wrong"}}))
	if err := f.Mount(f.ctx, pod, nil); err == nil {
		t.Fatal("it is there")
	}
	clock.Step(3 * time.Second)
	pod.Spec.Volumes[0].EmptyDir.Medium = ""
	for range 2 {
		if err := f.Mount(f.ctx, pod, nil); err != nil {
			t.Fatal(err)
		}
		clock.Step(time.Second)
	}
	const mounted = "volume_mount kubernetes.io/empty-dir "
	if diff := cmp.Diff([]string{mounted + "false", mounted + "true", "whole kubernetes.io/empty-dir 3s"}, o.told()); diff != "" {
		t.Errorf("told (-want +got):\n%s", diff)
	}
}
