// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"bytes"
	"reflect"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Decoders returns codecs whose decoders refuse quantities that are too expensive to read. They see what is decoded, wherever
// it comes from: the body of a request, or what a patch has made of an object. scheme has the types that are decoded into.
func Decoders(codecs runtime.NegotiatedSerializer, scheme *runtime.Scheme) runtime.NegotiatedSerializer {
	return decoders{codecs, scheme}
}

type decoders struct {
	runtime.NegotiatedSerializer
	scheme *runtime.Scheme
}

// DecoderToVersion implements runtime.NegotiatedSerializer.
func (d decoders) DecoderToVersion(decoder runtime.Decoder, gv runtime.GroupVersioner) runtime.Decoder {
	return d.NegotiatedSerializer.DecoderToVersion(careful{decoder, d.scheme}, gv)
}

// careful is a decoder that looks at the data before.
type careful struct {
	runtime.Decoder
	scheme *runtime.Scheme
}

// protobufPrefix is what all messages begin with.
var protobufPrefix = []byte{'k', '8', 's', 0}

// Decode implements runtime.Decoder.
func (d careful) Decode(data []byte, defaults *schema.GroupVersionKind, into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	if err := d.check(data, defaults, into); err != nil {
		return nil, nil, err
	}
	return d.Decoder.Decode(data, defaults, into)
}

func (d careful) check(data []byte, defaults *schema.GroupVersionKind, into runtime.Object) error {
	message, ok := bytes.CutPrefix(data, protobufPrefix)
	if !ok {
		return checkText(data)
	}
	if !dubious(message) {
		return nil
	}
	var envelope runtime.Unknown
	if err := envelope.Unmarshal(message); err != nil {
		return nil //nolint:nilerr // the decoder tells
	}
	if t := d.target(envelope.GroupVersionKind(), defaults, into); t != nil {
		return checkMessage(envelope.Raw, t)
	}
	return nil
}

// target is the type that a message is decoded into, as the decoder chooses it: that of the kind that the message names, what it
// does not name being as by default, then as in the object that waits for it. It is nil if there is none, so that the decoder
// fails. As another type than this one a message would be nonsense: kinds are converted after they are decoded.
func (d careful) target(kind schema.GroupVersionKind, defaults *schema.GroupVersionKind, into runtime.Object) reflect.Type {
	complete := func(by schema.GroupVersionKind) {
		if kind.Kind == "" {
			kind.Kind = by.Kind
		}
		if kind.Version == "" && by.Version != "" {
			kind.Group, kind.Version = by.Group, by.Version
		}
	}
	if defaults != nil {
		complete(*defaults)
	}
	if into != nil {
		kinds, _, err := d.scheme.ObjectKinds(into)
		if err != nil {
			return reflect.TypeOf(into) // not of the scheme: it is taken as it is
		}
		complete(kinds[0])
	}
	obj, err := d.scheme.New(kind)
	if err != nil {
		return nil
	}
	return reflect.TypeOf(obj)
}
