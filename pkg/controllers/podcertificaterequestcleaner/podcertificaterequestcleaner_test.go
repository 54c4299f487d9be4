// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package podcertificaterequestcleaner

import (
	"context"
	"fmt"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"minik8s.io/minik8s/pkg/controllers/controllertest"
)

func TestReconcile(t *testing.T) {
	created := time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)
	request := &certificatesv1.PodCertificateRequest{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "r", UID: "u", CreationTimestamp: metav1.NewTime(created)}}
	key := reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "ns", Name: "r"}}
	controllertest.Run(t, controllertest.Case{
		Objects: []client.Object{request},
		Request: key,
		New: func(c client.Client) reconcile.Reconciler {
			return &Reconciler{Client: c, Clock: clocktesting.NewFakePassiveClock(created.Add(15 * time.Minute))}
		},
		Want: func(ctx context.Context, c client.Client) error {
			if err := c.Get(ctx, key.NamespacedName, &certificatesv1.PodCertificateRequest{}); !apierrors.IsNotFound(err) {
				return fmt.Errorf("getting the request: %w", err)
			}
			return nil
		},
	})
	c := fake.NewClientBuilder().WithObjects(request).Build()
	result, err := (&Reconciler{Client: c, Clock: clocktesting.NewFakePassiveClock(created.Add(10 * time.Minute))}).Reconcile(t.Context(), key)
	if err != nil || result.RequeueAfter != 5*time.Minute {
		t.Errorf("comes back after %v, %v", result.RequeueAfter, err)
	}
}
