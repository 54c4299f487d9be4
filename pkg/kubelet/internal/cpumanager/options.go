// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package cpumanager

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
)

// The policies, by upstream's names.
const (
	// None leaves all CPUs to all containers.
	None = "none"
	// Static gives containers of Guaranteed pods that ask for whole CPUs some of their own.
	Static = "static"
)

// Options are what of the static policy can be chosen.
type Options struct {
	// FullPhysicalCPUsOnly refuses what would share a core with another container (KEP-2625).
	FullPhysicalCPUsOnly bool
	// DistributeAcrossNUMA takes as many CPUs of each node where one has not enough (KEP-2902).
	DistributeAcrossNUMA bool
	// AlignBySocket prefers CPUs of one socket to those of one node (KEP-3327).
	AlignBySocket bool
	// DistributeAcrossCores takes CPUs of different cores where it can (KEP-4176).
	DistributeAcrossCores bool
	// StrictReservation keeps containers without CPUs of their own off the reserved ones (KEP-4540).
	StrictReservation bool
	// PreferAlignByCache takes CPUs with as few last level caches as possible (KEP-4800).
	PreferAlignByCache bool
}

// Options that are not stable yet, by their names in files: who wants one switches the gate of its kind on.
var (
	AlphaOptions = []string{"align-by-socket", "distribute-cpus-across-cores"}
	BetaOptions  = []string{"distribute-cpus-across-numa"}
)

// ParseOptions reads cpuManagerPolicyOptions.
func ParseOptions(values map[string]string) (Options, error) {
	var o Options
	fields := map[string]*bool{
		"full-pcpus-only": &o.FullPhysicalCPUsOnly, "distribute-cpus-across-numa": &o.DistributeAcrossNUMA,
		"align-by-socket": &o.AlignBySocket, "distribute-cpus-across-cores": &o.DistributeAcrossCores,
		"strict-cpu-reservation": &o.StrictReservation, "prefer-align-cpus-by-uncorecache": &o.PreferAlignByCache,
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		field := fields[name]
		if field == nil {
			return o, fmt.Errorf("unknown CPU Manager Policy option: %q", name)
		}
		on, err := strconv.ParseBool(values[name])
		if err != nil {
			return o, fmt.Errorf("bad value for option %q: %w", name, err)
		}
		*field = on
	}
	exclude := func(a, b string) error {
		if *fields[a] && *fields[b] {
			return fmt.Errorf("static policy options %s and %s can not be used at the same time", a, b)
		}
		return nil
	}
	for _, pair := range [][2]string{
		{"full-pcpus-only", "distribute-cpus-across-cores"}, {"distribute-cpus-across-numa", "distribute-cpus-across-cores"},
		{"prefer-align-cpus-by-uncorecache", "distribute-cpus-across-cores"}, {"prefer-align-cpus-by-uncorecache", "distribute-cpus-across-numa"},
	} {
		if err := exclude(pair[0], pair[1]); err != nil {
			return o, err
		}
	}
	return o, nil
}
