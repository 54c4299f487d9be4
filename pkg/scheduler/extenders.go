// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"minik8s.io/minik8s/pkg/scheduler/framework"
)

// byExtender stands for all extenders among the plugins that rejected a pod. They declare no events, so that any may help.
const byExtender = "Extender"

// extend lets extenders refuse feasible nodes, one after the other, and records
// their reasons.
func extend(ctx context.Context, extenders []fwk.Extender, pod *corev1.Pod, feasible []fwk.NodeInfo, statuses *framework.NodeStatuses) ([]fwk.NodeInfo, error) {
	for _, e := range extenders {
		if len(feasible) == 0 {
			break
		}
		if !e.IsFilter() || !e.IsInterested(pod) {
			continue
		}
		left, failed, unresolvable, err := e.Filter(pod, feasible)
		if err != nil {
			if e.IsIgnorable() {
				klog.FromContext(ctx).Error(err, "Skipping an ignorable extender that failed to filter", "extender", e.Name(), "pod", klog.KObj(pod))
				continue
			}
			return nil, fmt.Errorf("asking extender %q for nodes: %w", e.Name(), err)
		}
		for node, why := range failed {
			statuses.Set(node, fwk.NewStatus(fwk.Unschedulable, why).WithPlugin(byExtender))
		}
		for node, why := range unresolvable {
			statuses.Set(node, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, why).WithPlugin(byExtender))
		}
		feasible = left
	}
	return feasible, nil
}

// prioritize adds what extenders think of nodes, all asked at once. One that
// fails has no say.
func (s *Scheduler) prioritize(ctx context.Context, extenders []fwk.Extender, pod *corev1.Pod, nodes []fwk.NodeInfo, total []int64) {
	var mu sync.Mutex
	var asked sync.WaitGroup
	sum := map[string]int64{}
	for _, e := range extenders {
		if !e.IsPrioritizer() || !e.IsInterested(pod) {
			continue
		}
		asked.Go(func() {
			s.metrics.Running("prioritizing_extender", 1)
			defer s.metrics.Running("prioritizing_extender", -1)
			list, weight, err := e.Prioritize(pod, nodes)
			if err != nil {
				klog.FromContext(ctx).Error(err, "An extender failed to score nodes", "extender", e.Name(), "pod", klog.KObj(pod))
				return
			}
			mu.Lock()
			defer mu.Unlock()
			for _, h := range *list {
				// Scores of extenders end at a tenth of those of plugins.
				sum[h.Host] += h.Score * weight * (fwk.MaxScore / extenderv1.MaxExtenderPriority)
			}
		})
	}
	asked.Wait()
	if len(sum) > 0 {
		for i, n := range nodes {
			total[i] += sum[n.Node().Name]
		}
	}
}
