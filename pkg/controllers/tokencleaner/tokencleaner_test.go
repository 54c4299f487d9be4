// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package tokencleaner

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"minik8s.io/minik8s/pkg/controllers/controllertest"
)

var now = time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)

func token(namespace string, kind corev1.SecretType, expires string) *corev1.Secret {
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "bootstrap-token-abcdef", UID: "s"}, Type: kind}
	if expires != "" {
		s.Data = map[string][]byte{"expiration": []byte(expires)}
	}
	return s
}

func TestReconcile_Deletes(t *testing.T) {
	for name, expires := range map[string]string{"expired": "2026-06-01T11:59:59Z", "just now": "2026-06-01T12:00:00Z", "unreadable": "soon"} {
		t.Run(name, func(t *testing.T) {
			s := token("kube-system", "bootstrap.kubernetes.io/token", expires)
			controllertest.Run(t, controllertest.Case{
				Objects: []client.Object{s},
				Request: reconcile.Request{NamespacedName: client.ObjectKeyFromObject(s)},
				New: func(c client.Client) reconcile.Reconciler {
					return &Reconciler{Client: c, Clock: clocktesting.NewFakePassiveClock(now)}
				},
				Want: func(ctx context.Context, c client.Client) error {
					if err := c.Get(ctx, client.ObjectKeyFromObject(s), &corev1.Secret{}); !apierrors.IsNotFound(err) {
						return fmt.Errorf("getting the token: %w", err)
					}
					return nil
				},
			})
		})
	}
}

func TestReconcile_Keeps(t *testing.T) {
	for _, tt := range []struct {
		name   string
		secret *corev1.Secret
		again  time.Duration
	}{
		{"valid", token("kube-system", "bootstrap.kubernetes.io/token", "2026-06-01T13:00:00Z"), time.Hour},
		{"for ever", token("kube-system", "bootstrap.kubernetes.io/token", ""), 0},
		{"of another namespace", token("ns", "bootstrap.kubernetes.io/token", "2020-06-01T13:00:00Z"), 0},
		{"of another type", token("kube-system", corev1.SecretTypeOpaque, "2020-06-01T13:00:00Z"), 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := fake.NewClientBuilder().WithObjects(tt.secret).Build()
			r := &Reconciler{Client: c, Clock: clocktesting.NewFakePassiveClock(now)}
			key := client.ObjectKeyFromObject(tt.secret)
			result, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: key})
			if err != nil || result.RequeueAfter != tt.again {
				t.Errorf("comes back after %v, %v", result.RequeueAfter, err)
			}
			if err := c.Get(t.Context(), key, &corev1.Secret{}); err != nil {
				t.Error(err)
			}
		})
	}
}
