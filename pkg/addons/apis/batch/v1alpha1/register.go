// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is that of the types, Definition the name of the definition of SlurmJobs.
var (
	GroupVersion = schema.GroupVersion{Group: "batch.minik8s.io", Version: "v1alpha1"}
	Definition   = GroupVersion.WithResource("slurmjobs").GroupResource().String()
)

// SchemeBuilder collects what makes the types known; AddToScheme does it.
var (
	SchemeBuilder = runtime.NewSchemeBuilder(addKnownTypes)
	AddToScheme   = SchemeBuilder.AddToScheme
)

func addKnownTypes(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &SlurmJob{}, &SlurmJobList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
