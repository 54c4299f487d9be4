// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package router

import (
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Name of the router, and of the class of Ingresses that it serves by default. User is its identity, Controller the name by which
// an IngressClass or a GatewayClass is its own.
const (
	Name       = "minik8s"
	User       = "system:minik8s:router"
	Controller = "minik8s.io/router"
)

// Class is the class of Ingresses that name none.
func Class() *networkingv1.IngressClass {
	return &networkingv1.IngressClass{
		ObjectMeta: metav1.ObjectMeta{Name: Name, Annotations: map[string]string{networkingv1.AnnotationIsDefaultIngressClass: "true"}},
		Spec:       networkingv1.IngressClassSpec{Controller: Controller},
	}
}
