// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-base/metrics"
	statsv1alpha1 "k8s.io/kubelet/pkg/apis/stats/v1alpha1"
	"k8s.io/utils/ptr"

	"minik8s.io/minik8s/pkg/kubelet/internal/observed"
	"minik8s.io/minik8s/pkg/kubelet/internal/podspec"
	"minik8s.io/minik8s/pkg/kubelet/internal/podworker"
)

var (
	runningPods       = desc("running_pods", "Number of pods that have a running pod sandbox")
	runningContainers = desc("running_containers", "Number of containers currently running", "container_state")
	desiredPods       = desc("desired_pods", "The number of pods the kubelet is being instructed to run. static is true if the pod is not from the apiserver.", "static")
	activePods        = desc("active_pods",
		"The number of pods the kubelet considers active and which are being considered when admitting new pods. static is true if the pod is not from the apiserver.", "static")
	mirrorPods  = desc("mirror_pods", "The number of mirror pods the kubelet will try to create (one per admitted static pod)")
	workingPods = desc("working_pods", "Number of pods the kubelet is actually running, broken down by lifecycle phase, whether the pod is "+
		"desired, orphaned, or runtime only (also orphaned), and whether the pod is static. An orphaned pod has been removed from local "+
		"configuration or force deleted in the API and consumes resources that are not otherwise visible.", "lifecycle", "config", "static")
	ephemeralContainers = desc("managed_ephemeral_containers", "Current number of ephemeral containers in pods managed by this kubelet.")
	pendingResizes      = desc("pod_pending_resizes", "Number of pending resizes for pods. "+priorityText+
		"Label 'reason' describes the state (deferred, infeasible).", "reason", "priority_bucket")
	resizesInProgress = desc("pod_in_progress_resizes", "Number of in-progress resizes for pods.")
)

// Pods tells how many pods the node has (pods, with their status), where they are in their lives (working), and what the engine has
// of them (view).
func (m *Metrics) Pods(pods func() []*corev1.Pod, working func() []podworker.State, view func() map[types.UID]*observed.Pod) {
	m.registry.CustomMustRegister(&constants{
		list: []*metrics.Desc{runningPods, runningContainers, desiredPods, activePods, mirrorPods, workingPods, ephemeralContainers, pendingResizes, resizesInProgress},
		collect: func(ch chan<- metrics.Metric) {
			sandboxes, states := engineCounts(view())
			ch <- metrics.NewLazyConstMetric(runningPods, metrics.GaugeValue, float64(sandboxes))
			for state, n := range states {
				ch <- metrics.NewLazyConstMetric(runningContainers, metrics.GaugeValue, float64(n), state)
			}
			all := pods()
			desired, active, ephemeral := podCounts(all)
			for _, static := range []string{"", "true"} {
				ch <- metrics.NewLazyConstMetric(desiredPods, metrics.GaugeValue, float64(desired[static]), static)
				ch <- metrics.NewLazyConstMetric(activePods, metrics.GaugeValue, float64(active[static]), static)
			}
			ch <- metrics.NewLazyConstMetric(mirrorPods, metrics.GaugeValue, float64(desired["true"]))
			for labels, n := range workingCounts(working()) {
				ch <- metrics.NewLazyConstMetric(workingPods, metrics.GaugeValue, float64(n), labels[:]...)
			}
			ch <- metrics.NewLazyConstMetric(ephemeralContainers, metrics.GaugeValue, float64(ephemeral))
			pending, running := resizeCounts(all)
			for labels, n := range pending {
				ch <- metrics.NewLazyConstMetric(pendingResizes, metrics.GaugeValue, float64(n), labels[:]...)
			}
			ch <- metrics.NewLazyConstMetric(resizesInProgress, metrics.GaugeValue, float64(running))
		},
	})
}

// engineCounts counts pods with a running sandbox, and containers by state.
func engineCounts(view map[types.UID]*observed.Pod) (sandboxes int, states map[string]int) {
	states = map[string]int{}
	for _, p := range view {
		if p.Sandbox() != nil {
			sandboxes++
		}
		for _, c := range p.Containers {
			states[string(c.State)]++
		}
	}
	return sandboxes, states
}

