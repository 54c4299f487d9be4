// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package random

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	pt "minik8s.io/minik8s/pkg/scheduler/plugintest"
)

func TestSuite(t *testing.T) { pt.Run(t, Name, New) }

// Which of them the scheduler takes is tested there.
func TestScore(t *testing.T) {
	h := pt.NewHandle(pt.Nodes([]*corev1.Node{pt.Node("a"), pt.Node("b")}, pt.Pod("there", pt.On("a"))))
	if diff := cmp.Diff(map[string]int64{"a": 100, "b": 100}, pt.Score(t, h, pt.NewPlugin(t, h, New), pt.Pod("p"))); diff != "" {
		t.Errorf("scores (-want +got):\n%s", diff)
	}
}
