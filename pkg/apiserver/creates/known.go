// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package creates

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
)

// Bounds of what is known, at worst 13 MiB: how many answers, and how many bytes each and its question have. What is larger is made by the
// machinery's handler.
const (
	maxKnown = 1024
	maxAgent = 256
	maxShape = 4 << 10
	maxEntry = 8 << 10
)

// question is what the entry of managed fields of a new object follows from, but for its time.
type question struct {
	kind    schema.GroupVersionKind
	manager string // as it was asked for
	agent   string // the user agent, which the manager is named after if it was not
	shape   string
}

// known are answers of the machinery. Its methods are safe for concurrent use.
type known struct {
	mu      sync.RWMutex // guards all below
	entries map[question]metav1.ManagedFieldsEntry
}

// entry is what the machinery would say, now.
func (k *known) entry(q question) (metav1.ManagedFieldsEntry, bool) {
	k.mu.RLock()
	defer k.mu.RUnlock()
	e, found := k.entries[q]
	if found {
		e.Time, e.FieldsV1 = &metav1.Time{Time: time.Now().UTC()}, &metav1.FieldsV1{Raw: e.FieldsV1.Raw}
	}
	return e, found
}

// learn keeps an answer. Kinds of objects are few and come often: if there is no room everything is forgotten.
func (k *known) learn(q question, entries []metav1.ManagedFieldsEntry) {
	if len(entries) != 1 || entries[0].FieldsV1 == nil || len(entries[0].FieldsV1.Raw) > maxEntry {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.entries == nil || len(k.entries) >= maxKnown {
		k.entries = map[question]metav1.ManagedFieldsEntry{}
	}
	k.entries[q] = *entries[0].DeepCopy()
}

// asked is the key of the question whose answer is waited for, in the context of a request.
type asked struct{}

// Learning returns admission that first looks what the machinery has answered; it sees a new object just after that. None stays none.
func (c *Creates) Learning(admit admission.Interface) admission.Interface {
	if admit == nil {
		return nil
	}
	return learning{admit, &c.known}
}

type learning struct {
	admission.Interface
	known *known
}

var (
	_ admission.MutationInterface   = learning{}
	_ admission.ValidationInterface = learning{}
)

// Admit implements admission.MutationInterface.
func (l learning) Admit(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	if q, ok := ctx.Value(asked{}).(question); ok && q.kind == a.GetKind() && a.GetSubresource() == "" {
		if m, err := meta.Accessor(a.GetObject()); err == nil {
			l.known.learn(q, m.GetManagedFields())
		}
	}
	if m, ok := l.Interface.(admission.MutationInterface); ok {
		return m.Admit(ctx, a, o)
	}
	return nil
}

// Validate implements admission.ValidationInterface.
func (l learning) Validate(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	if v, ok := l.Interface.(admission.ValidationInterface); ok {
		return v.Validate(ctx, a, o)
	}
	return nil
}
