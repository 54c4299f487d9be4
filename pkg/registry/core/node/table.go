// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"minik8s.io/minik8s/pkg/registry"
)

const none = "<none>"

var columns = []metav1.TableColumnDefinition{
	registry.NameColumn,
	registry.Column("Status", "string", "The status of the node"),
	registry.Column("Roles", "string", "The roles of the node"),
	registry.AgeColumn,
	registry.Column("Version", "string", corev1.NodeSystemInfo{}.SwaggerDoc()["kubeletVersion"]),
	registry.WideColumn("Internal-IP", "string", corev1.NodeStatus{}.SwaggerDoc()["addresses"]),
	registry.WideColumn("External-IP", "string", corev1.NodeStatus{}.SwaggerDoc()["addresses"]),
	registry.WideColumn("OS-Image", "string", corev1.NodeSystemInfo{}.SwaggerDoc()["osImage"]),
	registry.WideColumn("Kernel-Version", "string", corev1.NodeSystemInfo{}.SwaggerDoc()["kernelVersion"]),
	registry.WideColumn("Container-Runtime", "string", corev1.NodeSystemInfo{}.SwaggerDoc()["containerRuntimeVersion"]),
}

func row(n *corev1.Node) []any {
	info := n.Status.NodeInfo
	kernel := orUnknown(info.KernelVersion)
	if info.Architecture != "" {
		kernel += " (" + info.Architecture + ")"
	}
	return []any{
		n.Name, status(n), roles(n.Labels), registry.Age(n.CreationTimestamp), info.KubeletVersion,
		address(n, corev1.NodeInternalIP), address(n, corev1.NodeExternalIP),
		orUnknown(info.OSImage), kernel, orUnknown(info.ContainerRuntimeVersion),
	}
}

func status(n *corev1.Node) string {
	s := "Unknown"
	for _, c := range n.Status.Conditions {
		if c.Type != corev1.NodeReady {
			continue
		}
		if s = "NotReady"; c.Status == corev1.ConditionTrue {
			s = "Ready"
		}
	}
	if n.Spec.Unschedulable {
		s += ",SchedulingDisabled"
	}
	return s
}

// roles are the last parts of labels node-role.kubernetes.io/ROLE and the values of kubernetes.io/role.
func roles(labels map[string]string) string {
	var out []string
	for k, v := range labels {
		role, ok := strings.CutPrefix(k, "node-role.kubernetes.io/")
		if !ok && k == "kubernetes.io/role" {
			role, ok = v, true
		}
		if ok && role != "" {
			out = append(out, role)
		}
	}
	if len(out) == 0 {
		return none
	}
	slices.Sort(out)
	return strings.Join(slices.Compact(out), ",")
}

func address(n *corev1.Node, kind corev1.NodeAddressType) string {
	for _, a := range n.Status.Addresses {
		if a.Type == kind {
			return a.Address
		}
	}
	return none
}

func orUnknown(s string) string {
	if s == "" {
		return "<unknown>"
	}
	return s
}
