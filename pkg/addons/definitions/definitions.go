// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package definitions has the CustomResourceDefinitions of all add-ons, which hack/codegen makes of their types. Touch the types
// instead.
package definitions

import (
	"embed"
	"fmt"
	"io/fs"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

//go:embed *.yaml
var files embed.FS

// Get returns the definition of a name.
func Get(name string) (*apiextensionsv1.CustomResourceDefinition, error) {
	names, err := fs.Glob(files, "*.yaml")
	if err != nil {
		return nil, err
	}
	for _, file := range names {
		data, err := files.ReadFile(file)
		if err != nil {
			return nil, err
		}
		definition := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.UnmarshalStrict(data, definition); err != nil {
			return nil, fmt.Errorf("reading %s: %w", file, err)
		}
		if definition.Name == name {
			return definition, nil
		}
	}
	return nil, fmt.Errorf("there is no definition %q", name)
}
