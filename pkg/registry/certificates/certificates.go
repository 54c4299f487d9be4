// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package certificates lists the resources of certificates.k8s.io; a new one is a folder here and a line in Group.
package certificates

import (
	certificatesv1 "k8s.io/api/certificates/v1"

	"minik8s.io/minik8s/pkg/registry"
	"minik8s.io/minik8s/pkg/registry/certificates/certificatesigningrequest"
	"minik8s.io/minik8s/pkg/registry/certificates/clustertrustbundle"
	"minik8s.io/minik8s/pkg/registry/certificates/podcertificaterequest"
)

// Group is certificates.k8s.io.
func Group() registry.Group {
	return registry.Group{
		Name:        certificatesv1.GroupName,
		AddToScheme: certificatesv1.AddToScheme,
		Versions: []registry.Version{{Name: "v1", Resources: []registry.Descriptor{
			certificatesigningrequest.Resource,
			clustertrustbundle.Resource,
			podcertificaterequest.Resource,
		}}},
	}
}
