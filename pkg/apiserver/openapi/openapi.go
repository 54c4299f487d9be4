// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package openapi publishes the schemas of the served API at /openapi/v2 and /openapi/v3: of the built-in resources, of
// custom resources and of aggregated servers. Documents are made when somebody asks, and made anew when what they describe
// has changed since: to build all takes longer than all the rest of a start. Touch it when documents differ.
package openapi

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	restful "github.com/emicklei/go-restful/v3"
	apiextensionslisters "k8s.io/apiextensions-apiserver/pkg/client/listers/apiextensions/v1"
	apiextensionsdefinitions "k8s.io/apiextensions-apiserver/pkg/generated/openapi"
	"k8s.io/apimachinery/pkg/runtime"
	apiopenapi "k8s.io/apiserver/pkg/endpoints/openapi"
	genericapiserver "k8s.io/apiserver/pkg/server"
	aggregatordefinitions "k8s.io/kube-aggregator/pkg/generated/openapi"
	"k8s.io/kube-openapi/pkg/builder"
	"k8s.io/kube-openapi/pkg/builder3"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/common/restfuladapter"
	"k8s.io/kube-openapi/pkg/handler"
	"k8s.io/kube-openapi/pkg/spec3"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"minik8s.io/minik8s/pkg/apiserver/openapi/definitions"
)

// Config is what the documents are made with.
type Config struct {
	V2 *common.Config
	V3 *common.OpenAPIV3Config
}

// NewConfig names the definitions after the kinds of schemes. They must not hold a type of a version as an internal one
// too: documents would advertise that.
func NewConfig(version string, schemes ...*runtime.Scheme) Config {
	namer := apiopenapi.NewDefinitionNamer(schemes...)
	c := Config{
		V2: genericapiserver.DefaultOpenAPIConfig(allDefinitions, namer),
		V3: genericapiserver.DefaultOpenAPIV3Config(allDefinitions, namer),
	}
	c.V2.Info.Title, c.V3.Info.Title = "Kubernetes", "Kubernetes"
	c.V2.Info.Version, c.V3.Info.Version = version, version
	const name, text, kind, header, in = "BearerToken", "Bearer Token authentication", "apiKey", "authorization", "header"
	c.V2.SecurityDefinitions = &spec.SecurityDefinitions{name: {SecuritySchemeProps: spec.SecuritySchemeProps{
		Description: text, Type: kind, Name: header, In: in,
	}}}
	c.V3.SecuritySchemes = spec3.SecuritySchemes{name: {SecuritySchemeProps: spec3.SecuritySchemeProps{
		Description: text, Type: kind, Name: header, In: in,
	}}}
	return c
}

func allDefinitions(ref common.ReferenceCallback) map[string]common.OpenAPIDefinition {
	all := apiextensionsdefinitions.GetOpenAPIDefinitions(ref)
	maps.Copy(all, aggregatordefinitions.GetOpenAPIDefinitions(ref))
	maps.Copy(all, definitions.GetOpenAPIDefinitions(ref))
	return all
}

// Sources are what the documents describe.
type Sources struct {
	// Servers have the built-in resources.
	Servers []*genericapiserver.GenericAPIServer
	// CustomResources are described too, once they are established; may be nil.
	CustomResources apiextensionslisters.CustomResourceDefinitionLister
	// Remote returns the aggregated servers that are available now; may be nil.
	Remote func() []Remote
}

// Remote is the part of the API that another server has.
type Remote struct {
	// Name is that of the APIService, Path the one below which it is served, as apis/GROUP/VERSION.
	Name, Path string
	// Handler passes requests to the server. It is a pointer: another one means that the server may be another.
	Handler http.Handler
}

// Install adds the handlers to mux. The servers' groups must be installed before.
func Install(mux common.PathHandlerByGroupVersion, c Config, s Sources) {
	// Installing groups needed the schemas of all types. Documents make those that they need again, so that nobody keeps
	// them meanwhile.
	c.V3.Definitions = nil
	services := webServices(s.Servers)
	custom := newCustom(s.CustomResources)
	remote := newRemotes(s.Remote)

	v2 := newSwagger(custom, remote, func() (*spec.Swagger, error) {
		swagger, err := builder.BuildOpenAPISpecFromRoutes(restfuladapter.AdaptWebServices(services), c.V2)
		if err != nil {
			return nil, fmt.Errorf("building OpenAPI v2: %w", err)
		}
		swagger.Definitions = handler.PruneDefaults(swagger.Definitions)
		return swagger, nil
	})
	mux.Handle("/openapi/v2", v2)

	v3 := newIndex(custom, remote)
	for _, ws := range services {
		v3.add(ws.RootPath()[1:], func() (*spec3.OpenAPI, error) {
			document, err := builder3.BuildOpenAPISpecFromRoutes(restfuladapter.AdaptWebServices([]*restful.WebService{ws}), c.V3)
			if err != nil {
				return nil, err
			}
			nameShared(document, ws.RootPath()[1:])
			return document, nil
		})
	}
	mux.Handle("/openapi/v3", http.HandlerFunc(v3.serveIndex))
	mux.HandlePrefix("/openapi/v3/", http.HandlerFunc(v3.serveDocument))
}

// nameShared leaves of the kinds that every group has (DeleteOptions, WatchEvent) those of the document's own group version
// and of v1.
func nameShared(document *spec3.OpenAPI, path string) {
	parts := strings.Split(path, "/")
	group, version := "", parts[len(parts)-1]
	switch {
	case parts[0] == "api" && len(parts) == 2:
	case parts[0] == "apis" && len(parts) == 3:
		group = parts[1]
	default:
		return
	}
	if document.Components == nil {
		return
	}
	const extension = "x-kubernetes-group-version-kind"
	for _, name := range []string{"DeleteOptions", "WatchEvent"} {
		schema := document.Components.Schemas["io.k8s.apimachinery.pkg.apis.meta.v1."+name]
		if schema == nil {
			continue
		}
		kinds, ok := schema.Extensions[extension].([]any)
		if !ok {
			continue
		}
		// The list is shared by all documents: it is not changed, but replaced.
		own := slices.DeleteFunc(slices.Clone(kinds), func(kind any) bool {
			k, ok := kind.(map[string]any)
			return !ok || (k["group"] != group || k["version"] != version) && (k["group"] != "" || k["version"] != "v1")
		})
		schema.Extensions = maps.Clone(schema.Extensions)
		schema.Extensions[extension] = own
	}
}

// webServices are those of all servers. What each of them has, as /version, is taken once.
func webServices(servers []*genericapiserver.GenericAPIServer) []*restful.WebService {
	var all []*restful.WebService
	seen := map[string]bool{}
	for _, s := range servers {
		for _, ws := range s.Handler.GoRestfulContainer.RegisteredWebServices() {
			if !seen[ws.RootPath()] {
				seen[ws.RootPath()] = true
				all = append(all, ws)
			}
		}
	}
	return all
}
