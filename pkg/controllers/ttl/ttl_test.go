// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package ttl

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"minik8s.io/minik8s/pkg/controllers/controllertest"
)

func TestMove(t *testing.T) {
	for _, tt := range []struct{ from, nodes, want int }{
		{0, 1, 0}, {0, 100, 0}, {0, 101, 1}, {1, 90, 1}, {1, 89, 0}, {0, 5000, 4}, {4, 1800, 4}, {4, 1799, 3}, {4, 0, 0},
	} {
		if got := move(tt.from, tt.nodes); got != tt.want {
			t.Errorf("%d nodes move from step %d to %d, want %d", tt.nodes, tt.from, got, tt.want)
		}
	}
}

func node(name, value string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if value != "" {
		n.Annotations = map[string]string{corev1.ObjectTTLAnnotationKey: value}
	}
	return n
}

func TestReconcile(t *testing.T) {
	many := []client.Object{node("n", "0")}
	for i := range 100 {
		many = append(many, node(fmt.Sprintf("n-%d", i), "0"))
	}
	for name, tt := range map[string]struct {
		objects []client.Object
		want    string
	}{
		"new":         {[]client.Object{node("n", "")}, "0"},
		"one of many": {many, "15"},
		"alone now":   {[]client.Object{node("n", "300")}, "0"},
		"nonsense":    {[]client.Object{node("n", "soon")}, "0"},
	} {
		t.Run(name, func(t *testing.T) {
			key := types.NamespacedName{Name: "n"}
			controllertest.Run(t, controllertest.Case{
				Objects: tt.objects,
				Request: reconcile.Request{NamespacedName: key},
				New:     func(c client.Client) reconcile.Reconciler { return &Reconciler{Client: c} },
				Want: func(ctx context.Context, c client.Client) error {
					var got corev1.Node
					if err := c.Get(ctx, key, &got); err != nil {
						return err
					}
					if got.Annotations["node.alpha.kubernetes.io/ttl"] != tt.want {
						return fmt.Errorf("annotations are %v", got.Annotations)
					}
					return nil
				},
			})
		})
	}
}

// A pass that only asks how many nodes there are would look at all of them, for each node.
func TestReconcile_LooksOnce(t *testing.T) {
	var nodes []client.Object
	for i := range 100 {
		nodes = append(nodes, node(fmt.Sprintf("n-%d", i), ""))
	}
	listed := 0
	c := controllertest.Counting(controllertest.NewClientBuilder().WithObjects(nodes...).Build(), &listed)
	r := &Reconciler{Client: c}
	pass := func(name string) {
		t.Helper()
		if _, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Name: name}}); err != nil {
			t.Fatal(err)
		}
	}
	for _, n := range nodes {
		pass(n.GetName())
	}
	if listed != len(nodes) {
		t.Errorf("looked at %d nodes, there are %d", listed, len(nodes))
	}
	if r.wanted() != "0" {
		t.Errorf("with 100 nodes the time is %s", r.wanted())
	}
	if err := c.Create(t.Context(), node("one-more", "")); err != nil {
		t.Fatal(err)
	}
	pass("one-more")
	if r.wanted() != "15" {
		t.Errorf("with 101 nodes the time is %s", r.wanted())
	}
	for _, n := range nodes[:20] {
		if err := c.Delete(t.Context(), n); err != nil {
			t.Fatal(err)
		}
		pass(n.GetName())
		pass(n.GetName())
	}
	if r.wanted() != "0" {
		t.Errorf("with 81 nodes the time is %s", r.wanted())
	}
}

func TestOutdated(t *testing.T) {
	p := (&Reconciler{}).outdated()
	if p.Update(event.UpdateEvent{ObjectNew: node("n", "0")}) || !p.Update(event.UpdateEvent{ObjectNew: node("n", "15")}) {
		t.Error("updates are let through by what they are not")
	}
}
