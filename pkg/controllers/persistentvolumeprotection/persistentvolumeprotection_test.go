// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package persistentvolumeprotection

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"minik8s.io/minik8s/pkg/controllers/controllertest"
)

func TestReconcile(t *testing.T) {
	now := metav1.Now()
	for name, tc := range map[string]struct {
		deleted bool
		phase   corev1.PersistentVolumePhase
		left    int
	}{
		"alive":   {phase: corev1.VolumeAvailable, left: 1},
		"deleted": {deleted: true, phase: corev1.VolumeReleased},
		// It is released meanwhile.
		"deleted and bound": {deleted: true, phase: corev1.VolumeBound},
	} {
		t.Run(name, func(t *testing.T) {
			volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "v"}, Status: corev1.PersistentVolumeStatus{Phase: tc.phase}}
			if tc.deleted {
				volume.DeletionTimestamp, volume.Finalizers = &now, []string{Finalizer}
			}
			controllertest.Run(t, controllertest.Case{
				Objects: []client.Object{volume},
				Request: reconcile.Request{NamespacedName: types.NamespacedName{Name: "v"}},
				New:     func(c client.Client) reconcile.Reconciler { return &Reconciler{Client: c} },
				World: func(ctx context.Context, c client.Client) error {
					var v corev1.PersistentVolume
					if err := c.Get(ctx, types.NamespacedName{Name: "v"}, &v); err != nil || v.Status.Phase != corev1.VolumeBound {
						return client.IgnoreNotFound(err)
					}
					v.Status.Phase = corev1.VolumeReleased
					return c.Status().Update(ctx, &v)
				},
				Want: func(ctx context.Context, c client.Client) error {
					var volumes corev1.PersistentVolumeList
					if err := c.List(ctx, &volumes); err != nil {
						return err
					}
					if len(volumes.Items) != tc.left || tc.left == 1 && len(volumes.Items[0].Finalizers) != 1 {
						return fmt.Errorf("volumes are %+v, want %d with the finalizer", volumes.Items, tc.left)
					}
					return nil
				},
			})
		})
	}
}
