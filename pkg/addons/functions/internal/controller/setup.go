// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package controller brings functions about: their revisions, pods, Services and conditions. What is to be is decided in plan.go, of
// plain data; the rest brings it about. Touch it to change the life of a function.
package controller

import (
	"context"
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	v1alpha1 "minik8s.io/minik8s/pkg/addons/apis/functions/v1alpha1"
	"minik8s.io/minik8s/pkg/addons/functions/internal/activator"
	"minik8s.io/minik8s/pkg/addons/functions/internal/revision"
	"minik8s.io/minik8s/pkg/addons/functions/internal/runtime"
)

// Config is what the controllers need to know.
type Config struct {
	// Address is where requests of functions come in; pods and the machines of the cluster reach it.
	Address netip.Addr
}

// workers is how many functions are worked on at a time.
const workers = 16

// bySource is the index from ConfigMaps to the functions whose code they have.
const bySource = "source"

// Reconciler brings functions about.
type Reconciler struct {
	config      Config
	client      client.Client // reads what is managed from a cache
	live        client.Reader // reads all else
	rest        *rest.Config  // reaches the API server
	mapper      meta.RESTMapper
	activator   *activator.Activator
	recorder    events.EventRecorder
	pool        *pool
	invocations *invocations
	settings    atomic.Pointer[runtime.Settings]
	secrets     secrets
	wake        chan event.TypedGenericEvent[types.NamespacedName]
	lifetime    context.Context // ends with the controllers
	end         context.CancelFunc

	mu     sync.Mutex
	states map[types.NamespacedName]*state
}

// Setup adds the controllers to a manager.
func Setup(mgr manager.Manager, config Config) error {
	c, err := newCache(mgr)
	if err != nil {
		return err
	}
	cached, err := client.New(mgr.GetConfig(), client.Options{
		HTTPClient: mgr.GetHTTPClient(), Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(), Cache: &client.CacheOptions{Reader: c},
	})
	if err != nil {
		return fmt.Errorf("building the client: %w", err)
	}
	r := &Reconciler{
		config: config, client: cached, live: mgr.GetAPIReader(), recorder: mgr.GetEventRecorder("functions"),
		rest: mgr.GetConfig(), mapper: mgr.GetRESTMapper(), secrets: secrets{all: map[types.NamespacedName]*secret{}},
		states: map[types.NamespacedName]*state{}, wake: make(chan event.TypedGenericEvent[types.NamespacedName]),
	}
	r.lifetime, r.end = context.WithCancel(context.Background())
	r.pool = newPool(cached, r)
	r.invocations = newInvocations(r.lifetime, cached, mgr.GetAPIReader())
	r.activator = activator.New(activator.Config{
		Address: config.Address, Wanted: r.wanted, Failed: r.failed, Webhook: r.webhook, Later: r.invocations,
	})
	r.invocations.activator = r.activator
	defaults, _ := runtime.Read(nil)
	r.settings.Store(&defaults)
	if err := mgr.Add(manager.RunnableFunc(r.run)); err != nil {
		return err
	}
	if err := r.watch(mgr, c); err != nil {
		return fmt.Errorf("building the controller of functions: %w", err)
	}
	if err := r.pool.watch(mgr, c); err != nil {
		return fmt.Errorf("building the controller of pools: %w", err)
	}
	if err := r.invocations.watch(mgr, c); err != nil {
		return fmt.Errorf("building the controller of invocations: %w", err)
	}
	return nil
}

