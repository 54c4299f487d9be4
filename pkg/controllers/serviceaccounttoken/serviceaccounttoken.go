// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package serviceaccounttoken fills the Secrets in which people ask for a token of a ServiceAccount that never expires,
// and removes them with their account. Touch it for the content of such Secrets; tokens of pods come from the API
// server.
package serviceaccounttoken

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"minik8s.io/minik8s/pkg/controllers/ownwrites"
	"minik8s.io/minik8s/pkg/controllers/setup"
)

// Reconciler works on one Secret at a time.
type Reconciler struct {
	Client client.Client
	// Live tells whether an account that the cache misses is missing indeed.
	Live client.Reader
	// Tokens signs.
	Tokens *Signer
	// RootCA is the PEM bundle put beside the token; nothing is put there if it is empty.
	RootCA []byte
}

// Setup adds the controller to the manager. Without a key there are no tokens.
func Setup(env setup.Env) error {
	if len(env.TokenKey) == 0 {
		return nil
	}
	tokens, err := NewSigner(env.TokenKey)
	if err != nil {
		return err
	}
	tokenSecret := predicate.NewPredicateFuncs(func(obj client.Object) bool {
		s, ok := obj.(*corev1.Secret)
		return ok && s.Type == corev1.SecretTypeServiceAccountToken
	})
	return ctrl.NewControllerManagedBy(env.Manager).
		Named(env.Name).
		For(&corev1.Secret{}, builder.WithPredicates(tokenSecret)).
		Watches(&corev1.ServiceAccount{}, handler.EnqueueRequestsFromMapFunc(secretsOf(env.Client))).
		WithOptions(env.Options()).
		Complete(env.Barrier.PerRequest(&Reconciler{Client: env.Client, Live: env.Live, Tokens: tokens, RootCA: env.RootCA}))
}

// secretsOf maps an account to the Secrets that name it.
func secretsOf(reader client.Reader) handler.MapFunc {
	return func(ctx context.Context, account client.Object) []reconcile.Request {
		return ownwrites.EnqueueFor(ctx, reader, &corev1.SecretList{}, func(s *corev1.Secret) bool {
			return s.Type == corev1.SecretTypeServiceAccountToken && s.Annotations[corev1.ServiceAccountNameKey] == account.GetName()
		}, client.InNamespace(account.GetNamespace()))
	}
}

// Reconcile fills the Secret in req, or deletes it if its account is gone. If it is the Secret that is gone, accounts
// stop naming it.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	secret := &corev1.Secret{}
	err := r.Client.Get(ctx, req.NamespacedName, secret)
	if apierrors.IsNotFound(err) {
		return reconcile.Result{}, r.forget(ctx, req.NamespacedName)
	}
	if err != nil || secret.Type != corev1.SecretTypeServiceAccountToken ||
		secret.Annotations[corev1.ServiceAccountNameKey] == "" {
		return reconcile.Result{}, err
	}
	account, err := r.account(ctx, secret)
	if err != nil {
		return reconcile.Result{}, err
	}
	if account == nil {
		if err := r.Client.Delete(ctx, secret, client.Preconditions{UID: &secret.UID}); client.IgnoreNotFound(err) != nil {
			return reconcile.Result{}, fmt.Errorf("deleting the token secret %q of an account that is gone: %w", req, err)
		}
		return reconcile.Result{}, nil
	}
	changed, err := r.fill(secret, account)
	if err != nil || !changed {
		return reconcile.Result{}, err
	}
	if err := r.Client.Update(ctx, secret); client.IgnoreNotFound(err) != nil {
		return reconcile.Result{}, fmt.Errorf("filling the token secret %q: %w", req, err)
	}
	return reconcile.Result{}, nil
}

// account returns the account that a Secret is of, or nil if there is none. An account made anew is another one.
func (r *Reconciler) account(ctx context.Context, secret *corev1.Secret) (*corev1.ServiceAccount, error) {
	key := types.NamespacedName{Namespace: secret.Namespace, Name: secret.Annotations[corev1.ServiceAccountNameKey]}
	uid := types.UID(secret.Annotations[corev1.ServiceAccountUIDKey])
	for _, reader := range []client.Reader{r.Client, r.Live} {
		account := &corev1.ServiceAccount{}
		err := reader.Get(ctx, key, account)
		switch {
		case err == nil && (uid == "" || uid == account.UID):
			return account, nil
		case client.IgnoreNotFound(err) != nil:
			return nil, fmt.Errorf("reading service account %q: %w", key, err)
		}
	}
	return nil, nil
}

// fill puts in what is missing and reports whether anything was.
func (r *Reconciler) fill(secret *corev1.Secret, account *corev1.ServiceAccount) (bool, error) {
	needsCA := len(r.RootCA) > 0 && !bytes.Equal(secret.Data[corev1.ServiceAccountRootCAKey], r.RootCA)
	needsNamespace := len(secret.Data[corev1.ServiceAccountNamespaceKey]) == 0
	needsToken := len(secret.Data[corev1.ServiceAccountTokenKey]) == 0
	if !needsCA && !needsNamespace && !needsToken {
		return false, nil
	}
	if secret.Data == nil {
		secret.Data = map[string][]byte{}
	}
	if needsCA {
		secret.Data[corev1.ServiceAccountRootCAKey] = r.RootCA
	}
	if needsNamespace {
		secret.Data[corev1.ServiceAccountNamespaceKey] = []byte(secret.Namespace)
	}
	if needsToken {
		token, err := r.Tokens.Token(account, secret.Name)
		if err != nil {
			return false, fmt.Errorf("signing a token of service account %q: %w", account.Name, err)
		}
		secret.Data[corev1.ServiceAccountTokenKey] = []byte(token)
	}
	secret.Annotations[corev1.ServiceAccountUIDKey] = string(account.UID)
	return true, nil
}

// forget removes the references of accounts to a token Secret that is gone. Accounts may also name Secrets of other
// kinds, which this controller does not see: the API server is asked before a reference goes.
func (r *Reconciler) forget(ctx context.Context, key types.NamespacedName) error {
	var accounts corev1.ServiceAccountList
	if err := r.Client.List(ctx, &accounts, client.InNamespace(key.Namespace)); err != nil {
		return fmt.Errorf("listing service accounts: %w", err)
	}
	refersTo := func(ref corev1.ObjectReference) bool { return ref.Name == key.Name }
	for i := range accounts.Items {
		account := &accounts.Items[i]
		if !slices.ContainsFunc(account.Secrets, refersTo) {
			continue
		}
		if err := r.Live.Get(ctx, key, &corev1.Secret{}); !apierrors.IsNotFound(err) {
			return err
		}
		account.Secrets = slices.DeleteFunc(account.Secrets, refersTo)
		if err := r.Client.Update(ctx, account); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("removing the secret %q from service account %q: %w", key, account.Name, err)
		}
	}
	return nil
}
