// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package ipaddress

import (
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"minik8s.io/minik8s/pkg/registry/registrytest"
)

func TestResource(t *testing.T) {
	type address = networkingv1.IPAddress
	registrytest.Run(t, Resource, registrytest.Case[*address]{
		AddToScheme: networkingv1.AddToScheme,
		Valid: func() *address {
			return &address{
				ObjectMeta: metav1.ObjectMeta{Name: "2001:db8::1"},
				Spec:       networkingv1.IPAddressSpec{ParentRef: &networkingv1.ParentReference{Resource: "services", Namespace: "ns", Name: "s"}},
			}
		},
		Update: func(ip *address) { ip.Labels = map[string]string{"a": "b"} },
		Invalid: []registrytest.Invalid[*address]{
			{Name: "no address", Mutate: func(ip *address) { ip.Name = "a" }, Field: "metadata.name"},
			{Name: "not canonical", Mutate: func(ip *address) { ip.Name = "2001:db8::0001" }, Field: "metadata.name"},
			{Name: "no parent", Mutate: func(ip *address) { ip.Spec.ParentRef = nil }, Field: "spec.parentRef"},
			{Name: "group", Mutate: func(ip *address) { ip.Spec.ParentRef.Group = "A" }, Field: "spec.parentRef.group"},
			{Name: "no resource", Mutate: func(ip *address) { ip.Spec.ParentRef.Resource = "" }, Field: "spec.parentRef.resource"},
			{Name: "name", Mutate: func(ip *address) { ip.Spec.ParentRef.Name = "a/b" }, Field: "spec.parentRef.name"},
			{Name: "namespace", Mutate: func(ip *address) { ip.Spec.ParentRef.Namespace = ".." }, Field: "spec.parentRef.namespace"},
		},
		InvalidUpdates: []registrytest.InvalidUpdate[*address]{
			{Name: "parent", Mutate: func(ip *address) { ip.Spec.ParentRef.Name = "t" }, Field: "spec.parentRef"},
		},
		NoGenerateName: true,
		ExtraCells:     1,
		Row:            []any{"2001:db8::1", "services/ns/s"},
	})
}
