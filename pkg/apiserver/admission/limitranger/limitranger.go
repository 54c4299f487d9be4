// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package limitranger applies the LimitRanges of a namespace: it gives containers the default requests and limits they lack
// and refuses pods and claims out of bounds. Touch it when LimitRanges can bound something new. See
// https://kubernetes.io/docs/concepts/policy/limit-range/.
package limitranger

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/labels"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/initializer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"

	"minik8s.io/minik8s/pkg/apiserver/admission/object"
)

// Name of the plugin.
const Name = "LimitRanger"

// Plugin is the admission plugin.
type Plugin struct {
	*admission.Handler
	ranges corelisters.LimitRangeLister
	live   *live
}

var (
	_ admission.MutationInterface                  = (*Plugin)(nil)
	_ admission.ValidationInterface                = (*Plugin)(nil)
	_ initializer.WantsExternalKubeInformerFactory = (*Plugin)(nil)
	_ initializer.WantsExternalKubeClientSet       = (*Plugin)(nil)
)

// New returns the plugin.
func New() admission.Interface {
	return &Plugin{Handler: admission.NewHandler(admission.Create, admission.Update)}
}

// SetExternalKubeInformerFactory implements initializer.WantsExternalKubeInformerFactory.
func (p *Plugin) SetExternalKubeInformerFactory(f informers.SharedInformerFactory) {
	ranges := f.Core().V1().LimitRanges()
	p.ranges = ranges.Lister()
	p.SetReadyFunc(ranges.Informer().HasSynced)
}

// SetExternalKubeClientSet implements initializer.WantsExternalKubeClientSet.
func (p *Plugin) SetExternalKubeClientSet(c kubernetes.Interface) { p.live = newLive(c.CoreV1()) }

// ValidateInitialization implements admission.InitializationValidator.
func (p *Plugin) ValidateInitialization() error {
	if p.ranges == nil {
		return errors.New("missing limitRange lister")
	}
	if p.live == nil {
		return errors.New("missing client")
	}
	return nil
}

// Admit implements admission.MutationInterface: it sets defaults in new pods.
func (p *Plugin) Admit(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if a.GetResource().GroupResource() != corev1.Resource("pods") || a.GetSubresource() != "" || a.GetOperation() != admission.Create {
		return nil
	}
	pod, err := object.New[*corev1.Pod](a)
	if err != nil {
		return err
	}
	return p.each(ctx, a, func(r *corev1.LimitRange) error {
		setDefaults(pod, r)
		return nil
	})
}

// Validate implements admission.ValidationInterface: it checks new pods, resized ones, and claims.
func (p *Plugin) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	switch a.GetResource().GroupResource() {
	case corev1.Resource("pods"):
		created := a.GetOperation() == admission.Create && a.GetSubresource() == ""
		if resized := a.GetOperation() == admission.Update && a.GetSubresource() == "resize"; !created && !resized {
			return nil
		}
		pod, err := object.New[*corev1.Pod](a)
		if err != nil {
			return err
		}
		return p.each(ctx, a, func(r *corev1.LimitRange) error { return checkPod(pod, r) })
	case corev1.Resource("persistentvolumeclaims"):
		if a.GetSubresource() != "" {
			return nil
		}
		claim, err := object.New[*corev1.PersistentVolumeClaim](a)
		if err != nil {
			return err
		}
		return p.each(ctx, a, func(r *corev1.LimitRange) error { return checkClaim(claim, r) })
	}
	return nil
}

// each calls f with the limit ranges of the namespace and refuses the request if it fails, unless it is about what is being deleted.
func (p *Plugin) each(ctx context.Context, a admission.Attributes, f func(*corev1.LimitRange) error) error {
	if old, err := meta.Accessor(a.GetOldObject()); err == nil && old.GetDeletionTimestamp() != nil {
		return nil
	}
	if !p.WaitForReady() {
		return admission.NewForbidden(a, errors.New("not yet ready to handle request"))
	}
	all, err := p.ranges.LimitRanges(a.GetNamespace()).List(labels.Everything())
	if err != nil {
		return admission.NewForbidden(a, fmt.Errorf("unable to %s %v at this time because there was an error enforcing limit ranges", a.GetOperation(), a.GetResource()))
	}
	if len(all) == 0 { // perhaps the cache has not heard of them
		if all, err = p.live.list(ctx, a.GetNamespace()); err != nil {
			return admission.NewForbidden(a, err)
		}
	}
	for _, r := range all {
		if err := f(r); err != nil {
			return admission.NewForbidden(a, err)
		}
	}
	return nil
}

func checkClaim(claim *corev1.PersistentVolumeClaim, r *corev1.LimitRange) error {
	var errs []error
	for _, limit := range r.Spec.Limits {
		if limit.Type != corev1.LimitTypePersistentVolumeClaim {
			continue
		}
		b := bounded{kind: limit.Type, requests: claim.Spec.Resources.Requests}
		for name, q := range limit.Min {
			errs = append(errs, b.min(name, q))
		}
		for name, q := range limit.Max {
			errs = append(errs, b.maxRequest(name, q))
		}
	}
	return utilerrors.NewAggregate(errs)
}
