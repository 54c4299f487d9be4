// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package controllertest

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// TestChecks_CatchFaults runs the suite on reconcilers with one fault each: every check has to be able to fail.
func TestChecks_CatchFaults(t *testing.T) {
	key := types.NamespacedName{Namespace: "ns", Name: "a"}
	get := func(ctx context.Context, c client.Client) (*corev1.ConfigMap, error) {
		cm := &corev1.ConfigMap{}
		return cm, c.Get(ctx, key, cm)
	}
	mark := func(ctx context.Context, c client.Client, cm *corev1.ConfigMap, k string) error {
		if cm.Data == nil {
			cm.Data = map[string]string{}
		}
		cm.Data[k] = "done"
		return c.Update(ctx, cm)
	}
	extras := func(ctx context.Context, c client.Client) (int, error) {
		var list corev1.ConfigMapList
		err := c.List(ctx, &list)
		return len(list.Items) - 1, err
	}
	create := func(ctx context.Context, c client.Client) error {
		return c.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", GenerateName: "extra-"}})
	}
	finish := func(ctx context.Context, c client.Client, cm *corev1.ConfigMap) error {
		cm.Data = map[string]string{"x": "done", "y": "done"}
		return c.Update(ctx, cm)
	}
	tests := []struct {
		name      string
		reconcile func(context.Context, client.Client) error
		world     func(context.Context, client.Client) error
		want      []string
	}{
		{
			name: "creates one, however often it is asked",
			reconcile: func(ctx context.Context, c client.Client) error {
				cm, err := get(ctx, c)
				if err != nil || cm.Data["x"] == "done" {
					return client.IgnoreNotFound(err)
				}
				if n, err := extras(ctx, c); err != nil || n == 0 {
					return cmp.Or(err, create(ctx, c))
				}
				return finish(ctx, c, cm)
			},
		},
		{
			name: "reads what it has just written",
			reconcile: func(ctx context.Context, c client.Client) error {
				cm, err := get(ctx, c)
				if err != nil || cm.Data["x"] == "done" {
					return client.IgnoreNotFound(err)
				}
				for range 2 {
					if n, err := extras(ctx, c); err != nil {
						return err
					} else if n == 0 {
						if err := create(ctx, c); err != nil {
							return err
						}
					}
				}
				return finish(ctx, c, cm)
			},
			want: []string{"cache lags", "time-out, not written", "time-out, written", "watch breaks"},
		},
		{
			name: "tries again at once",
			reconcile: func(ctx context.Context, c client.Client) error {
				cm, err := get(ctx, c)
				if err != nil || cm.Data["x"] == "done" {
					return client.IgnoreNotFound(err)
				}
				if n, err := extras(ctx, c); err != nil {
					return err
				} else if n == 0 {
					if err := create(ctx, c); err != nil {
						if err := create(ctx, c); err != nil {
							return err
						}
					}
				}
				return finish(ctx, c, cm)
			},
			want: []string{"answer lost", "conflict", "time-out, not written", "time-out, written", "write fails"},
		},
		{
			name: "has to see every state",
			reconcile: func(ctx context.Context, c client.Client) error {
				cm, err := get(ctx, c)
				if err != nil || cm.Data["stage"] != "2" || cm.Data["x"] == "done" {
					return client.IgnoreNotFound(err)
				}
				return finish(ctx, c, cm)
			},
			world: func(ctx context.Context, c client.Client) error {
				cm, err := get(ctx, c)
				if err != nil || cm.Data["x"] == "done" || len(cm.Annotations) > 0 {
					return client.IgnoreNotFound(err)
				}
				switch cm.Data["stage"] {
				case "":
					cm.Data = map[string]string{"stage": "1"}
				case "1":
					cm.Data["stage"] = "2"
				default:
					cm.Data["stage"] = "3"
					cm.Annotations = map[string]string{"over": "yes"}
				}
				return c.Update(ctx, cm)
			},
			want: []string{"cache lags", "conflict", "time-out, not written", "time-out, written", "watch breaks", "write fails"},
		},
		{
			name: "good",
			reconcile: func(ctx context.Context, c client.Client) error {
				cm, err := get(ctx, c)
				if err != nil {
					return client.IgnoreNotFound(err)
				}
				for _, k := range []string{"x", "y"} {
					if cm.Data[k] != "done" {
						if err := mark(ctx, c, cm, k); err != nil {
							return err
						}
					}
				}
				return nil
			},
		},
		{
			name: "writes always",
			reconcile: func(ctx context.Context, c client.Client) error {
				cm, err := get(ctx, c)
				if err != nil {
					return client.IgnoreNotFound(err)
				}
				if err := mark(ctx, c, cm, "x"); err != nil {
					return err
				}
				return mark(ctx, c, cm, "y")
			},
			want: []string{"answer lost", "bystanders", "cache lags", "comes to rest", "conflict", "time-out, not written", "time-out, written", "watch breaks", "write fails"},
		},
		{
			name: "looks at all pods",
			reconcile: func(ctx context.Context, c client.Client) error {
				if err := c.List(ctx, &corev1.PodList{}); err != nil {
					return err
				}
				cm, err := get(ctx, c)
				if err != nil || cm.Data["x"] == "done" {
					return client.IgnoreNotFound(err)
				}
				cm.Data = map[string]string{"x": "done", "y": "done"}
				return c.Update(ctx, cm)
			},
			want: []string{"bystanders"},
		},
		{
			name: "needs its object",
			reconcile: func(ctx context.Context, c client.Client) error {
				cm, err := get(ctx, c)
				if err != nil {
					return err
				}
				if cm.Data["x"] == "done" {
					return nil
				}
				cm.Data = map[string]string{"x": "done", "y": "done"}
				return c.Update(ctx, cm)
			},
			want: []string{"object gone"},
		},
		{
			name: "takes the first step for the whole way",
			reconcile: func(ctx context.Context, c client.Client) error {
				cm, err := get(ctx, c)
				if err != nil || cm.Data["x"] == "done" {
					return client.IgnoreNotFound(err)
				}
				if err := mark(ctx, c, cm, "x"); err != nil {
					return err
				}
				return mark(ctx, c, cm, "y")
			},
			want: []string{"answer lost", "conflict", "time-out, not written", "time-out, written", "write fails"},
		},
		{
			name: "creates twice when it misses the answer",
			reconcile: func(ctx context.Context, c client.Client) error {
				cm, err := get(ctx, c)
				if err != nil || cm.Data["x"] == "done" {
					return client.IgnoreNotFound(err)
				}
				extra := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", GenerateName: "extra-"}}
				if err := c.Create(ctx, extra); err != nil {
					return err
				}
				cm.Data = map[string]string{"x": "done", "y": "done"}
				return c.Update(ctx, cm)
			},
			want: []string{"answer lost", "conflict", "time-out, not written", "time-out, written", "write fails"},
		},
		{
			name: "swallows conflicts",
			reconcile: func(ctx context.Context, c client.Client) error {
				cm, err := get(ctx, c)
				if err != nil || cm.Annotations["tried"] != "" {
					return client.IgnoreNotFound(err)
				}
				cm.Data = map[string]string{"x": "done", "y": "done"}
				cm.Annotations = map[string]string{"tried": "yes"}
				if err := c.Update(ctx, cm); err != nil && !apierrors.IsConflict(err) {
					return err
				}
				return nil
			},
			want: []string{"conflict"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := Case{
				Objects: []client.Object{&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a"}}},
				Request: reconcile.Request{NamespacedName: key},
				New: func(c client.Client) reconcile.Reconciler {
					return reconcile.Func(func(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
						return reconcile.Result{}, tt.reconcile(ctx, c)
					})
				},
				Want: func(ctx context.Context, c client.Client) error {
					cm, err := get(ctx, c)
					if err != nil {
						return err
					}
					var list corev1.ConfigMapList
					if err := c.List(ctx, &list); err != nil {
						return err
					}
					if cm.Data["x"] != "done" || cm.Data["y"] != "done" || len(list.Items) > 2 {
						return fmt.Errorf("data %v, %d objects", cm.Data, len(list.Items))
					}
					return nil
				},
				World:     tt.world,
				MaxPasses: 5,
			}
			var got []string
			for _, check := range Checks() {
				if err := check.Run(t.Context(), c); err != nil {
					got = append(got, check.Name)
				}
			}
			slices.Sort(got)
			if diff := gocmp.Diff(tt.want, got); diff != "" {
				t.Errorf("failed checks (-want +got):\n%s", diff)
			}
		})
	}
}
