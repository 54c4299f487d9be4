// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package kubeapiserverclustertrustbundlepublisher puts the certificates that the API server is trusted by into a
// ClusterTrustBundle, from which pods can project them (KEP-3257). Touch it when another signer gets a bundle.
package kubeapiserverclustertrustbundlepublisher

import (
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"minik8s.io/minik8s/pkg/controllers/setup"
)

// SignerName is the signer whose bundle is published.
const SignerName = "kubernetes.io/kube-apiserver-serving"

// Reconciler keeps one bundle of the signer in being, that of RootCA.
type Reconciler struct {
	Client client.Client
	// RootCA is the PEM bundle that is published.
	RootCA []byte
}

// Setup adds the controller to the manager. Without a CA there is nothing to publish.
func Setup(env setup.Env) error {
	r := &Reconciler{Client: env.Client, RootCA: anchors(env.RootCA)}
	if len(r.RootCA) == 0 {
		return nil
	}
	begin := source.Func(func(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		queue.Add(r.request())
		return nil
	})
	ours := func(context.Context, client.Object) []reconcile.Request { return []reconcile.Request{r.request()} }
	return ctrl.NewControllerManagedBy(env.Manager).
		Named(env.Name).
		WatchesRawSource(begin).
		Watches(&certificatesv1.ClusterTrustBundle{}, handler.EnqueueRequestsFromMapFunc(ours)).
		WithOptions(env.Options()).
		Complete(env.Barrier.PerRequest(r))
}

// anchors returns the certificates of CAs in a PEM bundle; if it has no others, it stays as it is. Clients may also
// trust the server's own certificate, which the API does not take for an anchor.
func anchors(bundle []byte) []byte {
	var found []byte
	others := false
	for block, rest := pem.Decode(bundle); block != nil; block, rest = pem.Decode(rest) {
		if cert, err := x509.ParseCertificate(block.Bytes); err == nil && cert.IsCA {
			found = append(found, pem.EncodeToMemory(block)...)
			continue
		}
		others = true
	}
	if others {
		return found
	}
	return bundle
}

// request names the bundle. It stands for all bundles of the signer.
func (r *Reconciler) request() reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Name: Name(SignerName, r.RootCA)}}
}

// Name is that of a signer's bundle. It depends on the content, so that two bundles can exist during a change of CA.
func Name(signer string, bundle []byte) string {
	sum := sha256.Sum256(bundle)
	return fmt.Sprintf("%s:%x", strings.ReplaceAll(signer, "/", ":"), sum[:12])
}

// Reconcile creates or repairs the bundle in req, and deletes all others of the signer.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	if err := r.publish(ctx, req.Name); err != nil {
		return reconcile.Result{}, fmt.Errorf("publishing the trust bundle %q: %w", req.Name, err)
	}
	var all certificatesv1.ClusterTrustBundleList
	if err := r.Client.List(ctx, &all); err != nil {
		return reconcile.Result{}, fmt.Errorf("listing trust bundles: %w", err)
	}
	var errs []error
	for i := range all.Items {
		b := &all.Items[i]
		if b.Name == req.Name || b.Spec.SignerName != SignerName {
			continue
		}
		if err := r.Client.Delete(ctx, b); client.IgnoreNotFound(err) != nil {
			errs = append(errs, fmt.Errorf("deleting the trust bundle %q: %w", b.Name, err))
		}
	}
	return reconcile.Result{}, errors.Join(errs...)
}

func (r *Reconciler) publish(ctx context.Context, name string) error {
	var bundle certificatesv1.ClusterTrustBundle
	err := r.Client.Get(ctx, types.NamespacedName{Name: name}, &bundle)
	switch {
	case apierrors.IsNotFound(err):
		return r.Client.Create(ctx, &certificatesv1.ClusterTrustBundle{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec:       certificatesv1.ClusterTrustBundleSpec{SignerName: SignerName, TrustBundle: string(r.RootCA)},
		})
	case err != nil || bundle.Spec.TrustBundle == string(r.RootCA):
		return err
	}
	bundle.Spec.TrustBundle = string(r.RootCA)
	return r.Client.Update(ctx, &bundle)
}
