// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package hostsfile

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

func TestRender(t *testing.T) {
	const head = "# Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n" +
		"fe00::0\tip6-localnet\nfe00::0\tip6-mcastprefix\nfe00::1\tip6-allnodes\nfe00::2\tip6-allrouters\n"
	pod := &corev1.Pod{}
	aliased := &corev1.Pod{Spec: corev1.PodSpec{HostAliases: []corev1.HostAlias{{IP: "10.9.9.9", Hostnames: []string{"a", "b"}}}}}
	tests := []struct{ name, got, want string }{
		{name: "plain", got: Render(pod, []string{"10.0.0.1"}, "web", ""), want: head + "10.0.0.1\tweb\n"},
		{
			name: "dual stack with domain", got: Render(pod, []string{"10.0.0.1", "fd00::1"}, "web", "svc.ns.svc.cluster.local"),
			want: head + "10.0.0.1\tweb.svc.ns.svc.cluster.local\tweb\nfd00::1\tweb.svc.ns.svc.cluster.local\tweb\n",
		},
		{
			name: "aliases", got: Render(aliased, []string{"10.0.0.1"}, "web", ""),
			want: head + "10.0.0.1\tweb\n\n# Entries added by HostAliases.\n10.9.9.9\ta\tb\n",
		},
		{
			name: "host network", got: RenderHostNetwork(aliased, "127.0.0.1 localhost\n"),
			want: "# Kubernetes-managed hosts file (host network).\n127.0.0.1 localhost\n\n# Entries added by HostAliases.\n10.9.9.9\ta\tb\n",
		},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, tc.got); diff != "" {
				t.Errorf("unexpected file (-want +got):\n%s", diff)
			}
		})
	}
}
