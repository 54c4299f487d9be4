// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"minik8s.io/minik8s/test/integration/framework"
)

// TestClaim leads a claim through its life: it gets the default class, is protected, bound, grows, and keeps its quota.
func TestClaim(t *testing.T) {
	ns := cluster.Namespace(t)
	client := framework.ClientFor(t, cluster.Admin())
	ctx := t.Context()
	class := &storagev1.StorageClass{
		ObjectMeta:  metav1.ObjectMeta{Name: "elastic-" + ns, Annotations: map[string]string{"storageclass.kubernetes.io/is-default-class": "true"}},
		Provisioner: "example.com/disk", AllowVolumeExpansion: new(true),
	}
	if _, err := client.StorageV1().StorageClasses().Create(ctx, class, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := client.StorageV1().StorageClasses().Delete(context.Background(), class.Name, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	claims := client.CoreV1().PersistentVolumeClaims(ns)
	ask := func(name, size string) *corev1.PersistentVolumeClaim {
		return &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}},
		}}
	}
	var claim *corev1.PersistentVolumeClaim
	framework.Eventually(t, "the default class", func() error { // admission hears of the class by a watch
		var err error
		claim, err = claims.Create(ctx, ask("probe", "1Gi"), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err == nil && claim.Spec.StorageClassName == nil {
			err = apierrors.NewServiceUnavailable("no class yet")
		}
		return err
	})
	claim, err := claims.Create(ctx, ask("c", "1Gi"), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if *claim.Spec.StorageClassName != class.Name || !slices.Contains(claim.Finalizers, "kubernetes.io/pvc-protection") || claim.Status.Phase != corev1.ClaimPending {
		t.Errorf("claim is %+v", claim)
	}

	grow := func() error {
		current, err := claims.Get(ctx, "c", metav1.GetOptions{})
		if err != nil {
			return err
		}
		current.Spec.Resources.Requests[corev1.ResourceStorage] = resource.MustParse("2Gi")
		_, err = claims.Update(ctx, current, metav1.UpdateOptions{})
		return err
	}
	if err := grow(); !apierrors.IsInvalid(err) && !apierrors.IsForbidden(err) {
		t.Errorf("growing an unbound claim: %v", err)
	}
	claim.Spec.VolumeName = "v"
	if claim, err = claims.Update(ctx, claim, metav1.UpdateOptions{}); err != nil {
		t.Fatalf("binding: %v", err)
	}
	claim.Status.Phase, claim.Status.Capacity = corev1.ClaimBound, claim.Spec.Resources.Requests
	if _, err = claims.UpdateStatus(ctx, claim, metav1.UpdateOptions{}); err != nil {
		t.Fatalf("status: %v", err)
	}
	if err := grow(); err != nil {
		t.Errorf("growing a bound claim: %v", err)
	}

	if err := claims.Delete(ctx, "c", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if claim, err = claims.Get(ctx, "c", metav1.GetOptions{}); err != nil || claim.DeletionTimestamp == nil {
		t.Fatalf("a protected claim is gone: %v", err)
	}
	claim.Finalizers = nil
	if _, err := claims.Update(ctx, claim, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// TestClaim_NodeReadsItsVolume checks that a kubelet gets at the volume behind a claim of its pod, and at no other.
func TestClaim_NodeReadsItsVolume(t *testing.T) {
	ns := cluster.Namespace(t)
	admin := framework.ClientFor(t, cluster.Admin())
	ctx := t.Context()
	volume := func(name, claim string) {
		t.Helper()
		c := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: claim}, Spec: corev1.PersistentVolumeClaimSpec{
			VolumeName: name, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		}}
		c, err := admin.CoreV1().PersistentVolumeClaims(ns).Create(ctx, c, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PersistentVolumeSpec{
			Capacity:               corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			AccessModes:            []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/data"}},
			ClaimRef:               &corev1.ObjectReference{Namespace: ns, Name: claim, UID: c.UID},
		}}
		if _, err := admin.CoreV1().PersistentVolumes().Create(ctx, v, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := admin.CoreV1().PersistentVolumes().Delete(context.Background(), name, metav1.DeleteOptions{}); err != nil {
				t.Error(err)
			}
			if _, err := admin.CoreV1().PersistentVolumes().Patch(context.Background(), name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}); err != nil {
				t.Error(err)
			}
		})
	}
	own, other := "own-"+ns, "other-"+ns
	volume(own, "data")
	volume(other, "else")
	pod := framework.Pod("p", "p")
	pod.Spec.NodeName = "storage-node"
	pod.Spec.Volumes = []corev1.Volume{{Name: "d", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}}}
	if _, err := admin.CoreV1().Pods(ns).Create(ctx, pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	kubelet := framework.ClientFor(t, cluster.User("system:node:storage-node", "system:nodes"))
	framework.Eventually(t, "the node may read its volume", func() error {
		_, err := kubelet.CoreV1().PersistentVolumes().Get(ctx, own, metav1.GetOptions{})
		return err
	})
	if _, err := kubelet.CoreV1().PersistentVolumes().Get(ctx, other, metav1.GetOptions{}); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "no relationship found") {
		t.Errorf("another's volume: %v", err)
	}
}
