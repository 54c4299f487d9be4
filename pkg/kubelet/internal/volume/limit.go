// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package volume

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"

	"minik8s.io/minik8s/pkg/kubelet/internal/podworker"
	"minik8s.io/minik8s/pkg/kubelet/internal/status"
	"minik8s.io/minik8s/pkg/kubelet/internal/volume/plugin"
)

// Life ends pods by fail that need a volume which cannot be attached, for the node has as many as it takes; others go on as in life.
func Life(life podworker.Life, fail func(context.Context, *corev1.Pod, status.Failure)) podworker.Life {
	return &limited{Life: life, fail: fail}
}

type limited struct {
	podworker.Life
	fail func(context.Context, *corev1.Pod, status.Failure)
}

// Sync implements podworker.Life.
func (l *limited) Sync(ctx context.Context, pod *corev1.Pod) (podworker.Result, error) {
	result, err := l.Life.Sync(ctx, pod)
	limit, is := errors.AsType[*plugin.AttachLimitError](err)
	if !is {
		return result, err
	}
	l.fail(ctx, pod, status.Failure{Reason: "VolumeAttachmentLimitExceeded", Message: limit.Error(), Final: true})
	return l.Life.Sync(ctx, pod)
}
