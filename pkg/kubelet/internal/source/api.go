// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package source

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"minik8s.io/minik8s/pkg/kubelet/internal/staticpod"
)

// API are the pods that are bound to a node in the API server, but for mirror pods: those show what other sources have
// (pkg/kubelet/internal/mirror), and nobody runs them.
type API struct {
	informer     cache.SharedIndexInformer
	node         string
	registration cache.ResourceEventHandlerRegistration
	// Besides must be known too before anything is (services, the node).
	besides []cache.InformerSynced
}

const byUID = "uid"

// NewAPI returns the source that an informer of pods feeds, which has not been started. It is synced when besides are, too.
func NewAPI(informer cache.SharedIndexInformer, node string, besides ...cache.InformerSynced) (*API, error) {
	err := informer.AddIndexers(cache.Indexers{byUID: func(o any) ([]string, error) {
		p, ok := o.(*corev1.Pod)
		if !ok || !runs(node, p) {
			return nil, nil
		}
		return []string{string(p.UID)}, nil
	}})
	if err != nil {
		return nil, fmt.Errorf("watching pods: %w", err)
	}
	return &API{informer: informer, node: node, besides: besides}, nil
}

// runs says whether an object of the API is a pod that the node is to run.
func runs(node string, p *corev1.Pod) bool { return p.Spec.NodeName == node && !staticpod.IsMirror(p) }

// Name implements Source.
func (a *API) Name() string { return staticpod.API }

// Wait implements Source; the informer is its owner's to wait for.
func (a *API) Wait() {}

// Start implements Source; the informer is started by its owner.
func (a *API) Start(ctx context.Context, changed func(types.UID)) error {
	tell := func(o any) {
		if d, ok := o.(cache.DeletedFinalStateUnknown); ok {
			o = d.Obj
		}
		if p, ok := o.(*corev1.Pod); ok && runs(a.node, p) && ctx.Err() == nil {
			changed(p.UID)
		}
	}
	var err error
	a.registration, err = a.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: tell, DeleteFunc: tell,
		UpdateFunc: func(before, now any) {
			if b, ok := before.(*corev1.Pod); ok {
				if n, ok := now.(*corev1.Pod); !ok || b.UID != n.UID {
					tell(before) // deleted and made anew between two looks
				}
			}
			tell(now)
		},
	})
	if err != nil {
		return fmt.Errorf("watching pods: %w", err)
	}
	return nil
}

// Synced implements Source.
func (a *API) Synced() bool {
	for _, synced := range a.besides {
		if !synced() {
			return false
		}
	}
	return a.registration != nil && a.registration.HasSynced()
}

// Pod implements Source.
func (a *API) Pod(uid types.UID) *corev1.Pod {
	objs, err := a.informer.GetIndexer().ByIndex(byUID, string(uid))
	if err != nil || len(objs) == 0 {
		return nil
	}
	p, ok := objs[0].(*corev1.Pod)
	if !ok {
		return nil
	}
	return staticpod.FromAPI(p)
}

// Renewed implements Source: no two pods of the API have the same UID.
func (*API) Renewed(types.UID) bool { return false }

// Pods implements Source.
func (a *API) Pods() []*corev1.Pod {
	var out []*corev1.Pod
	for _, o := range a.informer.GetStore().List() {
		if p, ok := o.(*corev1.Pod); ok && runs(a.node, p) {
			out = append(out, staticpod.FromAPI(p))
		}
	}
	return out
}
