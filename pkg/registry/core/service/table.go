// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"minik8s.io/minik8s/pkg/registry"
)

const none = "<none>"

var docs = corev1.ServiceSpec{}.SwaggerDoc()

var columns = []metav1.TableColumnDefinition{
	registry.NameColumn,
	registry.Column("Type", "string", docs["type"]),
	registry.Column("Cluster-IP", "string", docs["clusterIP"]),
	registry.Column("External-IP", "string", docs["externalIPs"]),
	registry.Column("Port(s)", "string", docs["ports"]),
	registry.AgeColumn,
	registry.WideColumn("Selector", "string", docs["selector"]),
}

func row(s *corev1.Service) []any {
	ip := none
	if len(s.Spec.ClusterIPs) > 0 {
		ip = s.Spec.ClusterIPs[0]
	}
	return []any{
		s.Name, string(s.Spec.Type), ip, externalIP(s), ports(s.Spec.Ports), registry.Age(s.CreationTimestamp), labels.FormatLabels(s.Spec.Selector),
	}
}

func externalIP(s *corev1.Service) string {
	var out []string
	switch s.Spec.Type {
	case corev1.ServiceTypeExternalName:
		return s.Spec.ExternalName
	case corev1.ServiceTypeLoadBalancer:
		for _, in := range s.Status.LoadBalancer.Ingress {
			if in.IP != "" {
				out = append(out, in.IP)
			} else if in.Hostname != "" {
				out = append(out, in.Hostname)
			}
		}
		if len(out)+len(s.Spec.ExternalIPs) == 0 {
			return "<pending>"
		}
	}
	if out = append(out, s.Spec.ExternalIPs...); len(out) == 0 {
		return none
	}
	return strings.Join(out, ",")
}

func ports(list []corev1.ServicePort) string {
	if len(list) == 0 {
		return none
	}
	var out []string
	for _, p := range list {
		if p.NodePort > 0 {
			out = append(out, fmt.Sprintf("%d:%d/%s", p.Port, p.NodePort, p.Protocol))
		} else {
			out = append(out, fmt.Sprintf("%d/%s", p.Port, p.Protocol))
		}
	}
	return strings.Join(out, ",")
}
