// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package rootcacertpublisher puts the certificate bundle that pods trust the API server by into every active namespace,
// as the ConfigMap kube-root-ca.crt. Touch it when pods need another file of that kind.
package rootcacertpublisher

import (
	"context"
	"errors"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"minik8s.io/minik8s/pkg/controllers/setup"
)

const (
	// ConfigMapName is the name that the service account volume projects.
	ConfigMapName = "kube-root-ca.crt"
	// Key is the file name in that volume.
	Key = "ca.crt"

	descriptionAnnotation = "kubernetes.io/description"
	description           = "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the internal service IP or kubernetes.default.svc. " +
		"No other usage is guaranteed across distributions of Kubernetes clusters."
)

// Reconciler keeps the ConfigMap of one namespace equal to RootCA.
type Reconciler struct {
	Client client.Client
	RootCA []byte
}

// Setup adds the controller to the manager.
func Setup(env setup.Env) error {
	if len(env.RootCA) == 0 {
		return errors.New("RootCA is empty")
	}
	return ctrl.NewControllerManagedBy(env.Manager).
		Named(env.Name).
		For(&corev1.Namespace{}).
		Watches(&corev1.ConfigMap{}, handler.EnqueueRequestsFromMapFunc(namespaceOf)).
		WithOptions(env.Options()).
		Complete(env.Barrier.PerRequest(&Reconciler{Client: env.Client, RootCA: env.RootCA}))
}

// namespaceOf maps the published ConfigMap to its namespace.
func namespaceOf(_ context.Context, obj client.Object) []reconcile.Request {
	if obj.GetName() != ConfigMapName {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: obj.GetNamespace()}}}
}

// Reconcile creates or repairs the ConfigMap of the namespace in req.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	var ns corev1.Namespace
	if err := r.Client.Get(ctx, req.NamespacedName, &ns); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if ns.Status.Phase != corev1.NamespaceActive {
		return reconcile.Result{}, nil
	}
	data := map[string]string{Key: string(r.RootCA)}
	var cm corev1.ConfigMap
	err := r.Client.Get(ctx, types.NamespacedName{Namespace: ns.Name, Name: ConfigMapName}, &cm)
	switch {
	case apierrors.IsNotFound(err):
		return reconcile.Result{}, r.create(ctx, ns.Name, data)
	case err != nil:
		return reconcile.Result{}, err
	case maps.Equal(cm.Data, data) && cm.Annotations[descriptionAnnotation] != "": // somebody may have put it in other words
		return reconcile.Result{}, nil
	}
	cm.Data = data
	if cm.Annotations == nil {
		cm.Annotations = map[string]string{}
	}
	cm.Annotations[descriptionAnnotation] = description
	if err := r.Client.Update(ctx, &cm); err != nil {
		return reconcile.Result{}, fmt.Errorf("updating the root CA of namespace %q: %w", ns.Name, err)
	}
	return reconcile.Result{}, nil
}

func (r *Reconciler) create(ctx context.Context, namespace string, data map[string]string) error {
	err := r.Client.Create(ctx, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:   namespace,
			Name:        ConfigMapName,
			Annotations: map[string]string{descriptionAnnotation: description},
		},
		Data: data,
	})
	// The namespace went away in between: there is nothing to publish to.
	if err == nil || apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) || apierrors.IsNotFound(err) {
		return nil
	}
	return fmt.Errorf("publishing the root CA to namespace %q: %w", namespace, err)
}
