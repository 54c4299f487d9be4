// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package persistentvolumeclaimprotection

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"minik8s.io/minik8s/pkg/controllers/controllertest"
)

var (
	earlier = metav1.NewTime(time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC))
	later   = metav1.NewTime(earlier.Add(time.Hour))
)

func condition(status corev1.ConditionStatus, reason, message string, at metav1.Time) corev1.PersistentVolumeClaimCondition {
	return corev1.PersistentVolumeClaimCondition{Type: corev1.PersistentVolumeClaimUnused, Status: status, Reason: reason, Message: message, LastTransitionTime: at}
}

func isUnused(at metav1.Time) corev1.PersistentVolumeClaimCondition {
	return condition(corev1.ConditionTrue, "NoPodsUsingPVC", "No pods are currently referencing this PVC", at)
}

func isUsed(at metav1.Time) corev1.PersistentVolumeClaimCondition {
	return condition(corev1.ConditionFalse, "PodUsingPVC", "A pod is currently referencing this PVC", at)
}

func TestUnused(t *testing.T) {
	t.Parallel()
	resizing := corev1.PersistentVolumeClaimCondition{Type: corev1.PersistentVolumeClaimResizing}
	type conditions = []corev1.PersistentVolumeClaimCondition
	for _, tc := range []struct {
		name string
		have conditions
		used bool
		want conditions
	}{
		{"first pod", conditions{resizing}, true, conditions{resizing, isUsed(later)}},
		{"never used", nil, false, conditions{isUnused(later)}},
		{"no longer used", conditions{isUsed(earlier), resizing}, false, conditions{isUnused(later), resizing}},
		{"used again", conditions{isUnused(earlier)}, true, conditions{isUsed(later)}},
		{"still used", conditions{isUsed(earlier)}, true, nil},
		{"still unused", conditions{isUnused(earlier)}, false, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			c := claim()
			c.Status.Conditions = tc.have
			if diff := cmp.Diff(tc.want, unused(c, tc.used, later)); diff != "" {
				t.Errorf("conditions (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRefers(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		pod  *corev1.Pod
		want bool
	}{
		"running":          {pod("n", corev1.PodRunning, direct), true},
		"without node":     {pod("", corev1.PodPending, direct), true},
		"ended":            {pod("n", corev1.PodSucceeded, direct), false},
		"of another claim": {pod("n", corev1.PodRunning, ofAnother), false},
		"ephemeral":        {pod("n", corev1.PodRunning, ownedByPod), true},
		"shut down":        {shutDown(pod("n", corev1.PodRunning, direct)), false},
	} {
		if got := refers(tc.pod, claim()); got != tc.want {
			t.Errorf("%s: refers is %t", name, got)
		}
	}
}

func TestReconcile_Unused(t *testing.T) {
	t.Parallel()
	bound := claim()
	bound.Status.Phase, bound.Finalizers = corev1.ClaimBound, []string{Finalizer}
	for name, tc := range map[string]struct {
		objects []client.Object
		want    corev1.PersistentVolumeClaimCondition
	}{
		"used":   {[]client.Object{bound, pod("", corev1.PodPending, direct)}, isUsed(later)},
		"unused": {[]client.Object{bound}, isUnused(later)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			controllertest.Run(t, controllertest.Case{
				Objects: tc.objects,
				Request: reconcile.Request{NamespacedName: client.ObjectKeyFromObject(bound)},
				New: func(c client.Client) reconcile.Reconciler {
					return &Reconciler{Client: c, Live: controllertest.Live(c), Clock: clocktesting.NewFakePassiveClock(later.Time)}
				},
				Want: func(ctx context.Context, c client.Client) error {
					got := claim()
					if err := c.Get(ctx, client.ObjectKeyFromObject(bound), got); err != nil {
						return err
					}
					if diff := cmp.Diff([]corev1.PersistentVolumeClaimCondition{tc.want}, got.Status.Conditions); diff != "" {
						return fmt.Errorf("conditions (-want +got):\n%s", diff)
					}
					return nil
				},
			})
		})
	}
}
