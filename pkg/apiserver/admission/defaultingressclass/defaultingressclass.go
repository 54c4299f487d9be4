// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package defaultingressclass gives Ingresses that name no class the one that is marked as the default. Touch it when the
// choice changes.
package defaultingressclass

import (
	"cmp"
	"context"
	"errors"
	"slices"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/initializer"
	"k8s.io/client-go/informers"
	networkinglisters "k8s.io/client-go/listers/networking/v1"

	"minik8s.io/minik8s/pkg/apiserver/admission/object"
	"minik8s.io/minik8s/pkg/registry/networking/ingress"
)

// Name of the plugin.
const Name = "DefaultIngressClass"

// Plugin is the admission plugin.
type Plugin struct {
	*admission.Handler
	lister networkinglisters.IngressClassLister
}

var (
	_ admission.MutationInterface                  = (*Plugin)(nil)
	_ initializer.WantsExternalKubeInformerFactory = (*Plugin)(nil)
)

// New returns the plugin.
func New() admission.Interface { return &Plugin{Handler: admission.NewHandler(admission.Create)} }

// SetExternalKubeInformerFactory implements initializer.WantsExternalKubeInformerFactory.
func (p *Plugin) SetExternalKubeInformerFactory(f informers.SharedInformerFactory) {
	classes := f.Networking().V1().IngressClasses()
	p.lister = classes.Lister()
	p.SetReadyFunc(classes.Informer().HasSynced)
}

// ValidateInitialization implements admission.InitializationValidator.
func (p *Plugin) ValidateInitialization() error {
	if p.lister == nil {
		return errors.New(Name + " requires a lister")
	}
	return nil
}

// Admit implements admission.MutationInterface.
func (p *Plugin) Admit(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if a.GetResource().GroupResource() != ingress.Resource.GroupResource() || a.GetSubresource() != "" {
		return nil
	}
	in, err := object.New[*networkingv1.Ingress](a)
	if err != nil {
		return err
	}
	if _, annotated := in.Annotations[ingress.ClassAnnotation]; annotated || in.Spec.IngressClassName != nil {
		return nil
	}
	classes, err := p.lister.List(labels.Everything())
	if err != nil {
		return admission.NewForbidden(a, err)
	}
	if class := choose(classes); class != nil {
		in.Spec.IngressClassName = &class.Name
	}
	return nil
}

// choose returns the newest class that is marked as the default, nil if none is.
func choose(classes []*networkingv1.IngressClass) *networkingv1.IngressClass {
	marked := slices.DeleteFunc(slices.Clone(classes), func(c *networkingv1.IngressClass) bool {
		return c.Annotations[networkingv1.AnnotationIsDefaultIngressClass] != "true"
	})
	if len(marked) == 0 {
		return nil
	}
	return slices.MinFunc(marked, func(a, b *networkingv1.IngressClass) int {
		return cmp.Or(b.CreationTimestamp.Compare(a.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
}
