// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package container has the defaults and validation of the three kinds of containers in a pod. Touch it when containers
// get another field.
package container

import (
	corev1 "k8s.io/api/core/v1"

	"minik8s.io/minik8s/pkg/apis/core/env"
	"minik8s.io/minik8s/pkg/apis/core/image"
	"minik8s.io/minik8s/pkg/apis/core/port"
	"minik8s.io/minik8s/pkg/apis/core/probe"
	"minik8s.io/minik8s/pkg/apis/core/quantity"
)

// SetDefaults fills in a container.
func SetDefaults(c *corev1.Container) {
	if c.ImagePullPolicy == "" {
		c.ImagePullPolicy = image.PullPolicy(c.Image)
	}
	if c.TerminationMessagePath == "" {
		c.TerminationMessagePath = corev1.TerminationMessagePathDefault
	}
	if c.TerminationMessagePolicy == "" {
		c.TerminationMessagePolicy = corev1.TerminationMessageReadFile
	}
	port.SetDefaults(c.Ports)
	env.SetDefaults(c.Env)
	quantity.SetRequirementsDefaults(&c.Resources)
	probe.SetDefaults(c.LivenessProbe)
	probe.SetDefaults(c.ReadinessProbe)
	probe.SetDefaults(c.StartupProbe)
	probe.SetHookDefaults(c.Lifecycle)
}

// Restartable tells whether an init container is a sidecar (KEP-753): it goes on running beside the others.
func Restartable(c *corev1.Container) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
}
