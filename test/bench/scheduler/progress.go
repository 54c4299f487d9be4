// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"minik8s.io/minik8s/test/program"
)

// progress is what the scheduler has done with pods, as a watch tells it.
type progress struct {
	mu    sync.Mutex
	pods  map[types.UID]seen           // guarded by mu
	bound func(namespace, name string) // guarded by mu; may be nil
}

// seen is a pod; one that was deleted stays, for it counts as scheduled if it was.
type seen struct {
	namespace, name  string
	labels           labels.Set
	bound, attempted time.Time
	gone             bool
}

// watchPods follows all pods until ctx ends, and returns when it has seen those that are there.
func watchPods(ctx context.Context, client kubernetes.Interface) (*progress, error) {
	p := &progress{pods: map[types.UID]seen{}}
	source := cache.NewListWatchFromClient(client.CoreV1().RESTClient(), "pods", metav1.NamespaceAll, fields.Everything())
	informer := cache.NewSharedInformer(source, &corev1.Pod{}, 0)
	// Not more than is asked for below is kept.
	if err := informer.SetTransform(func(obj any) (any, error) {
		pod, ok := obj.(*corev1.Pod)
		if !ok {
			return obj, nil
		}
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{UID: pod.UID, Namespace: pod.Namespace, Name: pod.Name, Labels: pod.Labels, ResourceVersion: pod.ResourceVersion},
			Spec:       corev1.PodSpec{NodeName: pod.Spec.NodeName},
			Status:     corev1.PodStatus{Conditions: pod.Status.Conditions},
		}, nil
	}); err != nil {
		return nil, err
	}
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { p.see(obj, false) },
		UpdateFunc: func(_, obj any) { p.see(obj, false) },
		DeleteFunc: func(obj any) { p.see(obj, true) },
	}); err != nil {
		return nil, err
	}
	go informer.RunWithContext(ctx)
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		return nil, ctx.Err()
	}
	return p, nil
}

func (p *progress) see(obj any, gone bool) {
	if lost, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = lost.Obj
	}
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return
	}
	now := time.Now()
	p.mu.Lock()
	s := p.pods[pod.UID]
	s.namespace, s.name, s.labels, s.gone = pod.Namespace, pod.Name, pod.Labels, gone
	first := pod.Spec.NodeName != "" && s.bound.IsZero()
	if first {
		s.bound = now
	}
	tried := slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodScheduled })
	if s.attempted.IsZero() && (first || tried) {
		s.attempted = now
	}
	p.pods[pod.UID] = s
	told := p.bound
	p.mu.Unlock()
	if first && told != nil {
		told(s.namespace, s.name)
	}
}

// onBound calls f for each pod that is bound from now on, nil for no more.
func (p *progress) onBound(f func(namespace, name string)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.bound = f
}

// list returns those pods of a namespace that fit.
func (p *progress) list(namespace string, selector labels.Set, fits func(seen) bool) (out []seen) {
	want := labels.SelectorFromSet(selector)
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.pods {
		if s.namespace == namespace && fits(s) && want.Matches(s.labels) {
			out = append(out, s)
		}
	}
	return out
}

func isBound(s seen) bool     { return !s.bound.IsZero() }
func isAttempted(s seen) bool { return !s.attempted.IsZero() }
func isThere(s seen) bool     { return !s.gone }

// await returns when as many pods of the namespace fit. To count them again at each event would be most of the work here: they are
// counted now and then, for what is measured has the time of the event.
func (p *progress) await(ctx context.Context, namespace string, selector labels.Set, want int, fits func(seen) bool) error {
	for {
		got := len(p.list(namespace, selector, fits))
		if got >= want {
			return nil
		}
		if program.Pause(ctx, 100*time.Millisecond) != nil {
			return fmt.Errorf("%d of %d pods of %s: %w", got, want, namespace, context.Cause(ctx))
		}
	}
}

// throughput is how many pods of the namespaces were bound per second, from begin to the last of them.
func (p *progress) throughput(begin time.Time, namespaces []string, selector labels.Set) (perSecond float64, pods int) {
	var last time.Time
	for _, namespace := range namespaces {
		for _, s := range p.list(namespace, selector, isBound) {
			if s.bound.Before(begin) {
				continue
			}
			pods++
			if s.bound.After(last) {
				last = s.bound
			}
		}
	}
	if pods == 0 {
		return 0, 0
	}
	return float64(pods) / last.Sub(begin).Seconds(), pods
}
