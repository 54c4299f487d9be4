// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package openapi

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionslisters "k8s.io/apiextensions-apiserver/pkg/client/listers/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/controller/openapi/builder"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/kube-openapi/pkg/handler"
	"k8s.io/kube-openapi/pkg/spec3"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// custom describes custom resources.
type custom struct {
	lister apiextensionslisters.CustomResourceDefinitionLister

	mu    sync.Mutex // guards built
	built map[types.UID]builtSwagger
}

// builtSwagger describes one generation of a definition.
type builtSwagger struct {
	generation int64
	swagger    *spec.Swagger
}

func newCustom(lister apiextensionslisters.CustomResourceDefinitionLister) *custom {
	return &custom{lister: lister, built: map[types.UID]builtSwagger{}}
}

// established are the definitions that are served, ordered by name.
func (c *custom) established() []*apiextensionsv1.CustomResourceDefinition {
	if c.lister == nil {
		return nil
	}
	all, err := c.lister.List(labels.Everything())
	if err != nil {
		return nil // a lister reads from memory
	}
	all = slices.DeleteFunc(all, func(crd *apiextensionsv1.CustomResourceDefinition) bool {
		return !apihelpers.IsCRDConditionTrue(crd, apiextensionsv1.Established)
	})
	slices.SortFunc(all, func(a, b *apiextensionsv1.CustomResourceDefinition) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// fingerprint differs when the schemas differ.
func fingerprint(crds []*apiextensionsv1.CustomResourceDefinition) string {
	var b strings.Builder
	for _, crd := range crds {
		fmt.Fprintf(&b, "%s/%d ", crd.UID, crd.Generation)
	}
	return b.String()
}

// swaggers describes the definitions. One that cannot be described is left out: it must not take the others with it.
func (c *custom) swaggers(crds []*apiextensionsv1.CustomResourceDefinition) []*spec.Swagger {
	c.mu.Lock()
	defer c.mu.Unlock()
	kept := map[types.UID]builtSwagger{}
	var all []*spec.Swagger
	for _, crd := range crds {
		b, ok := c.built[crd.UID]
		if !ok || b.generation != crd.Generation {
			swagger, err := swaggerOf(crd)
			if err != nil {
				utilruntime.HandleError(fmt.Errorf("describing %s: %w", crd.Name, err))
				continue
			}
			b = builtSwagger{generation: crd.Generation, swagger: swagger}
		}
		kept[crd.UID] = b
		all = append(all, b.swagger)
	}
	c.built = kept
	return all
}

func swaggerOf(crd *apiextensionsv1.CustomResourceDefinition) (*spec.Swagger, error) {
	merged := &spec.Swagger{}
	for _, v := range crd.Spec.Versions {
		if !v.Served {
			continue
		}
		s, err := builder.BuildOpenAPIV2(crd, v.Name, builder.Options{V2: true, IncludeSelectableFields: true})
		if err != nil {
			return nil, err
		}
		s.Definitions = handler.PruneDefaults(s.Definitions) // as those of the built-in types
		if merged, err = builder.MergeSpecs(merged, s); err != nil {
			return nil, err
		}
	}
	return merged, nil
}

// groupVersions sorts the definitions by the paths under which their resources are described.
func groupVersions(crds []*apiextensionsv1.CustomResourceDefinition) map[string][]*apiextensionsv1.CustomResourceDefinition {
	by := map[string][]*apiextensionsv1.CustomResourceDefinition{}
	for _, crd := range crds {
		for _, v := range crd.Spec.Versions {
			if v.Served {
				path := "apis/" + crd.Spec.Group + "/" + v.Name
				by[path] = append(by[path], crd)
			}
		}
	}
	return by
}

// document describes what the definitions have in one version.
func document(crds []*apiextensionsv1.CustomResourceDefinition, version string) (*spec3.OpenAPI, error) {
	var all []*spec3.OpenAPI
	for _, crd := range crds {
		d, err := builder.BuildOpenAPIV3(crd, version, builder.Options{IncludeSelectableFields: true})
		if err != nil {
			utilruntime.HandleError(fmt.Errorf("describing %s: %w", crd.Name, err))
			continue
		}
		all = append(all, d)
	}
	return builder.MergeSpecsV3(all...)
}
