// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package bootstrapsigner signs the kubeconfig in the ConfigMap kube-public/cluster-info with each bootstrap token, so
// that whoever holds a token can trust it before trusting the server (JWS, RFC 7515, with detached content). Touch it
// when kubeadm join does not trust a cluster.
package bootstrapsigner

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	bootstrapapi "k8s.io/cluster-bootstrap/token/api"
	"k8s.io/cluster-bootstrap/token/jws"
	bootstrapsecrets "k8s.io/cluster-bootstrap/util/secrets"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"minik8s.io/minik8s/pkg/controllers/setup"
)

// clusterInfo is the ConfigMap that is signed.
var clusterInfo = types.NamespacedName{Namespace: metav1.NamespacePublic, Name: bootstrapapi.ConfigMapClusterInfo}

// Reconciler works on that one ConfigMap.
type Reconciler struct {
	Client client.Client
	Clock  clock.PassiveClock
}

// Setup adds the controller to the manager.
func Setup(env setup.Env) error {
	info := predicate.NewPredicateFuncs(func(obj client.Object) bool { return client.ObjectKeyFromObject(obj) == clusterInfo })
	token := predicate.NewPredicateFuncs(func(obj client.Object) bool {
		s, ok := obj.(*corev1.Secret)
		return ok && isToken(s)
	})
	toInfo := func(context.Context, client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: clusterInfo}}
	}
	return ctrl.NewControllerManagedBy(env.Manager).
		Named(env.Name).
		For(&corev1.ConfigMap{}, builder.WithPredicates(info)).
		Watches(&corev1.Secret{}, handler.EnqueueRequestsFromMapFunc(toInfo), builder.WithPredicates(token)).
		WithOptions(env.Options()).
		Complete(env.Barrier.PerRequest(&Reconciler{Client: env.Client, Clock: env.Clock}))
}

func isToken(s *corev1.Secret) bool {
	return s.Namespace == metav1.NamespaceSystem && s.Type == bootstrapapi.SecretTypeBootstrapToken
}

// Reconcile brings the signatures in the ConfigMap up to date.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	var info corev1.ConfigMap
	if err := r.Client.Get(ctx, req.NamespacedName, &info); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	var secrets corev1.SecretList
	if err := r.Client.List(ctx, &secrets, client.InNamespace(metav1.NamespaceSystem), client.UnsafeDisableDeepCopy); err != nil {
		return reconcile.Result{}, fmt.Errorf("listing tokens: %w", err)
	}
	signed, err := sign(info.Data, tokens(secrets.Items, r.Clock.Now()))
	if err != nil || maps.Equal(signed, info.Data) {
		return reconcile.Result{}, err
	}
	info.Data = signed
	if err := r.Client.Update(ctx, &info); client.IgnoreNotFound(err) != nil {
		return reconcile.Result{}, fmt.Errorf("updating the signatures in %q: %w", req, err)
	}
	return reconcile.Result{}, nil
}

// sign returns data with one signature of the kubeconfig in it for each token (a map of secrets by their id), and
// without those of other tokens. Data without kubeconfig stays as it is.
func sign(data, tokens map[string]string) (map[string]string, error) {
	content, ok := data[bootstrapapi.KubeConfigKey]
	if !ok {
		return data, nil
	}
	signed := maps.Clone(data)
	maps.DeleteFunc(signed, func(key, _ string) bool { return strings.HasPrefix(key, bootstrapapi.JWSSignatureKeyPrefix) })
	for id, secret := range tokens {
		signature, err := jws.ComputeDetachedSignature(content, id, secret)
		if err != nil {
			return nil, fmt.Errorf("signing with the token %q: %w", id, err)
		}
		signed[bootstrapapi.JWSSignatureKeyPrefix+id] = signature
	}
	return signed, nil
}

// tokens returns those that may sign: whole ones that have not expired and are meant for it.
func tokens(secrets []corev1.Secret, now time.Time) map[string]string {
	found := map[string]string{}
	for i := range secrets {
		s := &secrets[i]
		if !isToken(s) {
			continue
		}
		name, _ := bootstrapsecrets.ParseName(s.Name)
		id, secret := string(s.Data[bootstrapapi.BootstrapTokenIDKey]), string(s.Data[bootstrapapi.BootstrapTokenSecretKey])
		whole := id != "" && id == name && secret != ""
		if whole && string(s.Data[bootstrapapi.BootstrapTokenUsageSigningKey]) == "true" && !bootstrapsecrets.HasExpired(s, now) {
			found[id] = secret
		}
	}
	return found
}
