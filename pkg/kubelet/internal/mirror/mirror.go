// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package mirror keeps a mirror pod in the API for each static pod of the node. Touch it when mirror pods are made or removed at
// other times; what they look like is staticpod's.
package mirror

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"minik8s.io/minik8s/pkg/kubelet/internal/staticpod"
)

const (
	// callPatience bounds one call to the API server.
	callPatience = 10 * time.Second
	// resync is how often everything is looked at without a cause.
	resync = time.Minute
	// firstRetry and lastRetry bound the wait after a failure, which doubles.
	firstRetry, lastRetry = 50 * time.Millisecond, 20 * time.Second
	// workers is how many mirrors are looked after at once, so that one that hangs does not hold up all.
	workers = 2
)

// errNoNode is why there are no mirrors at first.
var errNoNode = errors.New("the node is not registered")

// Static are the static pods of this node. Its methods do not block.
type Static interface {
	// Static returns the static pod of that name, nil if there is none. complete says that all are known.
	Static(name types.NamespacedName) (pod *corev1.Pod, complete bool)
	// Names are those of all static pods.
	Names() []types.NamespacedName
}

// Config is what a Manager is made from; all fields are required.
type Config struct {
	Client kubernetes.Interface
	// Pods are those that are bound to this node in the API. Its owner starts it.
	Pods   cache.SharedIndexInformer
	Static Static
	// Node is this node as last seen, nil if it was not seen yet.
	Node func() *corev1.Node
	// Status is what the kubelet says of a static pod, nil if nothing yet; Seen is told of each whose mirror was looked at.
	Status func(types.UID) *corev1.PodStatus
	Seen   func(pod *corev1.Pod)
	Clock  clock.WithTicker
}

// Manager makes mirror pods, makes them again, and removes them.
type Manager struct {
	cfg   Config
	queue workqueue.TypedRateLimitingInterface[types.NamespacedName]
}

// New returns a Manager.
func New(cfg Config) *Manager {
	return &Manager{cfg: cfg, queue: workqueue.NewTypedRateLimitingQueue(
		workqueue.NewTypedItemExponentialFailureRateLimiter[types.NamespacedName](firstRetry, lastRetry))}
}

// Look has the mirror of that name looked at. It does not block.
func (m *Manager) Look(name types.NamespacedName) { m.queue.Add(name) }

// Start keeps the mirrors until ctx ends.
func (m *Manager) Start(ctx context.Context) error {
	look := func(o any) {
		if d, ok := o.(cache.DeletedFinalStateUnknown); ok {
			o = d.Obj
		}
		if p, ok := o.(*corev1.Pod); ok && staticpod.IsMirror(p) {
			m.Look(nameOf(p))
		}
	}
	registration, err := m.cfg.Pods.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: look, UpdateFunc: func(_, now any) { look(now) }, DeleteFunc: look,
	})
	if err != nil {
		return fmt.Errorf("watching mirror pods: %w", err)
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	defer m.queue.ShutDown()
	if !cache.WaitForCacheSync(ctx.Done(), registration.HasSynced) {
		return nil
	}
	for range workers {
		wg.Go(func() {
			for m.next(ctx) {
			}
		})
	}
	ticker := m.cfg.Clock.NewTicker(resync)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C():
			m.LookAtAll()
		}
	}
}

// LookAtAll has all mirrors looked at, as when it has just become known which static pods there are. It does not block.
func (m *Manager) LookAtAll() {
	for _, name := range m.cfg.Static.Names() {
		m.Look(name)
	}
	for _, o := range m.cfg.Pods.GetStore().List() {
		if p, ok := o.(*corev1.Pod); ok && staticpod.IsMirror(p) {
			m.Look(nameOf(p))
		}
	}
}

func nameOf(p *corev1.Pod) types.NamespacedName {
	return types.NamespacedName{Namespace: p.Namespace, Name: p.Name}
}

