// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package openapi publishes the schemas of the served API at /openapi/v2 and /openapi/v3. Documents are built when
// somebody first asks, because building them takes longer than all the rest of a start. Touch it when documents differ.
package openapi

import (
	"fmt"

	restful "github.com/emicklei/go-restful/v3"
	"k8s.io/apimachinery/pkg/runtime"
	apiopenapi "k8s.io/apiserver/pkg/endpoints/openapi"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/kube-openapi/pkg/builder"
	"k8s.io/kube-openapi/pkg/builder3"
	"k8s.io/kube-openapi/pkg/cached"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/common/restfuladapter"
	"k8s.io/kube-openapi/pkg/handler"
	"k8s.io/kube-openapi/pkg/handler3"
	"k8s.io/kube-openapi/pkg/spec3"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"minik8s.io/minik8s/pkg/apiserver/openapi/definitions"
)

// Config is what the documents are made with.
type Config struct {
	V2 *common.Config
	V3 *common.OpenAPIV3Config
}

// NewConfig names the definitions after the kinds of scheme, which must hold versioned types only: with the __internal
// ones, documents would advertise them.
func NewConfig(scheme *runtime.Scheme, version string) Config {
	namer := apiopenapi.NewDefinitionNamer(scheme)
	c := Config{
		V2: genericapiserver.DefaultOpenAPIConfig(definitions.GetOpenAPIDefinitions, namer),
		V3: genericapiserver.DefaultOpenAPIV3Config(definitions.GetOpenAPIDefinitions, namer),
	}
	c.V2.Info.Title, c.V3.Info.Title = "Kubernetes", "Kubernetes"
	c.V2.Info.Version, c.V3.Info.Version = version, version
	return c
}

// Install adds the handlers to a server whose API groups are installed.
func Install(s *genericapiserver.GenericAPIServer, c Config) error {
	services := s.Handler.GoRestfulContainer.RegisteredWebServices()
	mux := s.Handler.NonGoRestfulMux

	handler.NewOpenAPIServiceLazy(cached.Once(cached.Func(func() (*spec.Swagger, string, error) {
		swagger, err := builder.BuildOpenAPISpecFromRoutes(restfuladapter.AdaptWebServices(services), c.V2)
		if err != nil {
			return nil, "", fmt.Errorf("building OpenAPI v2: %w", err)
		}
		swagger.Definitions = handler.PruneDefaults(swagger.Definitions)
		return swagger, "v2", nil
	}))).RegisterOpenAPIVersionedService("/openapi/v2", mux)

	v3 := handler3.NewOpenAPIService()
	for _, ws := range services {
		path := ws.RootPath()[1:]
		v3.UpdateGroupVersionLazy(path, cached.Once(cached.Func(func() (*spec3.OpenAPI, string, error) {
			doc, err := builder3.BuildOpenAPISpecFromRoutes(restfuladapter.AdaptWebServices([]*restful.WebService{ws}), c.V3)
			if err != nil {
				return nil, "", fmt.Errorf("building OpenAPI v3 of %s: %w", path, err)
			}
			return doc, path, nil
		})))
	}
	if err := v3.RegisterOpenAPIV3VersionedService("/openapi/v3", mux); err != nil {
		return fmt.Errorf("serving OpenAPI v3: %w", err)
	}
	return nil
}
