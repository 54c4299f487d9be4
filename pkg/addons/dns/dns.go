// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package dns is the add-on for Dns objects. Their hosts are served by the cluster's router and known to cluster DNS, which see the objects
// by themselves; here is what makes the names known to the machine: a block of the machine's hosts file. Touch it for when a name is
// in there.
package dns

import (
	"cmp"
	"context"
	"fmt"
	"sync/atomic"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"minik8s.io/minik8s/pkg/addons/addon"
	"minik8s.io/minik8s/pkg/addons/apis/networking/v1alpha1"
	"minik8s.io/minik8s/pkg/addons/dns/internal/hosts"
)

// removeTime is what it may take to remove what is in the hosts file, removePause the time between two tries.
const (
	removeTime  = 10 * time.Second
	removePause = 500 * time.Millisecond
)

// Addon is the add-on.
func Addon() addon.Addon {
	group := schema.GroupResource{Group: v1alpha1.GroupVersion.Group, Resource: v1alpha1.Resource.Resource}
	return addon.Addon{
		Name: "dns", Title: "host names with paths that lead to Services, in pods and on the machine",
		Definitions: []string{v1alpha1.Definition}, AddToScheme: v1alpha1.AddToScheme,
		Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{group.Group}, Resources: []string{group.Resource}, Verbs: []string{"get", "list", "watch"}},
			{APIGroups: []string{group.Group}, Resources: []string{group.Resource + "/status"}, Verbs: []string{"update"}},
		},
		Setup: func(_ context.Context, env addon.Env) error { return setup(env) },
	}
}

// setup adds the keeper of the hosts file, where there is one.
func setup(env addon.Env) error {
	if env.Machine.HostsFile == "" {
		return nil
	}
	r := &Reconciler{
		Client: env.Manager.GetClient(), Recorder: env.Manager.GetEventRecorder("minik8s-dns"), Cluster: env.Machine.Cluster,
		file: hosts.File{Path: env.Machine.HostsFile}, ended: &atomic.Bool{},
	}
	if err := env.Manager.Add(manager.RunnableFunc(r.removeAtEnd)); err != nil {
		return fmt.Errorf("adding what clears the hosts file: %w", err)
	}
	all := reconcile.Request{NamespacedName: types.NamespacedName{Name: "hosts"}}
	begin := source.Func(func(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		queue.Add(all) // without any object there may be something left of before
		return nil
	})
	return ctrl.NewControllerManagedBy(env.Manager).Named("hosts").
		WatchesRawSource(begin).
		WithOptions(controller.Options{RateLimiter: failures()}).
		Watches(&v1alpha1.Dns{}, handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request { return []reconcile.Request{all} })).
		Complete(r)
}

// failures is how soon a file is tried again that could not be changed: never later than it is looked at otherwise, as its user may have
// mended it meanwhile.
func failures() workqueue.TypedRateLimiter[reconcile.Request] {
	return workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](time.Second, checkInterval)
}

// removeAtEnd removes the block when the add-on ends: with the process nobody answers at the addresses, and without the kind nobody
// asks for the names. It is the last chance: what fails is tried again.
func (r *Reconciler) removeAtEnd(ctx context.Context) error {
	<-ctx.Done()
	r.ended.Store(true) // a pass that has the lock after this leaves the file alone
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeTime)
	defer cancel()
	var failed error
	if err := wait.PollUntilContextCancel(limited, removePause, true, func(ctx context.Context) (bool, error) {
		failed = remove(ctx, r.file, r.Cluster)
		return failed == nil, nil
	}); err != nil {
		return cmp.Or(failed, err)
	}
	return nil
}

// RemoveHosts removes what a cluster has in a hosts file, which is only read if there is nothing. It is for a cluster without a process.
func RemoveHosts(ctx context.Context, hostsFile, cluster string) error {
	return remove(ctx, hosts.File{Path: hostsFile}, cluster)
}

func remove(ctx context.Context, f hosts.File, cluster string) error {
	return f.Edit(ctx, func(text string) string { return hosts.Set(text, cluster, nil) })
}
