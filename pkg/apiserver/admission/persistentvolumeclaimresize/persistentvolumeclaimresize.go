// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package persistentvolumeclaimresize lets claims grow only if their storage class says that its volumes can. Touch it when
// something else decides about that. See
// https://kubernetes.io/docs/concepts/storage/persistent-volumes/#expanding-persistent-volumes-claims.
package persistentvolumeclaimresize

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/initializer"
	"k8s.io/client-go/informers"
	storagelisters "k8s.io/client-go/listers/storage/v1"

	"minik8s.io/minik8s/pkg/apis/core/persistentvolumeclaim"
	"minik8s.io/minik8s/pkg/apiserver/admission/object"
)

// Name of the plugin.
const Name = "PersistentVolumeClaimResize"

// Plugin is the admission plugin.
type Plugin struct {
	*admission.Handler
	classes storagelisters.StorageClassLister
}

var (
	_ admission.ValidationInterface                = (*Plugin)(nil)
	_ initializer.WantsExternalKubeInformerFactory = (*Plugin)(nil)
)

// New returns the plugin.
func New() admission.Interface {
	return &Plugin{Handler: admission.NewHandler(admission.Update)}
}

// SetExternalKubeInformerFactory implements initializer.WantsExternalKubeInformerFactory.
func (p *Plugin) SetExternalKubeInformerFactory(f informers.SharedInformerFactory) {
	classes := f.Storage().V1().StorageClasses()
	p.classes = classes.Lister()
	p.SetReadyFunc(classes.Informer().HasSynced)
}

// ValidateInitialization implements admission.InitializationValidator.
func (p *Plugin) ValidateInitialization() error {
	if p.classes == nil {
		return errors.New("missing storageclass lister")
	}
	return nil
}

// Validate implements admission.ValidationInterface.
func (p *Plugin) Validate(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if a.GetResource().GroupResource() != corev1.Resource("persistentvolumeclaims") || a.GetSubresource() != "" {
		return nil
	}
	claim, err := object.New[*corev1.PersistentVolumeClaim](a)
	if err != nil {
		return err
	}
	old, err := object.Old[*corev1.PersistentVolumeClaim](a)
	if err != nil {
		return err
	}
	size := claim.Spec.Resources.Requests[corev1.ResourceStorage]
	if size.Cmp(old.Spec.Resources.Requests[corev1.ResourceStorage]) <= 0 {
		return nil
	}
	if old.Status.Phase != corev1.ClaimBound {
		return admission.NewForbidden(a, errors.New("Only bound persistent volume claims can be expanded")) //nolint:staticcheck // upstream's words
	}
	if !p.WaitForReady() {
		return admission.NewForbidden(a, errors.New("not yet ready to handle request"))
	}
	if !p.grows(claim, old) {
		return admission.NewForbidden(a, errors.New("only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize"))
	}
	return nil
}

// grows reports whether the volumes of the claim's class can grow.
func (p *Plugin) grows(claim, old *corev1.PersistentVolumeClaim) bool {
	name, _ := persistentvolumeclaim.Class(claim)
	if was, _ := persistentvolumeclaim.Class(old); name == "" || name != was {
		return false
	}
	class, err := p.classes.Get(name)
	return err == nil && class.AllowVolumeExpansion != nil && *class.AllowVolumeExpansion
}
