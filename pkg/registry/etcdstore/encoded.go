// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package etcdstore

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/generic"
)

// encoded gives storage to resources whose types are not in the factory's scheme.
type encoded struct {
	factory   *Factory
	codec     runtime.Codec
	versioner runtime.GroupVersioner
	decorator generic.StorageDecorator
}

// Encoded keeps resources of other schemes by the same means, in the encoding of codec; versioner, which may be nil, tells
// the version that codec writes. Their keys contain the group, as upstream's do.
func (f *Factory) Encoded(codec runtime.Codec, versioner runtime.GroupVersioner) generic.RESTOptionsGetter {
	return encoded{factory: f, codec: codec, versioner: versioner, decorator: f.cached}
}

// CustomResources keeps what definitions of custom resources define.
func (f *Factory) CustomResources() generic.RESTOptionsGetter {
	return encoded{factory: f, codec: unstructured.UnstructuredJSONScheme, decorator: f.lazily}
}

// GetRESTOptions implements generic.RESTOptionsGetter.
func (e encoded) GetRESTOptions(gr schema.GroupResource, _ runtime.Object) (generic.RESTOptions, error) {
	config := e.factory.base(gr)
	config.Codec, config.EncodeVersioner = e.codec, e.versioner
	return e.factory.options(config.ForResource(gr), gr.Group+"/"+gr.Resource, e.decorator), nil
}
