// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package plugins is the list of what decides where a pod runs. A new plugin is
// a folder here and a line in Default.
package plugins

import (
	"minik8s.io/minik8s/pkg/scheduler/framework"
	"minik8s.io/minik8s/pkg/scheduler/plugins/balancedallocation"
	"minik8s.io/minik8s/pkg/scheduler/plugins/defaultpreemption"
	"minik8s.io/minik8s/pkg/scheduler/plugins/dynamicresources"
	"minik8s.io/minik8s/pkg/scheduler/plugins/imagelocality"
	"minik8s.io/minik8s/pkg/scheduler/plugins/interpodaffinity"
	"minik8s.io/minik8s/pkg/scheduler/plugins/nodeaffinity"
	"minik8s.io/minik8s/pkg/scheduler/plugins/nodename"
	"minik8s.io/minik8s/pkg/scheduler/plugins/nodeports"
	"minik8s.io/minik8s/pkg/scheduler/plugins/noderesources"
	"minik8s.io/minik8s/pkg/scheduler/plugins/nodeunschedulable"
	"minik8s.io/minik8s/pkg/scheduler/plugins/podtopologyspread"
	"minik8s.io/minik8s/pkg/scheduler/plugins/schedulinggates"
	"minik8s.io/minik8s/pkg/scheduler/plugins/tainttoleration"
	"minik8s.io/minik8s/pkg/scheduler/plugins/volumebinding"
)

// Default returns the plugins in the order in which they are called, with the
// weights of upstream's default profile. Cheap filters that reject many nodes
// come first.
func Default() []framework.Entry {
	return []framework.Entry{
		{Name: schedulinggates.Name, New: schedulinggates.New},
		{Name: nodeunschedulable.Name, New: nodeunschedulable.New},
		{Name: nodename.Name, New: nodename.New},
		{Name: tainttoleration.Name, New: tainttoleration.New, Weight: 3},
		{Name: nodeaffinity.Name, New: nodeaffinity.New, Weight: 2},
		{Name: nodeports.Name, New: nodeports.New},
		{Name: noderesources.Name, New: noderesources.New, Weight: 1},
		{Name: dynamicresources.Name, New: dynamicresources.New},
		{Name: volumebinding.Name, New: volumebinding.New},
		{Name: podtopologyspread.Name, New: podtopologyspread.New, Weight: 2},
		{Name: interpodaffinity.Name, New: interpodaffinity.New, Weight: 2},
		{Name: defaultpreemption.Name, New: defaultpreemption.New},
		{Name: balancedallocation.Name, New: balancedallocation.New, Weight: 1},
		{Name: imagelocality.Name, New: imagelocality.New, Weight: 1},
	}
}
