// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package fuzz

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	apiextensionsapiserver "k8s.io/apiextensions-apiserver/pkg/apiserver"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"minik8s.io/minik8s/pkg/registry/admissionregistration/expression"
)

// FuzzSelector parses selectors of both sorts. What one prints means the same.
func FuzzSelector(f *testing.F) {
	for _, s := range []string{"", "a=b", "a in (b,c),!d", "x>1", "a notin (", "metadata.name=a,b!=c", "a=\\,", "a in ()", "é=ü", "a==b", ",", "!"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if l, err := labels.Parse(s); err == nil {
			if again, err := labels.Parse(l.String()); err != nil || again.String() != l.String() {
				t.Errorf("label selector %q prints as %q, which is %v: %v", s, l, again, err)
			}
		}
		if l, err := fields.ParseSelector(s); err == nil {
			if again, err := fields.ParseSelector(l.String()); err != nil || !slices.Equal(sorted(again), sorted(l)) {
				t.Errorf("field selector %q prints as %q, which is %v: %v", s, l, again, err)
			}
		}
	})
}

// sorted are the requirements of a selector in an order of their own: the library sorts the text.
func sorted(s fields.Selector) []fields.Requirement {
	return slices.SortedFunc(slices.Values(s.Requirements()), func(a, b fields.Requirement) int {
		return cmp.Or(cmp.Compare(a.Field, b.Field), cmp.Compare(a.Operator, b.Operator), cmp.Compare(a.Value, b.Value))
	})
}

// refused are numbers with an exponent of five digits and more.
var refused = regexp.MustCompile(`[eE][+-]?[0-9]{5,}`)

// FuzzQuantity parses quantities. What one prints is as much.
func FuzzQuantity(f *testing.F) {
	for _, s := range []string{"0", "1", "-1", "1.5", "100m", "1Ki", "12e6", "1E", "1e1000000000", "9999999999999999999999999999Ei", "0.00000000000000000000001n", "+.5", "1e-99999", ""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if refused.MatchString(s) {
			return // by the guard, in every request: the library would write the number out, which takes minutes
		}
		q, err := resource.ParseQuantity(s)
		if err != nil {
			return
		}
		if math.Abs(q.AsApproximateFloat64()) >= 1e21 {
			return // the library has no suffix for these and leaves it out, upstream as here
		}
		again, err := resource.ParseQuantity(q.String())
		if err != nil || q.Cmp(again) != 0 {
			t.Errorf("%q prints as %q, which is %v: %v", s, q.String(), again, err)
		}
		q.MilliValue()
		q.ScaledValue(resource.Nano)
	})
}

// FuzzExpression compiles conditions of webhooks and admission policies.
func FuzzExpression(f *testing.F) {
	for _, s := range []string{"true", "object.spec.x == 1", "1/0 == 1", "[1,2].all(x, x > 0)", "quantity('1e1000000000').asInteger() > 0", "request.userInfo.groups.exists(g, g == 'a')", "((((", "'a'.matches('(a+)+$')", "cel.bind(a, 1, a)", "authorizer.path('/').check('get').allowed()", "ip('::1').family() == 6", "\x00"} {
		f.Add(s)
	}
	f.Fuzz(func(_ *testing.T, s string) {
		expression.ValidateConditions([]admissionv1.MatchCondition{{Name: "a", Expression: s}}, true, nil, nil)
	})
}

// FuzzDefinition validates CustomResourceDefinitions with the given schema.
func FuzzDefinition(f *testing.F) {
	for _, s := range []string{
		`{"type":"object"}`, `{"type":"object","properties":{"spec":{"type":"object","x-kubernetes-validations":[{"rule":"self.a > 1"}],"properties":{"a":{"type":"integer","default":1}}}}}`,
		`{"type":"object","x-kubernetes-preserve-unknown-fields":true}`, `{"type":"array","items":{"type":"object","x-kubernetes-list-type":"map"}}`, `{"$ref":"#"}`, `{"type":"object","not":{"not":{}}}`, `{"type":"object","properties":{"":{"type":"string","pattern":"(("}}}`, `{"type":"object","default":{"a":null},"nullable":true}`, `{"items":[{},{}]}`, `null`,
		`{"type":"object","properties":{"x":{"x-kubernetes-int-or-string":true,"maximum":1e400}}}`, `{"type":"object","additionalProperties":{"x-kubernetes-embedded-resource":true,"type":"object"}}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var schema apiextensionsv1.JSONSchemaProps
		if err := json.Unmarshal(data, &schema); err != nil {
			return
		}
		v := apiextensionsv1.CustomResourceDefinitionVersion{Name: "v1", Served: true, Storage: true, Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &schema}}
		crd := &apiextensionsv1.CustomResourceDefinition{Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "example.org", Scope: apiextensionsv1.NamespaceScoped, Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "widgets", Kind: "Widget"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{v},
		}}
		crd.Name = "widgets.example.org"
		apiextensionsapiserver.Scheme.Default(crd)
		var internal apiextensions.CustomResourceDefinition
		if err := apiextensionsapiserver.Scheme.Convert(crd, &internal, nil); err != nil {
			return
		}
		validation.ValidateCustomResourceDefinition(t.Context(), &internal)
	})
}

// FuzzStrategicMergePatch patches a pod.
func FuzzStrategicMergePatch(f *testing.F) {
	original := []byte(`{"metadata":{"name":"a","labels":{"a":"b"},"finalizers":["x"],"ownerReferences":[{"uid":"u"}]},"spec":{"containers":[{"name":"main","ports":[{"containerPort":80,"protocol":"TCP"}]},{"name":"side"}],"volumes":[{"name":"v","emptyDir":{}}],"tolerations":[{"key":"k"}]}}`)
	for _, s := range []string{
		`{}`, `null`, `{"metadata":{"labels":{"a":null}}}`, `{"spec":{"containers":[{"name":"main","$patch":"delete"}]}}`, `{"spec":{"$setElementOrder/containers":[{"name":"side"}],"containers":[{"name":"side","image":"x"}]}}`, `{"$patch":1}`, `{"spec":{"$retainKeys":["a"],"volumes":[{"name":"v","$retainKeys":["name"]}]}}`,
		`{"metadata":{"$deleteFromPrimitiveList/finalizers":["x"]}}`, `{"spec":{"containers":[{"image":"no key"}]}}`, `{"spec":{"containers":{"$patch":"delete"}}}`, `{"spec":{"tolerations":[{"$patch":"replace"}]}}`,
		`{"metadata":{"$setElementOrder/finalizers":["y","x"],"finalizers":["y"]}}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, patch []byte) {
		defer func() { // the library panics where it expects keys; the server's guard makes 400 of that
			if reason := recover(); reason != nil && !strings.Contains(fmt.Sprint(reason), "comparing uncomparable type") && !strings.Contains(fmt.Sprint(reason), "hash of unhashable type") {
				panic(reason)
			}
		}()
		patched, err := strategicpatch.StrategicMergePatch(original, patch, corev1.Pod{})
		if err == nil && !json.Valid(patched) {
			t.Errorf("%s makes %s", patch, patched)
		}
	})
}
