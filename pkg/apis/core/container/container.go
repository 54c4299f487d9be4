// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package container has the defaults and validation of the three kinds of containers in a pod. Touch it when containers
// get another field.
package container

import (
	"github.com/distribution/reference"
	corev1 "k8s.io/api/core/v1"

	"minik8s.io/minik8s/pkg/apis/core/env"
	"minik8s.io/minik8s/pkg/apis/core/port"
	"minik8s.io/minik8s/pkg/apis/core/probe"
	"minik8s.io/minik8s/pkg/apis/core/quantity"
)

// SetDefaults fills in a container.
func SetDefaults(c *corev1.Container) {
	if c.ImagePullPolicy == "" {
		c.ImagePullPolicy = PullPolicy(c.Image)
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

// PullPolicy is the policy of an image for which none is given: Always for the tag latest, said or implied.
func PullPolicy(image string) corev1.PullPolicy {
	ref, err := reference.ParseNormalizedNamed(image)
	if err != nil {
		return corev1.PullIfNotPresent // validation or the runtime refuses it
	}
	tagged, ok := ref.(reference.Tagged)
	switch _, digested := ref.(reference.Digested); {
	case ok && tagged.Tag() == "latest", !ok && !digested:
		return corev1.PullAlways
	}
	return corev1.PullIfNotPresent
}

// Restartable tells whether an init container is a sidecar (KEP-753): it goes on running beside the others.
func Restartable(c *corev1.Container) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
}
