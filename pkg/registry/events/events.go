// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package events lists the resources of events.k8s.io; a new one is a folder here and a line in Group.
package events

import (
	eventsv1 "k8s.io/api/events/v1"

	"minik8s.io/minik8s/pkg/registry"
	"minik8s.io/minik8s/pkg/registry/events/event"
)

// Group is events.k8s.io.
func Group() registry.Group {
	return registry.Group{
		Name:        eventsv1.GroupName,
		AddToScheme: event.AddToScheme,
		Versions:    []registry.Version{{Name: "v1", Resources: []registry.Descriptor{event.Resource}}},
	}
}
