// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package horizontalpodautoscaler

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/scale"
	resourceclient "k8s.io/metrics/pkg/client/clientset/versioned/typed/metrics/v1beta1"
	customclient "k8s.io/metrics/pkg/client/custom_metrics"
	externalclient "k8s.io/metrics/pkg/client/external_metrics"

	"minik8s.io/minik8s/pkg/controllers/setup"
)

// newReconciler returns a reconciler whose clients give up by themselves: some take no context. It asks nobody anything yet.
func newReconciler(env setup.Env) (*Reconciler, error) {
	config := rest.CopyConfig(env.RESTConfig)
	config.Timeout = callTimeout
	// Who serves metrics, or a custom resource's scale, may not speak protobuf.
	config.ContentConfig = rest.ContentConfig{ContentType: runtime.ContentTypeJSON}
	asked, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("creating the discovery client: %w", err)
	}
	kinds := &Kinds{ResettableRESTMapper: restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(asked))}
	scales, err := scale.NewForConfig(rest.CopyConfig(config), kinds, dynamic.LegacyAPIPathResolverFunc, scale.NewDiscoveryScaleKindResolver(asked))
	if err != nil {
		return nil, fmt.Errorf("creating the client of scales: %w", err)
	}
	resource, err := resourceclient.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("creating the client of resource metrics: %w", err)
	}
	external, err := externalclient.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("creating the client of external metrics: %w", err)
	}
	versions := customclient.NewAvailableAPIsGetter(asked)
	return &Reconciler{
		Client: env.Client, Scales: scales, Kinds: kinds, Events: env.Events, Clock: env.Clock, Settings: env.Settings,
		Metrics: &Metrics{
			Resource: resource, External: external,
			Custom: customclient.NewForConfig(config, kinds, versions), ForgetVersion: versions.Invalidate,
		},
	}, nil
}
