// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package core lists the resources of the core group (/api/v1); a new one is a folder here and a line in Group.
package core

import (
	authenticationv1 "k8s.io/api/authentication/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"minik8s.io/minik8s/pkg/registry"
	"minik8s.io/minik8s/pkg/registry/core/componentstatus"
	"minik8s.io/minik8s/pkg/registry/core/configmap"
	"minik8s.io/minik8s/pkg/registry/core/endpoints"
	"minik8s.io/minik8s/pkg/registry/core/event"
	"minik8s.io/minik8s/pkg/registry/core/limitrange"
	"minik8s.io/minik8s/pkg/registry/core/namespace"
	"minik8s.io/minik8s/pkg/registry/core/node"
	"minik8s.io/minik8s/pkg/registry/core/persistentvolume"
	"minik8s.io/minik8s/pkg/registry/core/persistentvolumeclaim"
	"minik8s.io/minik8s/pkg/registry/core/pod"
	"minik8s.io/minik8s/pkg/registry/core/podtemplate"
	"minik8s.io/minik8s/pkg/registry/core/replicationcontroller"
	"minik8s.io/minik8s/pkg/registry/core/resourcequota"
	"minik8s.io/minik8s/pkg/registry/core/secret"
	"minik8s.io/minik8s/pkg/registry/core/service"
	"minik8s.io/minik8s/pkg/registry/core/serviceaccount"
)

// Group is the core group.
func Group() registry.Group {
	return registry.Group{
		Name:        corev1.GroupName,
		AddToScheme: addToScheme,
		Versions: []registry.Version{{Name: "v1", Resources: []registry.Descriptor{
			pod.Binding,
			componentstatus.Resource,
			configmap.Resource,
			endpoints.Resource,
			event.Resource,
			limitrange.Resource,
			namespace.Resource,
			node.Resource,
			persistentvolume.Resource,
			persistentvolumeclaim.Resource,
			pod.Resource,
			podtemplate.Resource,
			replicationcontroller.Resource,
			resourcequota.Resource,
			secret.Resource,
			serviceaccount.Resource,
			service.Resource,
		}}},
	}
}

// addToScheme registers the core types, the kinds of other groups that core subresources speak, and the conversions of
// query parameters.
func addToScheme(scheme *runtime.Scheme) error {
	for _, add := range []func(*runtime.Scheme) error{
		corev1.AddToScheme,
		authenticationv1.AddToScheme,
		autoscalingv1.AddToScheme,
		policyv1.AddToScheme,
		node.AddConversions,
		pod.AddConversions,
		service.AddConversions,
	} {
		if err := add(scheme); err != nil {
			return err
		}
	}
	scheme.AddKnownTypes(schema.GroupVersion{Group: authenticationv1.GroupName, Version: runtime.APIVersionInternal}, &authenticationv1.TokenRequest{})
	scheme.AddTypeDefaultingFunc(&authenticationv1.TokenRequest{}, func(obj any) { serviceaccount.SetTokenRequestDefaults(obj.(*authenticationv1.TokenRequest)) })
	scheme.AddKnownTypes(schema.GroupVersion{Group: autoscalingv1.GroupName, Version: runtime.APIVersionInternal}, &autoscalingv1.Scale{})
	scheme.AddKnownTypes(schema.GroupVersion{Group: policyv1.GroupName, Version: runtime.APIVersionInternal}, &policyv1.Eviction{})
	return nil
}
