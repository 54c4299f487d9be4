// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package defaultstorageclass gives claims that ask for no storage class the default one. Touch it when the default is to
// reach other objects. See https://kubernetes.io/docs/concepts/storage/storage-classes/#default-storageclass.
package defaultstorageclass

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/initializer"
	"k8s.io/client-go/informers"
	storagelisters "k8s.io/client-go/listers/storage/v1"

	"minik8s.io/minik8s/pkg/apis/core/persistentvolumeclaim"
	"minik8s.io/minik8s/pkg/apis/storage/storageclass"
	"minik8s.io/minik8s/pkg/apiserver/admission/object"
)

// Name of the plugin.
const Name = "DefaultStorageClass"

// Plugin is the admission plugin.
type Plugin struct {
	*admission.Handler
	classes storagelisters.StorageClassLister
}

var (
	_ admission.MutationInterface                  = (*Plugin)(nil)
	_ initializer.WantsExternalKubeInformerFactory = (*Plugin)(nil)
)

// New returns the plugin.
func New() admission.Interface {
	return &Plugin{Handler: admission.NewHandler(admission.Create)}
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
		return errors.New("missing lister")
	}
	return nil
}

// Admit implements admission.MutationInterface.
func (p *Plugin) Admit(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if a.GetResource().GroupResource() != corev1.Resource("persistentvolumeclaims") || a.GetSubresource() != "" {
		return nil
	}
	claim, err := object.New[*corev1.PersistentVolumeClaim](a)
	if err != nil {
		return err
	}
	if _, asked := persistentvolumeclaim.Class(claim); asked {
		return nil
	}
	if !p.WaitForReady() {
		return admission.NewForbidden(a, errors.New("not yet ready to handle request"))
	}
	classes, err := p.classes.List(labels.Everything())
	if err != nil {
		return admission.NewForbidden(a, err)
	}
	if class := storageclass.Default(classes); class != nil {
		claim.Spec.StorageClassName = &class.Name
	}
	return nil
}
