// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package groups is the list of all API groups that are served, in the order of discovery; a new group is a line here.
package groups

import (
	"minik8s.io/minik8s/pkg/registry"
	"minik8s.io/minik8s/pkg/registry/admissionregistration"
	"minik8s.io/minik8s/pkg/registry/apps"
	"minik8s.io/minik8s/pkg/registry/authentication"
	"minik8s.io/minik8s/pkg/registry/authorization"
	"minik8s.io/minik8s/pkg/registry/autoscaling"
	"minik8s.io/minik8s/pkg/registry/batch"
	"minik8s.io/minik8s/pkg/registry/certificates"
	"minik8s.io/minik8s/pkg/registry/coordination"
	"minik8s.io/minik8s/pkg/registry/core"
	"minik8s.io/minik8s/pkg/registry/discovery"
	"minik8s.io/minik8s/pkg/registry/events"
	"minik8s.io/minik8s/pkg/registry/flowcontrol"
	"minik8s.io/minik8s/pkg/registry/metrics"
	"minik8s.io/minik8s/pkg/registry/networking"
	"minik8s.io/minik8s/pkg/registry/node"
	"minik8s.io/minik8s/pkg/registry/policy"
	"minik8s.io/minik8s/pkg/registry/rbac"
	"minik8s.io/minik8s/pkg/registry/resource"
	"minik8s.io/minik8s/pkg/registry/scheduling"
	"minik8s.io/minik8s/pkg/registry/storage"
	"minik8s.io/minik8s/pkg/registry/storagemigration"
)

// Measured is what is served besides if somebody measures what nodes and pods use: upstream's API server has it not either.
func Measured() registry.Group { return metrics.Group() }

// All returns every group of upstream's API server.
func All() []registry.Group {
	return []registry.Group{
		core.Group(),
		apps.Group(),
		events.Group(),
		authentication.Group(),
		authorization.Group(),
		autoscaling.Group(),
		batch.Group(),
		certificates.Group(),
		networking.Group(),
		node.Group(),
		policy.Group(),
		rbac.Group(),
		resource.Group(),
		scheduling.Group(),
		storage.Group(),
		storagemigration.Group(),
		admissionregistration.Group(),
		coordination.Group(),
		discovery.Group(),
		flowcontrol.Group(),
	}
}
