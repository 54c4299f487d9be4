// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package resourcequota

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"minik8s.io/minik8s/pkg/apis/quota"
	"minik8s.io/minik8s/pkg/controllers/ownwrites"
	"minik8s.io/minik8s/pkg/controllers/setup"
)

// informers watch the kinds that some quota speaks of, from the first time it is asked for them, and wake the quotas when
// objects go. Kinds that the other controllers watch in full come from their cache, all others from one of its own, which
// keeps of plain kinds no more than their names.
type informers struct {
	// discover returns a mapper that knows nothing yet: one that does would name a version for ever.
	discover   func() (meta.RESTMapper, error)
	scheme     *runtime.Scheme
	shared     cache.Cache
	own        cache.Cache
	quotas     client.Reader
	clock      clock.PassiveClock
	controller controller.Controller

	mu sync.Mutex
	// watched is guarded by mu.
	watched map[schema.GroupResource]watched
}

// watched is the kind behind a resource, and when that was found out.
type watched struct {
	gvk  schema.GroupVersionKind
	when time.Time
}

func newInformers(env setup.Env) (*informers, error) {
	// The manager's mapper takes it that all built-in kinds are served; here it is the question.
	discover := func() (meta.RESTMapper, error) { return apiutil.NewDynamicRESTMapper(env.RESTConfig, env.HTTPClient) }
	mapper, err := discover()
	if err != nil {
		return nil, fmt.Errorf("creating the mapper of counted kinds: %w", err)
	}
	own, err := cache.New(env.RESTConfig, cache.Options{
		HTTPClient:       env.HTTPClient,
		Scheme:           env.Manager.GetScheme(),
		Mapper:           mapper,
		DefaultTransform: strip,
	})
	if err != nil {
		return nil, fmt.Errorf("creating the cache of counted objects: %w", err)
	}
	if err := env.Manager.Add(own); err != nil {
		return nil, fmt.Errorf("adding the cache of counted objects: %w", err)
	}
	return &informers{
		discover: discover,
		scheme:   env.Manager.GetScheme(),
		shared:   env.Manager.GetCache(),
		own:      own,
		quotas:   env.Client,
		clock:    env.Clock,
		watched:  map[schema.GroupResource]watched{},
	}, nil
}

// strip leaves of the objects of plain kinds what identifies them; nothing else is looked at. They are not asked for as
// metadata because a watch of those, as client-go makes it, may leave a goroutine behind when it ends.
func strip(obj any) (any, error) {
	u, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return cache.TransformStripManagedFields()(obj)
	}
	stripped := &unstructured.Unstructured{}
	stripped.SetGroupVersionKind(u.GroupVersionKind())
	stripped.SetNamespace(u.GetNamespace())
	stripped.SetName(u.GetName())
	stripped.SetUID(u.GetUID())
	stripped.SetResourceVersion(u.GetResourceVersion())
	return stripped, nil
}

// Devices implements Objects.
func (i *informers) Devices() quota.Devices { return devices{i.shared} }

// List implements Objects. The objects belong to the cache.
func (i *informers) List(ctx context.Context, kind quota.Kind, namespace string) ([]runtime.Object, error) {
	gvk, err := i.watch(ctx, kind)
	if err != nil {
		return nil, err
	}
	_, from := i.source(kind)
	var list client.ObjectList
	switch {
	case kind.Resource == quotas:
		list = &corev1.ResourceQuotaList{}
	case !kind.Plain && kind.Resource == corev1.Resource("pods"):
		list = &corev1.PodList{}
	case !kind.Plain && kind.Resource == corev1.Resource("services"):
		list = &corev1.ServiceList{}
	case !kind.Plain && kind.Resource == resourcev1.Resource("resourceclaims"):
		list = &resourcev1.ResourceClaimList{}
	case !kind.Plain:
		list = &corev1.PersistentVolumeClaimList{}
	default:
		plain := &unstructured.UnstructuredList{}
		plain.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
		list = plain
	}
	if err := from.List(ctx, list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, err
	}
	return meta.ExtractList(list)
}

