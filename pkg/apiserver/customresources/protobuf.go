// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package customresources

import (
	"mime"
	"net/http"

	apiextensionsapiserver "k8s.io/apiextensions-apiserver/pkg/apiserver"
	apiextensionslisters "k8s.io/apiextensions-apiserver/pkg/client/listers/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/handlers/negotiation"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
)

// refuseProtobuf answers 415 to custom resources that come as protobuf, which nothing can read: the machinery negotiates it,
// for what it answers, and then panics as there is no strict decoder, whereupon upstream breaks the connection off. Scales
// are of a built-in kind.
func refuseProtobuf(next http.Handler, definitions apiextensionslisters.CustomResourceDefinitionLister) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		info, ok := apirequest.RequestInfoFrom(r.Context())
		if !ok || !info.IsResourceRequest || info.Subresource == "scale" || info.Verb != "create" && info.Verb != "update" {
			next.ServeHTTP(w, r)
			return
		}
		mediaType, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
		if err != nil || mediaType != runtime.ContentTypeProtobuf {
			next.ServeHTTP(w, r)
			return
		}
		if _, err := definitions.Get(info.Resource + "." + info.APIGroup); err != nil {
			next.ServeHTTP(w, r) // to be told what there is
			return
		}
		refusal := negotiation.NewUnsupportedMediaTypeError([]string{runtime.ContentTypeJSON, runtime.ContentTypeYAML})
		responsewriters.ErrorNegotiated(refusal, apiextensionsapiserver.Codecs, schema.GroupVersion{Group: info.APIGroup, Version: info.APIVersion}, w, r)
	})
}
