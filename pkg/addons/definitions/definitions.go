// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package definitions has the CustomResourceDefinitions of all add-ons, which hack/codegen makes of their types. Touch the types
// instead.
package definitions

import (
	"embed"
	"fmt"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

//go:embed *.yaml
var files embed.FS

// Get returns the definition of a name, such as dns.networking.minik8s.io.
func Get(name string) (*apiextensionsv1.CustomResourceDefinition, error) {
	plural, group, _ := strings.Cut(name, ".")
	data, err := files.ReadFile(group + "_" + plural + ".yaml")
	if err != nil {
		return nil, fmt.Errorf("there is no definition %q: %w", name, err)
	}
	definition := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.UnmarshalStrict(data, definition); err != nil {
		return nil, fmt.Errorf("reading the definition %q: %w", name, err)
	}
	return definition, nil
}
