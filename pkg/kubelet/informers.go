// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package kubelet

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// informers are what a kubelet watches in the API: its node, the pods that are bound to it, and the services.
type informers struct {
	client                kubernetes.Interface
	nodeName              string
	pods, nodes, services cache.SharedIndexInformer
}

func newInformers(client kubernetes.Interface, nodeName string) *informers {
	byField := func(field string) func(*metav1.ListOptions) {
		return func(o *metav1.ListOptions) { o.FieldSelector = fields.OneTermEqualSelector(field, nodeName).String() }
	}
	ns := cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}
	return &informers{
		client: client, nodeName: nodeName,
		pods:     coreinformers.NewFilteredPodInformer(client, metav1.NamespaceAll, 0, ns, byField("spec.nodeName")),
		nodes:    coreinformers.NewFilteredNodeInformer(client, 0, cache.Indexers{}, byField("metadata.name")),
		services: coreinformers.NewServiceInformer(client, metav1.NamespaceAll, 0, ns),
	}
}

func (i *informers) all() []cache.SharedIndexInformer {
	return []cache.SharedIndexInformer{i.pods, i.nodes, i.services}
}

// Current is this node as last seen, nil if it was not seen yet.
func (i *informers) Current() *corev1.Node {
	o, ok, _ := i.nodes.GetStore().GetByKey(i.nodeName)
	if !ok {
		return nil
	}
	n, _ := o.(*corev1.Node)
	return n
}

// Fetch asks the API server for this node, nil if that does not tell.
func (i *informers) Fetch(ctx context.Context) *corev1.Node {
	n, err := i.client.CoreV1().Nodes().Get(ctx, i.nodeName, metav1.GetOptions{})
	if err != nil {
		return nil
	}
	return n
}

// servicesFor are the services that pods of a namespace have in their environment: its own and the API server's. known is false while the
// API server has not told of them.
func (i *informers) servicesFor(namespace string) (out []*corev1.Service, known bool) {
	known = i.services.HasSynced() // before the look
	add := func(o any) {
		if s, ok := o.(*corev1.Service); ok {
			out = append(out, s)
		}
	}
	objs, err := i.services.GetIndexer().ByIndex(cache.NamespaceIndex, namespace)
	if err != nil {
		return nil, false
	}
	for _, o := range objs {
		add(o)
	}
	if namespace != metav1.NamespaceDefault {
		if o, ok, _ := i.services.GetIndexer().GetByKey("default/kubernetes"); ok {
			add(o)
		}
	}
	return out, known
}

// handler looks a runtime class up. So few pods name one that nothing watches them.
func (i *informers) handler(ctx context.Context, class string) (string, error) {
	c, err := i.client.NodeV1().RuntimeClasses().Get(ctx, class, metav1.GetOptions{})
	if err != nil {
		return "", fmt.Errorf("failed to lookup RuntimeClass %s: %w", class, err)
	}
	return c.Handler, nil
}
