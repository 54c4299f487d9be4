// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package certificatesigningrequestcleaner deletes CertificateSigningRequests that have served their purpose or never
// will. Touch it when they pile up, or go too early.
package certificatesigningrequestcleaner

import (
	"context"
	"fmt"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"minik8s.io/minik8s/pkg/controllers/setup"
	"minik8s.io/minik8s/pkg/pki"
)

const (
	// afterEnd is how long a request stays that was issued, denied or failed.
	afterEnd = time.Hour
	// waiting is how long one stays that nobody decides on, or nobody signs.
	waiting = 24 * time.Hour
)

// Reconciler works on one request at a time.
type Reconciler struct {
	Client client.Client
	Clock  clock.PassiveClock
}

// Setup adds the controller to the manager.
func Setup(env setup.Env) error {
	return ctrl.NewControllerManagedBy(env.Manager).
		Named(env.Name).
		For(&certificatesv1.CertificateSigningRequest{}).
		WithOptions(env.Options()).
		Complete(env.Barrier.PerRequest(&Reconciler{Client: env.Client, Clock: env.Clock}))
}

// Reconcile deletes the request in req if its time is over, or comes back when it will be.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	var request certificatesv1.CertificateSigningRequest
	if err := r.Client.Get(ctx, req.NamespacedName, &request); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	end := end(&request)
	if end.IsZero() {
		return reconcile.Result{}, nil
	}
	if left := end.Sub(r.Clock.Now()); left > 0 {
		return reconcile.Result{RequeueAfter: left}, nil
	}
	if err := r.Client.Delete(ctx, &request, client.Preconditions{UID: &request.UID}); client.IgnoreNotFound(err) != nil {
		return reconcile.Result{}, fmt.Errorf("deleting csr %q: %w", request.Name, err)
	}
	return reconcile.Result{}, nil
}

// end returns the first moment at which there is a reason to delete the request, or zero if there will be none.
func end(r *certificatesv1.CertificateSigningRequest) time.Time {
	issued := len(r.Status.Certificate) > 0
	var first time.Time
	after := func(t metav1.Time, d time.Duration) {
		if e := t.Add(d); !t.IsZero() && (first.IsZero() || e.Before(first)) {
			first = e
		}
	}
	if len(r.Status.Conditions) == 0 {
		after(r.CreationTimestamp, waiting)
	}
	for _, c := range r.Status.Conditions {
		switch {
		case c.Type == certificatesv1.CertificateDenied, c.Type == certificatesv1.CertificateFailed:
			after(c.LastUpdateTime, afterEnd)
		case c.Type == certificatesv1.CertificateApproved && issued:
			after(c.LastUpdateTime, afterEnd)
			if cert, err := pki.ParseCertificate(r.Status.Certificate); err == nil {
				after(metav1.NewTime(cert.NotAfter), 0)
			}
		case c.Type == certificatesv1.CertificateApproved:
			after(c.LastUpdateTime, waiting)
		}
	}
	return first
}
