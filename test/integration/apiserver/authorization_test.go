// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"minik8s.io/minik8s/pkg/apiserver"
	"minik8s.io/minik8s/pkg/apiserver/authorization"
	"minik8s.io/minik8s/test/integration/framework"
)

const rbacOnly = `{"apiVersion": "apiserver.config.k8s.io/v1", "kind": "AuthorizationConfiguration", "authorizers": [{"type": "RBAC", "name": "rbac"}]}`

// TestAuthorizationConfiguration has a webhook in front of RBAC, which is asked about some requests only, and takes it away
// while the server runs.
func TestAuthorizationConfiguration(t *testing.T) {
	t.Parallel()
	remote := newWebhook(t, func(r *authorizationv1.SubjectAccessReview) {
		r.Status.Allowed = r.Spec.ResourceAttributes != nil && r.Spec.ResourceAttributes.Verb == "list"
		r.Status.Denied, r.Status.Reason = !r.Status.Allowed, "the webhook says so"
	})
	file := write(t, filepath.Join(t.TempDir(), "authorization.json"), fmt.Sprintf(`{"apiVersion": "apiserver.config.k8s.io/v1", "kind": "AuthorizationConfiguration", "authorizers": [
{"type": "Webhook", "name": "remote", "webhook": {"timeout": "5s", "subjectAccessReviewVersion": "v1", "matchConditionSubjectAccessReviewVersion": "v1",
 "failurePolicy": "Deny", "connectionInfo": {"type": "KubeConfigFile", "kubeConfigFile": %q},
 "authorizedTTL": "1s", "unauthorizedTTL": "1s",
 "matchConditions": [{"expression": "request.user == 'carol'"}, {"expression": "has(request.resourceAttributes) && request.resourceAttributes.resource == 'configmaps'"}]}},
{"type": "RBAC", "name": "rbac"}]}`, kubeconfig(t, remote.URL)))
	c := framework.Start(t, framework.Options{APIServer: func(c *apiserver.Config) {
		c.Authorization = authorization.Config{File: file, Backoff: wait.Backoff{Steps: 1}}
	}})
	carol, dave := framework.ClientFor(t, c.User("carol")), framework.ClientFor(t, c.User("dave"))

	if _, err := carol.CoreV1().ConfigMaps("default").List(t.Context(), metav1.ListOptions{LabelSelector: "a=b"}); err != nil {
		t.Errorf("what the webhook allows: %v", err)
	}
	asked := remote.asked().Spec
	if a := asked.ResourceAttributes; asked.User != "carol" || a == nil || a.LabelSelector == nil || len(a.LabelSelector.Requirements) != 1 {
		t.Errorf("the webhook was asked %+v, want carol's request with its label selector", asked)
	}
	_, err := carol.CoreV1().ConfigMaps("default").Get(t.Context(), "x", metav1.GetOptions{})
	if !apierrors.IsForbidden(err) {
		t.Errorf("what the webhook denies: %v, want Forbidden", err)
	}
	if _, err := dave.CoreV1().ConfigMaps("default").List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("what the webhook is not asked about: %v, want Forbidden", err)
	}
	rules, err := dave.AuthorizationV1().SelfSubjectRulesReviews().Create(t.Context(), &authorizationv1.SelfSubjectRulesReview{Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: "default"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if !rules.Status.Incomplete {
		t.Error("rules are said to be complete, although nobody knows those of a webhook")
	}

	write(t, file, rbacOnly)
	err = wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, 20*time.Second, true, func(ctx context.Context) (bool, error) {
		_, err := carol.CoreV1().ConfigMaps("default").List(ctx, metav1.ListOptions{})
		return apierrors.IsForbidden(err), nil
	})
	if err != nil {
		t.Error("the webhook is still asked after it was taken out of the file")
	}
}
