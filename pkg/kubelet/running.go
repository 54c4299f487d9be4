// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package kubelet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"minik8s.io/minik8s/pkg/kubelet/configuration"
	"minik8s.io/minik8s/pkg/kubelet/container"
	"minik8s.io/minik8s/pkg/kubelet/internal/admission"
	"minik8s.io/minik8s/pkg/kubelet/internal/cadvisor"
	"minik8s.io/minik8s/pkg/kubelet/internal/eviction"
	"minik8s.io/minik8s/pkg/kubelet/internal/nodeshutdown"
	"minik8s.io/minik8s/pkg/kubelet/internal/podworker"
	"minik8s.io/minik8s/pkg/kubelet/internal/source"
	"minik8s.io/minik8s/pkg/kubelet/internal/stats"
	"minik8s.io/minik8s/pkg/kubelet/internal/volume"
)

// running is what there is once the engine has answered.
type running struct {
	pods
	parts    *parts
	intake   *source.Intake
	eviction *eviction.Manager
	// shutdown is nil if pods do not end before the machine goes down.
	shutdown *nodeshutdown.Manager
}

// SaveImage writes an image of this node that any of its pods may have, whatever its logins, as an archive. fs.ErrNotExist: there is
// none, and nothing is written.
func (k *Kubelet) SaveImage(ctx context.Context, image string, w io.Writer) error {
	r := k.running.Load()
	if r == nil {
		return fmt.Errorf("looking for image %q: the node has not started", image)
	}
	_, err := r.parts.free(ctx, image)
	if err == nil {
		err = k.cfg.Runtime.SaveImage(ctx, image, w)
	}
	if errors.Is(err, container.ErrNotFound) {
		return fmt.Errorf("%w: %w", fs.ErrNotExist, err)
	}
	return err
}

// taken are the pods of this node, none before pods are taken.
func (k *Kubelet) taken() []*corev1.Pod {
	if r := k.running.Load(); r != nil {
		return r.All()
	}
	return nil
}

// working are likewise those of the workers.
func (k *Kubelet) working() []podworker.State {
	if r := k.running.Load(); r != nil {
		return r.workers.States()
	}
	return nil
}

// intake is nil before pods are taken.
func (k *Kubelet) intake() *source.Intake {
	if r := k.running.Load(); r != nil {
		return r.intake
	}
	return nil
}

// pressure are the conditions that the node is under.
func (k *Kubelet) pressure() []corev1.NodeConditionType {
	if r := k.running.Load(); r != nil {
		return r.eviction.Conditions()
	}
	return nil
}

// features are what admission asks of the node.
func (k *Kubelet) features() admission.Features {
	return admission.Features{
		AppArmor: k.resources.Host.AppArmor(), UnsafeSysctls: k.cfg.Configuration.AllowedUnsafeSysctls, Pressure: k.pressure(),
		ShuttingDown: k.shuttingDown() != nil, PodLevelResources: configuration.Enabled(k.cfg.Configuration, configuration.PodLevelResources),
	}
}

// wake has a pod looked at.
func (k *Kubelet) wake(uid types.UID) {
	if r := k.running.Load(); r != nil {
		r.workers.Wake(uid)
	}
}

// places are where the volumes of a pod are whose use is told.
func (k *Kubelet) places(pod *corev1.Pod) []volume.Place {
	if r := k.running.Load(); r != nil {
		return r.parts.volumes.Places(pod)
	}
	return nil
}

// usage is nil until the engine has told of its cgroups.
func (k *Kubelet) usage() stats.Usage {
	if r := k.running.Load(); r != nil {
		return r.parts.usage
	}
	return nil
}

// groups is nil likewise.
func (k *Kubelet) groups() cadvisor.Groups {
	if r := k.running.Load(); r != nil {
		return r.parts.groups
	}
	return nil
}

// volumesInUse are those of the node's status, nil while they are not known.
func (k *Kubelet) volumesInUse() []corev1.UniqueVolumeName {
	if r := k.running.Load(); r != nil {
		return r.parts.volumes.VolumesInUse()
	}
	return nil
}

// told is what volumesInUse returned and the API server has got.
func (k *Kubelet) told(names []corev1.UniqueVolumeName) {
	if r := k.running.Load(); r != nil {
		r.parts.volumes.Told(names)
	}
}
