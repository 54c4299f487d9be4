// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package topologymanager

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
)

// The policies, by upstream's names.
const (
	None           = "none"
	BestEffort     = "best-effort"
	Restricted     = "restricted"
	SingleNUMANode = "single-numa-node"
)

// The scopes likewise: what is aligned together.
const (
	Container = "container"
	Pod       = "pod"
)

// maxNodes is up to how many NUMA nodes it takes no time to try all sets of them.
const maxNodes = 8

// Options are what of the policies can be chosen.
type Options struct {
	// PreferClosest takes nodes that are close to each other where several are needed (KEP-3545).
	PreferClosest bool
	// MaxNodes is how many NUMA nodes a machine may have.
	MaxNodes int
}

// ParseOptions reads topologyManagerPolicyOptions.
func ParseOptions(values map[string]string) (Options, error) {
	o := Options{MaxNodes: maxNodes}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		var err error
		switch value := values[name]; name {
		case "prefer-closest-numa-nodes":
			if o.PreferClosest, err = strconv.ParseBool(value); err != nil {
				return o, fmt.Errorf("bad value for option %q: %w", name, err)
			}
		case "max-allowable-numa-nodes":
			if o.MaxNodes, err = strconv.Atoi(value); err != nil {
				return o, fmt.Errorf("unable to convert policy option to integer %q: %w", name, err)
			}
			if o.MaxNodes < maxNodes {
				return o, fmt.Errorf("the minimum value of %q should not be less than %v", name, maxNodes)
			}
		default:
			return o, fmt.Errorf("unknown Topology Manager Policy option: %q", name)
		}
	}
	return o, nil
}
