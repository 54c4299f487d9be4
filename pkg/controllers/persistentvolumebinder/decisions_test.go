// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package persistentvolumebinder

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	volumehelper "k8s.io/component-helpers/storage/volume"
)

// claim is one of namespace ns that asks for 1Gi of class "k", to be written by one node.
func claim(name string, change ...func(*corev1.PersistentVolumeClaim)) *corev1.PersistentVolumeClaim {
	c := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID("uid-of-" + name)},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: new("k"),
			AccessModes:      []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:        corev1.VolumeResourceRequirements{Requests: size("1Gi")},
		},
		Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimPending},
	}
	for _, f := range change {
		f(c)
	}
	return c
}

// volume is one of class "k", Available.
func volume(name, capacity string, change ...func(*corev1.PersistentVolume)) *corev1.PersistentVolume {
	v := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeSpec{
			StorageClassName: "k", Capacity: size(capacity),
			AccessModes:                   []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
		},
		Status: corev1.PersistentVolumeStatus{Phase: corev1.VolumeAvailable},
	}
	for _, f := range change {
		f(v)
	}
	return v
}

func size(s string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(s)}
}

func modes(m ...corev1.PersistentVolumeAccessMode) func(*corev1.PersistentVolume) {
	return func(v *corev1.PersistentVolume) { v.Spec.AccessModes = m }
}

// forClaim refers to a claim, by UID too if it is not empty.
func forClaim(name, uid string) func(*corev1.PersistentVolume) {
	return func(v *corev1.PersistentVolume) {
		v.Spec.ClaimRef = &corev1.ObjectReference{Kind: "PersistentVolumeClaim", APIVersion: "v1", Namespace: "ns", Name: name, UID: types.UID(uid)}
	}
}

func TestBestMatch(t *testing.T) {
	t.Parallel()
	labelled := func(v *corev1.PersistentVolume) { v.Labels = map[string]string{"disk": "ssd"} }
	block := func(v *corev1.PersistentVolume) { v.Spec.VolumeMode = new(corev1.PersistentVolumeBlock) }
	local := func(v *corev1.PersistentVolume) {
		v.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{}}
	}
	for _, tc := range []struct {
		name    string
		claim   *corev1.PersistentVolumeClaim
		volumes []*corev1.PersistentVolume
		delayed bool
		want    string
	}{
		{"smallest that is large enough", claim("c"), []*corev1.PersistentVolume{volume("large", "5Gi"), volume("small", "500Mi"), volume("fits", "2Gi")}, false, "fits"},
		{"fewest modes first", claim("c"), []*corev1.PersistentVolume{
			volume("many", "1Gi", modes(corev1.ReadWriteOnce, corev1.ReadOnlyMany)), volume("one", "5Gi"),
		}, false, "one"},
		{"all modes are there", claim("c", func(c *corev1.PersistentVolumeClaim) {
			c.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}
		}), []*corev1.PersistentVolume{volume("once", "1Gi"), volume("many", "9Gi", modes(corev1.ReadWriteOnce, corev1.ReadWriteMany))}, false, "many"},
		{"other class", claim("c"), []*corev1.PersistentVolume{volume("v", "1Gi", func(v *corev1.PersistentVolume) { v.Spec.StorageClassName = "" })}, false, ""},
		{"no class", claim("c", func(c *corev1.PersistentVolumeClaim) { c.Spec.StorageClassName = new("") }),
			[]*corev1.PersistentVolume{volume("v", "1Gi", func(v *corev1.PersistentVolume) { v.Spec.StorageClassName = "" })}, false, "v"},
		{"selector", claim("c", func(c *corev1.PersistentVolumeClaim) {
			c.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"disk": "ssd"}}
		}), []*corev1.PersistentVolume{volume("plain", "1Gi"), volume("ssd", "3Gi", labelled)}, false, "ssd"},
		{"volume mode", claim("c"), []*corev1.PersistentVolume{volume("raw", "1Gi", block)}, false, ""},
		{"not available yet", claim("c"), []*corev1.PersistentVolume{volume("v", "1Gi", func(v *corev1.PersistentVolume) { v.Status.Phase = corev1.VolumePending })}, false, ""},
		{"being deleted", claim("c"), []*corev1.PersistentVolume{volume("v", "1Gi", func(v *corev1.PersistentVolume) { v.DeletionTimestamp = &metav1.Time{} })}, false, ""},
		{"meant for the claim", claim("c"), []*corev1.PersistentVolume{volume("free", "1Gi"), volume("own", "9Gi", forClaim("c", ""))}, false, "own"},
		{"meant for the claim, too small", claim("c"), []*corev1.PersistentVolume{volume("own", "1Mi", forClaim("c", ""))}, false, ""},
		{"meant for another one", claim("c"), []*corev1.PersistentVolume{volume("v", "1Gi", forClaim("d", ""))}, false, ""},
		{"of an older claim of that name", claim("c"), []*corev1.PersistentVolume{volume("v", "1Gi", forClaim("c", "older"))}, false, ""},
		{"on some node", claim("c"), []*corev1.PersistentVolume{volume("v", "1Gi", local)}, false, "v"},
		{"late: none that is free", claim("c"), []*corev1.PersistentVolume{volume("v", "1Gi")}, true, ""},
		{"late: the one that the scheduler chose", claim("c"), []*corev1.PersistentVolume{volume("v", "1Gi", forClaim("c", "uid-of-c"))}, true, "v"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			found, err := bestMatch(tc.claim, tc.volumes, tc.delayed)
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			if found != nil {
				got = found.Name
			}
			if got != tc.want {
				t.Errorf("best match is %q, want %q", got, tc.want)
			}
		})
	}
}

