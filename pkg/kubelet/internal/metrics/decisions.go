// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-base/metrics"
)

// decisions count what the kubelet has decided about pods, and other things that it does for the node.
type decisions struct {
	evictions, preemptions, rejections *metrics.CounterVec
	evictionAge                        *metrics.HistogramVec
	restarted                          *metrics.CounterVec
	orphaned, sleepsEnded, fallbacks   *metrics.Counter
	imagesCollected                    *metrics.CounterVec
	imagesEnsured                      *metrics.CounterVec
	imagePulls                         *metrics.HistogramVec
	shutdownStart, shutdownEnd         *metrics.Gauge
	cgroupVersion                      *metrics.Gauge
}

func (m *Metrics) newDecisions() decisions {
	d := decisions{
		evictions:   m.counterVec("evictions", "Cumulative number of pod evictions by eviction signal", "eviction_signal"),
		preemptions: m.counterVec("preemptions", "Cumulative number of pod preemptions by preemption resource", "preemption_signal"),
		rejections:  m.counterVec("admission_rejections_total", "Cumulative number pod admission rejections by the Kubelet.", "reason"),
		evictionAge: m.histogramVec("eviction_stats_age_seconds",
			"Time between when stats are collected, and when pod is evicted based on those stats by eviction signal", metrics.DefBuckets, "eviction_signal"),
		restarted: m.counterVec("restarted_pods_total", "Number of pods that have been restarted because they were deleted and recreated with "+
			"the same UID while the kubelet was watching them (common for static pods, extremely uncommon for API pods)", "static"),
		orphaned: m.counter("orphaned_runtime_pods_total", "Number of pods that have been detected in the container runtime without being "+
			"already known to the pod worker. This typically indicates the kubelet was restarted while a pod was force deleted in the API or "+
			"in the local configuration, which is unusual."),
		sleepsEnded: m.counter("sleep_action_terminated_early_total", "The number of times lifecycle sleep handler got terminated before it finishes"),
		fallbacks:   m.counter("lifecycle_handler_http_fallbacks_total", "The number of times lifecycle handlers successfully fell back to http from https."),
		imagesCollected: m.counterVec("image_garbage_collected_total",
			"Total number of images garbage collected by the kubelet, whether through disk usage or image age.", "reason"),
		imagesEnsured: m.counterVec("image_manager_ensure_image_requests_total", "Number of ensure-image requests processed by the kubelet.",
			"pull_policy", "present_locally", "pull_required"),
		imagePulls: m.histogramVec("image_pull_duration_seconds", "Duration in seconds to pull an image.",
			[]float64{1, 5, 10, 20, 30, 60, 120, 180, 240, 300, 360, 480, 600, 900, 1200, 1800, 2700, 3600}, "image_size_in_bytes"),
		cgroupVersion: m.gauge("cgroup_version", "cgroup version on the hosts."),
		shutdownStart: m.gauge("graceful_shutdown_start_time_seconds", "Last graceful shutdown start time since unix epoch in seconds"),
		shutdownEnd:   m.gauge("graceful_shutdown_end_time_seconds", "Last graceful shutdown end time since unix epoch in seconds"),
	}
	for _, static := range []string{"", "true"} {
		d.restarted.WithLabelValues(static).Add(0)
	}
	return d
}

// Evicted notes that a pod was ended for a signal, by what was observed then; the zero time if it was not the node that was observed.
func (m *Metrics) Evicted(signal string, observed time.Time) {
	m.evictions.WithLabelValues(signal).Inc()
	if !observed.IsZero() {
		m.evictionAge.WithLabelValues(signal).Observe(m.clock.Since(observed).Seconds())
	}
}

// Preempted notes that a pod was ended for a critical one, which was short of a resource.
func (m *Metrics) Preempted(resource string) { m.preemptions.WithLabelValues(resource).Inc() }

