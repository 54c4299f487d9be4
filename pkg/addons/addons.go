// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package addons is what minik8s offers beyond Kubernetes: kinds of its own, by the means that any operator has. List names
// them; what is in them is in a folder each. Touch it to add one, or to change how they are enabled and run.
package addons

import (
	"fmt"
	"slices"
	"strings"

	"minik8s.io/minik8s/pkg/addons/addon"
	"minik8s.io/minik8s/pkg/addons/dns"
	"minik8s.io/minik8s/pkg/addons/functions"
	"minik8s.io/minik8s/pkg/addons/slurm"
	"minik8s.io/minik8s/pkg/addons/workflows"
)

// List returns all add-ons, by name.
func List() []addon.Addon {
	return []addon.Addon{
		dns.Addon(),
		functions.Addon(),
		slurm.Addon(),
		workflows.Addon(),
	}
}

// Find returns the add-on of a name.
func Find(name string) (addon.Addon, error) {
	all := List()
	i := slices.IndexFunc(all, func(a addon.Addon) bool { return a.Name == name })
	if i < 0 {
		names := make([]string, len(all))
		for i, a := range all {
			names[i] = a.Name
		}
		return addon.Addon{}, fmt.Errorf("there is no add-on %q; there are %s", name, strings.Join(names, ", "))
	}
	return all[i], nil
}