func TestMismatch(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		volume *corev1.PersistentVolume
		want   string
	}{
		{volume("v", "1Gi"), ""},
		{volume("v", "1Gi", func(v *corev1.PersistentVolume) { v.DeletionTimestamp = &metav1.Time{} }), `the volume is marked for deletion "v"`},
		{volume("v", "1Mi"), "requested PV is too small"},
		{volume("v", "1Gi", func(v *corev1.PersistentVolume) { v.Spec.StorageClassName = "other" }), "storageClassName does not match"},
		{volume("v", "1Gi", func(v *corev1.PersistentVolume) { v.Spec.VolumeAttributesClassName = new("fast") }), "volumeAttributesClassName does not match"},
		{volume("v", "1Gi", func(v *corev1.PersistentVolume) { v.Spec.VolumeMode = new(corev1.PersistentVolumeBlock) }), "incompatible volumeMode"},
		{volume("v", "1Gi", modes(corev1.ReadOnlyMany)), "incompatible accessMode"},
	} {
		got := ""
		if err := mismatch(tc.volume, claim("c")); err != nil {
			got = err.Error()
		}
		if got != tc.want {
			t.Errorf("mismatch is %q, want %q", got, tc.want)
		}
	}
}

func TestClaimStatus(t *testing.T) {
	t.Parallel()
	once := []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	fast := func(v *corev1.PersistentVolume) { v.Spec.VolumeAttributesClassName = new("fast") }
	bound := corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound, AccessModes: once, Capacity: size("1Gi")}
	for _, tc := range []struct {
		name   string
		before corev1.PersistentVolumeClaimStatus
		phase  corev1.PersistentVolumeClaimPhase
		volume *corev1.PersistentVolume
		want   corev1.PersistentVolumeClaimStatus
	}{
		{"becomes bound", corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimPending}, corev1.ClaimBound, volume("v", "2Gi", fast),
			corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound, AccessModes: once, Capacity: size("2Gi"), CurrentVolumeAttributesClassName: new("fast")}},
		{"stays bound while the volume grows and changes", bound, corev1.ClaimBound, volume("v", "2Gi", fast), bound},
		{"file system has yet to grow", corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimPending}, corev1.ClaimBound,
			volume("v", "2Gi", func(v *corev1.PersistentVolume) { v.Annotations = map[string]string{preResizeCapacity: "1Gi"} }), bound},
		{"lost", bound, corev1.ClaimLost, nil, corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimLost}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			got, err := claimStatus(claim("c", func(c *corev1.PersistentVolumeClaim) { c.Status = tc.before }), tc.phase, tc.volume)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("status (-want +got):\n%s", diff)
			}
		})
	}
}