func (m *Manager) next(ctx context.Context) bool {
	name, stop := m.queue.Get()
	if stop {
		return false
	}
	defer m.queue.Done(name)
	if err := m.sync(ctx, name); err != nil {
		switch logger := klog.FromContext(ctx); {
		case ctx.Err() != nil:
		case errors.Is(err, errNoNode) || m.queue.NumRequeues(name) > 0:
			logger.V(2).Info("Static pod is not shown in the API yet", "pod", name, "err", err)
		default:
			logger.Error(err, "Showing a static pod in the API failed, and is tried again", "pod", name)
		}
		m.queue.AddRateLimited(name)
		return true
	}
	m.queue.Forget(name)
	return true
}

// seen is the mirror of that name as last seen, nil if there is none.
func (m *Manager) seen(name types.NamespacedName) *corev1.Pod {
	o, ok, err := m.cfg.Pods.GetStore().GetByKey(name.String())
	if err != nil || !ok {
		return nil
	}
	if p, ok := o.(*corev1.Pod); ok && staticpod.IsMirror(p) {
		return p
	}
	return nil
}

// Mirror is the mirror of a static pod as last seen, nil if there is none of this very form of it.
func (m *Manager) Mirror(pod *corev1.Pod) *corev1.Pod {
	if p := m.seen(nameOf(pod)); p != nil && staticpod.IsMirrorOf(p, pod) {
		return p
	}
	return nil
}

// Translate is the uid of the static pod of which uid is the mirror's; any other uid it returns as it is.
func (m *Manager) Translate(uid types.UID) types.UID {
	for _, o := range m.cfg.Pods.GetStore().List() {
		p, ok := o.(*corev1.Pod)
		if !ok || p.UID != uid || !staticpod.IsMirror(p) {
			continue
		}
		if pod, _ := m.cfg.Static.Static(nameOf(p)); pod != nil {
			return pod.UID
		}
	}
	return uid
}

func (m *Manager) sync(ctx context.Context, name types.NamespacedName) error {
	pod, complete := m.cfg.Static.Static(name)
	mirror := m.seen(name)
	if pod == nil && !complete {
		return nil // its source has not told yet
	}
	var status *corev1.PodStatus
	if pod != nil {
		status = m.cfg.Status(pod.UID)
	}
	switch staticpod.Decide(pod, mirror, status) {
	case staticpod.Create:
		return m.create(ctx, pod)
	case staticpod.Delete:
		return m.remove(ctx, mirror)
	}
	if pod != nil {
		m.cfg.Seen(pod)
	}
	return nil
}

func (m *Manager) create(ctx context.Context, pod *corev1.Pod) error {
	node := m.cfg.Node()
	if node == nil || node.DeletionTimestamp != nil {
		return errNoNode
	}
	ctx, cancel := context.WithTimeout(ctx, callPatience)
	defer cancel()
	pods := m.cfg.Client.CoreV1().Pods(pod.Namespace)
	_, err := pods.Create(ctx, staticpod.Mirror(pod, node), metav1.CreateOptions{})
	if !apierrors.IsAlreadyExists(err) {
		return err
	}
	live, gerr := pods.Get(ctx, pod.Name, metav1.GetOptions{})
	if gerr == nil && live.Spec.NodeName == node.Name && staticpod.IsMirror(live) {
		return nil // the watch is behind, and has it looked at again
	}
	return errors.Join(err, gerr)
}

// remove removes a mirror at once: nothing runs that it would have to wait for.
func (m *Manager) remove(ctx context.Context, mirror *corev1.Pod) error {
	ctx, cancel := context.WithTimeout(ctx, callPatience)
	defer cancel()
	err := m.cfg.Client.CoreV1().Pods(mirror.Namespace).Delete(ctx, mirror.Name, metav1.DeleteOptions{
		GracePeriodSeconds: new(int64(0)), Preconditions: &metav1.Preconditions{UID: &mirror.UID},
	})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil // the watch is behind
	}
	return err
}
