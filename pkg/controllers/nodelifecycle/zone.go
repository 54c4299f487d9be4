// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package nodelifecycle

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/node/topology"
)

const (
	// evictionInterval is the time between two nodes of a zone whose pods are evicted (--node-eviction-rate 0.1).
	evictionInterval = 10 * time.Second
	// disruptedInterval is that time in a large zone most of whose nodes are not ready (--secondary-node-eviction-rate).
	disruptedInterval = 100 * time.Second
	// monitorPeriod is how long a node has been not ready before it may be its turn to be evicted (--node-monitor-period): nodes that
	// fail at the same moment are to be judged together.
	monitorPeriod = 5 * time.Second
	// surveyPeriod is how long what was found about all nodes is believed. It is so much shorter than monitorPeriod that no node
	// is judged by what the cache had before it had the marks of that moment.
	surveyPeriod = 4 * time.Second
	// unhealthyThreshold is the share of nodes that are not ready from which a zone counts as disrupted.
	unhealthyThreshold = 0.55
	// largeCluster is the number of nodes up to which evictions stop in a disrupted zone.
	largeCluster = 50
)

// survey is what the nodes of a cluster were like at a time.
type survey struct {
	at       time.Time
	anyReady bool
	zones    map[string]tally
}

// tally counts the nodes of a zone.
type tally struct{ ready, notReady int }

// newSurvey counts the nodes.
func newSurvey(nodes []*corev1.Node, now time.Time) survey {
	s := survey{at: now, zones: map[string]tally{}}
	for _, node := range nodes {
		zone := topology.GetZoneKey(node)
		t := s.zones[zone]
		if readiness(node) == corev1.ConditionTrue {
			s.anyReady = true
			t.ready++
		} else {
			t.notReady++
		}
		s.zones[zone] = t
	}
	return s
}

// pace says how long to leave between the evictions of two nodes; ok is false while no more may begin: when most of a small zone
// fails, moving the pods would overload the rest.
func (t tally) pace() (interval time.Duration, ok bool) {
	switch {
	case t.ready == 0:
		return evictionInterval, true
	case t.notReady > 2 && float64(t.notReady)/float64(t.notReady+t.ready) >= unhealthyThreshold:
		return disruptedInterval, t.ready+t.notReady > largeCluster
	}
	return evictionInterval, true
}

// decide says whether a node of the zone that is not ready is to have its NoExecute taint; tainted tells whether it has one, last
// when a node of the zone got one. turn is set if it gets it now. again is when to ask anew, because the return of other nodes
// raises no event for this one.
//
// When no node of the whole cluster is ready, it is more likely that this process is cut off than that all nodes failed: then
// nobody is evicted, as with upstream's master disruption mode, which takes the taints away. In all other cases a node keeps what
// it has, also in a zone where no more may get it.
func decide(s survey, zone string, tainted bool, last, now time.Time) (evict, turn bool, again time.Duration) {
	interval, ok := s.zones[zone].pace()
	switch next := last.Add(interval); {
	case !s.anyReady:
		return false, false, evictionInterval
	case tainted:
		return true, false, evictionInterval
	case !ok:
		return false, false, evictionInterval
	case now.Before(next):
		return false, false, next.Sub(now)
	}
	return true, true, evictionInterval
}
