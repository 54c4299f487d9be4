// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package deletion is the predicate of the controllers that watch a kind only to learn that an object of it is gone. Touch it when
// one of them hears of more.
package deletion

import (
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
)

// Only lets through the events of objects that are gone.
func Only() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc:  func(event.CreateEvent) bool { return false },
		UpdateFunc:  func(event.UpdateEvent) bool { return false },
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
}
