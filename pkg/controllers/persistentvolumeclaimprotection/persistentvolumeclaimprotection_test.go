// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package persistentvolumeclaimprotection

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"minik8s.io/minik8s/pkg/controllers/controllertest"
)

func pod(node string, phase corev1.PodPhase, source corev1.VolumeSource) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "ns", UID: "pod"},
		Spec:       corev1.PodSpec{NodeName: node, Volumes: []corev1.Volume{{Name: "data", VolumeSource: source}}},
		Status:     corev1.PodStatus{Phase: phase},
	}
}

// shutDown is the pod after the kubelet let go of it.
func shutDown(p *corev1.Pod) *corev1.Pod {
	var none int64
	p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &metav1.Time{}, &none
	return p
}

func claim() *corev1.PersistentVolumeClaim {
	yes := true
	return &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{
		Name: "p-data", Namespace: "ns", OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "p", UID: "pod", Controller: &yes}},
	}}
}

var (
	direct     = corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "p-data"}}
	ownedByPod = corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}
	ofAnother  = corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "other"}}
)

func TestUses(t *testing.T) {
	for name, tc := range map[string]struct {
		pod  *corev1.Pod
		want bool
	}{
		"running":                     {pod: pod("n", corev1.PodRunning, direct), want: true},
		"ended":                       {pod: pod("n", corev1.PodFailed, direct), want: true},
		"without node":                {pod: pod("", corev1.PodPending, direct)},
		"of another claim":            {pod: pod("n", corev1.PodRunning, ofAnother)},
		"ephemeral":                   {pod: pod("n", corev1.PodRunning, ownedByPod), want: true},
		"ephemeral of one that ended": {pod: pod("n", corev1.PodSucceeded, ownedByPod), want: true},
		"ephemeral of one that the kubelet is done with": {pod: shutDown(pod("n", corev1.PodSucceeded, ownedByPod))},
	} {
		t.Run(name, func(t *testing.T) {
			if got := uses(tc.pod, claim()); got != tc.want {
				t.Errorf("uses is %t, want %t", got, tc.want)
			}
		})
	}
}

func TestReconcile(t *testing.T) {
	now := metav1.Now()
	for name, deleted := range map[string]bool{"alive": false, "deleted, and its pod goes meanwhile": true} {
		t.Run(name, func(t *testing.T) {
			c := claim()
			if deleted {
				c.DeletionTimestamp, c.Finalizers = &now, []string{Finalizer}
			}
			controllertest.Run(t, controllertest.Case{
				Objects: []client.Object{pod("n", corev1.PodRunning, direct), c},
				Request: reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "ns", Name: "p-data"}},
				New: func(c client.Client) reconcile.Reconciler {
					return &Reconciler{Client: c, Live: controllertest.Live(c), Clock: clocktesting.NewFakePassiveClock(now.Time)}
				},
				World: func(ctx context.Context, c client.Client) error {
					left := pod("n", corev1.PodRunning, direct)
					if err := c.Get(ctx, client.ObjectKeyFromObject(left), left); err != nil {
						return client.IgnoreNotFound(err)
					}
					return c.Delete(ctx, left)
				},
				Want: func(ctx context.Context, c client.Client) error {
					var claims corev1.PersistentVolumeClaimList
					if err := c.List(ctx, &claims); err != nil {
						return err
					}
					if kept := len(claims.Items) == 1 && len(claims.Items[0].Finalizers) == 1; kept == deleted {
						return fmt.Errorf("claims are %+v", claims.Items)
					}
					return nil
				},
			})
		})
	}
}
