// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package guard stands before the resources: where the machinery answers that the server has failed although the request is
// malformed, the client is told so instead. Touch it when the fuzzer (test/fuzz) finds another such answer.
package guard

import (
	"bytes"
	"fmt"
	"net/http"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/endpoints/responsewriter"
	genericapiserver "k8s.io/apiserver/pkg/server"
)

// ofRequests are the beginnings of what the machinery says, with status 500, of malformed requests.
var ofRequests = []string{
	// Server-side apply, if the object does not fit the kind.
	"failed to create typed patch object",
	"failed to convert new object",
	// A resourceVersion in the query that is no number.
	"resourceVersion: Invalid value",
	// A resourceVersion in an object that is no number, and one in the query that no store can have come to.
	"strconv.ParseUint: parsing",
	"etcd returned revision ",
	// A resourceVersion in an object that is to be created.
	"resourceVersion should not be set on objects to be created",
	// A parameter that only some resources honour.
	"Internal error occurred: no unsafe deleter provided",
}

// ofPatches are such beginnings in answers to patches: what the library of strategic merge patches says.
var ofPatches = []string{
	"unknown patch type", "unable to find api field", "cannot merge lists", "failed to create manager for existing fields",
	"list element types are not identical", "expected a ", "expected slice or array", "map: ", "merging an object in json",
	"merging lists", "The order in patch list", "unexpected patch strategy", "unexpected slice of slice",
}

// Chain is the usual chain of filters, with the guard inside: who may not ask learns nothing, and the audit log has what the
// client was told.
func Chain(handler http.Handler, c *genericapiserver.Config) http.Handler {
	return genericapiserver.DefaultBuildHandlerChain(New(handler), c)
}

// New guards a handler.
func New(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		info, ok := apirequest.RequestInfoFrom(r.Context())
		if !ok || !info.IsResourceRequest || info.Subresource == "proxy" {
			next.ServeHTTP(w, r) // what others say is theirs
			return
		}
		checkBody(r)
		checkPatch(r, info)
		a := &answer{ResponseWriter: w}
		defer a.recover(r)
		next.ServeHTTP(responsewriter.WrapForHTTP1Or2(a), r)
		a.finish(r)
	})
}

// answer lets everything pass but what has status 500: that it holds back.
type answer struct {
	http.ResponseWriter
	begun, held bool
	body        bytes.Buffer
}

// Unwrap implements responsewriter.UserProvidedDecorator.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// WriteHeader implements http.ResponseWriter.
func (a *answer) WriteHeader(code int) {
	if !a.begun && code == http.StatusInternalServerError {
		a.held = true
	}
	a.begun = true
	if !a.held {
		a.ResponseWriter.WriteHeader(code)
	}
}

// Write implements http.ResponseWriter.
func (a *answer) Write(data []byte) (int, error) {
	a.begun = true
	if a.held {
		return a.body.Write(data)
	}
	return a.ResponseWriter.Write(data)
}

// panics are the libraries that panic on malformed requests, where upstream breaks the connection off: by what is in the
// stack, and what to say.
var panics = map[string]string{
	// On lists and objects where it expects keys.
	"k8s.io/apimachinery/pkg/util/strategicpatch.": "the strategic merge patch has a list or an object where a key is expected",
	// On numbers in raw JSON that no float64 can hold.
	"sigs.k8s.io/structured-merge-diff/v6/value.": "the object has a value that cannot be read",
}

// recover answers that the request is malformed when one of these libraries has panicked. The reason of the panic has its
// stack, as handlers run what may panic in a goroutine of its own.
func (a *answer) recover(r *http.Request) {
	reason := recover()
	if reason == nil {
		return
	}
	text := fmt.Sprint(reason)
	for frame, says := range panics {
		if strings.Contains(text, frame) && !a.begun {
			what, _, _ := strings.Cut(text, "\n")
			a.refuse(r, fmt.Sprintf("%s: %.200s", says, what))
			return
		}
	}
	panic(reason)
}

func (a *answer) refuse(r *http.Request, message string) {
	responsewriters.ErrorNegotiated(apierrors.NewBadRequest(message), codecs, schema.GroupVersion{Version: "v1"}, a.ResponseWriter, r)
}

// finish writes what was held back, or what should have been said.
func (a *answer) finish(r *http.Request) {
	if !a.held {
		return
	}
	if message, blames := blamed(r.Method, a.body.Bytes()); blames {
		for _, h := range []string{"Content-Type", "Content-Length", "Content-Encoding"} {
			a.Header().Del(h)
		}
		a.refuse(r, message)
		return
	}
	a.ResponseWriter.WriteHeader(http.StatusInternalServerError)
	_, _ = a.ResponseWriter.Write(a.body.Bytes()) // a client that is gone needs no answer
}

// blamed tells whether a Status, in some encoding, blames the server for what is the client's fault, and its message.
func blamed(method string, encoded []byte) (string, bool) {
	o, err := runtime.Decode(codecs.UniversalDeserializer(), encoded)
	status, ok := o.(*metav1.Status)
	if err != nil || !ok {
		return "", false
	}
	says := func(beginning string) bool { return strings.HasPrefix(status.Message, beginning) }
	return status.Message, slices.ContainsFunc(ofRequests, says) || method == http.MethodPatch && slices.ContainsFunc(ofPatches, says)
}

// codecs encode and decode Status.
var codecs = serializer.NewCodecFactory(statusScheme())

func statusScheme() *runtime.Scheme {
	s := runtime.NewScheme()
	metav1.AddToGroupVersion(s, schema.GroupVersion{Version: "v1"})
	s.AddUnversionedTypes(schema.GroupVersion{Version: "v1"}, &metav1.Status{})
	return s
}
