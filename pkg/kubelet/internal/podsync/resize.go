// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package podsync

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"minik8s.io/minik8s/pkg/kubelet/internal/podspec"
	"minik8s.io/minik8s/pkg/kubelet/internal/snapshot"
)

// resize brings running containers to the resources that the spec asks for now, without restarting them.
func (s *Syncer) resize(ctx context.Context, look *snapshot.Pod) {
	for _, c := range look.Containers() {
		if c.Resize == nil || c.Resize.Restart {
			continue
		}
		if err := s.cfg.Runtime.UpdateContainer(ctx, c.Latest.ID, c.Resize.Want); err != nil && ctx.Err() == nil {
			s.cfg.Recorder.Event(podspec.Ref(look.Pod, c.Spec.Name), corev1.EventTypeWarning, "ResizeError",
				fmt.Sprintf("Error updating container resources: %v", err))
		}
	}
}
