// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"

	"minik8s.io/minik8s/test/program"
)

// most is how many clients ask at the same time.
const most = 64

// rights are what the measurements need: clients are ServiceAccounts, for an administrator's requests skip the authorizer.
var rights = []rbacv1.PolicyRule{
	{Verbs: []string{"create", "patch"}, APIGroups: []string{""}, Resources: []string{"pods", "pods/status", "configmaps", "namespaces", "serviceaccounts"}},
	{Verbs: []string{"create"}, APIGroups: []string{"apiextensions.k8s.io"}, Resources: []string{"customresourcedefinitions"}},
	{Verbs: []string{"get", "list", "watch"}, APIGroups: []string{rbacv1.APIGroupAll}, Resources: []string{rbacv1.ResourceAll}},
}

// account returns the ith of the accounts of the server's clients, which are made when the first is asked for.
func (s *server) account(ctx context.Context, i int) (program.Account, error) {
	if s.accounts == nil {
		var err error
		if s.accounts, err = s.Accounts(ctx, "clients", most, rights...); err != nil {
			return program.Account{}, err
		}
	}
	return s.accounts[i%most], nil
}

// clients are n clients of a connection and an account each.
func (s *server) clients(ctx context.Context, n int) ([]kubernetes.Interface, error) {
	all := make([]kubernetes.Interface, n)
	for i := range all {
		a, err := s.account(ctx, i)
		if err != nil {
			return nil, err
		}
		if all[i], err = kubernetes.NewForConfigAndClient(a.Config(), a.HTTP()); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// collector watches the metadata of objects, as the garbage collector and the quota controller of every cluster do.
type collector struct {
	discovery discovery.DiscoveryInterface
	informers metadatainformer.SharedInformerFactory
}

// everyday brings a server into the state in which it is in a cluster: a client has read all of OpenAPI, and a collector
// watches all kinds until ctx ends.
func (s *server) everyday(ctx context.Context) (*collector, error) {
	a, err := s.account(ctx, 0)
	if err != nil {
		return nil, err
	}
	meta, err := metadata.NewForConfigAndClient(metadata.ConfigFor(a.Config()), a.HTTP())
	if err != nil {
		return nil, err
	}
	c := &collector{informers: metadatainformer.NewSharedInformerFactory(meta, 0)}
	if c.discovery, err = discovery.NewDiscoveryClientForConfigAndClient(a.Config(), a.HTTP()); err != nil {
		return nil, err
	}
	if err := readOpenAPI(c.discovery); err != nil {
		return nil, err
	}
	lists, err := discovery.ServerPreferredResources(c.discovery)
	if err != nil {
		return nil, fmt.Errorf("reading what there is: %w", err)
	}
	collected, err := discovery.GroupVersionResources(discovery.FilteredBy(discovery.SupportsAllVerbs{Verbs: []string{"delete", "list", "watch"}}, lists))
	if err != nil {
		return nil, err
	}
	var all []schema.GroupVersionResource
	for resource := range collected {
		all = append(all, resource)
	}
	return c, c.watch(ctx, all...)
}

// watch returns when the collector has listed, and watches, these resources besides those that it did before.
func (c *collector) watch(ctx context.Context, resources ...schema.GroupVersionResource) error {
	for _, resource := range resources {
		c.informers.ForResource(resource).Informer()
	}
	c.informers.Start(ctx.Done())
	for resource, synced := range c.informers.WaitForCacheSync(ctx.Done()) {
		if !synced {
			return fmt.Errorf("watching %s: %w", resource, context.Cause(ctx))
		}
	}
	return nil
}

// readOpenAPI reads both versions of it to the end.
func readOpenAPI(c discovery.DiscoveryInterface) error {
	if _, err := c.OpenAPISchema(); err != nil {
		return fmt.Errorf("reading OpenAPI v2: %w", err)
	}
	paths, err := c.OpenAPIV3().Paths()
	if err != nil {
		return fmt.Errorf("reading the index of OpenAPI v3: %w", err)
	}
	if len(paths) == 0 {
		return errors.New("the index of OpenAPI v3 is empty")
	}
	for path, group := range paths {
		if _, err := group.Schema(runtime.ContentTypeJSON); err != nil {
			return fmt.Errorf("reading OpenAPI v3 of %s: %w", path, err)
		}
	}
	return nil
}
