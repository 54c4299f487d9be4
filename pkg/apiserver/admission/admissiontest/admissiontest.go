// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package admissiontest makes requests for tests of admission plugins; touch it when requests carry something new.
package admissiontest

import (
	"context"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/initializer"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/component-base/compatibility"
)

// Request is an admission request.
type Request struct {
	Group, Resource, Subresource string
	Name                         string
	// Namespace defaults to "ns".
	Namespace string
	// Operation defaults to Create.
	Operation   admission.Operation
	Object, Old runtime.Object
	User        user.Info
}

// Attributes returns the request as plugins see it.
func (r Request) Attributes() admission.Attributes {
	if r.Operation == "" {
		r.Operation = admission.Create
	}
	if r.Namespace == "" {
		r.Namespace = "ns"
	}
	if r.User == nil {
		r.User = &user.DefaultInfo{Name: "ann"}
	}
	return admission.NewAttributesRecord(r.Object, r.Old, schema.GroupVersionKind{Group: r.Group, Version: "v1", Kind: r.Resource}, r.Namespace, r.Name,
		schema.GroupVersionResource{Group: r.Group, Version: "v1", Resource: r.Resource}, r.Subresource, r.Operation, &metav1.CreateOptions{}, false, r.User)
}

// Initialize gives a plugin informers and a client that know the objects, and waits until they do. A plugin that asks for
// an authorizer gets one that allows nothing.
func Initialize(tb testing.TB, plugin admission.Interface, objects ...runtime.Object) {
	tb.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	client := fake.NewClientset(objects...)
	shared := informers.NewSharedInformerFactory(client, 0)
	initializer.New(client, nil, shared, authorizerfactory.NewAlwaysDenyAuthorizer(), nil,
		compatibility.NewEffectiveVersionFromString("1.37", "", ""), nil, nil).Initialize(plugin)
	if err := admission.ValidateInitialization(plugin); err != nil {
		tb.Fatal(err)
	}
	shared.Start(ctx.Done())
	tb.Cleanup(func() {
		cancel()
		shared.Shutdown()
	})
	wait, stop := context.WithTimeout(ctx, 10*time.Second)
	defer stop()
	for kind, ok := range shared.WaitForCacheSync(wait.Done()) {
		if !ok {
			tb.Fatalf("informer of %v did not sync", kind)
		}
	}
}

// Run calls a plugin as the server does: Admit, then Validate.
func Run(plugin admission.Interface, a admission.Attributes) error {
	ctx := context.Background()
	if !plugin.Handles(a.GetOperation()) {
		return nil
	}
	if m, ok := plugin.(admission.MutationInterface); ok {
		if err := m.Admit(ctx, a, nil); err != nil {
			return err
		}
	}
	if v, ok := plugin.(admission.ValidationInterface); ok {
		return v.Validate(ctx, a, nil)
	}
	return nil
}