// quotas count themselves. They are taken from where the quota at hand has been read: another cache may not have it yet, and
// nothing would ever tell.
var quotas = corev1.Resource("resourcequotas")

// source returns an empty object of the kind and the cache where it is.
func (i *informers) source(kind quota.Kind) (client.Object, cache.Cache) {
	switch {
	case kind.Resource == quotas:
		return &corev1.ResourceQuota{}, i.shared
	case kind.Plain:
		return &unstructured.Unstructured{}, i.own
	case kind.Resource == corev1.Resource("pods"):
		return &corev1.Pod{}, i.shared
	case kind.Resource == corev1.Resource("services"):
		return &corev1.Service{}, i.shared
	case kind.Resource == resourcev1.Resource("resourceclaims"):
		return &resourcev1.ResourceClaim{}, i.shared
	}
	return &corev1.PersistentVolumeClaim{}, i.own
}

// watch makes sure that the kind is watched, in a version that is served: one of a custom resource may cease to be.
func (i *informers) watch(ctx context.Context, kind quota.Kind) (schema.GroupVersionKind, error) {
	i.mu.Lock()
	there, ok := i.watched[kind.Resource]
	i.mu.Unlock()
	if ok && (i.scheme.Recognizes(there.gvk) || i.clock.Since(there.when) < rediscover) {
		return there.gvk, nil
	}
	gvk, err := i.kindOf(kind.Resource) // asks the API server, and holds up no other quota
	if err != nil {
		return gvk, err
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if there = i.watched[kind.Resource]; there.gvk != gvk {
		obj, from := i.source(kind)
		obj.GetObjectKind().SetGroupVersionKind(gvk)
		if err := i.controller.Watch(source.Kind(from, obj, handler.EnqueueRequestsFromMapFunc(i.inNamespace), i.frees(kind))); err != nil {
			return gvk, fmt.Errorf("watching %s: %w", kind.Resource, err)
		}
		if !there.gvk.Empty() {
			former, from := i.source(kind)
			former.GetObjectKind().SetGroupVersionKind(there.gvk)
			if err := from.RemoveInformer(ctx, former); err != nil {
				return gvk, fmt.Errorf("watching no more %s: %w", there.gvk, err)
			}
		}
	}
	i.watched[kind.Resource] = watched{gvk, i.clock.Now()}
	return gvk, nil
}

// kindOf asks the API server for the kind of a resource, in the version that it prefers.
func (i *informers) kindOf(resource schema.GroupResource) (schema.GroupVersionKind, error) {
	mapper, err := i.discover()
	if err != nil {
		return schema.GroupVersionKind{}, fmt.Errorf("creating the mapper of %s: %w", resource, err)
	}
	gvk, err := mapper.KindFor(resource.WithVersion(""))
	if meta.IsNoMatchError(err) {
		return gvk, fmt.Errorf("%w: %w", ErrNotServed, err)
	}
	if err != nil {
		return gvk, fmt.Errorf("finding the kind of %s: %w", resource, err)
	}
	return gvk, nil
}

// inNamespace maps an object to the quotas of its namespace.
func (i *informers) inNamespace(ctx context.Context, obj client.Object) []reconcile.Request {
	return ownwrites.EnqueueFor(ctx, i.quotas, &corev1.ResourceQuotaList{}, func(*corev1.ResourceQuota) bool { return true }, client.InNamespace(obj.GetNamespace()))
}

// frees lets through the events after which less may be used. New objects are left to admission: it knows of each before any
// cache does, and adding up from a cache that is behind would take back what admission has just counted.
func (i *informers) frees(kind quota.Kind) predicate.Predicate {
	return predicate.Funcs{
		CreateFunc:  func(event.CreateEvent) bool { return false },
		GenericFunc: func(event.GenericEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			if kind.Plain {
				return false
			}
			before, errBefore := kind.Usage(e.ObjectOld, i.clock.Now())
			after, errAfter := kind.Usage(e.ObjectNew, i.clock.Now())
			return errBefore != nil || errAfter != nil || !quota.Equal(before, after) || kind.Moves != nil && kind.Moves(e.ObjectOld, e.ObjectNew)
		},
	}
}
