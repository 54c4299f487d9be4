// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	v1alpha1 "minik8s.io/minik8s/pkg/addons/apis/functions/v1alpha1"
	"minik8s.io/minik8s/pkg/addons/functions/internal/revision"
	"minik8s.io/minik8s/pkg/addons/functions/internal/runtime"
)

// refillAfter is how long after a pod was taken the pool is filled again: what has taken it starts meanwhile, and is in a hurry.
const refillAfter = 500 * time.Millisecond

// pool is the pods that are ready for any function of their namespace: in each namespace that has functions which they will do for, so
// many per runtime as the settings say. It is reconciled by namespace.
type pool struct {
	client client.Client
	of     *Reconciler
	all    chan event.TypedGenericEvent[string]

	mu    sync.Mutex
	taken map[string]time.Time // uids of pods that the cache may still have in the pool
	made  map[string]time.Time // NAMESPACE/NAME of pods that it may not have yet
	last  map[string]time.Time // when the last was taken, by namespace
}

func newPool(c client.Client, of *Reconciler) *pool {
	return &pool{
		client: c, of: of, all: make(chan event.TypedGenericEvent[string], 16),
		taken: map[string]time.Time{}, made: map[string]time.Time{}, last: map[string]time.Time{},
	}
}

func (p *pool) watch(mgr manager.Manager, c cache.Cache) error {
	every := handler.TypedFuncs[string, reconcile.Request]{
		GenericFunc: func(ctx context.Context, _ event.TypedGenericEvent[string], q queue) {
			var functions v1alpha1.FunctionList
			if err := p.client.List(ctx, &functions); err != nil {
				return // the cache has ended
			}
			for i := range functions.Items {
				q.Add(namespaceRequest(functions.Items[i].Namespace))
			}
		},
	}
	return ctrl.NewControllerManagedBy(mgr).Named("functionpool").
		WatchesRawSource(source.Kind(c, &v1alpha1.Function{}, handler.TypedEnqueueRequestsFromMapFunc(ofNamespace))).
		WatchesRawSource(source.Kind(c, &corev1.Pod{}, p.podEvents())).
		WatchesRawSource(source.TypedChannel(p.all, every)).
		Complete(p)
}

// podEvents has a namespace's pool looked at when a pod joins or leaves it.
func (p *pool) podEvents() handler.TypedEventHandler[*corev1.Pod, reconcile.Request] {
	look := func(q queue, pods ...*corev1.Pod) {
		for _, pod := range pods {
			if pod.Labels[revision.LabelPool] != "" {
				q.Add(namespaceRequest(pod.Namespace))
			}
		}
	}
	return handler.TypedFuncs[*corev1.Pod, reconcile.Request]{
		CreateFunc: func(_ context.Context, e event.TypedCreateEvent[*corev1.Pod], q queue) { look(q, e.Object) },
		UpdateFunc: func(_ context.Context, e event.TypedUpdateEvent[*corev1.Pod], q queue) {
			look(q, e.ObjectOld, e.ObjectNew)
		},
		DeleteFunc: func(_ context.Context, e event.TypedDeleteEvent[*corev1.Pod], q queue) { look(q, e.Object) },
	}
}

func ofNamespace(_ context.Context, f *v1alpha1.Function) []reconcile.Request {
	return []reconcile.Request{namespaceRequest(f.Namespace)}
}

func namespaceRequest(namespace string) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Name: namespace}}
}

func (p *pool) settingsChanged(ctx context.Context) {
	select {
	case p.all <- event.TypedGenericEvent[string]{}:
	case <-ctx.Done():
	}
}

// take returns a pod of the pool that runs, for a function to make its own; nil if there is none. Nobody else gets it.
func (p *pool) take(fn *v1alpha1.Function, rev *revision.Revision) *corev1.Pod {
	var pods corev1.PodList
	name := rev.Template.Runtime
	if err := p.client.List(context.Background(), &pods, client.InNamespace(fn.Namespace), client.MatchingLabels{revision.LabelPool: string(name)}); err != nil {
		return nil // of a cache, which has ended
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	r := (*p.of.settings.Load())[name]
	for i := range pods.Items {
		pod := &pods.Items[i]
		_, gone := p.taken[string(pod.UID)]
		if gone || !current(pod, r) || pod.Status.Phase != corev1.PodRunning || podAddress(pod) == "" || restarted(pod) {
			continue
		}
		p.taken[string(pod.UID)], p.last[fn.Namespace] = time.Now(), time.Now()
		return pod.DeepCopy()
	}
	return nil
}

// current tells whether a pod of a pool is as those that are made now.
func current(pod *corev1.Pod, r runtime.Runtime) bool {
	return pod.DeletionTimestamp == nil && len(pod.Spec.Containers) == 1 && pod.Spec.Containers[0].Image == r.Image &&
		slices.Equal(pod.Spec.Containers[0].Command, r.Command) && pod.Status.Phase != corev1.PodFailed && pod.Status.Phase != corev1.PodSucceeded
}

// restarted tells whether a pod has trouble to run.
func restarted(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.ContainerStatuses, func(c corev1.ContainerStatus) bool { return c.State.Running == nil })
}

