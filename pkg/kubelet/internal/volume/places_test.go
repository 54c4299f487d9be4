// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package volume

import (
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/fake"
)

func TestPlaces(t *testing.T) {
	m, err := New(Config{RootDir: t.TempDir(), NodeName: "n", Client: fake.NewClientset()})
	if err != nil {
		t.Fatal(err)
	}
	pod := podWith(
		corev1.Volume{Name: "empty", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
		corev1.Volume{Name: "host", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}},
		corev1.Volume{Name: "claim", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}},
		corev1.Volume{Name: "own", VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}},
		corev1.Volume{Name: "far", VolumeSource: corev1.VolumeSource{NFS: &corev1.NFSVolumeSource{}}},
		corev1.Volume{Name: "foreign", VolumeSource: corev1.VolumeSource{ISCSI: &corev1.ISCSIVolumeSource{}}},
	)
	dir := func(kind, name string) string { return filepath.Join(m.PodDir("u"), "volumes", kind, name) }
	want := []Place{
		{Name: "empty", Path: dir("kubernetes.io~empty-dir", "empty")},
		{Name: "claim", Path: dir("kubernetes.io~local-volume", "claim"), Claim: "data", Alone: true},
		{Name: "own", Path: dir("kubernetes.io~local-volume", "own"), Claim: "p-own", Alone: true},
		{Name: "far", Path: dir("kubernetes.io~nfs", "far"), Alone: true},
	}
	if diff := cmp.Diff(want, m.Places(pod)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
