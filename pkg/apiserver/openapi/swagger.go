// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package openapi

import (
	"fmt"
	"net/http"
	"strings"
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/controller/openapi/builder"
	"k8s.io/kube-openapi/pkg/aggregator"
	"k8s.io/kube-openapi/pkg/cached"
	"k8s.io/kube-openapi/pkg/handler"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// swagger serves the one document of OpenAPI v2.
type swagger struct {
	custom  *custom
	remote  *remotes
	builtIn func() (*spec.Swagger, error)
	service *handler.OpenAPIService
	serve   http.Handler

	mu  sync.Mutex // guards now
	now string     // tells what the service describes
}

func newSwagger(c *custom, r *remotes, builtIn func() (*spec.Swagger, error)) *swagger {
	s := &swagger{custom: c, remote: r, builtIn: sync.OnceValues(builtIn)}
	s.service = handler.NewOpenAPIServiceLazy(cached.Func(func() (*spec.Swagger, string, error) { return nil, "", nil }))
	s.service.RegisterOpenAPIVersionedService("", pathless(func(h http.Handler) { s.serve = h }))
	return s
}

// pathless takes a handler whatever its path is.
type pathless func(http.Handler)

func (f pathless) Handle(_ string, h http.Handler) { f(h) }

// ServeHTTP brings the document up to date before it is served.
func (s *swagger) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	crds, remotes := s.custom.established(), s.remote.current()
	of := []string{"of", fingerprint(crds)}
	for _, have := range remotes {
		of = append(of, have.name, have.etag)
	}
	now := strings.Join(of, " ")
	s.mu.Lock()
	if s.now != now {
		s.now = now
		s.service.UpdateSpecLazy(cached.Once(cached.Func(func() (*spec.Swagger, string, error) {
			doc, err := s.build(crds, remotes)
			return doc, now, err
		})))
	}
	s.mu.Unlock()
	s.serve.ServeHTTP(w, r)
}

func (s *swagger) build(crds []*apiextensionsv1.CustomResourceDefinition, remotes []fetched) (*spec.Swagger, error) {
	builtIn, err := s.builtIn()
	if err != nil {
		return nil, err
	}
	merged, err := builder.MergeSpecs(builtIn, s.custom.swaggers(crds)...)
	if err != nil {
		return nil, fmt.Errorf("merging the OpenAPI v2 of custom resources: %w", err)
	}
	for _, r := range remotes {
		if r.swagger == nil {
			continue
		}
		own := aggregator.FilterSpecByPathsWithoutSideEffects(r.swagger, []string{"/" + r.path + "/"})
		if err := aggregator.MergeSpecsIgnorePathConflictRenamingDefinitionsAndParameters(merged, own); err != nil {
			return nil, fmt.Errorf("merging the OpenAPI v2 of %s: %w", r.name, err)
		}
	}
	return merged, nil
}
