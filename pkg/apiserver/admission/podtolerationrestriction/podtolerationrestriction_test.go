// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package podtolerationrestriction

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"

	"minik8s.io/minik8s/pkg/apiserver/admission/admissiontest"
)

func TestAdmit(t *testing.T) {
	p, err := New(strings.NewReader(`{default: [{key: cluster, operator: Exists}], whitelist: [{key: cluster, operator: Exists}, {key: b, operator: Exists}, {key: node.kubernetes.io/memory-pressure, operator: Exists}]}`))
	if err != nil {
		t.Fatal(err)
	}
	namespace := func(name, defaults, allowed string) *corev1.Namespace {
		return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{defaultsAnnotation: defaults, allowedAnnotation: allowed}}}
	}
	admissiontest.Initialize(t, p, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "plain"}},
		namespace("own", `[{"key": "a", "operator": "Exists"}]`, `[{"key": "a", "operator": "Exists"}]`),
		namespace("open", "", ""), namespace("unset", "null", "null"), namespace("bad", "[", ""))
	exists := func(key string) corev1.Toleration {
		return corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists}
	}
	pressure := exists(corev1.TaintNodeMemoryPressure)
	pressure.Effect = corev1.TaintEffectNoSchedule
	type list = []corev1.Toleration
	for _, tc := range []struct {
		name, namespace string
		update, memory  bool
		asked, want     list
		err             string
	}{
		{name: "the cluster's", namespace: "plain", want: list{exists("cluster")}},
		{name: "the cluster's, and more", namespace: "plain", asked: list{exists("b")}, want: list{exists("b"), exists("cluster")}},
		{name: "not the cluster's", namespace: "plain", asked: list{exists("c")}, err: "conflict with its cluster whitelist"},
		{name: "the namespace's", namespace: "own", want: list{exists("a")}},
		{name: "not the namespace's", namespace: "own", asked: list{exists("b")}, err: "conflict with its namespace whitelist"},
		{name: "no default and no bound", namespace: "open", asked: list{exists("c")}, want: list{exists("c")}},
		{name: "null", namespace: "unset", asked: list{exists("c")}, want: list{exists("c")}},
		{name: "no JSON", namespace: "bad", err: "unexpected end of JSON input"},
		{name: "no defaults on updates", namespace: "plain", update: true, asked: list{exists("b")}, want: list{exists("b")}},
		{name: "memory is asked for", namespace: "open", memory: true, want: list{pressure}},
		{name: "no namespace", namespace: "x", err: "not found"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			pod := &corev1.Pod{Spec: corev1.PodSpec{Tolerations: tc.asked, Containers: []corev1.Container{{}}}}
			if tc.memory {
				pod.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Mi")}
			}
			r := admissiontest.Request{Resource: "pods", Namespace: tc.namespace, Object: pod}
			if tc.update {
				r.Operation, r.Old = admission.Update, pod
			}
			err := admissiontest.Run(p, r.Attributes())
			if (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
				t.Fatalf("error = %v, want %q", err, tc.err)
			}
			if diff := cmp.Diff(tc.want, pod.Spec.Tolerations); err == nil && diff != "" {
				t.Errorf("tolerations (-want +got):\n%s", diff)
			}
		})
	}
}

func TestConfiguration(t *testing.T) {
	for _, config := range []string{"default: [{key: a, operator: Sometimes}]", "whitelist: [{operator: Equal}]", "unknown: []"} {
		if _, err := New(strings.NewReader(config)); err == nil {
			t.Errorf("%s: no error", config)
		}
	}
}
