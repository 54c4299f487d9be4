// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

func TestAttributes(t *testing.T) {
	u := &user.DefaultInfo{Name: "ann"}
	fieldsOf := func(f authorizationv1.FieldSelectorAttributes) Question {
		return Question{Resource: &authorizationv1.ResourceAttributes{Verb: "list", Resource: "pods", FieldSelector: &f}}
	}
	labelsOf := func(l authorizationv1.LabelSelectorAttributes) Question {
		return Question{Resource: &authorizationv1.ResourceAttributes{Verb: "list", Resource: "pods", LabelSelector: &l}}
	}
	for _, tc := range []struct {
		name           string
		q              Question
		path, version  string
		fields, labels string
		err            bool
	}{
		{name: "path", q: Question{NonResource: &authorizationv1.NonResourceAttributes{Verb: "get", Path: "/metrics"}}, path: "/metrics"},
		{name: "any version", q: Question{Resource: &authorizationv1.ResourceAttributes{Resource: "pods"}}, version: "*"},
		{name: "a version", q: Question{Resource: &authorizationv1.ResourceAttributes{Resource: "pods", Version: "v1"}}, version: "v1"},
		{name: "raw fields", q: fieldsOf(authorizationv1.FieldSelectorAttributes{RawSelector: "spec.nodeName=n"}), version: "*", fields: "spec.nodeName=n"},
		{name: "bad raw fields", q: fieldsOf(authorizationv1.FieldSelectorAttributes{RawSelector: "a"}), version: "*", err: true},
		{name: "fields", version: "*", fields: "a=b", q: fieldsOf(authorizationv1.FieldSelectorAttributes{Requirements: []metav1.FieldSelectorRequirement{{Key: "a", Operator: "In", Values: []string{"b"}}}})},
		{name: "fields it cannot compare", version: "*", fields: "a!=b", err: true, q: fieldsOf(authorizationv1.FieldSelectorAttributes{Requirements: []metav1.FieldSelectorRequirement{
			{Key: "x", Operator: "In", Values: []string{"b", "c"}}, {Key: "y", Operator: "Exists"}, {Key: "a", Operator: "NotIn", Values: []string{"b"}},
		}})},
		{name: "raw labels", q: labelsOf(authorizationv1.LabelSelectorAttributes{RawSelector: "a in (b)"}), version: "*", labels: "a in (b)"},
		{name: "bad raw labels", q: labelsOf(authorizationv1.LabelSelectorAttributes{RawSelector: "a in"}), version: "*", err: true},
		{name: "labels", version: "*", labels: "a", err: true, q: labelsOf(authorizationv1.LabelSelectorAttributes{Requirements: []metav1.LabelSelectorRequirement{
			{Key: "a", Operator: "Exists"}, {Key: "b", Operator: "Strange"},
		}})},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a := Attributes(u, tc.q)
			if err := errors.Join(a.FieldSelectorParsingErr, a.LabelSelectorParsingErr); (err != nil) != tc.err {
				t.Errorf("error = %v", err)
			}
			var fields, labels []string
			for _, r := range a.FieldSelectorRequirements {
				fields = append(fields, r.Field+string(r.Operator)+r.Value)
			}
			for _, r := range a.LabelSelectorRequirements {
				labels = append(labels, r.String())
			}
			if a.User != u || a.Path != tc.path || a.APIVersion != tc.version || strings.Join(fields, ",") != tc.fields || strings.Join(labels, ",") != tc.labels {
				t.Errorf("attributes = %+v", a)
			}
		})
	}
}

func TestSubject(t *testing.T) {
	got := Subject(authorizationv1.SubjectAccessReviewSpec{User: "u", UID: "1", Groups: []string{"g"}, Extra: map[string]authorizationv1.ExtraValue{"Scopes": {"s"}}})
	want := &user.DefaultInfo{Name: "u", UID: "1", Groups: []string{"g"}, Extra: map[string][]string{"Scopes": {"s"}}}
	if diff := cmp.Diff(user.Info(want), got); diff != "" {
		t.Errorf("subject (-want +got):\n%s", diff)
	}
}

