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

	"minik8s.io/minik8s/pkg/scheduler/framework"
)

// Name of the plugin.
const (
	Name = "ImageLocality"

	scoreKey = "PreScore" + Name
)

// Sizes, in bytes, between which the score grows from 0 to MaxNodeScore; the
// upper one is per image.
const (
	minThreshold          = 23 * 1024 * 1024
	maxContainerThreshold = 1000 * 1024 * 1024
)

// most is of how many images of a pod it is asked whether a node has them.
const most = 62

// ImageLocality is the plugin.
type ImageLocality struct {
	handle fwk.Handle
}

var (
	_ fwk.PreScorePlugin  = (*ImageLocality)(nil)
	_ fwk.ScorePlugin     = (*ImageLocality)(nil)
	_ framework.NodeLocal = (*ImageLocality)(nil)
)

// New returns the plugin.
func New(_ context.Context, _ runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
	return &ImageLocality{handle: h}, nil
}

// Name returns the plugin's name.
func (*ImageLocality) Name() string { return Name }

// images are those of a pod, one as often as the pod needs it.
type images []string

// Clone returns the images themselves, which never change.
func (i images) Clone() fwk.StateData { return i }

func imagesOf(pod *corev1.Pod) (out images) {
	for i := range pod.Spec.InitContainers {
		out = append(out, normalized(pod.Spec.InitContainers[i].Image))
	}
	for i := range pod.Spec.Containers {
		out = append(out, normalized(pod.Spec.Containers[i].Image))
	}
	for i := range pod.Spec.Volumes {
		if image := pod.Spec.Volumes[i].Image; image != nil {
			out = append(out, normalized(image.Reference))
		}
	}
	return out
}

// of are the images of the pod of a cycle.
func of(state fwk.CycleState, pod *corev1.Pod) images {
	if i, ok := framework.ReadState[images](state, scoreKey); ok {
		return i
	}
	return imagesOf(pod)
}

// PreScore notes the images.
func (*ImageLocality) PreScore(_ context.Context, state fwk.CycleState, pod *corev1.Pod, _ []fwk.NodeInfo) *fwk.Status {
	state.Write(scoreKey, imagesOf(pod))
	return nil
}

// AppendSignature implements framework.NodeLocal.
func (*ImageLocality) AppendSignature(to []byte, pod *framework.PodInfo) ([]byte, bool) {
	for _, image := range imagesOf(pod.Pod) {
		to = fmt.Appendf(to, "%q,", image)
	}
	return to, true
}

// Score tells which of the images a node has: the lowest bit is for the first one. What that is worth depends on all other nodes.
func (*ImageLocality) Score(_ context.Context, state fwk.CycleState, pod *corev1.Pod, node fwk.NodeInfo) (int64, *fwk.Status) {
	there := node.GetImageStates()
	if len(there) == 0 {
		return 0, nil
	}
	var has int64
	for i, image := range of(state, pod) {
		if _, ok := there[image]; ok && i < most {
			has |= 1 << i
		}
	}
	return has, nil
}

// ScoreExtensions implements fwk.ScorePlugin.
func (l *ImageLocality) ScoreExtensions() fwk.ScoreExtensions { return l }

// NormalizeScore makes the score grow with the size of the pod's images on a node. An image counts by the share of nodes that have
// it, lest all pods of it end up on one node.
func (l *ImageLocality) NormalizeScore(_ context.Context, state fwk.CycleState, pod *corev1.Pod, scores fwk.NodeScoreList) *fwk.Status {
	nodes := l.handle.SnapshotSharedLister().NodeInfos()
	all, err := nodes.List()
	if err != nil {
		return fwk.AsStatus(fmt.Errorf("listing nodes: %w", err))
	}
	wanted, worth := of(state, pod), map[int64]int64{0: 0}
	for i, s := range scores {
		w, ok := worth[s.Score]
		if !ok {
			// Which node is asked does not matter: they share what is known of an image.
			n, err := nodes.Get(s.Name)
			if err != nil {
				return fwk.AsStatus(fmt.Errorf("looking for the images of a node: %w", err))
			}
			w = value(wanted, s.Score, n.GetImageStates(), len(all))
			worth[s.Score] = w
		}
		scores[i].Score = w
	}
	return nil
}

// value is what it is worth to have some of the images.
func value(wanted images, has int64, known map[string]*fwk.ImageStateSummary, nodes int) int64 {
	var sum float64
	for i, image := range wanted {
		if summary := known[image]; summary != nil && i < most && has&(1<<i) != 0 {
			sum += float64(summary.Size) * float64(summary.NumNodes) / float64(nodes)
		}
	}
	all := int64(maxContainerThreshold) * int64(len(wanted))
	size := min(max(int64(sum), minThreshold), all)
	if all <= minThreshold {
		return 0
	}
	return fwk.MaxScore * (size - minThreshold) / (all - minThreshold)
}

// normalized adds the tag that the container runtime assumes.
func normalized(image string) string {
	if strings.LastIndex(image, ":") <= strings.LastIndex(image, "/") {
		return image + ":latest"
	}
	return image
}
