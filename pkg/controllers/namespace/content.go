// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package namespace

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"minik8s.io/minik8s/pkg/controllers/internal/pods"
)

const (
	// finalizerEstimate is how long finalizers are expected to take.
	finalizerEstimate = 15 * time.Second
	// parallel is the number of resources that are deleted at the same time. Most of them have nothing in the namespace.
	parallel = 5
)

var podsResource = corev1.SchemeGroupVersion.WithResource("pods")

// Resource is a namespaced resource whose objects can be deleted.
type Resource struct {
	schema.GroupVersionResource
	// Collection is set when all of them can be deleted with one request.
	Collection bool
	// List is set when they can be listed.
	List bool
}

// Resources is what discovery found.
type Resources struct {
	// Deletable are the resources with the verb delete, in the order of groups and names.
	Deletable []Resource
	// Unparsed is set when a group version made no sense.
	Unparsed error
}

// discover returns a function that asks the API server for its resources at each call: a namespace may hold objects of a
// kind that was installed a moment ago.
func discover(disco discovery.DiscoveryInterfaceWithContext) func(context.Context) (Resources, error) {
	return func(ctx context.Context) (Resources, error) {
		lists, err := discovery.ServerPreferredNamespacedResourcesWithContext(ctx, disco)
		return deletable(lists), err
	}
}

// deletable picks the resources that can be deleted.
func deletable(lists []*metav1.APIResourceList) Resources {
	var found Resources
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			found.Unparsed = err
			continue
		}
		for i := range list.APIResources {
			resource := &list.APIResources[i]
			if !resource.Namespaced || strings.Contains(resource.Name, "/") || !slices.Contains(resource.Verbs, "delete") {
				continue
			}
			found.Deletable = append(found.Deletable, Resource{
				GroupVersionResource: gv.WithResource(resource.Name),
				Collection:           slices.Contains(resource.Verbs, "deletecollection"),
				List:                 slices.Contains(resource.Verbs, "list"),
			})
		}
	}
	slices.SortFunc(found.Deletable, func(a, b Resource) int { return strings.Compare(a.String(), b.String()) })
	return found
}

// deleteContent deletes the pods of the namespace and, when none is left, all the rest. Pods go first (KEP-5080), so that
// no pod outlives for example the NetworkPolicy that confines it.
func (r *Reconciler) deleteContent(ctx context.Context, ns *corev1.Namespace) outcome {
	var o outcome
	resources, err := r.Discover(ctx)
	o.discovery, o.versions = err, resources.Unparsed
	isPods := func(res Resource) bool { return res.GroupVersionResource == podsResource }
	if i := slices.IndexFunc(resources.Deletable, isPods); i >= 0 {
		part, err := r.deleteAll(ctx, ns, resources.Deletable[i])
		o.add(part)
		if err != nil {
			o.deletion = append(o.deletion, err)
		}
		if len(o.deletion) > 0 || len(o.remaining) > 0 {
			return o
		}
	}
	rest := slices.DeleteFunc(slices.Clone(resources.Deletable), isPods)
	parts, errs := make([]outcome, len(rest)), make([]error, len(rest))
	var deleting errgroup.Group
	deleting.SetLimit(parallel)
	for i, resource := range rest {
		deleting.Go(func() error {
			parts[i], errs[i] = r.deleteAll(ctx, ns, resource)
			return nil
		})
	}
	_ = deleting.Wait() // every resource is tried, and their errors are kept
	for i := range rest {
		o.add(parts[i])
		if errs[i] != nil {
			o.deletion = append(o.deletion, errs[i])
		}
	}
	return o
}

