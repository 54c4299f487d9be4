// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package imagelocality prefers nodes that have the pod's images. Touch it when
// the weight of image size changes.
package imagelocality

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"
)

// Name of the plugin.
const Name = "ImageLocality"

// Sizes, in bytes, between which the score grows from 0 to MaxNodeScore; the
// upper one is per image.
const (
	minThreshold          = 23 * 1024 * 1024
	maxContainerThreshold = 1000 * 1024 * 1024
)

// ImageLocality is the plugin.
type ImageLocality struct {
	handle fwk.Handle
}

var _ fwk.ScorePlugin = (*ImageLocality)(nil)

// New returns the plugin.
func New(_ context.Context, _ runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
	return &ImageLocality{handle: h}, nil
}

// Name returns the plugin's name.
func (*ImageLocality) Name() string { return Name }

// Score grows with the size of the pod's images on a node. An image counts by
// the share of nodes that have it, lest all pods of it end up on one node.
func (l *ImageLocality) Score(_ context.Context, _ fwk.CycleState, pod *corev1.Pod, node fwk.NodeInfo) (int64, *fwk.Status) {
	images := node.GetImageStates()
	if len(images) == 0 {
		return 0, nil
	}
	nodes, err := l.handle.SnapshotSharedLister().NodeInfos().List()
	if err != nil {
		return 0, fwk.AsStatus(fmt.Errorf("listing nodes: %w", err))
	}
	return score(pod, images, len(nodes)), nil
}

// ScoreExtensions implements fwk.ScorePlugin.
func (*ImageLocality) ScoreExtensions() fwk.ScoreExtensions { return nil }

func score(pod *corev1.Pod, onNode map[string]*fwk.ImageStateSummary, nodes int) int64 {
	var sum float64
	count := func(image string) {
		if i, ok := onNode[normalized(image)]; ok && nodes > 0 {
			sum += float64(i.Size) * float64(i.NumNodes) / float64(nodes)
		}
	}
	for i := range pod.Spec.InitContainers {
		count(pod.Spec.InitContainers[i].Image)
	}
	for i := range pod.Spec.Containers {
		count(pod.Spec.Containers[i].Image)
	}
	images := len(pod.Spec.Containers) + len(pod.Spec.InitContainers)
	for i := range pod.Spec.Volumes {
		if image := pod.Spec.Volumes[i].Image; image != nil {
			count(image.Reference)
			images++
		}
	}
	most := int64(maxContainerThreshold) * int64(images)
	size := min(max(int64(sum), minThreshold), most)
	if most <= minThreshold {
		return 0
	}
	return fwk.MaxScore * (size - minThreshold) / (most - minThreshold)
}

// normalized adds the tag that the container runtime assumes.
func normalized(image string) string {
	if strings.LastIndex(image, ":") <= strings.LastIndex(image, "/") {
		return image + ":latest"
	}
	return image
}
