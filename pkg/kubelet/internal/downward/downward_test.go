// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package downward

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func pod() *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: "p", Namespace: "ns", UID: "u1",
			Labels:      map[string]string{"b": "2", "a": "1"},
			Annotations: map[string]string{"example.com/x": "one\n\"two\""},
		},
		Spec: corev1.PodSpec{
			NodeName: "n", ServiceAccountName: "sa",
			Containers: []corev1.Container{{
				Name: "c",
				Resources: corev1.ResourceRequirements{
					Requests: corev1.ResourceList{"cpu": resource.MustParse("125m"), "memory": resource.MustParse("32Mi")},
					Limits:   corev1.ResourceList{"cpu": resource.MustParse("1250m")},
				},
			}, {Name: "bare"}},
		},
	}
}

func TestField(t *testing.T) {
	ips := IPs{Pod: []string{"10.0.0.1", "fd00::1"}, Host: []string{"192.0.2.1"}}
	tests := []struct{ name, path, want, err string }{
		{name: "name", path: "metadata.name", want: "p"},
		{name: "namespace", path: "metadata.namespace", want: "ns"},
		{name: "uid", path: "metadata.uid", want: "u1"},
		{name: "node", path: "spec.nodeName", want: "n"},
		{name: "account", path: "spec.serviceAccountName", want: "sa"},
		{name: "host ip", path: "status.hostIP", want: "192.0.2.1"},
		{name: "pod ip", path: "status.podIP", want: "10.0.0.1"},
		{name: "pod ips", path: "status.podIPs", want: "10.0.0.1,fd00::1"},
		{name: "label", path: "metadata.labels['a']", want: "1"},
		{name: "missing label", path: "metadata.labels['z']", want: ""},
		{name: "annotation", path: "metadata.annotations['example.com/x']", want: "one\n\"two\""},
		{name: "all labels are sorted", path: "metadata.labels", want: "a=\"1\"\nb=\"2\""},
		{name: "all annotations are escaped", path: "metadata.annotations", want: `example.com/x="one\n\"two\""`},
		{name: "unknown", path: "spec.hostname", err: "unsupported fieldPath: spec.hostname"},
		{name: "subscript of a scalar", path: "metadata.name['a']", err: `fieldPath "metadata.name['a']" does not support subscript`},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			got, err := Field(pod(), tc.path, ips)
			if text(err) != tc.err || got != tc.want {
				t.Errorf("got %q, %v; want %q, %q", got, err, tc.want, tc.err)
			}
		})
	}
}

func TestResource(t *testing.T) {
	allocatable := corev1.ResourceList{"cpu": resource.MustParse("3"), "memory": resource.MustParse("1Gi")}
	tests := []struct {
		name, container, resource, divisor string
		podLimit                           string
		want, err                          string
	}{
		{name: "cpu rounds up", container: "c", resource: "limits.cpu", want: "2"},
		{name: "cpu in millis", container: "c", resource: "requests.cpu", divisor: "1m", want: "125"},
		{name: "memory in Mi", container: "c", resource: "requests.memory", divisor: "1Mi", want: "32"},
		{name: "limit falls back to the node", container: "c", resource: "limits.memory", want: "1073741824"},
		{name: "cpu limit falls back to the node", container: "bare", resource: "limits.cpu", want: "3"},
		{name: "limit falls back to the pod first", container: "bare", resource: "limits.memory", podLimit: "64Mi", want: "67108864"},
		{name: "request does not fall back", container: "bare", resource: "requests.memory", want: "0"},
		{name: "huge pages do not fall back", container: "bare", resource: "limits.hugepages-2Mi", want: "0"},
		{name: "unknown resource", container: "c", resource: "limits.gpu", err: "unsupported container resource : limits.gpu"},
		{name: "unknown container", container: "x", resource: "limits.cpu", err: "container x not found"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			p := pod()
			if tc.podLimit != "" {
				p.Spec.Resources = &corev1.ResourceRequirements{Limits: corev1.ResourceList{"memory": resource.MustParse(tc.podLimit)}}
			}
			ref := &corev1.ResourceFieldSelector{Resource: tc.resource}
			if tc.divisor != "" {
				ref.Divisor = resource.MustParse(tc.divisor)
			}
			got, err := Resource(p, tc.container, ref, allocatable)
			if text(err) != tc.err || got != tc.want {
				t.Errorf("got %q, %v; want %q, %q", got, err, tc.want, tc.err)
			}
		})
	}
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
