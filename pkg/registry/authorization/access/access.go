// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package access turns the questions of access reviews into what authorizers are asked, and their answers back. Touch it
// when access reviews can ask for something new.
package access

import (
	"context"
	"fmt"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// Question is what may be asked about a user.
type Question struct {
	Resource    *authorizationv1.ResourceAttributes
	NonResource *authorizationv1.NonResourceAttributes
}

// Subject is the user that a review names.
func Subject(spec authorizationv1.SubjectAccessReviewSpec) user.Info {
	u := &user.DefaultInfo{Name: spec.User, UID: spec.UID, Groups: spec.Groups}
	if len(spec.Extra) > 0 {
		u.Extra = map[string][]string{}
		for k, v := range spec.Extra {
			u.Extra[k] = v
		}
	}
	return u
}

// Decide asks an authorizer.
func Decide(ctx context.Context, a authorizer.Authorizer, u user.Info, q Question) authorizationv1.SubjectAccessReviewStatus {
	attrs := Attributes(u, q)
	decision, reason, err := a.Authorize(ctx, attrs)
	status := authorizationv1.SubjectAccessReviewStatus{
		Allowed: decision == authorizer.DecisionAllow,
		Denied:  decision == authorizer.DecisionDeny,
		Reason:  reason,
	}
	var problems []string
	if err != nil {
		problems = append(problems, err.Error())
	}
	ignored := func(selector string, rest int, err error) {
		switch {
		case err != nil && rest > 0:
			problems = append(problems, "spec.resourceAttributes."+selector+" partially ignored due to parse error")
		case err != nil:
			problems = append(problems, "spec.resourceAttributes."+selector+" ignored due to parse error")
		}
	}
	ignored("fieldSelector", len(attrs.FieldSelectorRequirements), attrs.FieldSelectorParsingErr)
	ignored("labelSelector", len(attrs.LabelSelectorRequirements), attrs.LabelSelectorParsingErr)
	status.EvaluationError = strings.Join(problems, "; ")
	return status
}

// Attributes are those of the request that a question is about. A selector, or a part of one, that cannot be read is left
// out, which asks for more than the selector would have, and noted in the attributes.
func Attributes(u user.Info, q Question) authorizer.AttributesRecord {
	if q.Resource == nil {
		attrs := authorizer.AttributesRecord{User: u}
		if q.NonResource != nil {
			attrs.Verb, attrs.Path = q.NonResource.Verb, q.NonResource.Path
		}
		return attrs
	}
	r := q.Resource
	attrs := authorizer.AttributesRecord{
		User: u, Verb: r.Verb, Namespace: r.Namespace, APIGroup: r.Group, APIVersion: r.Version,
		Resource: r.Resource, Subresource: r.Subresource, Name: r.Name, ResourceRequest: true,
	}
	if attrs.APIVersion == "" {
		attrs.APIVersion = "*"
	}
	if f := r.FieldSelector; f != nil {
		attrs.FieldSelectorRequirements, attrs.FieldSelectorParsingErr = fieldRequirements(f)
	}
	if l := r.LabelSelector; l != nil {
		attrs.LabelSelectorRequirements, attrs.LabelSelectorParsingErr = labelRequirements(l)
	}
	return attrs
}

func fieldRequirements(f *authorizationv1.FieldSelectorAttributes) (fields.Requirements, error) {
	if f.RawSelector != "" {
		s, err := fields.ParseSelector(f.RawSelector)
		if err != nil {
			return nil, err
		}
		return s.Requirements(), nil
	}
	var all fields.Requirements
	var errs []error
	for _, r := range f.Requirements {
		equal := fields.Requirement{Field: r.Key, Operator: selection.Equals}
		switch {
		case r.Operator == metav1.FieldSelectorOpIn && len(r.Values) == 1:
		case r.Operator == metav1.FieldSelectorOpNotIn && len(r.Values) == 1:
			equal.Operator = selection.NotEquals
		case r.Operator == metav1.FieldSelectorOpIn || r.Operator == metav1.FieldSelectorOpNotIn:
			errs = append(errs, fmt.Errorf("fieldSelector requirement on %q ignored: %d values given, fields are compared with one", r.Key, len(r.Values)))
			continue
		default:
			errs = append(errs, fmt.Errorf("fieldSelector requirement on %q ignored: %q is not a valid field selector operator", r.Key, r.Operator))
			continue
		}
		equal.Value = r.Values[0]
		all = append(all, equal)
	}
	return all, utilerrors.NewAggregate(errs)
}

var labelOperators = map[metav1.LabelSelectorOperator]selection.Operator{
	metav1.LabelSelectorOpIn: selection.In, metav1.LabelSelectorOpNotIn: selection.NotIn,
	metav1.LabelSelectorOpExists: selection.Exists, metav1.LabelSelectorOpDoesNotExist: selection.DoesNotExist,
}

func labelRequirements(l *authorizationv1.LabelSelectorAttributes) (labels.Requirements, error) {
	if l.RawSelector != "" {
		s, err := labels.Parse(l.RawSelector)
		if err != nil {
			return nil, err
		}
		all, _ := s.Requirements()
		return all, nil
	}
	var all labels.Requirements
	var errs []error
	for _, r := range l.Requirements {
		op, ok := labelOperators[r.Operator]
		if !ok {
			errs = append(errs, fmt.Errorf("labelSelector requirement on %q ignored: %q is not a valid label selector operator", r.Key, r.Operator))
			continue
		}
		requirement, err := labels.NewRequirement(r.Key, op, r.Values)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		all = append(all, *requirement)
	}
	return all, utilerrors.NewAggregate(errs)
}
