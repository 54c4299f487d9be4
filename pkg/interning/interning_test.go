// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package interning

import (
	"math/rand"
	"reflect"
	"testing"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/apitesting/fuzzer"
	"k8s.io/apimachinery/pkg/api/resource"
	metafuzzer "k8s.io/apimachinery/pkg/apis/meta/fuzzer"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
)

func pod() *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: "a", Namespace: "default", ResourceVersion: "1", Labels: map[string]string{"app": "web"}, Annotations: map[string]string{},
			ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubectl", FieldsV1: &metav1.FieldsV1{Raw: []byte(`{"f:spec":{}}`)}}},
		},
		Spec: corev1.PodSpec{
			Containers: []corev1.Container{
				{Name: "one", Args: []string{"a", "b"}, Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("100m")}}},
				{Name: "two", SecurityContext: &corev1.SecurityContext{Privileged: new(true)}},
			},
			Tolerations: []corev1.Toleration{{Key: "k", TolerationSeconds: new(int64(300))}},
		},
	}
}

// TestShare: what is equal is the same memory afterwards, and nothing else has changed.
func TestShare(t *testing.T) {
	t.Parallel()
	from, to := pod(), pod()
	to.ResourceVersion, to.Spec.Containers[1].Name, to.Labels["app"], to.Annotations = "2", "three", "db", nil
	want := to.DeepCopy()
	Share(from, to)
	if diff := cmp.Diff(want, to); diff != "" {
		t.Errorf("the pod has changed: -before +after\n%s", diff)
	}
	if diff := cmp.Diff(pod(), from); diff != "" {
		t.Errorf("the other pod has changed: -before +after\n%s", diff)
	}
	same := map[string]bool{
		"string":                            unsafe.StringData(from.Namespace) == unsafe.StringData(to.Namespace),
		"bytes in a list":                   &from.ManagedFields[0].FieldsV1.Raw[0] == &to.ManagedFields[0].FieldsV1.Raw[0],
		"list in a list":                    &from.Spec.Containers[0].Args[0] == &to.Spec.Containers[0].Args[0],
		"map in a list":                     sameMap(from.Spec.Containers[0].Resources.Requests, to.Spec.Containers[0].Resources.Requests),
		"struct of an element that differs": from.Spec.Containers[1].SecurityContext == to.Spec.Containers[1].SecurityContext,
		"list":                              &from.Spec.Tolerations[0] == &to.Spec.Tolerations[0],
	}
	for what, ok := range same {
		if !ok {
			t.Errorf("%s: not shared", what)
		}
	}
	if sameMap(from.Labels, to.Labels) || &from.Spec.Containers[0] == &to.Spec.Containers[0] {
		t.Error("what differs is shared")
	}
	if cap(to.Spec.Tolerations) != len(to.Spec.Tolerations) {
		t.Error("who appends to a list writes into another's")
	}
}

// TestEqual: to compare changes nothing.
func TestEqual(t *testing.T) {
	t.Parallel()
	a, b := pod(), pod()
	if !Equal(a, b) || !Equal(a, a) {
		t.Error("equal pods are said to differ")
	}
	if sameMap(a.Labels, b.Labels) || &a.Spec.Containers[0] == &b.Spec.Containers[0] || &a.ManagedFields[0].FieldsV1.Raw[0] == &b.ManagedFields[0].FieldsV1.Raw[0] {
		t.Error("pods that were compared share memory")
	}
	for name, change := range map[string]func(*corev1.Pod){
		"string":          func(p *corev1.Pod) { p.ResourceVersion = "2" },
		"map":             func(p *corev1.Pod) { p.Labels["app"] = "db" },
		"quantity":        func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Requests["cpu"] = resource.MustParse("101m") },
		"bytes":           func(p *corev1.Pod) { p.ManagedFields[0].FieldsV1.Raw[3] = 'g' },
		"longer list":     func(p *corev1.Pod) { p.Spec.Tolerations = append(p.Spec.Tolerations, corev1.Toleration{}) },
		"behind pointers": func(p *corev1.Pod) { *p.Spec.Containers[1].SecurityContext.Privileged = false },
		"number":          func(p *corev1.Pod) { *p.Spec.Tolerations[0].TolerationSeconds = 301 },
	} {
		b := pod()
		if change(b); Equal(a, b) || Equal(b, a) {
			t.Errorf("pods with another %s are said to be equal", name)
		}
	}
}

