// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package kubelet

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"minik8s.io/minik8s/pkg/kubelet/internal/podspec"
	"minik8s.io/minik8s/pkg/kubelet/internal/podworker"
	"minik8s.io/minik8s/pkg/kubelet/internal/status"
)

// pods are those that this node has taken, with the status that it has last computed.
type pods struct {
	workers *podworker.Workers
	status  *status.Manager
}

// All are all of them.
func (p *pods) All() []*corev1.Pod {
	taken := p.workers.Pods()
	out := make([]*corev1.Pod, 0, len(taken))
	for _, pod := range taken {
		newest := *pod
		newest.Status = p.status.Base(pod)
		out = append(out, &newest)
	}
	return out
}

// Active are those that run, or are to run, or are ending. The scheduler counts on what a pod has left as soon as its end is
// reported, which the watch here brings back later: the newest status counts. It does so, too, once the API has the pod no more, be it
// that somebody has forced its deletion: who comes in its place is taken while it ends, as upstream's kubelet does.
func (p *pods) Active() []*corev1.Pod {
	var out []*corev1.Pod
	for _, s := range p.workers.States() {
		if s.Gone || s.Stage >= podworker.Terminated {
			continue
		}
		newest := *s.Pod
		newest.Status = p.status.Base(s.Pod)
		if !podspec.IsTerminal(&newest) {
			out = append(out, s.Pod)
		}
	}
	return out
}

// Stopped says whether nothing of a pod is left but what its status tells of.
func (p *pods) Stopped(uid types.UID) bool {
	stage, known := p.workers.Stage(uid)
	return !known || stage >= podworker.Finished
}
