// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package nodelifecycle

import (
	"time"

	corev1 "k8s.io/api/core/v1"
)

const (
	// evictionInterval is the time between two nodes of a zone whose pods are evicted (--node-eviction-rate 0.1).
	evictionInterval = 10 * time.Second
	// disruptedInterval is that time in a large zone most of whose nodes are not ready (--secondary-node-eviction-rate).
	disruptedInterval = 100 * time.Second
	// unhealthyThreshold is the share of nodes that are not ready from which a zone counts as disrupted.
	unhealthyThreshold = 0.55
	// largeCluster is the number of nodes up to which evictions stop in a disrupted zone.
	largeCluster = 50
)

// zoneOf names the zone of a node.
func zoneOf(node *corev1.Node) string {
	return node.Labels[corev1.LabelTopologyRegion] + ":\x00:" + node.Labels[corev1.LabelTopologyZone]
}

// pace says how long to leave between the evictions of two nodes in the given zone; ok is false while there must be none.
// When no node of the whole cluster is ready, it is more likely that this process is cut off than that all nodes failed,
// and when most of a small zone fails, moving the pods would overload the rest.
func pace(nodes []corev1.Node, zone string) (interval time.Duration, ok bool) {
	anyReady := false
	ready, notReady := 0, 0
	for i := range nodes {
		isReady := readiness(&nodes[i]) == corev1.ConditionTrue
		anyReady = anyReady || isReady
		if zoneOf(&nodes[i]) != zone {
			continue
		}
		if isReady {
			ready++
		} else {
			notReady++
		}
	}
	switch {
	case !anyReady:
		return 0, false
	case ready == 0:
		return evictionInterval, true
	case notReady > 2 && float64(notReady)/float64(notReady+ready) >= unhealthyThreshold:
		return disruptedInterval, ready+notReady > largeCluster
	}
	return evictionInterval, true
}
