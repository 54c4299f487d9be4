// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package statefulset

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// The metrics have upstream's names and labels (pkg/controller/statefulset/metrics).
const (
	subsystem      = "statefulset_controller"
	namespaceLabel = "statefulset_namespace"
	nameLabel      = "statefulset_name"
)

var (
	mostUnavailable = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Subsystem: subsystem, Name: "statefulset_max_unavailable", Help: "[ALPHA] Maximum number of unavailable pods allowed during StatefulSet rolling updates",
	}, []string{namespaceLabel, nameLabel, "pod_management_policy"})
	unavailableReplicas = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Subsystem: subsystem, Name: "statefulset_unavailable_replicas", Help: "[ALPHA] Current number of unavailable pods in StatefulSet",
	}, []string{namespaceLabel, nameLabel, "pod_management_policy"})
)

// countUnavailable tells how many pods of the set are unavailable, and may be.
func countUnavailable(set *appsv1.StatefulSet, replicas []*corev1.Pod, now time.Time) {
	labels := []string{set.Namespace, set.Name, string(set.Spec.PodManagementPolicy)}
	n := 0
	for _, pod := range replicas {
		if !isAvailable(set, pod, now) {
			n++
		}
	}
	unavailableReplicas.WithLabelValues(labels...).Set(float64(n))
	// Upstream tells it whatever the strategy is: it is 1 then.
	if limit, err := maxUnavailable(set); err == nil { // the update itself tells of the error
		mostUnavailable.WithLabelValues(labels...).Set(float64(limit))
	}
}

// forget tells no more of a set that is gone.
func forget(set types.NamespacedName) {
	labels := prometheus.Labels{namespaceLabel: set.Namespace, nameLabel: set.Name}
	unavailableReplicas.DeletePartialMatch(labels)
	mostUnavailable.DeletePartialMatch(labels)
}