func sameMap[M ~map[K]V, K comparable, V any](a, b M) bool {
	return reflect.ValueOf(a).Pointer() == reflect.ValueOf(b).Pointer()
}

// TestEqual_Nothing: what is empty is not what is not there, and pointers that are nil are no trouble.
func TestEqual_Nothing(t *testing.T) {
	t.Parallel()
	none := (*corev1.Pod)(nil)
	for name, pair := range map[string][2]runtime.Object{
		"nil and empty list":  {&corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{}}}, &corev1.Pod{}},
		"nil and empty map":   {&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{}}}, &corev1.Pod{}},
		"nil and empty bytes": {&corev1.ConfigMap{BinaryData: map[string][]byte{"a": {}}}, &corev1.ConfigMap{BinaryData: map[string][]byte{"a": nil}}},
		"nil and struct":      {&corev1.Pod{Spec: corev1.PodSpec{SecurityContext: &corev1.PodSecurityContext{}}}, &corev1.Pod{}},
		"types":               {&corev1.Pod{}, &corev1.Node{}},
		"no object":           {none, &corev1.Pod{}},
	} {
		if Equal(pair[0], pair[1]) || pair[0] != none && Equal(pair[1], pair[0]) {
			t.Errorf("%s: said to be equal", name)
		}
	}
}

// TestEqual_AllKinds: objects of all kinds, with anything in them, keep what they are.
func TestEqual_AllKinds(t *testing.T) {
	t.Parallel()
	codecs := serializer.NewCodecFactory(clientgoscheme.Scheme)
	kinds := 0
	for gvk, typ := range clientgoscheme.Scheme.AllKnownTypes() {
		if _, ok := reflect.TypeAssert[metav1.Object](reflect.New(typ)); !ok {
			continue
		}
		kinds++
		t.Run(gvk.String(), func(t *testing.T) {
			t.Parallel()
			random := fuzzer.FuzzerFor(fuzzer.MergeFuzzerFuncs(metafuzzer.Funcs), rand.NewSource(1), codecs).NumElements(1, 3)
			for range 5 {
				a, b := reflect.New(typ).Interface().(runtime.Object), reflect.New(typ).Interface().(runtime.Object)
				random.Fill(a)
				random.Fill(b)
				wantA, wantB := a.DeepCopyObject(), b.DeepCopyObject()
				Share(a, b)
				if !reflect.DeepEqual(wantA, a) || !reflect.DeepEqual(wantB, b) {
					t.Fatalf("objects have changed: %s%s", cmp.Diff(wantA, a), cmp.Diff(wantB, b))
				}
				if reflect.DeepEqual(a, b) != Equal(a, b) {
					t.Fatalf("equal says %t: %s", Equal(a, b), cmp.Diff(a, b))
				}
				Share(a, wantA)
				if !reflect.DeepEqual(wantA, a) {
					t.Fatalf("the copy has changed: %s", cmp.Diff(wantA, a))
				}
			}
		})
	}
	if kinds < 100 {
		t.Errorf("only %d kinds", kinds)
	}
}

// TestEqual_Recursive: types may contain themselves.
func TestEqual_Recursive(t *testing.T) {
	t.Parallel()
	schema := func(inner string) *apiextensionsv1.CustomResourceDefinition {
		props := &apiextensionsv1.JSONSchemaProps{Type: "object", Items: &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &apiextensionsv1.JSONSchemaProps{Type: inner}}}
		return &apiextensionsv1.CustomResourceDefinition{Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: props}}},
		}}
	}
	if !Equal(schema("string"), schema("string")) {
		t.Error("equal schemas are said to differ")
	}
	if Equal(schema("string"), schema("integer")) {
		t.Error("schemas that differ are said to be equal")
	}
}

func BenchmarkShare(b *testing.B) {
	from := pod()
	from.ResourceVersion = "0"
	for b.Loop() {
		b.StopTimer()
		to := pod()
		b.StartTimer()
		Share(from, to)
	}
}

func BenchmarkEqual(b *testing.B) {
	one, other := pod(), pod()
	for b.Loop() {
		Equal(one, other)
	}
}
