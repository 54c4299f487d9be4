// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package aggregator

import (
	"context"
	"fmt"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsinformers "k8s.io/apiextensions-apiserver/pkg/client/informers/externalversions/apiextensions/v1"
	apiextensionslisters "k8s.io/apiextensions-apiserver/pkg/client/listers/apiextensions/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/kube-aggregator/pkg/controllers/autoregister"
)

// customPriority is that of all groups of custom resources: after the built-in ones.
var customPriority = priority{group: 1000, version: 100}

// registration keeps an APIService for each group version that definitions of custom resources serve.
type registration struct {
	lister   apiextensionslisters.CustomResourceDefinitionLister
	informed cache.ResourceEventHandlerRegistration
	register autoregister.AutoAPIServiceRegistration
	queue    workqueue.TypedInterface[schema.GroupVersion]
	synced   chan struct{} // closed when the definitions that were there at the start are registered
}

func newRegistration(crds apiextensionsinformers.CustomResourceDefinitionInformer, register autoregister.AutoAPIServiceRegistration) (*registration, error) {
	r := &registration{lister: crds.Lister(), register: register, queue: workqueue.NewTyped[schema.GroupVersion](), synced: make(chan struct{})}
	var err error
	r.informed, err = crds.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: r.enqueue,
		// A version may have gone from the old one.
		UpdateFunc: func(old, obj any) { r.enqueue(old); r.enqueue(obj) },
		DeleteFunc: r.enqueue,
	})
	if err != nil {
		return nil, fmt.Errorf("watching CustomResourceDefinitions: %w", err)
	}
	return r, nil
}

func (r *registration) enqueue(obj any) {
	if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = gone.Obj
	}
	if crd, ok := obj.(*apiextensionsv1.CustomResourceDefinition); ok {
		for _, v := range crd.Spec.Versions {
			r.queue.Add(schema.GroupVersion{Group: crd.Spec.Group, Version: v.Name})
		}
	}
}

// run registers until ctx ends.
func (r *registration) run(ctx context.Context) {
	if !cache.WaitForCacheSync(ctx.Done(), r.informed.HasSynced) {
		r.queue.ShutDown()
		return
	}
	go func() {
		<-ctx.Done()
		r.queue.ShutDown()
	}()
	// The handlers have queued all that was there.
	for range r.queue.Len() {
		r.next()
	}
	close(r.synced)
	for r.next() {
	}
}

// waitForSync returns false if ctx ends before the definitions that were there are registered.
func (r *registration) waitForSync(ctx context.Context) bool {
	select {
	case <-r.synced:
		return true
	case <-ctx.Done():
		return false
	}
}

// next registers one group version, or unregisters it. It returns false at the end.
func (r *registration) next() bool {
	gv, end := r.queue.Get()
	if end {
		return false
	}
	defer r.queue.Done(gv)
	crds, err := r.lister.List(labels.Everything())
	if err != nil {
		utilruntime.HandleError(err) // a lister reads from memory
		return true
	}
	if serves(crds, gv) {
		r.register.AddAPIServiceToSync(localService(gv, customPriority))
	} else {
		r.register.RemoveAPIServiceToSync(gv.Version + "." + gv.Group)
	}
	return true
}

// serves tells whether one of the definitions serves gv.
func serves(crds []*apiextensionsv1.CustomResourceDefinition, gv schema.GroupVersion) bool {
	for _, crd := range crds {
		if crd.Spec.Group != gv.Group {
			continue
		}
		for _, v := range crd.Spec.Versions {
			if v.Name == gv.Version && v.Served {
				return true
			}
		}
	}
	return false
}
