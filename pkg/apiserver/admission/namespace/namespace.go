// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package namespace is what plugins are made of that look at the namespace of a request; touch it when they need more of it.
package namespace

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/initializer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
)

// Handler is an admission.Handler that finds namespaces; plugins embed it.
type Handler struct {
	*admission.Handler
	client kubernetes.Interface
	lister corelisters.NamespaceLister
}

var (
	_ initializer.WantsExternalKubeInformerFactory = (*Handler)(nil)
	_ initializer.WantsExternalKubeClientSet       = (*Handler)(nil)
)

// NewHandler returns a handler of the operations.
func NewHandler(operations ...admission.Operation) Handler {
	return Handler{Handler: admission.NewHandler(operations...)}
}

// SetExternalKubeInformerFactory implements initializer.WantsExternalKubeInformerFactory.
func (h *Handler) SetExternalKubeInformerFactory(f informers.SharedInformerFactory) {
	namespaces := f.Core().V1().Namespaces()
	h.lister = namespaces.Lister()
	h.SetReadyFunc(namespaces.Informer().HasSynced)
}

// SetExternalKubeClientSet implements initializer.WantsExternalKubeClientSet.
func (h *Handler) SetExternalKubeClientSet(client kubernetes.Interface) { h.client = client }

// ValidateInitialization implements admission.InitializationValidator.
func (h *Handler) ValidateInitialization() error {
	if h.lister == nil || h.client == nil {
		return errors.New("a lister of namespaces and a client are required")
	}
	return nil
}

// Of returns the namespace of a request, which the caller must not change. It fails with an API status error: Forbidden
// while the cache fills, NotFound if the server has no such namespace either.
func (h *Handler) Of(ctx context.Context, a admission.Attributes) (*corev1.Namespace, error) {
	if !h.WaitForReady() {
		return nil, admission.NewForbidden(a, errors.New("not yet ready to handle request"))
	}
	ns, err := h.lister.Get(a.GetNamespace())
	if apierrors.IsNotFound(err) { // the cache may be behind
		ns, err = h.client.CoreV1().Namespaces().Get(ctx, a.GetNamespace(), metav1.GetOptions{})
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, apierrors.NewInternalError(err)
	}
	return ns, err
}