// Reconcile has as many pods in the pool of a namespace as there are to be.
func (p *pool) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	namespace := request.Name
	var pods corev1.PodList
	if err := p.client.List(ctx, &pods, client.InNamespace(namespace), client.HasLabels{revision.LabelPool}); err != nil {
		return ctrl.Result{}, err
	}
	var functions v1alpha1.FunctionList
	if err := p.client.List(ctx, &functions, client.InNamespace(namespace)); err != nil {
		return ctrl.Result{}, err
	}
	have := p.count(pods.Items)
	if wait := p.wait(namespace); wait > 0 {
		return ctrl.Result{RequeueAfter: wait}, nil
	}
	var failed []error
	for name, r := range *p.of.settings.Load() {
		owner := poolOwner(functions.Items, name)
		want := 0
		if owner != nil {
			want = r.Pool
		}
		failed = append(failed, p.adjust(ctx, owner, name, r, want, have[name]))
	}
	return ctrl.Result{}, errors.Join(failed...)
}

// wait is how long nothing is to be done yet.
func (p *pool) wait(namespace string) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	wait := refillAfter - time.Since(p.last[namespace])
	if wait <= 0 {
		delete(p.last, namespace)
	}
	return wait
}

// count sorts pods by their runtimes, without those that have been taken.
func (p *pool) count(pods []corev1.Pod) map[v1alpha1.Runtime][]*corev1.Pod {
	p.mu.Lock()
	defer p.mu.Unlock()
	have := map[v1alpha1.Runtime][]*corev1.Pod{}
	for i := range pods {
		pod := &pods[i]
		delete(p.made, pod.Namespace+"/"+pod.Name)
		if _, gone := p.taken[string(pod.UID)]; gone {
			continue
		}
		name := v1alpha1.Runtime(pod.Labels[revision.LabelPool])
		have[name] = append(have[name], pod)
	}
	for name, at := range p.made {
		if time.Since(at) > patience {
			delete(p.made, name)
		}
	}
	for uid, at := range p.taken {
		if time.Since(at) > time.Minute {
			delete(p.taken, uid)
		}
	}
	return have
}

// coming is how many pods of a pool have been made that the cache does not have yet.
func (p *pool) coming(owner *v1alpha1.Function, name v1alpha1.Runtime) int {
	if owner == nil {
		return 0
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for at := range p.made {
		if strings.HasPrefix(at, fmt.Sprintf("%s/function-%s-", owner.Namespace, name)) {
			n++
		}
	}
	return n
}

// poolOwner is the oldest function of a runtime that a pod of the pool would do for; nil if there is none.
func poolOwner(functions []v1alpha1.Function, name v1alpha1.Runtime) *v1alpha1.Function {
	var oldest *v1alpha1.Function
	for i := range functions {
		fn := &functions[i]
		if fn.Spec.Runtime != name || fn.DeletionTimestamp != nil {
			continue
		}
		rev, err := revision.New(&fn.Spec, nil)
		if err != nil || !rev.Template.Poolable() {
			continue
		}
		if oldest == nil || fn.CreationTimestamp.Before(&oldest.CreationTimestamp) {
			oldest = fn
		}
	}
	return oldest
}

// adjust makes and deletes pods of one pool.
func (p *pool) adjust(ctx context.Context, owner *v1alpha1.Function, name v1alpha1.Runtime, r runtime.Runtime, want int, have []*corev1.Pod) error {
	var failed []error
	n := p.coming(owner, name)
	for _, pod := range have {
		if current(pod, r) && n < want {
			n++
			continue
		}
		if pod.DeletionTimestamp != nil || !p.claim(pod) {
			continue
		}
		if err := p.client.Delete(ctx, pod, client.Preconditions{UID: &pod.UID}); client.IgnoreNotFound(err) != nil {
			failed = append(failed, fmt.Errorf("deleting pod %s of the pool: %w", pod.Name, err))
		}
	}
	for ; n < want; n++ {
		pod := revision.PoolPod(owner, name, r, fmt.Sprintf("function-%s-%s", name, strings.ToLower(rand.Text()[:8])), rand.Text())
		if err := p.client.Create(ctx, pod); err != nil {
			if transient(err) != nil {
				failed = append(failed, fmt.Errorf("making a pod of the pool: %w", err))
			}
			break
		}
		p.mu.Lock()
		p.made[owner.Namespace+"/"+pod.Name] = time.Now()
		p.mu.Unlock()
	}
	return errors.Join(failed...)
}

// claim keeps functions from taking a pod that goes, unless one has.
func (p *pool) claim(pod *corev1.Pod) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, gone := p.taken[string(pod.UID)]; gone {
		return false
	}
	p.taken[string(pod.UID)] = time.Now()
	return true
}
