// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package object gets objects of their own type out of admission requests; touch it when requests carry others.
package object

import (
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
)

// New is the object as it is to be written. It fails with an API status error if the request has another type, so that no
// plugin lets pass what it cannot judge.
func New[T runtime.Object](a admission.Attributes) (T, error) { return as[T](a, a.GetObject()) }

// Old is the object as it was before.
func Old[T runtime.Object](a admission.Attributes) (T, error) { return as[T](a, a.GetOldObject()) }

func as[T runtime.Object](a admission.Attributes, obj runtime.Object) (T, error) {
	o, ok := obj.(T)
	if !ok {
		return o, apierrors.NewBadRequest(fmt.Sprintf("resource was marked with kind %s but was unable to be converted: it is a %T", a.GetKind().Kind, obj))
	}
	return o, nil
}
