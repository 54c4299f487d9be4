// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package kubelet

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"

	"minik8s.io/minik8s/pkg/kubelet/container"
	"minik8s.io/minik8s/pkg/kubelet/internal/cadvisor"
	"minik8s.io/minik8s/pkg/kubelet/internal/diskusage"
	"minik8s.io/minik8s/pkg/kubelet/internal/launch"
	"minik8s.io/minik8s/pkg/kubelet/internal/pluginregistration"
	"minik8s.io/minik8s/pkg/kubelet/internal/podsync"
	"minik8s.io/minik8s/pkg/kubelet/internal/stats"
	"minik8s.io/minik8s/pkg/kubelet/internal/volume"
)

// parts are what needs the engine or the machine, so that tests can replace them.
type parts struct {
	images podsync.Images
	// free finds an image that any pod may have.
	free        func(ctx context.Context, image string) (*container.Image, error)
	volumes     volumes
	cgroups     cgroups
	hostPorts   hostPorts
	resources   func(*corev1.Pod, *corev1.Container) container.Resources
	oomScoreAdj func(*corev1.Pod, *corev1.Container) int
	// usage is what the cgroups say of pods and containers; nil if it is not known.
	usage stats.Usage
	// groups tells all of them; nil if they are not known.
	groups cadvisor.Groups
	// node is what eviction observes.
	node observer
	// garbage are the images that may be removed.
	garbage garbage
}

// garbage are images that this kubelet has brought to the node; see image.Collector.
type garbage interface {
	Collect(ctx context.Context, bytes int64) (freed int64, err error)
	Start(ctx context.Context, events record.EventRecorder, node *corev1.ObjectReference)
}

type volumes interface {
	podsync.Volumes
	launch.Volumes
	Start(ctx context.Context) error
	// Changed delivers pods of which a volume's source has changed.
	Changed() <-chan types.UID
	// Counts are how many volumes pods are to have and have, by plugin.
	Counts() (desired, actual map[string]int)
	// CertificateStates are how many certificates pods have in volumes, by signer and state.
	CertificateStates() map[[2]string]int
	// Places are where the volumes of a pod are whose use is told.
	Places(*corev1.Pod) []volume.Place
	// Drivers registers CSI drivers.
	Drivers() pluginregistration.Handler
	// VolumesInUse are those that must not be detached, Told which of them the API server knows of.
	VolumesInUse() []corev1.UniqueVolumeName
	Told(names []corev1.UniqueVolumeName)
	// Pods are those that have volumes on disk.
	Pods() ([]types.UID, error)
	// Usage measures those of a pod that are on disk and go with it; beside an error it is what could be counted.
	Usage(ctx context.Context, pod *corev1.Pod) (map[string]diskusage.Usage, error)
}

type cgroups interface {
	podsync.Cgroups
	// LimitPods sets what all pods together may use; what is zero is not limited.
	LimitPods(r container.Resources) error
	// Pods are those that have a cgroup.
	Pods() ([]types.UID, error)
}

type hostPorts interface {
	podsync.HostPorts
	Retain(keep map[types.UID]bool) error
}
