// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package storageversionmigrator

import (
	"context"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
)

// Resource is what the API server says of a resource.
type Resource struct {
	schema.GroupVersionResource
	Kind       string
	Namespaced bool
	Verbs      []string
}

// discover looks a resource up in its group's preferred version, else in the first that has it.
func discover(client discovery.DiscoveryInterfaceWithContext) func(context.Context, schema.GroupResource) (*Resource, error) {
	return func(ctx context.Context, wanted schema.GroupResource) (*Resource, error) {
		groups, lists, err := client.ServerGroupsAndResourcesWithContext(ctx)
		if found := find(groups, lists, wanted); found != nil {
			return found, nil
		}
		// Another group that cannot be discovered is no news to this one.
		if failed, partial := discovery.GroupDiscoveryFailedErrorGroups(err); partial {
			for gv := range failed {
				if gv.Group == wanted.Group {
					return nil, err
				}
			}
			return nil, nil
		}
		return nil, err
	}
}

func find(groups []*metav1.APIGroup, lists []*metav1.APIResourceList, wanted schema.GroupResource) *Resource {
	i := slices.IndexFunc(groups, func(g *metav1.APIGroup) bool { return g.Name == wanted.Group })
	if i < 0 {
		return nil
	}
	versions := append([]metav1.GroupVersionForDiscovery{groups[i].PreferredVersion}, groups[i].Versions...)
	for _, version := range versions {
		for _, list := range lists {
			if list.GroupVersion != version.GroupVersion {
				continue
			}
			for _, r := range list.APIResources {
				if r.Name == wanted.Resource {
					gvr := schema.GroupVersionResource{Group: wanted.Group, Version: version.Version, Resource: r.Name}
					return &Resource{GroupVersionResource: gvr, Kind: r.Kind, Namespaced: r.Namespaced, Verbs: r.Verbs}
				}
			}
		}
	}
	return nil
}
