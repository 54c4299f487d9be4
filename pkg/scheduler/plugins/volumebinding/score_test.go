// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package volumebinding

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	volumehelper "k8s.io/component-helpers/storage/volume"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"minik8s.io/minik8s/pkg/scheduler/framework"
	pt "minik8s.io/minik8s/pkg/scheduler/plugintest"
)

// sized is a volume of class "k" on node a or b.
func sized(name, node, size string) *corev1.PersistentVolume {
	v := volume(name, "k", node)
	v.Spec.Capacity[corev1.ResourceStorage] = resource.MustParse(size)
	return v
}

func TestScore(t *testing.T) {
	const late = storagev1.VolumeBindingWaitForFirstConsumer
	full := []configv1.UtilizationShapePoint{{Utilization: 0, Score: 0}, {Utilization: 100, Score: 10}}
	for _, tc := range []struct {
		name    string
		shape   []configv1.UtilizationShapePoint
		objects []runtime.Object
		claims  []string
		want    map[string]int64
	}{
		{"bound already", nil, []runtime.Object{claim("c", "k", "v"), sized("v", "a", "1Gi")}, []string{"c"}, nil},
		{"more of the room is left", nil, []runtime.Object{claim("c", "k", ""), class("k", "p", late), driver(true), capacity("a", "10Gi", ""), capacity("b", "2Gi", "")},
			[]string{"c"}, map[string]int64{"a": 90, "b": 50}},
		{"two claims out of the same room", nil, []runtime.Object{claim("c", "k", ""), claim("d", "k", ""), class("k", "p", late), driver(true), capacity("a", "10Gi", ""), capacity("b", "1Gi", "")},
			[]string{"c", "d"}, map[string]int64{"a": 80, "b": 0}},
		{"a shape that wants nodes full", full, []runtime.Object{claim("c", "k", ""), class("k", "p", late), driver(true), capacity("a", "10Gi", ""), capacity("b", "2Gi", "")},
			[]string{"c"}, map[string]int64{"a": 10, "b": 50}},
		{"room is not known", nil, []runtime.Object{claim("c", "k", ""), class("k", "p", late), driver(true), capacity("a", "", "2Gi"), capacity("b", "2Gi", "")},
			[]string{"c"}, map[string]int64{"a": 0, "b": 50}},
		{"the provisioner does not say", nil, []runtime.Object{claim("c", "k", ""), class("k", "p", late)}, []string{"c"}, map[string]int64{"a": 0, "b": 0}},
		{"volumes that are there", nil, []runtime.Object{claim("c", "k", ""), class("k", volumehelper.NotSupportedProvisioner, late), sized("v", "a", "4Gi"), sized("w", "b", "1Gi")},
			[]string{"c"}, map[string]int64{"a": 75, "b": 0}},
		{"volumes count before room", nil, []runtime.Object{claim("c", "k", ""), claim("d", "k", ""), class("k", "p", late), driver(true), capacity("a", "100Gi", ""), capacity("b", "100Gi", ""), sized("v", "a", "4Gi"), sized("w", "b", "2Gi")},
			[]string{"c", "d"}, map[string]int64{"a": 75, "b": 50}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := pt.NewHandle(pt.Nodes([]*corev1.Node{pt.Node("a"), pt.Node("b")}), tc.objects...)
			plugin, err := New(t.Context(), &configv1.VolumeBindingArgs{Shape: tc.shape}, h)
			if err != nil {
				t.Fatal(err)
			}
			h.Sync(t)
			pod := pt.Pod("p")
			for _, name := range tc.claims {
				pt.Claim(name)(pod)
			}
			if diff := cmp.Diff(tc.want, scores(t, h, plugin.(*VolumeBinding), pod)); diff != "" {
				t.Errorf("scores (-want +got):\n%s", diff)
			}
		})
	}
}

// scores has those of the nodes that pass the filter, all of them; nil if the
// plugin has nothing to say.
func scores(t *testing.T, h *pt.Handle, v *VolumeBinding, pod *corev1.Pod) map[string]int64 {
	t.Helper()
	state := framework.NewCycleState(framework.NewPodInfo(pod))
	if _, s := v.PreFilter(t.Context(), state, pod, h.Snapshot.Nodes()); !s.IsSuccess() {
		t.Fatal(s.AsError())
	}
	for _, n := range h.Snapshot.Nodes() {
		if s := v.Filter(t.Context(), state, pod, n); !s.IsSuccess() && !s.IsRejected() {
			t.Fatal(s.AsError())
		}
	}
	if s := v.PreScore(t.Context(), state, pod, h.Snapshot.Nodes()); s.IsSkip() {
		return nil
	}
	out := map[string]int64{}
	for _, n := range h.Snapshot.Nodes() {
		score, s := v.Score(t.Context(), state, pod, n)
		if !s.IsSuccess() {
			t.Fatal(s.AsError())
		}
		out[n.Node().Name] = score
	}
	return out
}
