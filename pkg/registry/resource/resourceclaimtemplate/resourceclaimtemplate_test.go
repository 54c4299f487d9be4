// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package resourceclaimtemplate_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"minik8s.io/minik8s/pkg/registry"
	"minik8s.io/minik8s/pkg/registry/core/namespace"
	"minik8s.io/minik8s/pkg/registry/registrytest"
	"minik8s.io/minik8s/pkg/registry/resource/resourceclaimtemplate"
)

type template = resourcev1.ResourceClaimTemplate

func valid() *template {
	return &template{
		ObjectMeta: metav1.ObjectMeta{Name: "t"},
		Spec: resourcev1.ResourceClaimTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": "b"}},
			Spec: resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{
				Requests: []resourcev1.DeviceRequest{{Name: "gpu", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: "gpu"}}},
			}},
		},
	}
}

func TestResource(t *testing.T) {
	registrytest.Run(t, resourceclaimtemplate.Resource, registrytest.Case[*template]{
		AddToScheme: resourcev1.AddToScheme,
		Valid:       valid,
		Update:      func(t *template) { t.Labels = map[string]string{"a": "b"} },
		Invalid: []registrytest.Invalid[*template]{
			{Name: "name of the claim", Mutate: func(t *template) { t.Spec.Name = "x" }, Field: "spec.metadata.name"},
			{Name: "label", Mutate: func(t *template) { t.Spec.Labels["a"] = "!" }, Field: "spec.metadata.labels"},
			{Name: "class", Mutate: func(t *template) { t.Spec.Spec.Devices.Requests[0].Exactly.DeviceClassName = "" }, Field: "spec.spec.devices.requests[0].exactly.deviceClassName"},
		},
		InvalidUpdates: []registrytest.InvalidUpdate[*template]{
			{Name: "immutable", Mutate: func(t *template) { t.Spec.Spec.Devices.Requests[0].Name = "nic" }, Field: "spec"},
		},
		Row: []any{"t"},
	})
}

// TestAdminAccess needs namespaces beside the templates: they say who may have it.
func TestAdminAccess(t *testing.T) {
	client := kubernetes.NewForConfigOrDie(registrytest.Serve(t, registry.Config{},
		registry.Group{AddToScheme: corev1.AddToScheme, Versions: []registry.Version{{Name: "v1", Resources: []registry.Descriptor{namespace.Resource}}}},
		registry.Group{Name: resourcev1.GroupName, AddToScheme: resourcev1.AddToScheme, Versions: []registry.Version{{Name: "v1", Resources: []registry.Descriptor{resourceclaimtemplate.Resource}}}},
	))
	for name, labels := range map[string]map[string]string{"plain": nil, "marked": {resourcev1.DRAAdminNamespaceLabelKey: "true"}} {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
		if _, err := client.CoreV1().Namespaces().Create(t.Context(), ns, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		tmpl := valid()
		tmpl.Spec.Spec.Devices.Requests[0].Exactly.AdminAccess = new(true)
		_, err := client.ResourceV1().ResourceClaimTemplates(name).Create(t.Context(), tmpl, metav1.CreateOptions{})
		if refused := apierrors.IsInvalid(err); refused != (name == "plain") {
			t.Errorf("in the %s namespace: %v", name, err)
		}
	}
}
