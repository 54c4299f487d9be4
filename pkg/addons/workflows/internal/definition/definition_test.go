// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package definition

import (
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	workflowsv1alpha1 "minik8s.io/minik8s/pkg/addons/apis/workflows/v1alpha1"
)

const document = `{"document": {"dsl": "1.0.3", "namespace": "default", "name": "test", "version": "1.2.3"}, "do": [{"a": {"do": [{"b": {"set": {"x": 1}}}]}}]}`

func TestStatus(t *testing.T) {
	for _, tt := range []struct {
		name, spec string
		ready      metav1.ConditionStatus
		message    string
	}{
		{name: "in spec", spec: document, ready: metav1.ConditionTrue},
		{name: "an object in definition", spec: `{"definition": ` + document + `}`, ready: metav1.ConditionTrue},
		{name: "text in definition", spec: `{"definition": ` + quoted(document) + `}`, ready: metav1.ConditionTrue},
		{name: "both", spec: `{"definition": ` + document + `, "do": []}`, ready: metav1.ConditionFalse, message: "spec.definition: Forbidden"},
		{name: "neither", spec: `{}`, ready: metav1.ConditionFalse, message: "spec.document: Required"},
		{name: "text that is no YAML", spec: `{"definition": "a: b: c"}`, ready: metav1.ConditionFalse, message: "spec.definition: Invalid value: neither YAML nor JSON"},
		{name: "a mistake", spec: strings.Replace(document, `"set"`, `"sett"`, 1), ready: metav1.ConditionFalse, message: "spec.do[0].a.do[0].b: Required value: a task has one of"},
		{name: "too long", spec: `{"do": "` + strings.Repeat("x", MaxBytes) + `"}`, ready: metav1.ConditionFalse, message: "spec: Too long"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := &workflowsv1alpha1.Workflow{ObjectMeta: metav1.ObjectMeta{Generation: 7}, Spec: apiextensionsv1.JSON{Raw: []byte(tt.spec)}}
			s := Status(w)
			if len(s.Conditions) != 1 || s.ObservedGeneration != 7 {
				t.Fatalf("status %+v", s)
			}
			c := s.Conditions[0]
			if c.Status != tt.ready || !strings.Contains(c.Message, tt.message) {
				t.Errorf("%s: %s", c.Status, c.Message)
			}
			if tt.ready == metav1.ConditionTrue && (s.Version != "1.2.3" || s.Tasks != 2) {
				t.Errorf("version %s, %d tasks", s.Version, s.Tasks)
			}
		})
	}
}

func quoted(text string) string { return `"` + strings.ReplaceAll(text, `"`, `\"`) + `"` }

func TestMessage(t *testing.T) {
	var problems field.ErrorList
	for range 1000 {
		problems = append(problems, field.Required(field.NewPath("spec").Index(len(problems)), "it is"))
	}
	if m := Message(problems); len(m) > 5000 || !strings.Contains(m, "spec[0]") {
		t.Errorf("%d bytes: %.100s", len(m), m)
	}
}
