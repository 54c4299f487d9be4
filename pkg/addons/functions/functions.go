// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package functions is the add-on of functions: code that answers requests in pods which come and go with these. Touch it to change its
// rights, or how its parts are put together.
package functions

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"net/url"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"minik8s.io/minik8s/pkg/addons/addon"
	v1alpha1 "minik8s.io/minik8s/pkg/addons/apis/functions/v1alpha1"
	"minik8s.io/minik8s/pkg/addons/functions/internal/controller"
)

// Addon returns the add-on.
func Addon() addon.Addon {
	return addon.Addon{
		Name:        "functions",
		Title:       "functions that start with the first request and end when nobody calls",
		Definitions: []string{"functions.functions.minik8s.io", "invocations.functions.minik8s.io"},
		AddToScheme: v1alpha1.AddToScheme,
		Rules:       rules(),
		Granted: []rbacv1.ClusterRole{{
			ObjectMeta: metav1.ObjectMeta{Name: controller.SecretsRole},
			// What webhooks name.
			Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get"}}},
		}},
		Setup: setup,
	}
}

func rules() []rbacv1.PolicyRule {
	const group = "functions.minik8s.io"
	own := []string{"get", "list", "watch", "create", "patch", "update", "delete"}
	return []rbacv1.PolicyRule{
		{APIGroups: []string{group}, Resources: []string{"functions"}, Verbs: []string{"get", "list", "watch"}},
		{APIGroups: []string{group}, Resources: []string{"functions/status"}, Verbs: []string{"update", "patch"}},
		{APIGroups: []string{group}, Resources: []string{"invocations"}, Verbs: []string{"get", "list", "watch", "create", "delete"}},
		{APIGroups: []string{group}, Resources: []string{"invocations/status"}, Verbs: []string{"patch"}},
		{APIGroups: []string{group}, Resources: []string{"functions/finalizers"}, Verbs: []string{"update"}},
		// In all namespaces, by design: a Function may be made in any, by whoever has got that right from an administrator, and what it is made
		// of is in its own.
		{APIGroups: []string{""}, Resources: []string{"pods", "services", "configmaps"}, Verbs: own},
		{APIGroups: []string{"discovery.k8s.io"}, Resources: []string{"endpointslices"}, Verbs: own},
		// This is within what the right to make pods is worth: triggers watch as an account of the function's namespace.
		{APIGroups: []string{""}, Resources: []string{"serviceaccounts"}, Verbs: []string{"impersonate"}},
	}
}

func setup(ctx context.Context, env addon.Env) error {
	address := env.Machine.Address
	if !address.IsValid() {
		var err error
		if address, err = ownAddress(ctx, env.Manager.GetConfig().Host); err != nil {
			return err
		}
	}
	return controller.Setup(env.Manager, controller.Config{Address: address})
}

// ownAddress is the address by which this process reaches the API server: in a pod that is the pod's.
func ownAddress(ctx context.Context, host string) (netip.Addr, error) {
	u, err := url.Parse(host)
	if err != nil {
		return netip.Addr{}, fmt.Errorf("looking for the address of this process: %w", err)
	}
	at := u.Host
	if u.Port() == "" {
		at = net.JoinHostPort(u.Hostname(), "443")
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, "udp", at) // sends nothing
	if err != nil {
		return netip.Addr{}, fmt.Errorf("looking for the address of this process: %w", err)
	}
	defer conn.Close()
	address := conn.LocalAddr().(*net.UDPAddr).AddrPort().Addr().Unmap()
	if address.IsLoopback() {
		return netip.Addr{}, fmt.Errorf("this process has no address that pods reach: it speaks with the API server at %s", u.Host)
	}
	return address, nil
}
