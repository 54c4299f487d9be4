// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package env

import (
	"net"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// serviceVars returns the variables by which containers find services without DNS. Without enableServiceLinks there
// remain those of the API server. A service named kubernetes in the pod's own namespace hides the API server's.
func serviceVars(pod *corev1.Pod, services []*corev1.Service) map[string]string {
	links := pod.Spec.EnableServiceLinks == nil || *pod.Spec.EnableServiceLinks
	chosen := map[string]*corev1.Service{}
	for _, s := range services {
		if s.Spec.ClusterIP == "" || s.Spec.ClusterIP == corev1.ClusterIPNone {
			continue
		}
		api := s.Namespace == metav1.NamespaceDefault && s.Name == "kubernetes"
		switch {
		case s.Namespace == pod.Namespace && links:
			chosen[s.Name] = s
		case api && chosen[s.Name] == nil:
			chosen[s.Name] = s
		}
	}
	vars := map[string]string{}
	for _, s := range chosen {
		addService(vars, s)
	}
	return vars
}

func addService(vars map[string]string, s *corev1.Service) {
	name := upper(s.Name)
	vars[name+"_SERVICE_HOST"] = s.Spec.ClusterIP
	for i, p := range s.Spec.Ports {
		port := strconv.Itoa(int(p.Port))
		protocol := string(p.Protocol)
		if protocol == "" {
			protocol = string(corev1.ProtocolTCP)
		}
		url := strings.ToLower(protocol) + "://" + net.JoinHostPort(s.Spec.ClusterIP, port)
		if i == 0 {
			vars[name+"_SERVICE_PORT"] = port
			vars[name+"_PORT"] = url
		}
		if p.Name != "" {
			vars[name+"_SERVICE_PORT_"+upper(p.Name)] = port
		}
		link := name + "_PORT_" + port + "_" + strings.ToUpper(protocol)
		vars[link] = url
		vars[link+"_PROTO"] = strings.ToLower(protocol)
		vars[link+"_PORT"] = port
		vars[link+"_ADDR"] = s.Spec.ClusterIP
	}
}

func upper(name string) string { return strings.ToUpper(strings.ReplaceAll(name, "-", "_")) }
