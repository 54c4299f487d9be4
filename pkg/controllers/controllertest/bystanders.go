// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package controllertest

import (
	"context"
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// Bystanders checks that objects which a case has nothing to do with cost its passes nothing: with them the passes look at as many
// objects as without. In a large cluster nearly everything is a bystander.
func Bystanders(t *testing.T, c Case, bystanders ...client.Object) {
	t.Helper()
	if err := bystand(context.WithoutCancel(t.Context()), c, bystanders); err != nil {
		t.Error(err)
	}
}

func bystand(ctx context.Context, c Case, bystanders []client.Object) error {
	alone, err := reads(ctx, c)
	if err != nil {
		return fmt.Errorf("without bystanders: %w", err)
	}
	c.Objects = append(slices.Clip(c.Objects), bystanders...)
	among, err := reads(ctx, c)
	if err != nil {
		return fmt.Errorf("with bystanders: %w", err)
	}
	if among != alone {
		return fmt.Errorf("with %d bystanders the passes looked at %d objects, without them at %d: find what a pass is about by an index",
			len(bystanders), among, alone)
	}
	return nil
}

// podsElsewhere are pods that run in a namespace and on a node that no case is about, and belong to nobody.
func podsElsewhere() []client.Object {
	var elsewhere []client.Object
	for i := range 10 {
		elsewhere = append(elsewhere, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "elsewhere", Name: fmt.Sprintf("bystander-%d", i), UID: types.UID(fmt.Sprintf("bystander-%d", i))},
			Spec:       corev1.PodSpec{NodeName: "elsewhere"},
			Status: corev1.PodStatus{
				Phase: corev1.PodRunning, PodIP: "192.0.2.1", PodIPs: []corev1.PodIP{{IP: "192.0.2.1"}},
				Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
			},
		})
	}
	return elsewhere
}

// reads returns how many objects the lists had that the reconciler asked for until it came to rest.
func reads(ctx context.Context, c Case) (int, error) {
	w := newWorld(c, c.Objects)
	count := 0
	w.client = Counting(w.client.(client.WithWatch), &count)
	err := w.settle(ctx, c, c.New(w.client))
	return count, err
}

// Counting returns a client that adds to count how many objects its lists have. It is for one goroutine.
func Counting(c client.WithWatch, count *int) client.WithWatch {
	return interceptor.NewClient(c, interceptor.Funcs{
		List: func(ctx context.Context, inner client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			if err := inner.List(ctx, list, opts...); err != nil {
				return err
			}
			*count += meta.LenList(list)
			return nil
		},
	})
}
