// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package volumeexpand

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"minik8s.io/minik8s/pkg/controllers/controllertest"
)

var request = reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "ns", Name: "c"}}

func claim(asked, has string) *corev1.PersistentVolumeClaim {
	c := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c", UID: "uid"}}
	c.Spec.VolumeName, c.Status.Phase = "v", corev1.ClaimBound
	c.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(asked)}
	c.Status.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(has)}
	return c
}

func volume(source corev1.PersistentVolumeSource, annotations map[string]string) *corev1.PersistentVolume {
	v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "v", Annotations: annotations}}
	v.Spec.PersistentVolumeSource = source
	v.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "ns", Name: "c", UID: "uid"}
	return v
}

var (
	csi = corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "d"}}
	ebs = corev1.PersistentVolumeSource{AWSElasticBlockStore: &corev1.AWSElasticBlockStoreVolumeSource{}}
)

func TestGrown(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name          string
		before, after *corev1.PersistentVolumeClaim
		want          bool
	}{
		{"same", claim("1Gi", "1Gi"), claim("1Gi", "1Gi"), false},
		{"asks for more", claim("1Gi", "1Gi"), claim("2Gi", "1Gi"), true},
		{"has got more", claim("2Gi", "1Gi"), claim("2Gi", "2Gi"), true},
		{"asks for less", claim("2Gi", "1Gi"), claim("1500Mi", "1Gi"), false},
	} {
		if got := grown(tc.before, tc.after); got != tc.want {
			t.Errorf("%s: grown is %t", tc.name, got)
		}
	}
}

func TestReconcile_Event(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		claim  *corev1.PersistentVolumeClaim
		volume *corev1.PersistentVolume
		want   string
	}{
		{"large enough", claim("1Gi", "2Gi"), volume(csi, nil), ""},
		{"wants more", claim("2Gi", "1Gi"), volume(csi, nil), "Normal ExternalExpanding waiting for an external controller to expand this PVC"},
		{"file system has yet to grow", claim("2Gi", "2Gi"), volume(csi, map[string]string{preResizeCapacity: "1Gi"}),
			"Normal ExternalExpanding waiting for an external controller to expand this PVC"},
		{"driver took over", claim("2Gi", "1Gi"), volume(ebs, nil),
			"Normal ExternalExpanding CSI migration enabled for kubernetes.io/aws-ebs; waiting for external resizer to expand the pvc"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			events := record.NewFakeRecorder(2)
			c := fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithObjects(tc.claim, tc.volume).Build()
			if _, err := (&Reconciler{Client: c, Events: events}).Reconcile(t.Context(), request); err != nil {
				t.Fatal(err)
			}
			close(events.Events)
			if got := <-events.Events; got != tc.want {
				t.Errorf("event is %q, want %q", got, tc.want)
			}
		})
	}
}

// withMetadata is a client whose status takes annotations along, as that of claims does; the fake client's does not.
type withMetadata struct{ client.Client }

func (c withMetadata) Status() client.SubResourceWriter {
	return metadataToo{c.Client.Status(), c.Client}
}

type metadataToo struct {
	client.SubResourceWriter
	whole client.Client
}

func (m metadataToo) Patch(ctx context.Context, obj client.Object, patch client.Patch, _ ...client.SubResourcePatchOption) error {
	return m.whole.Patch(ctx, obj, patch)
}

func TestReconcile(t *testing.T) {
	t.Parallel()
	controllertest.Run(t, controllertest.Case{
		Objects: []client.Object{claim("2Gi", "1Gi"), volume(ebs, nil)},
		Request: request,
		New: func(c client.Client) reconcile.Reconciler {
			return &Reconciler{Client: withMetadata{c}, Events: &record.FakeRecorder{}}
		},
		Want: func(ctx context.Context, c client.Client) error {
			got := &corev1.PersistentVolumeClaim{}
			if err := c.Get(ctx, request.NamespacedName, got); err != nil {
				return err
			}
			if got.Annotations[resizer] != "ebs.csi.aws.com" {
				return fmt.Errorf("annotations are %v", got.Annotations)
			}
			return nil
		},
	})
}
