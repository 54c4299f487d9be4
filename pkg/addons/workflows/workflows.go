// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package workflows is the add-on for Workflows and WorkflowRuns: the Serverless Workflow DSL, run durably. Touch it to change what its
// controllers may do, or to add one; the language and its meaning are under internal.
package workflows

import (
	"context"
	"fmt"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"minik8s.io/minik8s/pkg/addons/addon"
	workflowsv1alpha1 "minik8s.io/minik8s/pkg/addons/apis/workflows/v1alpha1"
	"minik8s.io/minik8s/pkg/addons/workflows/internal/call"
	"minik8s.io/minik8s/pkg/addons/workflows/internal/definition"
	"minik8s.io/minik8s/pkg/addons/workflows/internal/run"
)

// Addon returns the add-on.
func Addon() addon.Addon {
	return addon.Addon{
		Name: "workflows", Title: "durable workflows in the Serverless Workflow DSL",
		Definitions: []string{"workflows.workflows.minik8s.io", "workflowruns.workflows.minik8s.io"},
		AddToScheme: workflowsv1alpha1.AddToScheme,
		Rules:       rules(),
		Granted: []rbacv1.ClusterRole{{
			ObjectMeta: metav1.ObjectMeta{Name: run.SecretsRole},
			// What use.secrets names.
			Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get"}}},
		}},
		Setup: func(ctx context.Context, env addon.Env) error {
			return SetupWithTransport(ctx, env, nil)
		},
	}
}

func rules() []rbacv1.PolicyRule {
	group := []string{workflowsv1alpha1.GroupVersion.Group}
	return []rbacv1.PolicyRule{
		{APIGroups: group, Resources: []string{"workflows"}, Verbs: []string{"get", "list", "watch"}},
		{APIGroups: group, Resources: []string{"workflowruns"}, Verbs: []string{"get", "list", "watch", "create", "update", "delete"}},
		{APIGroups: group, Resources: []string{"workflows/status", "workflowruns/status", "workflowruns/finalizers"}, Verbs: []string{"update"}},
		// Large journals.
		{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get", "create", "update", "delete"}},
		// Where calls go.
		{APIGroups: []string{""}, Resources: []string{"services"}, Verbs: []string{"get"}},
		// Containers.
		{APIGroups: []string{"batch"}, Resources: []string{"jobs"}, Verbs: []string{"get", "create", "delete"}},
		{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"list"}},
		{APIGroups: []string{""}, Resources: []string{"pods/log"}, Verbs: []string{"get"}},
	}
}

// SetupWithTransport adds the controllers to a manager. HTTP requests are made by transport, and there is no gRPC;
// without one, calls go to Services and to all but the machine itself.
func SetupWithTransport(ctx context.Context, env addon.Env, transport http.RoundTripper) error {
	caller := &call.Caller{Transport: transport}
	if transport == nil {
		t := call.NewTransport(serviceAddress(env.Manager.GetAPIReader()))
		caller.Transport, caller.Dial = t, t.DialContext
		context.AfterFunc(ctx, t.CloseIdleConnections)
	}
	if err := definition.Setup(env.Manager); err != nil {
		return fmt.Errorf("setting up the controller of Workflows: %w", err)
	}
	if err := run.Setup(ctx, env.Manager, caller); err != nil {
		return fmt.Errorf("setting up the controller of WorkflowRuns: %w", err)
	}
	return nil
}

// serviceAddress finds the address of a Service.
func serviceAddress(reader client.Reader) call.ServiceAddress {
	return func(ctx context.Context, namespace, name string) (string, error) {
		var s corev1.Service
		if err := reader.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, &s); err != nil {
			return "", fmt.Errorf("looking for the Service %s: %w", name, err)
		}
		if s.Spec.ClusterIP == "" || s.Spec.ClusterIP == corev1.ClusterIPNone {
			return "", fmt.Errorf("the Service %s has no address of its own", name)
		}
		return s.Spec.ClusterIP, nil
	}
}
