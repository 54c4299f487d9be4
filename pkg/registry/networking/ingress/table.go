// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package ingress

import (
	"fmt"
	"slices"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"minik8s.io/minik8s/pkg/registry"
)

var columns = []metav1.TableColumnDefinition{
	registry.NameColumn,
	registry.Column("Class", "string", "The name of the IngressClass resource that should be used for additional configuration"),
	registry.Column("Hosts", "string", "Hosts that incoming requests are matched against before the ingress rule"),
	registry.Column("Address", "string", "Address is a list containing ingress points for the load-balancer"),
	registry.Column("Ports", "string", "Ports of TLS configurations that open"),
	registry.AgeColumn,
}

func row(in *networkingv1.Ingress) []any {
	class, ports := "<none>", "80"
	if c := in.Spec.IngressClassName; c != nil {
		class = *c
	}
	if len(in.Spec.TLS) > 0 {
		ports = "80, 443"
	}
	return []any{in.Name, class, hosts(in.Spec.Rules), addresses(in.Status.LoadBalancer), ports, registry.Age(in.CreationTimestamp)}
}

// hosts names the first three.
func hosts(rules []networkingv1.IngressRule) string {
	const limit = 3
	var list []string
	for _, r := range rules {
		switch {
		case len(list) == limit:
			return fmt.Sprintf("%s + %d more...", strings.Join(list, ","), len(rules)-limit)
		case r.Host != "":
			list = append(list, r.Host)
		}
	}
	if len(list) == 0 {
		return "*"
	}
	return strings.Join(list, ",")
}

// addresses are the balancer's, each once.
func addresses(s networkingv1.IngressLoadBalancerStatus) string {
	var list []string
	for _, in := range s.Ingress {
		if in.IP != "" {
			list = append(list, in.IP)
		} else if in.Hostname != "" {
			list = append(list, in.Hostname)
		}
	}
	slices.Sort(list)
	return strings.Join(slices.Compact(list), ",")
}
