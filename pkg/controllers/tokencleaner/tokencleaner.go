// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package tokencleaner deletes bootstrap tokens, by which new nodes join, once they have expired. Touch it when they
// stay.
package tokencleaner

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	bootstrapapi "k8s.io/cluster-bootstrap/token/api"
	bootstrapsecrets "k8s.io/cluster-bootstrap/util/secrets"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"minik8s.io/minik8s/pkg/controllers/setup"
)

// Reconciler works on one token at a time.
type Reconciler struct {
	Client client.Client
	Clock  clock.PassiveClock
}

// Setup adds the controller to the manager.
func Setup(env setup.Env) error {
	token := predicate.NewPredicateFuncs(isToken)
	return ctrl.NewControllerManagedBy(env.Manager).
		Named(env.Name).
		For(&corev1.Secret{}, builder.WithPredicates(token)).
		WithOptions(env.Options()).
		Complete(env.Barrier.PerRequest(&Reconciler{Client: env.Client, Clock: env.Clock}))
}

func isToken(obj client.Object) bool {
	s, ok := obj.(*corev1.Secret)
	return ok && s.Namespace == metav1.NamespaceSystem && s.Type == bootstrapapi.SecretTypeBootstrapToken
}

// Reconcile deletes the token in req if it has expired, or comes back when it will have. A token without a time lives
// for ever, one whose time cannot be read not at all.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	var secret corev1.Secret
	if err := r.Client.Get(ctx, req.NamespacedName, &secret); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if !isToken(&secret) {
		return reconcile.Result{}, nil
	}
	left, expired := bootstrapsecrets.GetExpiration(&secret, r.Clock.Now())
	if !expired {
		return reconcile.Result{RequeueAfter: left}, nil
	}
	if err := r.Client.Delete(ctx, &secret, client.Preconditions{UID: &secret.UID}); client.IgnoreNotFound(err) != nil {
		return reconcile.Result{}, fmt.Errorf("deleting the expired token %q: %w", secret.Name, err)
	}
	return reconcile.Result{}, nil
}