func TestDecide(t *testing.T) {
	q := Question{NonResource: &authorizationv1.NonResourceAttributes{Path: "/x"}}
	for decision, want := range map[authorizer.Decision]authorizationv1.SubjectAccessReviewStatus{
		authorizer.DecisionAllow:     {Allowed: true, Reason: "r"},
		authorizer.DecisionDeny:      {Denied: true, Reason: "r"},
		authorizer.DecisionNoOpinion: {Reason: "r"},
	} {
		a := authorizer.AuthorizerFunc(func(context.Context, authorizer.Attributes) (authorizer.Decision, string, error) {
			return decision, "r", nil
		})
		if diff := cmp.Diff(want, Decide(context.Background(), a, &user.DefaultInfo{}, q)); diff != "" {
			t.Errorf("%v (-want +got):\n%s", decision, diff)
		}
	}
}

func TestValidate(t *testing.T) {
	resource := &authorizationv1.ResourceAttributes{Verb: "get", Resource: "pods"}
	path := &authorizationv1.NonResourceAttributes{Path: "/x"}
	selecting := func(f *authorizationv1.FieldSelectorAttributes, l *authorizationv1.LabelSelectorAttributes) authorizationv1.SubjectAccessReviewSpec {
		return authorizationv1.SubjectAccessReviewSpec{User: "u", ResourceAttributes: &authorizationv1.ResourceAttributes{FieldSelector: f, LabelSelector: l}}
	}
	for _, tc := range []struct {
		name   string
		spec   authorizationv1.SubjectAccessReviewSpec
		fields []string
	}{
		{"a resource", authorizationv1.SubjectAccessReviewSpec{User: "u", ResourceAttributes: resource}, nil},
		{"a path for a group", authorizationv1.SubjectAccessReviewSpec{Groups: []string{"g"}, NonResourceAttributes: path}, nil},
		{"both", authorizationv1.SubjectAccessReviewSpec{User: "u", ResourceAttributes: resource, NonResourceAttributes: path}, []string{"spec"}},
		{"nothing for nobody", authorizationv1.SubjectAccessReviewSpec{}, []string{"spec", "spec.user"}},
		{"two forms of a selector", selecting(&authorizationv1.FieldSelectorAttributes{RawSelector: "a=b", Requirements: []metav1.FieldSelectorRequirement{{Key: "a", Operator: "In", Values: []string{"b"}}}}, nil),
			[]string{"spec.resourceAttributes.fieldSelector.rawSelector"}},
		{"empty selectors", selecting(&authorizationv1.FieldSelectorAttributes{}, &authorizationv1.LabelSelectorAttributes{}),
			[]string{"spec.resourceAttributes.fieldSelector.requirements", "spec.resourceAttributes.labelSelector.requirements"}},
		{"bad requirements", selecting(&authorizationv1.FieldSelectorAttributes{Requirements: []metav1.FieldSelectorRequirement{{Operator: "In"}, {Key: "a", Operator: "Exists", Values: []string{"b"}}}}, nil),
			[]string{"spec.resourceAttributes.fieldSelector.requirements[0].key", "spec.resourceAttributes.fieldSelector.requirements[0].values", "spec.resourceAttributes.fieldSelector.requirements[1].values"}},
	} {
		t.Run(tc.name, func(t *testing.T) { compare(t, tc.fields, ValidateSubject(tc.spec)) })
	}
	compare(t, nil, ValidateMetadata(metav1.ObjectMeta{}, ""))
	compare(t, nil, ValidateMetadata(metav1.ObjectMeta{Namespace: "ns"}, "ns"))
	compare(t, []string{"metadata"}, ValidateMetadata(metav1.ObjectMeta{Name: "x"}, ""))
}

func compare(t *testing.T, want []string, errs field.ErrorList) {
	t.Helper()
	var got []string
	for _, e := range errs {
		got = append(got, e.Field)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("fields (-want +got):\n%s\n%v", diff, errs)
	}
}
