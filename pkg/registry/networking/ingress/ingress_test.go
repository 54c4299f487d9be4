// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package ingress

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"minik8s.io/minik8s/pkg/registry/registrytest"
)

func valid() *networkingv1.Ingress {
	return &networkingv1.Ingress{
		ObjectMeta: metav1.ObjectMeta{Name: "i"},
		Spec: networkingv1.IngressSpec{
			Rules: []networkingv1.IngressRule{{
				Host: "example.com",
				IngressRuleValue: networkingv1.IngressRuleValue{HTTP: &networkingv1.HTTPIngressRuleValue{Paths: []networkingv1.HTTPIngressPath{{
					Path: "/a", PathType: new(networkingv1.PathTypePrefix),
					Backend: networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{Name: "s", Port: networkingv1.ServiceBackendPort{Number: 80}}},
				}}}},
			}},
			TLS: []networkingv1.IngressTLS{{Hosts: []string{"*.example.com"}, SecretName: "cert"}},
		},
	}
}

func path(in *networkingv1.Ingress) *networkingv1.HTTPIngressPath {
	return &in.Spec.Rules[0].HTTP.Paths[0]
}

func TestResource(t *testing.T) {
	const at = "spec.rules[0].http.paths[0]"
	type invalid = registrytest.Invalid[*networkingv1.Ingress]
	registrytest.Run(t, Resource, registrytest.Case[*networkingv1.Ingress]{
		AddToScheme: networkingv1.AddToScheme,
		Valid:       valid,
		Update:      func(in *networkingv1.Ingress) { path(in).Path = "/b" },
		StatusUpdate: func(in *networkingv1.Ingress) {
			in.Status.LoadBalancer.Ingress = []networkingv1.IngressLoadBalancerIngress{{IP: "192.0.2.1"}}
		},
		Invalid: []invalid{
			{Name: "empty", Mutate: func(in *networkingv1.Ingress) { in.Spec = networkingv1.IngressSpec{} }, Field: "spec"},
			{Name: "address as host", Mutate: func(in *networkingv1.Ingress) { in.Spec.Rules[0].Host = "192.0.2.1" }, Field: "spec.rules[0].host"},
			{Name: "wildcard inside", Mutate: func(in *networkingv1.Ingress) { in.Spec.Rules[0].Host = "a.*.com" }, Field: "spec.rules[0].host"},
			{Name: "no paths", Mutate: func(in *networkingv1.Ingress) { in.Spec.Rules[0].HTTP.Paths = nil }, Field: "spec.rules[0].http.paths"},
			{Name: "no path type", Mutate: func(in *networkingv1.Ingress) { path(in).PathType = nil }, Field: at + ".pathType"},
			{Name: "unknown path type", Mutate: func(in *networkingv1.Ingress) { path(in).PathType = new(networkingv1.PathType("x")) }, Field: at + ".pathType"},
			{Name: "relative path", Mutate: func(in *networkingv1.Ingress) { path(in).Path = "a" }, Field: at + ".path"},
			{Name: "path that climbs", Mutate: func(in *networkingv1.Ingress) { path(in).Path = "/a/.." }, Field: at + ".path"},
			{Name: "no backend", Mutate: func(in *networkingv1.Ingress) { path(in).Backend.Service = nil }, Field: at + ".backend"},
			{Name: "two backends", Mutate: func(in *networkingv1.Ingress) {
				path(in).Backend.Resource = &corev1.TypedLocalObjectReference{Kind: "K", Name: "n"}
			}, Field: at + ".backend"},
			{Name: "resource without kind", Mutate: func(in *networkingv1.Ingress) {
				in.Spec.DefaultBackend = &networkingv1.IngressBackend{Resource: &corev1.TypedLocalObjectReference{Name: "n"}}
			}, Field: "spec.defaultBackend.resource.kind"},
			{Name: "two ports", Mutate: func(in *networkingv1.Ingress) { path(in).Backend.Service.Port.Name = "http" }, Field: at + ".backend"},
			{Name: "no port", Mutate: func(in *networkingv1.Ingress) { path(in).Backend.Service.Port.Number = 0 }, Field: at + ".backend"},
			{Name: "service name", Mutate: func(in *networkingv1.Ingress) { path(in).Backend.Service.Name = "a.b" }, Field: at + ".backend.service.name"},
			{Name: "secret name", Mutate: func(in *networkingv1.Ingress) { in.Spec.TLS[0].SecretName = "A" }, Field: "spec.tls[0].secretName"},
			{Name: "TLS host", Mutate: func(in *networkingv1.Ingress) { in.Spec.TLS[0].Hosts[0] = "-" }, Field: "spec.tls[0].hosts[0]"},
			{Name: "class against annotation", Mutate: func(in *networkingv1.Ingress) {
				in.Annotations = map[string]string{ClassAnnotation: "a"}
				in.Spec.IngressClassName = new("b")
			}, Field: "annotations.kubernetes.io/ingress.class"},
		},
		InvalidUpdates: []registrytest.InvalidUpdate[*networkingv1.Ingress]{
			{Name: "class", Mutate: func(in *networkingv1.Ingress) { in.Spec.IngressClassName = new("A") }, Field: "spec.ingressClassName"},
		},
		Row: []any{"i", "<none>", "example.com", "", "80, 443"},
	})
}

func TestUpdateKeepsWhatWasStored(t *testing.T) {
	old := valid()
	old.Namespace = "ns"
	old.Spec.TLS[0].SecretName = "A"
	old.Spec.Rules[0].Host = "*.example.com"
	path(old).PathType = nil
	if errs := validateUpdate(t.Context(), old, old); len(errs) > 0 {
		t.Errorf("unchanged: %v", errs)
	}
	if errs := validate(t.Context(), old); len(errs) != 2 {
		t.Errorf("on create: %v, want two errors", errs)
	}
}

func TestStatus(t *testing.T) {
	in, old := valid(), valid()
	in.Status.LoadBalancer.Ingress = []networkingv1.IngressLoadBalancerIngress{{IP: "192.000.2.1"}, {Hostname: "192.0.2.1"}}
	if errs := validateStatus(t.Context(), in, old); len(errs) != 2 {
		t.Errorf("errors = %v, want one for each", errs)
	}
	old.Status.LoadBalancer.Ingress = in.Status.LoadBalancer.Ingress[:1]
	in.Status = old.Status
	if errs := validateStatus(t.Context(), in, old); len(errs) > 0 {
		t.Errorf("what was there before: %v", errs)
	}
}

func TestWarnings(t *testing.T) {
	in := valid()
	in.Annotations = map[string]string{ClassAnnotation: "a"}
	want := []string{`annotation "kubernetes.io/ingress.class" is deprecated, please use 'spec.ingressClassName' instead`}
	if got := warnings(t.Context(), in, nil); !slices.Equal(got, want) {
		t.Errorf("warnings = %q", got)
	}
	if got := warnings(t.Context(), in, in); got != nil {
		t.Errorf("warnings on update = %q", got)
	}
}

func TestHosts(t *testing.T) {
	rules := []networkingv1.IngressRule{{Host: "a"}, {Host: "b"}, {Host: "c"}, {Host: "d"}, {Host: "e"}}
	for n, want := range map[int]string{0: "*", 2: "a,b", 3: "a,b,c", 5: "a,b,c + 2 more..."} {
		if got := hosts(rules[:n]); got != want {
			t.Errorf("%d hosts: %q, want %q", n, got, want)
		}
	}
}
