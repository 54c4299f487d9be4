// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"reflect"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	storagelisters "k8s.io/client-go/listers/storage/v1"
	"k8s.io/client-go/tools/cache"
	fwk "k8s.io/kube-scheduler/framework"

	"minik8s.io/minik8s/pkg/interning"
)

// NewInformers returns informers that keep no more than the scheduler needs: no
// pod that has ended, and what transform leaves; nil drops the record of who wrote which field,
// and has what is equal in objects that follow each other in memory once.
func NewInformers(client kubernetes.Interface, transform cache.TransformFunc) informers.SharedInformerFactory {
	if transform == nil {
		transform = trim()
	}
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithTransform(transform))
	factory.InformerFor(&corev1.Pod{}, func(client kubernetes.Interface, resync time.Duration) cache.SharedIndexInformer {
		running := fields.AndSelectors(
			fields.OneTermNotEqualSelector("status.phase", string(corev1.PodSucceeded)),
			fields.OneTermNotEqualSelector("status.phase", string(corev1.PodFailed)))
		informer := coreinformers.NewFilteredPodInformer(client, metav1.NamespaceAll, resync,
			cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc},
			func(o *metav1.ListOptions) { o.FieldSelector = running.String() })
		// An error would mean that the informer runs already.
		_ = informer.SetTransform(transform)
		return informer
	})
	return factory
}

// trim is a transform for informers that nobody changes objects of. An informer that fills itself has its objects transformed twice: one
// without a record of its fields may have been here, share memory with others, and be read by now, and is not touched.
func trim() cache.TransformFunc {
	var mu sync.Mutex
	last := map[reflect.Type]runtime.Object{} // guarded by mu
	return func(obj any) (any, error) {
		o, typed := obj.(runtime.Object)
		m, ok := obj.(metav1.Object)
		if !typed || !ok || len(m.GetManagedFields()) == 0 {
			return obj, nil
		}
		m.SetManagedFields(nil)
		t := reflect.TypeOf(obj)
		mu.Lock()
		defer mu.Unlock()
		if before := last[t]; before != nil {
			interning.Share(before, o)
		}
		last[t] = o
		return obj, nil
	}
}

// csiNodes implements fwk.CSIManager. Asking for the lister is what registers its
// informer.
type csiNodes struct {
	factory informers.SharedInformerFactory
}

func (c csiNodes) CSINodes() fwk.CSINodeLister {
	return csiNodeLister{c.factory.Storage().V1().CSINodes().Lister()}
}

type csiNodeLister struct{ storagelisters.CSINodeLister }

func (l csiNodeLister) List() ([]*storagev1.CSINode, error) {
	return l.CSINodeLister.List(labels.Everything())
}
