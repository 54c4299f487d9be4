// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"

	authorizationv1 "k8s.io/api/authorization/v1"

	"minik8s.io/minik8s/test/fuzz/identity"
)

// question is whether somebody may do something.
type question struct {
	who  identity.Subject
	what Attributes
}

// rights asks the server, and remembers what it said. Safe for concurrent use.
type rights struct {
	ask identity.Asker

	mu    sync.Mutex
	known map[question]bool
}

// may tells what was said the first time, and now if that was long ago.
func (r *rights) may(ctx context.Context, q question) (bool, error) {
	r.mu.Lock()
	allowed, known := r.known[q]
	r.mu.Unlock()
	if known {
		return allowed, nil
	}
	return r.mayNow(ctx, q)
}

func (r *rights) mayNow(ctx context.Context, q question) (bool, error) {
	data, err := json.Marshal(review(q))
	if err != nil {
		return false, err
	}
	data, err = r.ask(ctx, http.MethodPost, "/apis/authorization.k8s.io/v1/subjectaccessreviews", string(data))
	if err != nil {
		return false, fmt.Errorf("asking whether %s may %+v: %w", q.who.User, q.what, err)
	}
	var answer authorizationv1.SubjectAccessReview
	if err := json.Unmarshal(data, &answer); err != nil {
		return false, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.known[q] = answer.Status.Allowed
	return answer.Status.Allowed, nil
}

// forget makes all be asked again: rights may have changed.
func (r *rights) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.known = map[question]bool{}
}

func review(q question) *authorizationv1.SubjectAccessReview {
	r := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{User: q.who.User, Groups: strings.Split(q.who.Groups, ",")}}
	a := q.what
	if a.Resource == "" {
		r.Spec.NonResourceAttributes = &authorizationv1.NonResourceAttributes{Path: a.Path, Verb: a.Verb}
		return r
	}
	r.Spec.ResourceAttributes = &authorizationv1.ResourceAttributes{
		Verb: a.Verb, Group: a.Group, Version: a.Version, Resource: a.Resource, Subresource: a.Subresource, Namespace: a.Namespace, Name: a.Name,
	}
	if a.FieldSelector != "" {
		r.Spec.ResourceAttributes.FieldSelector = &authorizationv1.FieldSelectorAttributes{RawSelector: a.FieldSelector}
	}
	if a.LabelSelector != "" {
		r.Spec.ResourceAttributes.LabelSelector = &authorizationv1.LabelSelectorAttributes{RawSelector: a.LabelSelector}
	}
	return r
}
