// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package kubelet

import (
	"context"
	"fmt"
	"io"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kubeletconfigv1beta1 "k8s.io/kubelet/config/v1beta1"
	statsv1alpha1 "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"minik8s.io/minik8s/pkg/kubelet/configuration"
	"minik8s.io/minik8s/pkg/kubelet/container"
	"minik8s.io/minik8s/pkg/kubelet/internal/observed"
	"minik8s.io/minik8s/pkg/kubelet/internal/pleg"
	"minik8s.io/minik8s/pkg/kubelet/internal/server"
	"minik8s.io/minik8s/pkg/kubelet/internal/stats"
)

// host is the kubelet as its HTTP API sees it.
type host struct {
	pods          func() []*corev1.Pod
	translate     func(types.UID) types.UID
	pleg          *pleg.PLEG
	runtime       container.Runtime
	stats         *stats.Collector
	healthy       func() error
	configuration *kubeletconfigv1beta1.KubeletConfiguration
}

var _ server.Host = (*host)(nil)

func (h *host) Pods() []*corev1.Pod { return h.pods() }

func (h *host) TranslateUID(uid types.UID) types.UID { return h.translate(uid) }

func (h *host) RunningPods(ctx context.Context) ([]*corev1.Pod, error) {
	if err := h.pleg.Relist(ctx); err != nil {
		return nil, err
	}
	var out []*corev1.Pod
	for uid, p := range h.pleg.Pods() {
		if fresh, err := h.pleg.Pod(ctx, uid); err == nil {
			p = fresh
		}
		if p.Sandbox() == nil && len(p.Alive()) == 0 {
			continue
		}
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: p.UID, Namespace: p.Namespace, Name: p.Name}}
		for _, c := range p.Alive() {
			pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: c.Name, Image: c.ImageRef})
		}
		out = append(out, pod)
	}
	return out, nil
}

// find looks in the view of the pod, and after a new listing if what is asked for is not there: it may have just started.
func find[T any](ctx context.Context, h *host, pod types.UID, pick func(*observed.Pod) (T, bool)) (T, error) {
	for again := false; ; again = true {
		obs, err := h.pleg.Pod(ctx, pod)
		if v, ok := pick(obs); ok && err == nil {
			return v, nil
		}
		if err == nil && again {
			err = container.ErrNotFound
		}
		if err == nil {
			err = h.pleg.Relist(ctx)
		}
		if err != nil {
			var zero T
			return zero, err
		}
	}
}

func (h *host) RunningContainer(ctx context.Context, pod types.UID, name string) (string, error) {
	id, err := find(ctx, h, pod, func(p *observed.Pod) (string, bool) {
		l := p.Latest(name)
		if l == nil || l.State != container.StateRunning {
			return "", false
		}
		return l.ID, true
	})
	if err != nil {
		return "", fmt.Errorf("finding running container %q: %w", name, err)
	}
	return id, nil
}

func (h *host) Logs(ctx context.Context, id string, o container.LogOptions, stdout, stderr io.Writer) error {
	return h.runtime.Logs(ctx, id, o, stdout, stderr)
}

func (h *host) Exec(ctx context.Context, id string, o container.ExecOptions) (int, error) {
	return h.runtime.Exec(ctx, id, o)
}

func (h *host) Attach(ctx context.Context, id string, o container.AttachOptions) error {
	return h.runtime.Attach(ctx, id, o)
}

func (h *host) PortForward(ctx context.Context, pod types.UID, port int32, stream io.ReadWriteCloser) error {
	id, err := find(ctx, h, pod, func(p *observed.Pod) (string, bool) {
		if sb := p.Sandbox(); sb != nil {
			return sb.ID, true
		}
		return "", false
	})
	if err != nil {
		return fmt.Errorf("finding sandbox to forward to: %w", err)
	}
	return h.runtime.PortForward(ctx, id, port, stream)
}

func (h *host) Stats(ctx context.Context, onlyCPUAndMemory bool) (*statsv1alpha1.Summary, error) {
	return h.stats.Summary(ctx, onlyCPUAndMemory)
}

// Configz tells the settings, but for what may be secret.
func (h *host) Configz() any { return configuration.Masked(h.configuration) }

func (h *host) Healthy() error { return h.healthy() }
