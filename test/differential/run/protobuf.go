// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package run

import (
	"bytes"
	"encoding/json"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
)

// kinds are those whose protobuf can be read and written.
var kinds = func() *runtime.Scheme {
	s := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(s))
	utilruntime.Must(apiextensionsv1.AddToScheme(s))
	utilruntime.Must(apiregistrationv1.AddToScheme(s))
	utilruntime.Must(metav1.AddMetaToScheme(s))
	return s
}()

var protobufs = protobuf.NewSerializer(kinds, kinds)

// fromProtobuf is what an object in protobuf is in JSON.
func fromProtobuf(data []byte) (any, bool) {
	if !bytes.HasPrefix(data, []byte("k8s\x00")) {
		return nil, false
	}
	o, kind, err := protobufs.Decode(data, nil, nil)
	if err != nil {
		return nil, false // compared as it is
	}
	o.GetObjectKind().SetGroupVersionKind(*kind)
	text, err := json.Marshal(o)
	if err != nil {
		return nil, false
	}
	return decode(text), true
}

// toProtobuf is an object as protobuf, if its kind is known.
func toProtobuf(object map[string]any) (string, bool) {
	text, err := json.Marshal(object)
	if err != nil {
		return "", false
	}
	apiVersion, _ := object["apiVersion"].(string)
	kind, _ := object["kind"].(string)
	typed, err := kinds.New(schema.FromAPIVersionAndKind(apiVersion, kind))
	if err != nil {
		return "", false
	}
	if err := json.Unmarshal(text, typed); err != nil {
		return "", false
	}
	data, err := runtime.Encode(protobufs, typed)
	return string(data), err == nil
}