// deleteAll deletes the objects of one resource and returns what remains. Errors are the API server's, as users see them in a condition.
func (r *Reconciler) deleteAll(ctx context.Context, ns *corev1.Namespace, resource Resource) (outcome, error) {
	var o outcome
	if !resource.List {
		return o, r.deleteBlindly(ctx, ns, resource)
	}
	first := metav1.ListOptions{}
	if resource.Collection {
		first.Limit = 1 // enough to know that there are some
	}
	items, err := r.list(ctx, ns, resource, first)
	if err != nil || len(items) == 0 {
		return o, err
	}
	// The estimate looks at the pods as they were, because most of them end at once.
	grace, err := r.podGrace(ctx, ns, resource)
	if err != nil {
		return o, err
	}
	if resource.Collection {
		err = r.deleteBlindly(ctx, ns, resource)
	} else {
		err = r.deleteEach(ctx, ns, resource, items)
	}
	if err != nil {
		return o, err
	}
	items, err = r.list(ctx, ns, resource, metav1.ListOptions{})
	if err != nil || len(items) == 0 {
		return o, err
	}
	o.remaining = map[string]int{resource.Resource + "." + resource.Group: len(items)}
	o.finalizers = map[string]int{}
	for i := range items {
		for _, finalizer := range items[i].Finalizers {
			o.finalizers[finalizer]++
		}
	}
	switch {
	case grace > 0:
		o.estimate = grace
	case len(o.finalizers) > 0:
		o.estimate = finalizerEstimate
	default:
		return o, fmt.Errorf("unexpected items still remain in namespace: %s for gvr: %v", ns.Name, resource.GroupVersionResource)
	}
	return o, nil
}

func (r *Reconciler) list(ctx context.Context, ns *corev1.Namespace, resource Resource, options metav1.ListOptions) ([]metav1.PartialObjectMetadata, error) {
	list, err := r.Metadata.Resource(resource.GroupVersionResource).Namespace(ns.Name).List(ctx, options)
	if unsupported(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

// deleteBlindly deletes the whole collection, if that is supported. Dependents follow in the background: nothing may get
// an orphan finalizer here, as it would have to be waited for.
func (r *Reconciler) deleteBlindly(ctx context.Context, ns *corev1.Namespace, resource Resource) error {
	if !resource.Collection {
		return nil
	}
	err := r.Metadata.Resource(resource.GroupVersionResource).Namespace(ns.Name).DeleteCollection(ctx, background(), metav1.ListOptions{})
	if unsupported(err) {
		return nil
	}
	return err
}

func (r *Reconciler) deleteEach(ctx context.Context, ns *corev1.Namespace, resource Resource, items []metav1.PartialObjectMetadata) error {
	for i := range items {
		err := r.Metadata.Resource(resource.GroupVersionResource).Namespace(ns.Name).Delete(ctx, items[i].Name, background())
		if err != nil && !unsupported(err) {
			return err
		}
	}
	return nil
}

func background() metav1.DeleteOptions {
	return metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationBackground)}
}

// unsupported reports whether a resource that discovery names does not serve the request after all.
func unsupported(err error) bool {
	return apierrors.IsMethodNotSupported(err) || apierrors.IsNotFound(err)
}

// podGrace is how long the pods of the namespace may take to end: the longest grace period, as long as that has not
// passed since the namespace was deleted.
func (r *Reconciler) podGrace(ctx context.Context, ns *corev1.Namespace, resource Resource) (time.Duration, error) {
	if resource.GroupVersionResource != podsResource {
		return 0, nil
	}
	var list corev1.PodList
	if err := r.Client.List(ctx, &list, client.InNamespace(ns.Name), client.UnsafeDisableDeepCopy); err != nil {
		return 0, fmt.Errorf("listing pods: %w", err)
	}
	return longestGrace(list.Items, r.Clock.Since(ns.DeletionTimestamp.Time)), nil
}

func longestGrace(list []corev1.Pod, passed time.Duration) time.Duration {
	var grace time.Duration
	for i := range list {
		if seconds := list[i].Spec.TerminationGracePeriodSeconds; seconds != nil && !pods.IsTerminal(&list[i]) {
			grace = max(grace, time.Duration(*seconds)*time.Second)
		}
	}
	if passed >= grace {
		return 0
	}
	return grace
}
