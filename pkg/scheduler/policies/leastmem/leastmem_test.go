// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package leastmem

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	pt "minik8s.io/minik8s/pkg/scheduler/plugintest"
)

func TestSuite(t *testing.T) { pt.Run(t, Name, New) }

// Nodes have 8 GiB.
func TestScore(t *testing.T) {
	a, b, c := pt.Node("a"), pt.Node("b"), pt.Node("c")
	metrics := pt.NewMetrics(t).Node("a", "cpu", "1", "memory", "4Gi").Node("b", "cpu", "4", "memory", "1Gi").Node("c", "cpu", "1", "memory", "1Gi")
	there := pt.Pod("p", pt.On("c"), pt.Requests("memory", "1Gi"))
	h := pt.NewHandle(pt.Nodes([]*corev1.Node{a, b, c}, there), a, b, c, there)
	h.Config = metrics.Config()
	measured := make(chan struct{}, 1)
	h.Awaken = func(klog.Logger, map[string]*corev1.Pod) { measured <- struct{}{} }
	p := pt.NewPlugin(t, h, New)
	if s := p.(fwk.PreEnqueuePlugin).PreEnqueue(t.Context(), pt.Pod("new")); s.IsSuccess() {
		t.Error("a pod need not wait for figures")
	}
	<-measured
	if diff := cmp.Diff(map[string]int64{"a": 0, "b": 100, "c": 66}, pt.Score(t, h, p, pt.Pod("new"))); diff != "" {
		t.Errorf("scores (-want +got):\n%s", diff)
	}
}
