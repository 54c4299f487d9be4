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
	f.config.Operations = &o
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
	check("one of several", slices.Insert(slices.Clone(failed), 2, "volume_mount "+empty+" true"), all, map[string]int{empty: 1})
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
	check("gone", []string{"volume_unmount " + empty + " true"}, map[string]int{}, map[string]int{})
}
