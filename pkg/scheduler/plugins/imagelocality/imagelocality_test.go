// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package imagelocality

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	pt "minik8s.io/minik8s/pkg/scheduler/plugintest"
)

func TestSuite(t *testing.T) { pt.Run(t, Name, New) }

func TestScore(t *testing.T) {
	for _, tc := range []struct {
		name  string
		nodes []*corev1.Node
		pods  []*corev1.Pod
		pod   *corev1.Pod
		want  map[string]int64
	}{
		{"the node that has the image", []*corev1.Node{pt.Node("a", pt.Image("image:latest", 1000<<20)), pt.Node("b")}, nil, pt.Pod("p"), map[string]int64{"a": 48, "b": 0}},
		{"a small image is not worth it", []*corev1.Node{pt.Node("a", pt.Image("image:latest", 10<<20)), pt.Node("b")}, nil, pt.Pod("p"), map[string]int64{"a": 0, "b": 0}},
		{"all have it", []*corev1.Node{pt.Node("a", pt.Image("image:latest", 2000<<20)), pt.Node("b", pt.Image("image:latest", 2000<<20))}, nil, pt.Pod("p"), map[string]int64{"a": 100, "b": 100}},
		{"each has one of two", []*corev1.Node{pt.Node("a", pt.Image("image:latest", 1000<<20)), pt.Node("b", pt.Image("other:1", 500<<20)), pt.Node("c")}, nil,
			pt.Pod("p", func(p *corev1.Pod) {
				p.Spec.InitContainers = []corev1.Container{{Name: "init", Image: "other:1"}}
			}), map[string]int64{"a": 15, "b": 7, "c": 0}},
		{"two containers of the same", []*corev1.Node{pt.Node("a", pt.Image("image:latest", 1000<<20)), pt.Node("b")}, nil,
			pt.Pod("p", func(p *corev1.Pod) {
				p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "second", Image: "image"})
			}), map[string]int64{"a": 49, "b": 0}},
		{"the node that has the image of a volume", []*corev1.Node{pt.Node("a", pt.Image("model:latest", 2000<<20)), pt.Node("b")}, nil,
			pt.Pod("p", func(p *corev1.Pod) {
				p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{Image: &corev1.ImageVolumeSource{Reference: "model"}}}}
			}), map[string]int64{"a": 49, "b": 0}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := pt.NewHandle(pt.Nodes(tc.nodes, tc.pods...))
			got := pt.Score(t, h, pt.NewPlugin(t, h, New), tc.pod)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("scores (-want +got):\n%s", diff)
			}
		})
	}
}

func TestNormalized(t *testing.T) {
	for image, want := range map[string]string{
		"a":             "a:latest",
		"a:1":           "a:1",
		"host:5000/a":   "host:5000/a:latest",
		"host:5000/a:1": "host:5000/a:1",
	} {
		t.Run(image, func(t *testing.T) {
			if got := normalized(image); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		})
	}
}
