// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apiserver/pkg/registry/rest"
	genericapiserver "k8s.io/apiserver/pkg/server"

	"minik8s.io/minik8s/pkg/apis/declarative"
)

// NewScheme returns the scheme of everything that groups serve. The type of k8s.io/api is also registered as the
// __internal version, so that the generic registry needs no twin types (docs/architecture.md, decision 1).
func NewScheme(groups []Group) *runtime.Scheme {
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
	scheme.AddUnversionedTypes(schema.GroupVersion{Version: "v1"},
		&metav1.Status{}, &metav1.APIVersions{}, &metav1.APIGroupList{}, &metav1.APIGroup{}, &metav1.APIResourceList{})
	for _, g := range groups {
		utilruntime.Must(g.AddToScheme(scheme))
	}
	utilruntime.Must(declarative.AddToScheme(scheme))
	for _, g := range groups {
		var versions []schema.GroupVersion
		for _, v := range g.Versions {
			gv := schema.GroupVersion{Group: g.Name, Version: v.Name}
			versions = append(versions, gv)
			for _, d := range v.Resources {
				utilruntime.Must(d.AddToScheme(scheme))
			}
			addHub(scheme, gv)
		}
		utilruntime.Must(scheme.SetVersionPriority(versions...))
	}
	return scheme
}

// addHub registers the types of a version as internal ones too, unless another version already is the hub.
func addHub(scheme *runtime.Scheme, gv schema.GroupVersion) {
	internal := schema.GroupVersion{Group: gv.Group, Version: runtime.APIVersionInternal}
	for kind, t := range scheme.KnownTypes(gv) {
		if strings.HasPrefix(t.PkgPath(), "k8s.io/apimachinery/") || scheme.Recognizes(internal.WithKind(kind)) {
			continue
		}
		obj, err := scheme.New(gv.WithKind(kind))
		utilruntime.Must(err)
		scheme.AddKnownTypeWithName(internal.WithKind(kind), obj)
	}
}

// APIGroupInfos builds the storage of all groups, in the form that the generic API server installs.
func APIGroupInfos(groups []Group, c Config) ([]*genericapiserver.APIGroupInfo, error) {
	codecs := serializer.NewCodecFactory(c.Scheme)
	params := runtime.NewParameterCodec(c.Scheme)
	var infos []*genericapiserver.APIGroupInfo
	for _, g := range groups {
		info := genericapiserver.NewDefaultAPIGroupInfo(g.Name, c.Scheme, params, codecs)
		for _, v := range g.Versions {
			all := map[string]rest.Storage{}
			for _, d := range v.Resources {
				storages, err := d.Storage(c)
				if err != nil {
					return nil, err
				}
				for path, s := range storages {
					if _, taken := all[path]; taken {
						return nil, fmt.Errorf("group %q: %s is listed twice", g.Name, path)
					}
					all[path] = s
				}
			}
			info.VersionedResourcesStorageMap[v.Name] = all
		}
		infos = append(infos, &info)
	}
	return infos, nil
}
