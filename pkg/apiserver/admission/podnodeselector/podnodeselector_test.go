// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package podnodeselector

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"minik8s.io/minik8s/pkg/apiserver/admission/admissiontest"
)

func TestAdmit(t *testing.T) {
	const config = "podNodeSelectorPluginConfig: {clusterDefaultNodeSelector: 'zone=a', bound: 'zone=a,disk=ssd', own: 'team=x'}"
	p, err := New(strings.NewReader(config))
	if err != nil {
		t.Fatal(err)
	}
	namespace := func(name string, annotations map[string]string) *corev1.Namespace {
		return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: annotations}}
	}
	admissiontest.Initialize(t, p, namespace("plain", nil), namespace("bound", nil),
		namespace("own", map[string]string{annotation: "team=x"}), namespace("none", map[string]string{annotation: ""}), namespace("bad", map[string]string{annotation: "a in (b)"}))
	type set = map[string]string
	for _, tc := range []struct {
		name, namespace string
		asked, want     set
		err             string
	}{
		{name: "the cluster's", namespace: "plain", want: set{"zone": "a"}},
		{name: "added to the pod's", namespace: "plain", asked: set{"disk": "hdd"}, want: set{"disk": "hdd", "zone": "a"}},
		{name: "against the cluster's", namespace: "plain", asked: set{"zone": "b"}, err: "conflicts with its namespace node label selector"},
		{name: "the namespace's", namespace: "own", want: set{"team": "x"}},
		{name: "more than is allowed", namespace: "own", asked: set{"zone": "a"}, err: "conflict with its namespace whitelist"},
		{name: "all that is allowed", namespace: "bound", asked: set{"disk": "ssd"}, want: set{"disk": "ssd", "zone": "a"}},
		{name: "other than is allowed", namespace: "bound", asked: set{"disk": "hdd"}, err: "conflict with its namespace whitelist"},
		{name: "an empty one", namespace: "none", asked: set{"zone": "b"}, want: set{"zone": "b"}},
		{name: "no set of labels", namespace: "bad", err: "invalid selector"},
		{name: "no namespace", namespace: "x", err: "not found"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			pod := &corev1.Pod{Spec: corev1.PodSpec{NodeSelector: tc.asked}}
			err := admissiontest.Run(p, admissiontest.Request{Resource: "pods", Namespace: tc.namespace, Object: pod}.Attributes())
			if (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
				t.Fatalf("error = %v, want %q", err, tc.err)
			}
			if diff := cmp.Diff(tc.want, pod.Spec.NodeSelector); err == nil && diff != "" {
				t.Errorf("node selector (-want +got):\n%s", diff)
			}
		})
	}
	pod := &corev1.Pod{}
	if err := admissiontest.Run(p, admissiontest.Request{Resource: "pods", Subresource: "status", Namespace: "plain", Object: pod}.Attributes()); err != nil || pod.Spec.NodeSelector != nil {
		t.Errorf("status: %v, node selector %v", err, pod.Spec.NodeSelector)
	}
}

func TestConfiguration(t *testing.T) {
	for _, config := range []string{"podNodeSelectorPluginConfig: {x: '!'}", "unknown: {}", "["} {
		if _, err := New(strings.NewReader(config)); err == nil {
			t.Errorf("%s: no error", config)
		}
	}
}
