// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package identity keeps the Lease in kube-system by which an API server tells that it lives, and removes those of servers
// that do not. Touch it when these leases shall say more of a server.
package identity

import (
	"context"
	"os"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	coordination "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/component-helpers/apimachinery/lease"
	"k8s.io/utils/clock"
)

// Label marks the leases of API servers.
const (
	Label  = "apiserver.kubernetes.io/identity"
	server = "kube-apiserver"
)

// Upstream's: a server that has not been heard of for an hour is gone.
const (
	duration      = time.Hour
	renewInterval = 10 * time.Second
	collectEvery  = time.Hour
)

// NewLease returns what keeps the lease of the server id that others reach at address (IP:port): Start does, until its
// channel closes, and Stop removes the lease.
func NewLease(client kubernetes.Interface, id, address string) lease.Controller {
	holder := id + "_" + string(uuid.NewUUID())
	return lease.NewController(clock.RealClock{}, client, holder, int32(duration.Seconds()), nil, renewInterval, id, metav1.NamespaceSystem,
		func(l *coordinationv1.Lease) error { return describe(l, address) })
}

func describe(l *coordinationv1.Lease, address string) error {
	host, err := os.Hostname()
	if err != nil {
		return err
	}
	metav1.SetMetaDataLabel(&l.ObjectMeta, Label, server)
	metav1.SetMetaDataLabel(&l.ObjectMeta, corev1.LabelHostname, host)
	if address != "" {
		metav1.SetMetaDataAnnotation(&l.ObjectMeta, corev1.AnnotationPeerAdvertiseAddress, address)
	}
	return nil
}

// Collect removes the leases of servers that ended without removing theirs, once an hour, until ctx ends.
func Collect(ctx context.Context, client kubernetes.Interface) {
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		if err := collect(ctx, client.CoordinationV1().Leases(metav1.NamespaceSystem), time.Now()); err != nil && ctx.Err() == nil {
			utilruntime.HandleErrorWithContext(ctx, err, "Removing the leases of API servers that are gone")
		}
	}, collectEvery)
}

func collect(ctx context.Context, api coordination.LeaseInterface, now time.Time) error {
	all, err := api.List(ctx, metav1.ListOptions{LabelSelector: Label + "=" + server})
	if err != nil {
		return err
	}
	for _, l := range all.Items {
		if !expired(l.Spec, now) {
			continue
		}
		// Whoever has renewed it meanwhile keeps it.
		only := metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &l.UID, ResourceVersion: &l.ResourceVersion}}
		if err := api.Delete(ctx, l.Name, only); err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			return err
		}
	}
	return nil
}

// expired says so of leases that do not tell, too: they are nobody's.
func expired(l coordinationv1.LeaseSpec, now time.Time) bool {
	return l.RenewTime == nil || l.LeaseDurationSeconds == nil ||
		l.RenewTime.Add(time.Duration(*l.LeaseDurationSeconds)*time.Second).Before(now)
}
