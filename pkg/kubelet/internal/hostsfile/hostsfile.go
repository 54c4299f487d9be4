// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package hostsfile renders the /etc/hosts of a pod's containers; touch it when that file must say something else.
package hostsfile

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
)

const (
	header            = "# Kubernetes-managed hosts file.\n"
	headerHostNetwork = "# Kubernetes-managed hosts file (host network).\n"
	loopback          = "127.0.0.1\tlocalhost\n" +
		"::1\tlocalhost ip6-localhost ip6-loopback\n" +
		"fe00::0\tip6-localnet\n" +
		"fe00::0\tip6-mcastprefix\n" +
		"fe00::1\tip6-allnodes\n" +
		"fe00::2\tip6-allrouters\n"
)

// Render returns the file of a pod with its own network: loopback names, each of ips with the pod's host name (and
// its full name, if it has a domain) and the pod's hostAliases.
func Render(pod *corev1.Pod, ips []string, hostname, domain string) string {
	var b strings.Builder
	b.WriteString(header)
	b.WriteString(loopback)
	for _, ip := range ips {
		b.WriteString(ip + "\t")
		if domain != "" {
			b.WriteString(hostname + "." + domain + "\t")
		}
		b.WriteString(hostname + "\n")
	}
	aliases(&b, pod)
	return b.String()
}

// RenderHostNetwork returns the file of a pod on the host's network: the host's own (content) and the hostAliases.
func RenderHostNetwork(pod *corev1.Pod, content string) string {
	var b strings.Builder
	b.WriteString(headerHostNetwork)
	b.WriteString(content)
	aliases(&b, pod)
	return b.String()
}

func aliases(b *strings.Builder, pod *corev1.Pod) {
	if len(pod.Spec.HostAliases) == 0 {
		return
	}
	b.WriteString("\n# Entries added by HostAliases.\n")
	for _, a := range pod.Spec.HostAliases {
		b.WriteString(a.IP + "\t" + strings.Join(a.Hostnames, "\t") + "\n")
	}
}
