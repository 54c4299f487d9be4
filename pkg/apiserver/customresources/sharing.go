// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package customresources

import (
	"reflect"
	"runtime"
	"sync"
	"weak"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// sharing is a codec of definitions for which the versions of one have its specification in common. The watch cache keeps
// all versions of the last minutes, of which a new definition has four: only the status differs. Schemas are large.
type sharing struct {
	apiruntime.Codec

	mu     sync.Mutex // guards latest
	latest map[types.UID]weak.Pointer[apiextensions.CustomResourceDefinition]
}

func newSharing(codec apiruntime.Codec) *sharing {
	return &sharing{Codec: codec, latest: map[types.UID]weak.Pointer[apiextensions.CustomResourceDefinition]{}}
}

// Decode implements runtime.Decoder. What is decoded into an object belongs to its owner, who may change it. Only what is
// watched shares: nobody changes that.
func (s *sharing) Decode(data []byte, defaults *schema.GroupVersionKind, into apiruntime.Object) (apiruntime.Object, *schema.GroupVersionKind, error) {
	obj, kind, err := s.Codec.Decode(data, defaults, into)
	if d, ok := obj.(*apiextensions.CustomResourceDefinition); ok && err == nil && into == nil {
		s.share(d)
	}
	return obj, kind, err
}

// share gives d the specification of the version before, if it is equal.
func (s *sharing) share(d *apiextensions.CustomResourceDefinition) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if before := s.latest[d.UID].Value(); before != nil && reflect.DeepEqual(before.Spec, d.Spec) {
		d.Spec = before.Spec
	} else {
		fold(&d.Spec)
	}
	s.latest[d.UID] = weak.Make(d)
	runtime.AddCleanup(d, s.forget, d.UID)
}

// forget is called when a version is gone. It may not have been the last one.
func (s *sharing) forget(uid types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.latest[uid].Value() == nil {
		delete(s.latest, uid)
	}
}
