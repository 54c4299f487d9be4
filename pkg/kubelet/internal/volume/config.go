// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package volume makes the directories that pods see as volumes and takes them away again; touch it to change what all
// kinds of volumes share, or to list a new one (a folder below).
package volume

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"

	"minik8s.io/minik8s/pkg/kubelet/internal/volume/csi"
)

// Operations is told of what is done about volumes, "volume_mount" and "volume_unmount", of how long it took until a pod had one that it
// was to have, with all attempts and waits, of images that are mounted into a container, and of calls of CSI drivers. Its methods do not
// block.
type Operations interface {
	StorageOperation(plugin, operation string, took time.Duration, err error)
	VolumeMounted(plugin string, took time.Duration)
	ImageMounted(err error)
	csi.Calls
}

// Config is what a Manager is made from.
type Config struct {
	// RootDir is the kubelet's directory; pods live in its folder "pods". Required, absolute.
	RootDir string
	// NodeName is the node's.
	NodeName string
	// Client reads config maps and secrets and requests service account tokens. Required.
	Client kubernetes.Interface
	// Recorder is where a plugin tells what is no error of a volume, such as a certificate that is not renewed. Errors are
	// returned, and whoever calls Mount writes the event FailedMount. nil: nobody is told.
	Recorder record.EventRecorder
	// ImageLayers are the directories that an image is made of: see container.Runtime. nil means that the engine mounts images.
	ImageLayers func(ctx context.Context, id string) ([]string, error)
	// Clock is the real one if nil.
	Clock clock.Clock
	// Node is this node, which volumes may have an affinity to. nil, or what returns nil, means that it is not known.
	Node func() *corev1.Node
	// InUse is called when the answer of VolumesInUse has changed. It must not block. nil: nobody is told.
	InUse func()
	// Operations is told of what is done about volumes. nil: nobody is told.
	Operations Operations
	// NodeAllocatable stands in for missing limits in downward API volumes. nil means nothing is known.
	NodeAllocatable func() corev1.ResourceList
}
