// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package bootstrap makes the objects that every cluster has from the start: system namespaces, RBAC policy, priority
// classes, the kubernetes Service. Touch it when upstream's API server starts to make another one (a file and a line in Hooks).
package bootstrap

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"minik8s.io/minik8s/pkg/apiserver/authorization/policy"
)

// Config says what the objects contain.
type Config struct {
	// ServiceIP is that of the kubernetes Service, ServiceIPRanges are those of the default ServiceCIDR.
	ServiceIP       netip.Addr
	ServiceIPRanges []netip.Prefix
	// Endpoint is where this API server is reached; an invalid one leaves the kubernetes Service without endpoints.
	Endpoint netip.AddrPort
	// Policy is RBAC policy beyond the default one.
	Policy policy.Policy
}

// Hook makes some objects. It is repeated until it succeeds and must be idempotent. What is there must cost it no write: that would ask
// the policies and webhooks of users, which may refuse it, or whose pods do not run before the server does.
type Hook struct {
	// Name is upstream's: /readyz?verbose and its kin show it.
	Name string
	Run  func(ctx context.Context, client kubernetes.Interface, c Config) error
	// Every, if not 0, is when it runs again after it has succeeded, so that what somebody has deleted comes back.
	Every time.Duration
}

// Hooks are the hooks in order.
var Hooks = []Hook{
	{Name: "start-system-namespaces-controller", Run: namespaces, Every: time.Minute},
	{Name: "rbac/bootstrap-roles", Run: roles},
	{Name: "scheduling/bootstrap-system-priority-classes", Run: priorityClasses},
	{Name: "start-kubernetes-service-cidr-controller", Run: serviceCIDR, Every: time.Minute},
	{Name: "bootstrap-controller", Run: kubernetesService, Every: 10 * time.Second},
	{Name: "start-legacy-token-tracking-controller", Run: tokenTracking, Every: 30 * time.Minute},
}

// patience is how long a server waits for a hook before it serves without.
const patience = 30 * time.Second

// Start runs a hook until it has succeeded, or has not for some time, and has it go on in the background until ctx ends. That ctx has ended
// is all that it returns as an error: a server without some of the objects serves, so that people can see to it, and so that the pods of
// the webhook can run that refuses them.
func Start(ctx context.Context, h Hook, client kubernetes.Interface, c Config) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
		last = h.Run(ctx, client, c)
		return last == nil, nil
	})
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("bootstrapping %s: %w", h.Name, errors.Join(ctx.Err(), last))
	case err != nil:
		report(ctx, h, last)
	case h.Every == 0:
		return nil
	}
	go repeat(ctx, h, client, c)
	return nil
}

func report(ctx context.Context, h Hook, err error) {
	utilruntime.HandleErrorWithContext(ctx, err, "Making what every cluster has", "hook", h.Name)
}

// repeat runs a hook from time to time, one that does not run again until it has succeeded.
func repeat(ctx context.Context, h Hook, client kubernetes.Interface, c Config) {
	_ = wait.PollUntilContextCancel(ctx, cmp.Or(h.Every, patience), false, func(ctx context.Context) (bool, error) {
		err := h.Run(ctx, client, c)
		if err != nil && ctx.Err() == nil {
			report(ctx, h, err)
		}
		return err == nil && h.Every == 0, nil
	})
}

func namespaces(ctx context.Context, client kubernetes.Interface, _ Config) error {
	var errs []error
	for _, name := range []string{metav1.NamespaceSystem, metav1.NamespacePublic, corev1.NamespaceNodeLease, metav1.NamespaceDefault} {
		if err := ensure(ctx, client.CoreV1().Namespaces(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
			errs = append(errs, fmt.Errorf("namespace %q: %w", name, err))
		}
	}
	return errors.Join(errs...)
}

// maker reads and makes objects of one kind; clientsets have one for each.
type maker[T any] interface {
	Get(ctx context.Context, name string, opts metav1.GetOptions) (T, error)
	Create(ctx context.Context, object T, opts metav1.CreateOptions) (T, error)
}

// ensure makes an object unless there is one of its name.
func ensure[T metav1.Object](ctx context.Context, kind maker[T], object T) error {
	_, err := kind.Get(ctx, object.GetName(), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		_, err = kind.Create(ctx, object, metav1.CreateOptions{})
	}
	return ignoreExists(err)
}

func roles(ctx context.Context, client kubernetes.Interface, c Config) error {
	return policy.Ensure(ctx, client, policy.Default().With(c.Policy))
}

func priorityClasses(ctx context.Context, client kubernetes.Interface, _ Config) error {
	var errs []error
	for _, pc := range []schedulingv1.PriorityClass{
		{
			ObjectMeta:  metav1.ObjectMeta{Name: "system-node-critical"},
			Value:       2000001000,
			Description: "Used for system critical pods that must not be moved from their current node.",
		},
		{
			ObjectMeta:  metav1.ObjectMeta{Name: "system-cluster-critical"},
			Value:       2000000000,
			Description: "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary.",
		},
	} {
		if err := ensure(ctx, client.SchedulingV1().PriorityClasses(), &pc); err != nil {
			errs = append(errs, fmt.Errorf("priority class %q: %w", pc.Name, err))
		}
	}
	return errors.Join(errs...)
}

func ignoreExists(err error) error {
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}
