// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"

	"minik8s.io/minik8s/pkg/policy/model"
)

// objects are the pods and namespaces of the cluster, as far as policies can tell them apart.
type objects struct {
	pods       corelisters.PodLister
	namespaces corelisters.NamespaceLister
	stop       func()
}

// watch returns when all objects are known, or ctx has ended. What is known is kept up to date until it is stopped, and
// each change that can matter is told.
func (e *Enforcer) watch(ctx context.Context) (*objects, error) {
	factory := informers.NewSharedInformerFactoryWithOptions(e.config.Client, 0, informers.WithTransform(trim))
	pods, namespaces := factory.Core().V1().Pods(), factory.Core().V1().Namespaces()
	_, err := pods.Informer().AddEventHandler(podHandler(e.loop.Poke))
	if err == nil {
		_, err = namespaces.Informer().AddEventHandler(namespaceHandler(e.loop.Poke))
	}
	if err != nil {
		return nil, fmt.Errorf("watching pods and namespaces: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	factory.Start(ctx.Done())
	stop := func() {
		cancel()
		factory.Shutdown()
	}
	if !cache.WaitForCacheSync(ctx.Done(), pods.Informer().HasSynced, namespaces.Informer().HasSynced) {
		stop()
		return nil, errors.New("pods and namespaces are not known yet")
	}
	return &objects{pods: pods.Lister(), namespaces: namespaces.Lister(), stop: stop}, nil
}

func (o *objects) list() ([]*corev1.Pod, []*corev1.Namespace, error) {
	pods, err := o.pods.List(labels.Everything())
	if err != nil {
		return nil, nil, fmt.Errorf("listing pods: %w", err)
	}
	namespaces, err := o.namespaces.List(labels.Everything())
	if err != nil {
		return nil, nil, fmt.Errorf("listing namespaces: %w", err)
	}
	return pods, namespaces, nil
}

// trim leaves of pods, namespaces, nodes and definitions what policies are about: every node keeps all of them.
func trim(o any) (any, error) {
	switch o := o.(type) {
	case *corev1.Pod:
		return &corev1.Pod{
			ObjectMeta: metaOf(&o.ObjectMeta),
			Spec: corev1.PodSpec{
				NodeName: o.Spec.NodeName, HostNetwork: o.Spec.HostNetwork,
				InitContainers: portsOf(o.Spec.InitContainers), Containers: portsOf(o.Spec.Containers),
			},
			Status: corev1.PodStatus{Phase: o.Status.Phase, PodIP: o.Status.PodIP, PodIPs: o.Status.PodIPs},
		}, nil
	case *corev1.Namespace:
		return &corev1.Namespace{ObjectMeta: metaOf(&o.ObjectMeta)}, nil
	case *corev1.Node:
		return &corev1.Node{ObjectMeta: metaOf(&o.ObjectMeta), Status: corev1.NodeStatus{Addresses: o.Status.Addresses}}, nil
	case *apiextensionsv1.CustomResourceDefinition:
		return trimDefinition(o), nil
	}
	return o, nil
}

func metaOf(m *metav1.ObjectMeta) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: m.Namespace, Name: m.Name, UID: m.UID, ResourceVersion: m.ResourceVersion, Labels: m.Labels,
		CreationTimestamp: m.CreationTimestamp, DeletionTimestamp: m.DeletionTimestamp,
	}
}

// portsOf keeps containers that have named ports.
func portsOf(list []corev1.Container) []corev1.Container {
	var out []corev1.Container
	for _, c := range list {
		if slices.ContainsFunc(c.Ports, func(p corev1.ContainerPort) bool { return p.Name != "" }) {
			out = append(out, corev1.Container{Name: c.Name, Ports: c.Ports, RestartPolicy: c.RestartPolicy})
		}
	}
	return out
}

func policyHandler(changed func()) cache.ResourceEventHandler {
	return handler(changed, func(a, b *networkingv1.NetworkPolicy) bool { return !equality.Semantic.DeepEqual(a.Spec, b.Spec) })
}

func namespaceHandler(changed func()) cache.ResourceEventHandler {
	return handler(changed, func(a, b *corev1.Namespace) bool { return !maps.Equal(a.Labels, b.Labels) })
}

// podHandler leaves out most of what happens to pods: conditions, restarts, and those that have no part in it.
func podHandler(changed func()) cache.ResourceEventHandler {
	return cache.FilteringResourceEventHandler{
		FilterFunc: func(o any) bool {
			if gone, ok := o.(cache.DeletedFinalStateUnknown); ok {
				o = gone.Obj
			}
			p, ok := o.(*corev1.Pod)
			return ok && model.Networked(p)
		},
		Handler: handler(changed, func(a, b *corev1.Pod) bool {
			return a.UID != b.UID || !maps.Equal(a.Labels, b.Labels) || !slices.Equal(model.Addresses(a), model.Addresses(b)) ||
				(a.DeletionTimestamp == nil) != (b.DeletionTimestamp == nil)
		}),
	}
}

func handler[T any](changed func(), matters func(before, after T) bool) cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { changed() },
		UpdateFunc: func(before, after any) {
			a, aok := before.(T)
			b, bok := after.(T)
			if !aok || !bok || matters(a, b) {
				changed()
			}
		},
		DeleteFunc: func(any) { changed() },
	}
}
