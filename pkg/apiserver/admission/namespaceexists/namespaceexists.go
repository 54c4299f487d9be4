// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package namespaceexists refuses writes in namespaces that do not exist. NamespaceLifecycle does so for creates. Off by
// default. Touch it when other requests are to be refused too.
package namespaceexists

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

// Name of the plugin.
const Name = "NamespaceExists"

// Plugin is the admission plugin.
type Plugin struct {
	*admission.Handler
	client kubernetes.Interface
	lister corelisters.NamespaceLister
}

var (
	_ admission.ValidationInterface                = (*Plugin)(nil)
	_ initializer.WantsExternalKubeInformerFactory = (*Plugin)(nil)
	_ initializer.WantsExternalKubeClientSet       = (*Plugin)(nil)
)

// New returns the plugin.
func New() admission.Interface {
	return &Plugin{Handler: admission.NewHandler(admission.Create, admission.Update, admission.Delete)}
}

// SetExternalKubeInformerFactory implements initializer.WantsExternalKubeInformerFactory.
func (p *Plugin) SetExternalKubeInformerFactory(f informers.SharedInformerFactory) {
	namespaces := f.Core().V1().Namespaces()
	p.lister = namespaces.Lister()
	p.SetReadyFunc(namespaces.Informer().HasSynced)
}

// SetExternalKubeClientSet implements initializer.WantsExternalKubeClientSet.
func (p *Plugin) SetExternalKubeClientSet(client kubernetes.Interface) { p.client = client }

// ValidateInitialization implements admission.InitializationValidator.
func (p *Plugin) ValidateInitialization() error {
	if p.lister == nil || p.client == nil {
		return errors.New(Name + " requires a lister and a client")
	}
	return nil
}

// Validate implements admission.ValidationInterface.
func (p *Plugin) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if a.GetNamespace() == "" || a.GetResource().GroupResource() == corev1.Resource("namespaces") {
		return nil
	}
	if !p.WaitForReady() {
		return admission.NewForbidden(a, errors.New("not yet ready to handle request"))
	}
	_, err := p.lister.Get(a.GetNamespace())
	if apierrors.IsNotFound(err) { // the cache may be behind
		_, err = p.client.CoreV1().Namespaces().Get(ctx, a.GetNamespace(), metav1.GetOptions{})
	}
	if err == nil || apierrors.IsNotFound(err) {
		return err
	}
	return apierrors.NewInternalError(err)
}
