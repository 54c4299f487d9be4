// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package dns

import (
	"testing"

	"github.com/miekg/dns"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"

	"minik8s.io/minik8s/pkg/addons/apis/networking/v1alpha1"
)

func definition(established string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": map[string]any{"name": v1alpha1.Definition},
		"status": map[string]any{"conditions": []any{map[string]any{"type": "Established", "status": established}}},
	}}
}

func dnsObject(name, host string, addresses ...any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": v1alpha1.GroupVersion.String(), "kind": "Dns", "metadata": map[string]any{"namespace": "ns", "name": name},
		"spec": map[string]any{"host": host, "paths": []any{}}, "status": map[string]any{"addresses": addresses},
	}}
}

// Names of Dns objects are answered while they are defined, as far as somebody serves them, and from the first answer on.
func TestNames(t *testing.T) {
	client := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{
		definitions: "CustomResourceDefinitionList", v1alpha1.Resource: "DnsList",
	}, definition("True"))
	objects := client.Resource(v1alpha1.Resource).Namespace("ns")
	for _, d := range []*unstructured.Unstructured{
		dnsObject("shop", "Shop.Test", "192.0.2.7", "2001:db8::7"), dnsObject("more", "shop.test", "192.0.2.7"), dnsObject("away", "away.test"),
	} {
		if _, err := objects.Create(t.Context(), d, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	_, addr := start(t, newClient(t), func(c *Config) { c.Dynamic = client })
	ask := func(name string, qtype uint16) (int, int) {
		m := exchange(t, "udp", addr, name, qtype)
		return m.Rcode, len(m.Answer)
	}
	for _, tc := range []struct {
		name           string
		qtype          uint16
		rcode, answers int
	}{
		{"shop.test.", dns.TypeA, dns.RcodeSuccess, 1}, {"SHOP.test.", dns.TypeAAAA, dns.RcodeSuccess, 1}, {"shop.test.", dns.TypeTXT, dns.RcodeSuccess, 0},
		{"away.test.", dns.TypeA, dns.RcodeRefused, 0}, {"test.", dns.TypeA, dns.RcodeRefused, 0},
	} {
		if rcode, answers := ask(tc.name, tc.qtype); rcode != tc.rcode || answers != tc.answers {
			t.Errorf("%s %s: %s, %d answers", tc.name, dns.TypeToString[tc.qtype], dns.RcodeToString[rcode], answers)
		}
	}
	if _, err := objects.Update(t.Context(), dnsObject("away", "away.test", "192.0.2.8"), metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the name that is served now", func() bool { _, answers := ask("away.test.", dns.TypeA); return answers == 1 })
	if err := objects.Delete(t.Context(), "away", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the name that is gone", func() bool { rcode, _ := ask("away.test.", dns.TypeA); return rcode == dns.RcodeRefused })
	if err := client.Resource(definitions).Delete(t.Context(), v1alpha1.Definition, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "no names without a definition", func() bool { rcode, _ := ask("shop.test.", dns.TypeA); return rcode == dns.RcodeRefused })
	if _, err := client.Resource(definitions).Create(t.Context(), definition("True"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "names with a definition", func() bool { _, answers := ask("shop.test.", dns.TypeA); return answers == 1 })
}

func TestEstablished(t *testing.T) {
	t.Parallel()
	leaving := definition("True")
	leaving.SetDeletionTimestamp(new(metav1.Unix(1, 0)))
	for _, tc := range []struct {
		name string
		obj  any
		want bool
	}{{"yes", definition("True"), true}, {"not yet", definition("False"), false}, {"leaving", leaving, false}, {"something else", "x", false}, {"no status", &unstructured.Unstructured{Object: map[string]any{}}, false}, {
		"just created", &unstructured.Unstructured{Object: map[string]any{"status": map[string]any{"conditions": nil}}}, false,
	}} {
		trimmed, err := onlyConditions(tc.obj)
		if got := established(trimmed); got != tc.want || err != nil {
			t.Errorf("%s: %v, %v", tc.name, got, err)
		}
	}
}
