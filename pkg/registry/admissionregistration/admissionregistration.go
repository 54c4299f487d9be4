// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package admissionregistration lists the resources of the admissionregistration.k8s.io group; a new one is a folder here
// and a line in Group. What evaluates them is in k8s.io/apiserver, see pkg/apiserver/admission.
package admissionregistration

import (
	admissionv1 "k8s.io/api/admissionregistration/v1"

	"minik8s.io/minik8s/pkg/registry"
	"minik8s.io/minik8s/pkg/registry/admissionregistration/mutatingadmissionpolicy"
	"minik8s.io/minik8s/pkg/registry/admissionregistration/mutatingadmissionpolicybinding"
	"minik8s.io/minik8s/pkg/registry/admissionregistration/mutatingwebhookconfiguration"
	"minik8s.io/minik8s/pkg/registry/admissionregistration/validatingadmissionpolicy"
	"minik8s.io/minik8s/pkg/registry/admissionregistration/validatingadmissionpolicybinding"
	"minik8s.io/minik8s/pkg/registry/admissionregistration/validatingwebhookconfiguration"
)

// Group is admissionregistration.k8s.io.
func Group() registry.Group {
	return registry.Group{
		Name:        admissionv1.GroupName,
		AddToScheme: admissionv1.AddToScheme,
		Versions: []registry.Version{{Name: "v1", Resources: []registry.Descriptor{
			mutatingadmissionpolicy.Resource,
			mutatingadmissionpolicybinding.Resource,
			mutatingwebhookconfiguration.Resource,
			validatingadmissionpolicy.Resource,
			validatingadmissionpolicybinding.Resource,
			validatingwebhookconfiguration.Resource,
		}}},
	}
}
