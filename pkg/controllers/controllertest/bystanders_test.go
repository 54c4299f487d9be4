// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package controllertest

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

func TestBystand(t *testing.T) {
	pod := func(namespace string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "p"}}
	}
	listing := func(opts ...client.ListOption) Case {
		return Case{
			Objects: []client.Object{pod("ns")},
			New: func(c client.Client) reconcile.Reconciler {
				return reconcile.Func(func(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
					return reconcile.Result{}, c.List(ctx, &corev1.PodList{}, opts...)
				})
			},
			Want: func(context.Context, client.Client) error { return nil },
		}
	}
	if err := bystand(t.Context(), listing(client.InNamespace("ns")), []client.Object{pod("other")}); err != nil {
		t.Errorf("a reconciler that looks at its own: %v", err)
	}
	err := bystand(t.Context(), listing(), []client.Object{pod("other")})
	if err == nil || !strings.Contains(err.Error(), "looked at 2 objects, without them at 1") {
		t.Errorf("a reconciler that looks at all: %v", err)
	}
}
