// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package attachdetach

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

// TestNames: kubelets and external attachers compute the same.
func TestNames(t *testing.T) {
	t.Parallel()
	csi := &corev1.CSIPersistentVolumeSource{Driver: "d", VolumeHandle: "h"}
	name := attachmentName(csi, "n")
	if want := "csi-9072ed11cc1acb5fa433a877ff339b6311d013f33bddd1d0092711a8ace5b16d"; name != want || !generated(name) {
		t.Errorf("name is %s, want %s", name, want)
	}
	for _, other := range []string{"by-hand", "csi-0123", "csi-" + name, name[1:]} {
		if generated(other) {
			t.Errorf("%s looks generated", other)
		}
	}
	if got := uniqueName(csi); got != "kubernetes.io/csi/d^h" {
		t.Errorf("unique name is %s", got)
	}
}

func TestMayDetach(t *testing.T) {
	t.Parallel()
	const unique = corev1.UniqueVolumeName("kubernetes.io/csi/" + driver + "^h")
	for _, tc := range []struct {
		name   string
		node   *corev1.Node
		unique corev1.UniqueVolumeName
		since  time.Duration
		want   bool
	}{
		{"unmounted", node("a"), unique, 0, true},
		{"another one is mounted", node("a", inUse("other")), unique, 0, true},
		{"mounted", node("a", inUse("h")), unique, time.Hour, false},
		{"mounted, not Ready", node("a", inUse("h"), notReady), unique, unmountTimeout - 1, false},
		{"mounted, not Ready for long", node("a", inUse("h"), notReady), unique, unmountTimeout, true},
		{"mounted, out of service", node("a", inUse("h"), outOfService), unique, 0, true},
		{"volume gone, something mounted", node("a", inUse("h")), "", 0, false},
		{"volume gone, nothing mounted", node("a"), "", 0, true},
		{"node gone", nil, unique, unmountTimeout - 1, false},
		{"node gone for long", nil, unique, unmountTimeout, true},
	} {
		if got := mayDetach(tc.node, tc.unique, tc.since); got != tc.want {
			t.Errorf("%s: may detach is %t", tc.name, got)
		}
	}
}

func TestMerge(t *testing.T) {
	t.Parallel()
	named := func(names ...corev1.UniqueVolumeName) []corev1.AttachedVolume {
		var out []corev1.AttachedVolume
		for _, n := range names {
			out = append(out, corev1.AttachedVolume{Name: n})
		}
		return out
	}
	got := merge(named("kubernetes.io/csi/d^old", "example.com/x"), named("kubernetes.io/csi/d^b", "kubernetes.io/csi/d^a"))
	if diff := cmp.Diff(named("example.com/x", "kubernetes.io/csi/d^a", "kubernetes.io/csi/d^b"), got); diff != "" {
		t.Errorf("merged (-want +got):\n%s", diff)
	}
}

func TestInUseBy(t *testing.T) {
	t.Parallel()
	foreign := pod("x", "b", "c")
	foreign.Namespace = "other"
	own := []*corev1.Pod{pod("p", "b", "c"), pod("q", "b", "c")}
	for want, pods := range map[string][]*corev1.Pod{
		"Volume is already used by pod(s) p, q":                                                                           own,
		"Volume is already used by 1 pod(s) in different namespaces":                                                      {foreign},
		"Volume is already used by pod(s) p, q and 1 pod(s) in different namespaces":                                      append(own, foreign),
		"Volume is already exclusively attached to one node, waiting on detach before it can be attached to another node": nil,
	} {
		if got := inUseBy(pods, "ns"); got != want {
			t.Errorf("message is %q, want %q", got, want)
		}
	}
}

func TestExclusive(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		modes []corev1.PersistentVolumeAccessMode
		want  bool
	}{
		{nil, false},
		{[]corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, true},
		{[]corev1.PersistentVolumeAccessMode{corev1.ReadWriteOncePod}, true},
		{[]corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce, corev1.ReadOnlyMany}, false},
	} {
		if got := exclusive(volume(tc.modes...)[0].(*corev1.PersistentVolume)); got != tc.want {
			t.Errorf("%v: exclusive is %t", tc.modes, got)
		}
	}
}
