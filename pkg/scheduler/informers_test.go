// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	pt "minik8s.io/minik8s/pkg/scheduler/plugintest"
)

// What pods of one template have in common is in memory once, whatever else comes between them, and each is what it was.
func TestTrim(t *testing.T) {
	trim := trim()
	var pods []*corev1.Pod
	for _, name := range []string{"a", "b"} {
		pod := pt.Pod(name, pt.Requests("cpu", "1"))
		pod.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubectl"}}
		want := pod.DeepCopy()
		want.ManagedFields = nil
		for _, obj := range []any{pt.Node(name), pod, cache.DeletedFinalStateUnknown{Key: name}} {
			if got, err := trim(obj); got != obj || err != nil {
				t.Fatalf("%v becomes %v, %v", obj, got, err)
			}
		}
		if diff := cmp.Diff(want, pod); diff != "" {
			t.Error(diff)
		}
		pods = append(pods, pod)
	}
	if &pods[0].Spec.Containers[0] != &pods[1].Spec.Containers[0] {
		t.Error("containers that are equal are in memory twice")
	}
}

// What has been transformed once may be read by now.
func TestTrim_Twice(t *testing.T) {
	trim := trim()
	pods := map[string]*corev1.Pod{}
	send := func(name, cpu string) {
		if pods[name] == nil {
			pods[name] = pt.Pod(name, pt.Requests("cpu", cpu))
			pods[name].ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubectl"}}
		}
		if _, err := trim(pods[name]); err != nil {
			t.Fatal(err)
		}
	}
	send("a", "1")
	send("other", "2")
	send("b", "1")
	send("a", "1")
	if &pods["a"].Spec.Containers[0] == &pods["b"].Spec.Containers[0] {
		t.Error("a pod that was transformed before is changed")
	}
}
