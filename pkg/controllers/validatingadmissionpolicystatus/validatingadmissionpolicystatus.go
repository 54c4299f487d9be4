// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package validatingadmissionpolicystatus checks the expressions of ValidatingAdmissionPolicies against the schemas of what they
// match, and writes what cannot be right into their status (KEP-3488). Touch it when warnings are missing; what they say comes from
// pkg/apiserver/policycheck. The policies are enforced by the API server.
package validatingadmissionpolicystatus

import (
	"context"
	"fmt"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	admissionv1apply "k8s.io/client-go/applyconfigurations/admissionregistration/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"minik8s.io/minik8s/pkg/controllers/setup"
)

// fieldManager owns the status.
const fieldManager = "validatingadmissionpolicy-status"

// Reconciler works on one policy at a time.
type Reconciler struct {
	Client client.Client
	// Check returns what is wrong with the expressions of a policy.
	Check func(*admissionv1.ValidatingAdmissionPolicy) []admissionv1.ExpressionWarning
}

// Setup adds the controller to the manager, if there is somebody to check policies.
func Setup(env setup.Env) error {
	if env.CheckPolicy == nil {
		return nil
	}
	return ctrl.NewControllerManagedBy(env.Manager).
		Named(env.Name).
		For(&admissionv1.ValidatingAdmissionPolicy{}).
		WithOptions(env.Options()).
		Complete(env.Barrier.PerRequest(&Reconciler{Client: env.Client, Check: env.CheckPolicy}))
}

// Reconcile checks the policy in req, once per generation.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	p := &admissionv1.ValidatingAdmissionPolicy{}
	if err := r.Client.Get(ctx, req.NamespacedName, p); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if p.Generation <= p.Status.ObservedGeneration {
		return reconcile.Result{}, nil
	}
	checked := admissionv1apply.TypeChecking()
	for _, w := range r.Check(p) {
		checked.WithExpressionWarnings(admissionv1apply.ExpressionWarning().WithFieldRef(w.FieldRef).WithWarning(w.Warning))
	}
	status := admissionv1apply.ValidatingAdmissionPolicyStatus().WithObservedGeneration(p.Generation).WithTypeChecking(checked)
	if err := setup.ApplyStatus(ctx, r.Client, p, admissionv1apply.ValidatingAdmissionPolicy(p.Name).WithStatus(status), fieldManager); err != nil {
		return reconcile.Result{}, fmt.Errorf("writing the status of policy %q: %w", p.Name, err)
	}
	return reconcile.Result{}, nil
}
