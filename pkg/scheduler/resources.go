// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	corelisters "k8s.io/client-go/listers/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"
)

// ResourcesPath is where the API server serves what a scheduler has registered by
// Config.Resources: a path of its own, as upstream's, because there is a line for
// each pod and resource.
const ResourcesPath = "/metrics/resources"

var resourceLabels = []string{"namespace", "pod", "node", "scheduler", "priority", "resource", "unit"}

var (
	podRequest = prometheus.NewDesc("kube_pod_resource_request", "[STABLE] Resources requested by workloads on the cluster, broken down by pod. "+
		"This shows the resource usage the scheduler and kubelet expect per pod for resources along with the unit for the resource if any.", resourceLabels, nil)
	podLimit = prometheus.NewDesc("kube_pod_resource_limit", "[STABLE] Resources limit for workloads on the cluster, broken down by pod. "+
		"This shows the resource usage the scheduler and kubelet expect per pod for resources along with the unit for the resource if any.", resourceLabels, nil)
)

// podResources tells what each pod asks for and may use, from the scheduler's
// informer at the moment of a scrape.
type podResources struct{ pods corelisters.PodLister }

// Describe implements prometheus.Collector.
func (podResources) Describe(out chan<- *prometheus.Desc) {
	out <- podRequest
	out <- podLimit
}

// Collect implements prometheus.Collector.
func (r podResources) Collect(out chan<- prometheus.Metric) {
	pods, err := r.pods.List(labels.Everything())
	if err != nil {
		return // of an informer, which does not fail
	}
	requests, limits := corev1.ResourceList{}, corev1.ResourceList{}
	for _, pod := range pods {
		if pod.Spec.NodeName != "" && terminal(pod) {
			continue
		}
		requests = resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{Reuse: requests})
		limits = resourcehelper.PodLimits(pod, resourcehelper.PodResourcesOptions{Reuse: limits})
		tell(out, podRequest, pod, requests)
		tell(out, podLimit, pod, limits)
	}
}

func tell(out chan<- prometheus.Metric, desc *prometheus.Desc, pod *corev1.Pod, list corev1.ResourceList) {
	priority := ""
	if p := pod.Spec.Priority; p != nil {
		priority = strconv.Itoa(int(*p))
	}
	for name, q := range list {
		if q.IsZero() {
			continue
		}
		out <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, q.AsApproximateFloat64(),
			pod.Namespace, pod.Name, pod.Spec.NodeName, pod.Spec.SchedulerName, priority, string(name), unitOf(name))
	}
}

// unitOf is empty for what has no unit that is known.
func unitOf(name corev1.ResourceName) string {
	switch name {
	case corev1.ResourceCPU:
		return "cores"
	case corev1.ResourceMemory, corev1.ResourceStorage, corev1.ResourceEphemeralStorage:
		return "bytes"
	}
	switch {
	case strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix):
		return "bytes"
	case strings.HasPrefix(string(name), corev1.ResourceAttachableVolumesPrefix):
		return "integer"
	}
	return ""
}
