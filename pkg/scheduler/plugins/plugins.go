// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package plugins is the list of what decides where a pod runs. A new plugin is
// a folder here, a line in Registry and, if it is always on, one in
// configuration.DefaultPlugins.
package plugins

import (
	"minik8s.io/minik8s/pkg/scheduler/framework"
	"minik8s.io/minik8s/pkg/scheduler/plugins/balancedallocation"
	"minik8s.io/minik8s/pkg/scheduler/plugins/defaultbinder"
	"minik8s.io/minik8s/pkg/scheduler/plugins/defaultpreemption"
	"minik8s.io/minik8s/pkg/scheduler/plugins/dynamicresources"
	"minik8s.io/minik8s/pkg/scheduler/plugins/gangscheduling"
	"minik8s.io/minik8s/pkg/scheduler/plugins/imagelocality"
	"minik8s.io/minik8s/pkg/scheduler/plugins/interpodaffinity"
	"minik8s.io/minik8s/pkg/scheduler/plugins/nodeaffinity"
	"minik8s.io/minik8s/pkg/scheduler/plugins/nodedeclaredfeatures"
	"minik8s.io/minik8s/pkg/scheduler/plugins/nodename"
	"minik8s.io/minik8s/pkg/scheduler/plugins/nodeports"
	"minik8s.io/minik8s/pkg/scheduler/plugins/noderesources"
	"minik8s.io/minik8s/pkg/scheduler/plugins/nodeunschedulable"
	"minik8s.io/minik8s/pkg/scheduler/plugins/nodevolumelimits"
	"minik8s.io/minik8s/pkg/scheduler/plugins/podtopologyspread"
	"minik8s.io/minik8s/pkg/scheduler/plugins/prioritysort"
	"minik8s.io/minik8s/pkg/scheduler/plugins/schedulinggates"
	"minik8s.io/minik8s/pkg/scheduler/plugins/tainttoleration"
	"minik8s.io/minik8s/pkg/scheduler/plugins/volumebinding"
	"minik8s.io/minik8s/pkg/scheduler/plugins/volumerestrictions"
	"minik8s.io/minik8s/pkg/scheduler/plugins/volumezone"
)

// Registry returns the factories of all plugins.
func Registry() framework.Registry {
	return framework.Registry{
		balancedallocation.Name:   balancedallocation.New,
		defaultbinder.Name:        defaultbinder.New,
		defaultpreemption.Name:    defaultpreemption.New,
		dynamicresources.Name:     dynamicresources.New,
		gangscheduling.Name:       gangscheduling.New,
		imagelocality.Name:        imagelocality.New,
		interpodaffinity.Name:     interpodaffinity.New,
		nodeaffinity.Name:         nodeaffinity.New,
		nodedeclaredfeatures.Name: nodedeclaredfeatures.New,
		nodename.Name:             nodename.New,
		nodeports.Name:            nodeports.New,
		noderesources.Name:        noderesources.New,
		nodeunschedulable.Name:    nodeunschedulable.New,
		nodevolumelimits.Name:     nodevolumelimits.New,
		podtopologyspread.Name:    podtopologyspread.New,
		prioritysort.Name:         prioritysort.New,
		schedulinggates.Name:      schedulinggates.New,
		tainttoleration.Name:      tainttoleration.New,
		volumebinding.Name:        volumebinding.New,
		volumerestrictions.Name:   volumerestrictions.New,
		volumezone.Name:           volumezone.New,
	}
}
