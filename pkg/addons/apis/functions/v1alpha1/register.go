// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the group and version of the types.
var GroupVersion = schema.GroupVersion{Group: "functions.minik8s.io", Version: "v1alpha1"}

// SchemeBuilder knows the types; AddToScheme tells a scheme of them.
var (
	SchemeBuilder = runtime.NewSchemeBuilder(addKnownTypes)
	AddToScheme   = SchemeBuilder.AddToScheme
)

func addKnownTypes(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion, &Function{}, &FunctionList{}, &Invocation{}, &InvocationList{})
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}