func TestReclaimProblem(t *testing.T) {
	t.Parallel()
	policy := func(p corev1.PersistentVolumeReclaimPolicy) func(*corev1.PersistentVolume) {
		return func(v *corev1.PersistentVolume) { v.Spec.PersistentVolumeReclaimPolicy = p }
	}
	annotated := func(key, value string) func(*corev1.PersistentVolume) {
		return func(v *corev1.PersistentVolume) { metav1.SetMetaDataAnnotation(&v.ObjectMeta, key, value) }
	}
	csi := func(v *corev1.PersistentVolume) { v.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: "d"} }
	nfs := func(v *corev1.PersistentVolume) { v.Spec.NFS = &corev1.NFSVolumeSource{} }
	remove := policy(corev1.PersistentVolumeReclaimDelete)
	by := func(provisioner string) func(*corev1.PersistentVolume) {
		return annotated(volumehelper.AnnDynamicallyProvisioned, provisioner)
	}
	const noPlugin = `error getting deleter volume plugin for volume "v": `
	for _, tc := range []struct {
		name, reason, message string
		volume                *corev1.PersistentVolume
	}{
		{"retain", "", "", volume("v", "1Gi")},
		{"recycle", "VolumeFailedRecycle", "No recycler plugin found for the volume!", volume("v", "1Gi", policy(corev1.PersistentVolumeReclaimRecycle))},
		{"unknown", "VolumeUnknownReclaimPolicy", "Volume has unrecognized PersistentVolumeReclaimPolicy", volume("v", "1Gi", policy("Burn"))},
		{"delete, by hand", "VolumeFailedDelete", noPlugin + "no volume plugin matched", volume("v", "1Gi", remove)},
		{"delete, NFS", "VolumeFailedDelete", noPlugin + "no deletable volume plugin matched", volume("v", "1Gi", remove, nfs)},
		{"delete, by its provisioner", "", "", volume("v", "1Gi", remove, by("example.com/p"))},
		{"delete, by CSI", "", "", volume("v", "1Gi", remove, csi)},
		{"delete, by nobody any more", "VolumeFailedDelete", "no volume plugin matched name: kubernetes.io/glusterfs", volume("v", "1Gi", remove, by("kubernetes.io/glusterfs"))},
		{"delete, by who cannot", "VolumeFailedDelete", "no deletable volume plugin matched", volume("v", "1Gi", remove, by("kubernetes.io/nfs"))},
		{"delete, by the driver that took over", "", "", volume("v", "1Gi", remove, annotated(volumehelper.AnnMigratedTo, "ebs.csi.aws.com"))},
	} {
		if reason, message := reclaimProblem(tc.volume); reason != tc.reason || message != tc.message {
			t.Errorf("%s: problem is %q, %q, want %q, %q", tc.name, reason, message, tc.reason, tc.message)
		}
	}
}

func TestMigration(t *testing.T) {
	t.Parallel()
	const own, external = volumehelper.PVDeletionInTreeProtectionFinalizer, volumehelper.PVDeletionProtectionFinalizer
	made := func(by string, finalizers ...string) *corev1.PersistentVolume {
		return volume("v", "1Gi", func(v *corev1.PersistentVolume) {
			v.Annotations = map[string]string{volumehelper.AnnDynamicallyProvisioned: by}
			v.Finalizers = finalizers
			v.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimDelete
		})
	}
	for _, tc := range []struct {
		name       string
		volume     *corev1.PersistentVolume
		driver     string
		finalizers []string
	}{
		{"external", made("example.com/p", external), "", []string{external}},
		{"driver took over", made("kubernetes.io/gce-pd", own, external), "pd.csi.storage.gke.io", []string{external}},
		{"in-tree", made("kubernetes.io/host-path", external), "", []string{own}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			v := tc.volume
			marked := markMigrated(&v.ObjectMeta, volumehelper.AnnDynamicallyProvisioned)
			set := setFinalizers(v)
			if v.Annotations[volumehelper.AnnMigratedTo] != tc.driver || marked != (tc.driver != "") {
				t.Errorf("annotations are %v, changed is %t", v.Annotations, marked)
			}
			if diff := cmp.Diff(tc.finalizers, v.Finalizers); diff != "" {
				t.Errorf("finalizers (-want +got):\n%s", diff)
			}
			if again := markMigrated(&v.ObjectMeta, volumehelper.AnnDynamicallyProvisioned) || setFinalizers(v); again {
				t.Errorf("changed again, after %t", set)
			}
		})
	}
}

func TestUnscheduled(t *testing.T) {
	t.Parallel()
	pod := func(name, node string, phase corev1.PodPhase) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{NodeName: node}, Status: corev1.PodStatus{Phase: phase}}
	}
	deleted := pod("deleted", "", corev1.PodPending)
	deleted.DeletionTimestamp = &metav1.Time{Time: time.Unix(1_700_000_000, 0)}
	got := unscheduled([]*corev1.Pod{
		pod("waits", "", corev1.PodPending), pod("runs", "n", corev1.PodRunning), pod("failed", "", corev1.PodFailed), pod("also", "", corev1.PodPending), deleted,
	})
	if diff := cmp.Diff([]string{"also", "waits"}, got); diff != "" {
		t.Errorf("pods (-want +got):\n%s", diff)
	}
}