// newCache has what the controllers have made, functions and invocations: not all pods and ConfigMaps of the cluster.
func newCache(mgr manager.Manager) (cache.Cache, error) {
	ours := cache.ByObject{Label: labels.SelectorFromSet(labels.Set{revision.LabelManagedBy: revision.Manager})}
	c, err := cache.New(mgr.GetConfig(), cache.Options{
		HTTPClient: mgr.GetHTTPClient(), Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(),
		DefaultTransform: cache.TransformStripManagedFields(),
		ByObject: map[client.Object]cache.ByObject{
			&corev1.Pod{}: ours, &corev1.ConfigMap{}: ours, &corev1.Service{}: ours, &discoveryv1.EndpointSlice{}: ours,
		},
	})
	if err != nil {
		return nil, fmt.Errorf("building the cache: %w", err)
	}
	err = c.IndexField(context.Background(), &v1alpha1.Function{}, bySource, func(o client.Object) []string {
		if s := o.(*v1alpha1.Function).Spec.Source.ConfigMap; s != nil {
			return []string{s.Name}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("indexing functions: %w", err)
	}
	return c, mgr.Add(c)
}

// run ends what the process has of functions when it ends.
func (r *Reconciler) run(ctx context.Context) error {
	<-ctx.Done()
	r.end()
	r.activator.Close()
	r.invocations.close()
	return nil
}

func (r *Reconciler) watch(mgr manager.Manager, c cache.Cache) error {
	code, err := newCodeInformer(mgr)
	if err != nil {
		return err
	}
	direct := handler.TypedFuncs[types.NamespacedName, reconcile.Request]{
		GenericFunc: func(_ context.Context, e event.TypedGenericEvent[types.NamespacedName], q queue) {
			q.Add(reconcile.Request{NamespacedName: e.Object})
		},
	}
	return ctrl.NewControllerManagedBy(mgr).Named("function").
		WatchesRawSource(source.Kind(c, &v1alpha1.Function{}, &handler.TypedEnqueueRequestForObject[*v1alpha1.Function]{})).
		WatchesRawSource(source.Kind(c, &corev1.Pod{}, ofFunction[*corev1.Pod]())).
		WatchesRawSource(source.Kind(c, &corev1.ConfigMap{}, ofFunction[*corev1.ConfigMap]())).
		WatchesRawSource(source.Kind(c, &corev1.Service{}, ofFunction[*corev1.Service]())).
		WatchesRawSource(source.Kind(c, &discoveryv1.EndpointSlice{}, ofFunction[*discoveryv1.EndpointSlice]())).
		WatchesRawSource(&source.Informer{Informer: code, Handler: handler.EnqueueRequestsFromMapFunc(r.ofConfigMap)}).
		WatchesRawSource(source.TypedChannel(r.wake, direct)).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		Complete(r)
}

// newCodeInformer watches names and versions of ConfigMaps, any of which may be code. The cache would do so, too, but leaves a goroutine
// behind when a watch of metadata ends.
func newCodeInformer(mgr manager.Manager) (toolscache.SharedIndexInformer, error) {
	c, err := metadata.NewForConfigAndClient(metadata.ConfigFor(mgr.GetConfig()), mgr.GetHTTPClient())
	if err != nil {
		return nil, fmt.Errorf("making the client that watches ConfigMaps: %w", err)
	}
	resource := corev1.SchemeGroupVersion.WithResource("configmaps")
	informer := metadatainformer.NewFilteredMetadataInformer(c, resource, metav1.NamespaceAll, 0, nil, nil).Informer()
	if err := informer.SetTransform(cache.TransformStripManagedFields()); err != nil {
		return nil, fmt.Errorf("preparing to watch ConfigMaps: %w", err)
	}
	return informer, mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
		informer.RunWithContext(ctx)
		return nil
	}))
}

// ofFunction finds the function of what is managed by its label.
func ofFunction[T client.Object]() handler.TypedEventHandler[T, reconcile.Request] {
	return handler.TypedEnqueueRequestsFromMapFunc(func(_ context.Context, o T) []reconcile.Request {
		name := o.GetLabels()[revision.LabelFunction]
		if name == "" {
			return nil
		}
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: o.GetNamespace(), Name: name}}}
	})
}

// ofConfigMap finds the functions whose code a ConfigMap has; that of the settings is read, and concerns all.
func (r *Reconciler) ofConfigMap(ctx context.Context, o client.Object) []reconcile.Request {
	var functions v1alpha1.FunctionList
	options := []client.ListOption{client.InNamespace(o.GetNamespace()), client.MatchingFields{bySource: o.GetName()}}
	if o.GetNamespace() == metav1.NamespaceSystem && o.GetName() == runtime.ConfigMap {
		r.readSettings(ctx, o)
		options = nil
	}
	if err := r.client.List(ctx, &functions, options...); err != nil {
		return nil // the cache is not there yet, and all functions will come by themselves
	}
	requests := make([]reconcile.Request, len(functions.Items))
	for i := range functions.Items {
		requests[i].NamespacedName = client.ObjectKeyFromObject(&functions.Items[i])
	}
	return requests
}

// settingsRetry is how soon the settings are read again if that failed.
const settingsRetry = 10 * time.Second

// readSettings reads the settings. Nothing else has them read before they change, so that this goes on until they are read.
func (r *Reconciler) readSettings(ctx context.Context, o client.Object) {
	var cm corev1.ConfigMap
	limited, cancel := context.WithTimeout(ctx, settingsRetry)
	defer cancel()
	if err := r.live.Get(limited, client.ObjectKeyFromObject(o), &cm); client.IgnoreNotFound(err) != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Reading the settings of functions failed; it is tried again")
		time.AfterFunc(settingsRetry, func() {
			if r.lifetime.Err() == nil {
				r.readSettings(r.lifetime, o)
			}
		})
		return
	}
	settings, err := runtime.Read(cm.Data)
	if err != nil {
		r.recorder.Eventf(&cm, nil, corev1.EventTypeWarning, "InvalidSetting", "Read", "%v", err)
	}
	r.settings.Store(&settings)
	r.pool.settingsChanged(ctx)
}

type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// poke has a function reconciled soon.
func (r *Reconciler) poke(name types.NamespacedName) {
	r.mu.Lock()
	s := r.states[name]
	again := s == nil || s.poked
	if s != nil {
		s.poked = true
	}
	r.mu.Unlock()
	if !again {
		go func() { // the queue takes it soon; who pokes does not wait for that
			select {
			case r.wake <- event.TypedGenericEvent[types.NamespacedName]{Object: name}:
			case <-r.lifetime.Done():
			}
		}()
	}
}