// rejections are the reasons that are told, so that there are no more series than these.
var rejections = []string{
	"AppArmor", "PodOSSelectorNodeLabelDoesNotMatch", "PodOSNotSupported", "InvalidNodeInfo", "InitContainerRestartPolicyForbidden",
	"SupplementalGroupsPolicyNotSupported", "UnexpectedAdmissionError", "UnknownReason", "UnexpectedPredicateFailureType", "OutOfcpu",
	"OutOfmemory", "OutOfephemeral-storage", "OutOfpods", "PodLevelResourcesNotSupported", "PodFeatureUnsupported", "node(s) had taints that the pod didn't tolerate",
	"Evicted", "SysctlForbidden", "TopologyAffinityError", "NodeShutdown", "VolumeAttachmentLimitExceeded",
}

// Rejected notes that the node has not taken a pod.
func (m *Metrics) Rejected(reason string) {
	switch {
	case slices.Contains(rejections, reason):
	case strings.HasPrefix(reason, "OutOf"):
		reason = "OutOfExtendedResources"
	default:
		reason = "Other"
	}
	m.rejections.WithLabelValues(reason).Inc()
}

// Restarted notes that a pod runs again under the UID of one that has left.
func (m *Metrics) Restarted(static bool) {
	label := ""
	if static {
		label = "true"
	}
	m.restarted.WithLabelValues(label).Inc()
}

// Orphaned notes that the engine has a pod that nobody knows.
func (m *Metrics) Orphaned() { m.orphaned.Inc() }

// SleepEnded notes that a hook could not sleep as long as it was to.
func (m *Metrics) SleepEnded() { m.sleepsEnded.Inc() }

// HookFellBack notes that a hook by HTTPS was answered by HTTP only.
func (m *Metrics) HookFellBack() { m.fallbacks.Inc() }

// ImageCollected notes that an unused image was removed; the reason is "space" or "age".
func (m *Metrics) ImageCollected(reason string) { m.imagesCollected.WithLabelValues(reason).Inc() }

// ImageEnsured notes that a pod was to have an image, whether that was here, and whether it had to be pulled.
func (m *Metrics) ImageEnsured(policy corev1.PullPolicy, present, required string) {
	m.imagesEnsured.WithLabelValues(strings.ToLower(string(policy)), present, required).Inc()
}

// ImagePulling notes that a pull for a pod begins, or waits for its turn.
func (m *Metrics) ImagePulling(pod types.UID) {
	m.starts.mu.Lock()
	defer m.starts.mu.Unlock()
	if s := m.starts.all[pod]; s != nil && s.pulling.IsZero() {
		s.pulling = m.clock.Now()
	}
}

// ImagePulled notes how long a pull for a pod took, with the wait for its turn. size is in bytes.
func (m *Metrics) ImagePulled(pod types.UID, size int64, took time.Duration) {
	m.imagePulls.WithLabelValues(sizeLabel(size)).Observe(took.Seconds())
	m.starts.mu.Lock()
	defer m.starts.mu.Unlock()
	if s := m.starts.all[pod]; s != nil {
		s.pulled = m.clock.Now()
	}
}

// sizeLabel is upstream's label for images of a size: more than the lower bound.
func sizeLabel(size int64) string {
	const mega, giga = 1 << 20, 1 << 30
	label := "N/A"
	for _, b := range []struct {
		above int64
		label string
	}{
		{0, "0-10MB"}, {10 * mega, "10MB-100MB"}, {100 * mega, "100MB-500MB"}, {500 * mega, "500MB-1GB"}, {giga, "1GB-5GB"}, {5 * giga, "5GB-10GB"},
		{10 * giga, "10GB-20GB"}, {20 * giga, "20GB-30GB"}, {30 * giga, "30GB-40GB"}, {40 * giga, "40GB-60GB"}, {60 * giga, "60GB-100GB"}, {100 * giga, "GT100GB"},
	} {
		if size > b.above {
			label = b.label
		}
	}
	return label
}

// CgroupVersion tells which version of cgroups the node has.
func (m *Metrics) CgroupVersion(version int) { m.cgroupVersion.Set(float64(version)) }

// Shutdown notes when the last graceful shutdown has begun, and when all pods had ended; the zero time while that is not so.
func (m *Metrics) Shutdown(start, end time.Time) {
	seconds := func(t time.Time) float64 {
		if t.IsZero() {
			return 0
		}
		return float64(t.UnixNano()) / float64(time.Second)
	}
	m.shutdownStart.Set(seconds(start))
	m.shutdownEnd.Set(seconds(end))
}
