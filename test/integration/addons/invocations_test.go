// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package addons

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"minik8s.io/minik8s/pkg/addons"
	"minik8s.io/minik8s/pkg/addons/addon"
	v1alpha1 "minik8s.io/minik8s/pkg/addons/apis/functions/v1alpha1"
	"minik8s.io/minik8s/test/integration/framework"
)

// Each invocation gets an answer, and one that has none when the process ends gets it of the next.
func TestInvocations(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	all := addons.List()
	a := all[slices.IndexFunc(all, func(a addon.Addon) bool { return a.Name == "functions" })]
	i, scheme := newInstaller(t), newClient(t).Scheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	config := rest.CopyConfig(cluster.Admin())
	config.ContentType, config.AcceptContentTypes = "", "" // kinds of add-ons have no protobuf
	c, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	stop := run(t, []addon.Addon{a})
	if err := i.Enable(ctx, a); err != nil {
		t.Fatal(err)
	}
	meta := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: "default", Name: name} }
	codeless := v1alpha1.Source{ConfigMap: &v1alpha1.ConfigMapSource{Name: "there-is-none"}}
	held := &v1alpha1.Function{ObjectMeta: meta("held"), Spec: v1alpha1.FunctionSpec{Source: v1alpha1.Source{Image: "minik8s.io/none:1"}}}
	for _, o := range []client.Object{
		&v1alpha1.Function{ObjectMeta: meta("codeless"), Spec: v1alpha1.FunctionSpec{Runtime: "python", Source: codeless}}, held,
		&v1alpha1.Invocation{ObjectMeta: meta("refused"), Spec: v1alpha1.InvocationSpec{Function: "codeless"}},
		&v1alpha1.Invocation{ObjectMeta: meta("lost"), Spec: v1alpha1.InvocationSpec{Function: "nobody", Body: []byte("x")}},
		&v1alpha1.Invocation{ObjectMeta: meta("held"), Spec: v1alpha1.InvocationSpec{Function: "held"}},
	} {
		if err := c.Create(ctx, o); err != nil {
			t.Fatal(err)
		}
	}
	lose := func(function string) { // its code, so that what is held is refused
		t.Helper()
		patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"runtime":"python","source":{"image":null,"configMap":{"name":"there-is-none"}}}}`))
		if err := c.Patch(ctx, &v1alpha1.Function{ObjectMeta: meta(function)}, patch); err != nil {
			t.Fatal(err)
		}
	}
	answered := func(name string, code int32) {
		t.Helper()
		framework.Eventually(t, "the answer to "+name, func() error {
			var inv v1alpha1.Invocation
			err := c.Get(ctx, types.NamespacedName{Namespace: "default", Name: name}, &inv)
			if err == nil && (inv.Status.CompletionTime == nil || inv.Status.Code != code || len(inv.Status.Body) == 0) {
				err = fmt.Errorf("it is %+v, want %d", inv.Status, code)
			}
			return err
		})
	}
	// Another one of its name does not get the answer of one that was deleted.
	twice := func(function string) *v1alpha1.Invocation {
		return &v1alpha1.Invocation{ObjectMeta: meta("twice"), Spec: v1alpha1.InvocationSpec{Function: function}}
	}
	if err := c.Create(ctx, &v1alpha1.Function{ObjectMeta: meta("slow"), Spec: held.Spec}); err != nil {
		t.Fatal(err)
	}
	if err := c.Create(ctx, twice("slow")); err != nil {
		t.Fatal(err)
	}
	answered("refused", 503)
	answered("lost", 404)
	framework.Eventually(t, "the function whose requests are held", func() error {
		if err := c.Get(ctx, client.ObjectKeyFromObject(held), held); err != nil {
			return err
		}
		if held.Status.ObservedGeneration == 0 {
			return fmt.Errorf("it is %+v", held.Status)
		}
		return nil
	})
	if err := errors.Join(c.Delete(ctx, twice("slow")), c.Create(ctx, twice("nobody"))); err != nil {
		t.Fatal(err)
	}
	answered("twice", 404)
	lose("slow")
	if err := c.Create(ctx, &v1alpha1.Invocation{ObjectMeta: meta("last"), Spec: v1alpha1.InvocationSpec{Function: "slow"}}); err != nil {
		t.Fatal(err)
	}
	answered("last", 503)
	stop()
	answered("twice", 404)
	var inv v1alpha1.Invocation
	if err := c.Get(ctx, types.NamespacedName{Namespace: "default", Name: "held"}, &inv); err != nil || inv.Status.CompletionTime != nil {
		t.Fatalf("what has no pod has the answer %+v, %v", inv.Status, err)
	}
	lose("held")
	run(t, []addon.Addon{a})
	answered("held", 503)
	if err := i.Disable(ctx, a); err != nil {
		t.Fatal(err)
	}
}
