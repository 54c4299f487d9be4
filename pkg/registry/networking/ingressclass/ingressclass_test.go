// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package ingressclass

import (
	"strings"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"minik8s.io/minik8s/pkg/registry/registrytest"
)

func TestResource(t *testing.T) {
	parameters := func(change func(p *networkingv1.IngressClassParametersReference)) func(*networkingv1.IngressClass) {
		return func(c *networkingv1.IngressClass) { change(c.Spec.Parameters) }
	}
	registrytest.Run(t, Resource, registrytest.Case[*networkingv1.IngressClass]{
		AddToScheme: networkingv1.AddToScheme,
		Valid: func() *networkingv1.IngressClass {
			return &networkingv1.IngressClass{
				ObjectMeta: metav1.ObjectMeta{Name: "c", Annotations: map[string]string{networkingv1.AnnotationIsDefaultIngressClass: "true"}},
				Spec: networkingv1.IngressClassSpec{
					Controller: "example.com/controller",
					Parameters: &networkingv1.IngressClassParametersReference{APIGroup: new("g.example.com"), Kind: "K", Name: "n"},
				},
			}
		},
		Update: func(c *networkingv1.IngressClass) { c.Spec.Parameters.Name = "m" },
		Invalid: []registrytest.Invalid[*networkingv1.IngressClass]{
			{Name: "no controller", Mutate: func(c *networkingv1.IngressClass) { c.Spec.Controller = "" }, Field: "spec.controller"},
			{Name: "controller without domain", Mutate: func(c *networkingv1.IngressClass) { c.Spec.Controller = "x" }, Field: "spec.controller"},
			{Name: "long controller", Mutate: func(c *networkingv1.IngressClass) {
				c.Spec.Controller = "example.com/" + strings.Repeat("x", 240)
			}, Field: "spec.controller"},
			{Name: "no kind", Mutate: parameters(func(p *networkingv1.IngressClassParametersReference) { p.Kind = "" }), Field: "spec.parameters.kind"},
			{Name: "name", Mutate: parameters(func(p *networkingv1.IngressClassParametersReference) { p.Name = "a/b" }), Field: "spec.parameters.name"},
			{Name: "scope", Mutate: parameters(func(p *networkingv1.IngressClassParametersReference) { p.Scope = new("x") }), Field: "spec.parameters.scope"},
			{Name: "no namespace", Mutate: parameters(func(p *networkingv1.IngressClassParametersReference) { p.Scope = new("Namespace") }), Field: "spec.parameters.namespace"},
			{Name: "namespace of Cluster", Mutate: parameters(func(p *networkingv1.IngressClassParametersReference) { p.Namespace = new("n") }), Field: "spec.parameters.namespace"},
		},
		InvalidUpdates: []registrytest.InvalidUpdate[*networkingv1.IngressClass]{
			{Name: "controller", Mutate: func(c *networkingv1.IngressClass) { c.Spec.Controller = "example.com/other" }, Field: "spec.controller"},
		},
		Row: []any{"c (default)", "example.com/controller", "K.g.example.com/n"},
	})
}
