// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package volume

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/storage/ephemeral"
	statsv1alpha1 "k8s.io/kubelet/pkg/apis/stats/v1alpha1"
)

// Place is where a volume of a pod lies on the node.
type Place struct {
	// Name is that in the pod's spec, Path what is mounted into containers.
	Name, Path string
	// Claim is the claim in the pod's namespace that the volume is of, "" if there is none. Then Path is a tree of the pod's own.
	Claim string
	// Alone: it has a file system to itself, as far as that can be known.
	Alone bool
	// Ask asks who provides the volume for its figures; nil if they are those of the files at Path.
	Ask func(context.Context) (statsv1alpha1.FsStats, error)
}

// Places are those of the volumes whose use is told, as upstream's: not of hostPath, which is the node's, nor of images, which are
// the engine's. They need not exist.
func (m *Manager) Places(pod *corev1.Pod) []Place {
	var out []Place
	for v := range used(pod) {
		p := m.plugin(v)
		if p == nil || v.HostPath != nil || v.Image != nil {
			continue
		}
		place := Place{Name: v.Name, Path: p.HostPath(m.mount(pod, v, p, nil)), Alone: v.NFS != nil}
		switch {
		case v.PersistentVolumeClaim != nil:
			place.Claim, place.Alone = v.PersistentVolumeClaim.ClaimName, true
		case v.Ephemeral != nil:
			place.Claim, place.Alone = ephemeral.VolumeClaimName(pod, v), true
		}
		place.Ask = m.csi.Stats(pod.UID, place.Path)
		out = append(out, place)
	}
	return out
}
