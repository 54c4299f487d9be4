// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package customresources serves CustomResourceDefinitions and the resources that they define, by the machinery of
// k8s.io/apiextensions-apiserver. Touch it when they are kept or converted differently.
package customresources

import (
	"fmt"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsv1beta1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1beta1"
	apiextensionsapiserver "k8s.io/apiextensions-apiserver/pkg/apiserver"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	genericapifilters "k8s.io/apiserver/pkg/endpoints/filters"
	genericapiserver "k8s.io/apiserver/pkg/server"
	serverstorage "k8s.io/apiserver/pkg/server/storage"
	"k8s.io/apiserver/pkg/util/notfoundhandler"
	"k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/client-go/informers"

	"minik8s.io/minik8s/pkg/apiserver/generic"
)

// Config says how conversion webhooks are reached.
type Config struct {
	Services       webhook.ServiceResolver
	Authentication webhook.AuthenticationInfoResolverWrapper
}

// New builds the last server of the chain that b prepares: what it does not know is not there.
func New(b *generic.Builder, shared informers.SharedInformerFactory, c Config) (*apiextensionsapiserver.CustomResourceDefinitions, error) {
	resources := serverstorage.NewResourceConfig()
	resources.EnableVersions(apiextensionsv1.SchemeGroupVersion)
	// Definitions are written as v1beta1, as upstream does: it is more compact.
	definitions := b.Storage.Encoded(
		folding{apiextensionsapiserver.Codecs.LegacyCodec(apiextensionsv1beta1.SchemeGroupVersion, apiextensionsv1.SchemeGroupVersion)},
		runtime.NewMultiGroupVersioner(apiextensionsv1beta1.SchemeGroupVersion, schema.GroupKind{Group: apiextensionsv1beta1.GroupName}),
	)
	config := apiextensionsapiserver.Config{
		GenericConfig: b.Chained(definitions, resources, shared),
		ExtraConfig: apiextensionsapiserver.ExtraConfig{
			CRDRESTOptionsGetter: b.Storage.CustomResources(),
			MasterCount:          1,
			ServiceResolver:      c.Services,
			AuthResolverWrapper:  c.Authentication,
		},
	}
	notFound := notfoundhandler.New(config.GenericConfig.Serializer, genericapifilters.NoMuxAndDiscoveryIncompleteKey)
	s, err := config.Complete().New(genericapiserver.NewEmptyDelegateWithCustomHandler(notFound))
	if err != nil {
		return nil, fmt.Errorf("building the server of custom resources: %w", err)
	}
	if err := s.Informers.Apiextensions().V1().CustomResourceDefinitions().Informer().SetTransform(foldKept); err != nil {
		return nil, fmt.Errorf("watching definitions: %w", err)
	}
	handler := s.GenericAPIServer.Handler
	handler.Director = refuseProtobuf(handler.Director, s.Informers.Apiextensions().V1().CustomResourceDefinitions().Lister())
	return s, nil
}
