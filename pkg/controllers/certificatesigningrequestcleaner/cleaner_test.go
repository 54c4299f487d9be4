// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package certificatesigningrequestcleaner

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
	"minik8s.io/minik8s/pkg/pki"
)

var created = time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)

// request has conditions that were set at times after its creation.
func request(certificate []byte, conditions map[certificatesv1.RequestConditionType]time.Duration) *certificatesv1.CertificateSigningRequest {
	r := &certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{Name: "r", UID: "u", CreationTimestamp: metav1.NewTime(created)}}
	r.Status.Certificate = certificate
	for kind, after := range conditions {
		r.Status.Conditions = append(r.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{Type: kind, LastUpdateTime: metav1.NewTime(created.Add(after))})
	}
	return r
}

func TestEnd(t *testing.T) {
	ca, err := pki.NewCA("test")
	if err != nil {
		t.Fatal(err)
	}
	cert, err := pki.ParseCertificate(ca.Cert)
	if err != nil {
		t.Fatal(err)
	}
	timeless := request(nil, map[certificatesv1.RequestConditionType]time.Duration{"Approved": 0})
	timeless.Status.Conditions[0].LastUpdateTime = metav1.Time{}
	late := cert.NotAfter.Sub(created)
	type conditions = map[certificatesv1.RequestConditionType]time.Duration
	for name, tt := range map[string]struct {
		request *certificatesv1.CertificateSigningRequest
		want    time.Time
	}{
		"pending":             {request(nil, nil), created.Add(24 * time.Hour)},
		"denied":              {request(nil, conditions{"Denied": time.Minute}), created.Add(time.Hour + time.Minute)},
		"failed":              {request(nil, conditions{"Approved": 0, "Failed": time.Minute}), created.Add(time.Hour + time.Minute)},
		"approved":            {request(nil, conditions{"Approved": time.Minute}), created.Add(24*time.Hour + time.Minute)},
		"issued":              {request([]byte("C"), conditions{"Approved": time.Minute}), created.Add(time.Hour + time.Minute)},
		"expired before that": {request(ca.Cert, conditions{"Approved": late}), cert.NotAfter},
		"timeless":            {timeless, time.Time{}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := end(tt.request); !got.Equal(tt.want) {
				t.Errorf("ends %v, want %v", got, tt.want)
			}
		})
	}
}

func TestReconcile(t *testing.T) {
	key := reconcile.Request{NamespacedName: types.NamespacedName{Name: "r"}}
	controllertest.Run(t, controllertest.Case{
		Objects: []client.Object{request(nil, nil)},
		Request: key,
		New: func(c client.Client) reconcile.Reconciler {
			return &Reconciler{Client: c, Clock: clocktesting.NewFakePassiveClock(created.Add(24 * time.Hour))}
		},
		Want: func(ctx context.Context, c client.Client) error {
			if err := c.Get(ctx, key.NamespacedName, &certificatesv1.CertificateSigningRequest{}); !apierrors.IsNotFound(err) {
				return fmt.Errorf("getting the request: %w", err)
			}
			return nil
		},
	})
	c := fake.NewClientBuilder().WithObjects(request(nil, nil)).Build()
	result, err := (&Reconciler{Client: c, Clock: clocktesting.NewFakePassiveClock(created.Add(23 * time.Hour))}).Reconcile(t.Context(), key)
	if err != nil || result.RequeueAfter != time.Hour {
		t.Errorf("comes back after %v, %v", result.RequeueAfter, err)
	}
}