// workingCounts counts by the labels lifecycle, config and static. All that can be are there.
func workingCounts(states []podworker.State) map[[3]string]int {
	counts := map[[3]string]int{}
	for _, stage := range []podworker.Stage{podworker.Syncing, podworker.Terminating, podworker.Terminated} {
		for _, l := range [][2]string{{"desired", ""}, {"desired", "true"}, {"orphan", ""}, {"orphan", "true"}, {"runtime_only", "unknown"}} {
			counts[[3]string{lifecycle(stage), l[0], l[1]}] = 0
		}
	}
	for _, s := range states {
		config, static := "desired", staticLabel(s.Pod)
		switch {
		case s.Gone && len(s.Pod.Spec.Containers) == 0: // a leftover, of which nobody knows more than its name
			config, static = "runtime_only", "unknown"
		case s.Gone:
			config = "orphan"
		}
		counts[[3]string{lifecycle(s.Stage), config, static}]++
	}
	return counts
}

func lifecycle(s podworker.Stage) string {
	switch s {
	case podworker.Syncing:
		return "sync"
	case podworker.Terminating:
		return "terminating"
	}
	return "terminated"
}

// staticLabel is "true" or empty.
func staticLabel(p *corev1.Pod) string {
	if from := p.Annotations["kubernetes.io/config.source"]; from != "" && from != "api" {
		return "true"
	}
	return ""
}

// podCounts counts by the label static, which is "true" or empty.
func podCounts(pods []*corev1.Pod) (desired, active map[string]int, ephemeral int) {
	desired, active = map[string]int{}, map[string]int{}
	for _, p := range pods {
		static := staticLabel(p)
		desired[static]++
		if !podspec.IsTerminal(p) {
			active[static]++
		}
		ephemeral += len(p.Spec.EphemeralContainers)
	}
	return desired, active, ephemeral
}

// resizeCounts counts pods whose resize waits, by the labels reason and priority_bucket, and those whose resize is on its way.
func resizeCounts(pods []*corev1.Pod) (pending map[[2]string]int, running int) {
	pending = map[[2]string]int{}
	for _, p := range pods {
		for _, c := range p.Status.Conditions {
			switch {
			case c.Status != corev1.ConditionTrue:
			case c.Type == corev1.PodResizePending:
				pending[[2]string{strings.ToLower(c.Reason), priorityBucket(ptr.Deref(p.Spec.Priority, 0))}]++
			case c.Type == corev1.PodResizeInProgress:
				running++
			}
		}
	}
	return pending, running
}

func priorityBucket(p int32) string {
	switch {
	case p >= podspec.CriticalPriority:
		return "system-critical"
	case p >= 100_000:
		return "high"
	case p > 0:
		return "medium"
	case p == 0:
		return "normal"
	case p > -1000:
		return "low"
	}
	return "very-low"
}

// volumeMetrics are told of each volume that is backed by a claim, where they are known.
var volumeMetrics = []struct {
	desc *metrics.Desc
	get  func(*statsv1alpha1.FsStats) *uint64
}{
	{volumeDesc("capacity_bytes", "Capacity in bytes of the volume"), func(s *statsv1alpha1.FsStats) *uint64 { return s.CapacityBytes }},
	{volumeDesc("available_bytes", "Number of available bytes in the volume"), func(s *statsv1alpha1.FsStats) *uint64 { return s.AvailableBytes }},
	{volumeDesc("used_bytes", "Number of used bytes in the volume"), func(s *statsv1alpha1.FsStats) *uint64 { return s.UsedBytes }},
	{volumeDesc("inodes", "Maximum number of inodes in the volume"), func(s *statsv1alpha1.FsStats) *uint64 { return s.Inodes }},
	{volumeDesc("inodes_free", "Number of free inodes in the volume"), func(s *statsv1alpha1.FsStats) *uint64 { return s.InodesFree }},
	{volumeDesc("inodes_used", "Number of used inodes in the volume"), func(s *statsv1alpha1.FsStats) *uint64 { return s.InodesUsed }},
}

func volumeDesc(name, help string) *metrics.Desc {
	return desc("volume_stats_"+name, help, "namespace", "persistentvolumeclaim")
}

// Volumes tells of volumes that are backed by claims, each claim once.
func (m *Metrics) Volumes(volumes func() []statsv1alpha1.VolumeStats) {
	c := &constants{collect: func(ch chan<- metrics.Metric) {
		told := map[statsv1alpha1.PVCReference]bool{}
		for _, v := range volumes() {
			if v.PVCRef == nil || told[*v.PVCRef] {
				continue
			}
			told[*v.PVCRef] = true
			for _, f := range volumeMetrics {
				if n := f.get(&v.FsStats); n != nil {
					ch <- metrics.NewLazyConstMetric(f.desc, metrics.GaugeValue, float64(*n), v.PVCRef.Namespace, v.PVCRef.Name)
				}
			}
		}
	}}
	for _, f := range volumeMetrics {
		c.list = append(c.list, f.desc)
	}
	m.registry.CustomMustRegister(c)
}
