// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package volumeattributesclassprotection

import (
	"context"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"minik8s.io/minik8s/pkg/controllers/controllertest"
)

func TestReconcile(t *testing.T) {
	now := metav1.Now()
	other := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "c", Namespace: "ns"}, Spec: corev1.PersistentVolumeClaimSpec{VolumeAttributesClassName: new("other")},
	}
	user := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "v"}, Spec: corev1.PersistentVolumeSpec{VolumeAttributesClassName: new("fast")}}
	for name, tc := range map[string]struct {
		deleted bool
		user    client.Object
		left    int
	}{
		"alive":   {user: other, left: 1},
		"deleted": {deleted: true, user: other},
		// The volume goes away meanwhile.
		"deleted and used": {deleted: true, user: user},
	} {
		t.Run(name, func(t *testing.T) {
			class := &storagev1.VolumeAttributesClass{ObjectMeta: metav1.ObjectMeta{Name: "fast"}}
			if tc.deleted {
				class.DeletionTimestamp, class.Finalizers = &now, []string{Finalizer}
			}
			controllertest.Run(t, controllertest.Case{
				Objects: []client.Object{class, tc.user},
				Request: reconcile.Request{NamespacedName: types.NamespacedName{Name: "fast"}},
				New: func(c client.Client) reconcile.Reconciler {
					return &Reconciler{Client: c, Live: controllertest.Live(c)}
				},
				World: func(ctx context.Context, c client.Client) error {
					left := tc.user.DeepCopyObject().(client.Object)
					if err := c.Get(ctx, client.ObjectKeyFromObject(left), left); err != nil {
						return client.IgnoreNotFound(err)
					}
					return c.Delete(ctx, left)
				},
				Want: func(ctx context.Context, c client.Client) error {
					var classes storagev1.VolumeAttributesClassList
					if err := c.List(ctx, &classes); err != nil {
						return err
					}
					if len(classes.Items) != tc.left || tc.left == 1 && len(classes.Items[0].Finalizers) != 1 {
						return fmt.Errorf("classes are %+v, want %d with the finalizer", classes.Items, tc.left)
					}
					return nil
				},
			})
		})
	}
}

func TestClasses(t *testing.T) {
	claim := func(change func(*corev1.PersistentVolumeClaim)) client.Object {
		c := &corev1.PersistentVolumeClaim{}
		change(c)
		return c
	}
	for name, tc := range map[string]struct {
		obj  client.Object
		want []string
	}{
		"none":    {obj: claim(func(*corev1.PersistentVolumeClaim) {})},
		"named":   {obj: claim(func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeAttributesClassName = new("a") }), want: []string{"a"}},
		"current": {obj: claim(func(c *corev1.PersistentVolumeClaim) { c.Status.CurrentVolumeAttributesClassName = new("b") }), want: []string{"b"}},
		"wanted": {obj: claim(func(c *corev1.PersistentVolumeClaim) {
			c.Status.ModifyVolumeStatus = &corev1.ModifyVolumeStatus{TargetVolumeAttributesClassName: "c"}
		}), want: []string{"c"}},
		"volume": {obj: &corev1.PersistentVolume{Spec: corev1.PersistentVolumeSpec{VolumeAttributesClassName: new("d")}}, want: []string{"d"}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, classes(tc.obj), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("classes (-want +got):\n%s", diff)
			}
		})
	}
}
