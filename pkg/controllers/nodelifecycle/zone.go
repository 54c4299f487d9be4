// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package nodelifecycle

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/node/topology"

	"minik8s.io/minik8s/pkg/controllers/setup"
)

const (
	// lookAgain is when a node that is not ready is judged anew.
	lookAgain = 10 * time.Second
	// longest is the time between two evictions at most.
	longest = 100 * 365 * 24 * time.Hour
	// monitorPeriod is how long a node has been not ready before it may be its turn to be evicted (--node-monitor-period): nodes that
	// fail at the same moment are to be judged together.
	monitorPeriod = 5 * time.Second
	// surveyPeriod is how long what was found about all nodes is believed. It is so much shorter than monitorPeriod that no node
	// is judged by what the cache had before it had the marks of that moment.
	surveyPeriod = 4 * time.Second
)

// Pace is how fast the pods of failed nodes are evicted.
type Pace struct {
	// Rate is of how many nodes of a zone a second, DisruptedRate of how many in a large zone most of whose nodes are not ready; 0 stops it.
	Rate, DisruptedRate float64
	// Unhealthy is the share of nodes that are not ready from which a zone counts as disrupted.
	Unhealthy float64
	// Large is the number of nodes up to which evictions stop in a disrupted zone.
	Large int
}

// paceOf returns what the settings say.
func paceOf(s setup.Settings) Pace {
	return Pace{
		Rate: *s.NodeEvictionRate, DisruptedRate: *s.SecondaryNodeEvictionRate,
		Unhealthy: *s.UnhealthyZoneThreshold, Large: int(*s.LargeClusterSizeThreshold),
	}
}

// excluded is the label of nodes that are not counted: they come and go, and that says nothing about the others.
const excluded = "node.kubernetes.io/exclude-disruption"

// survey is what the nodes of a cluster were like at a time.
type survey struct {
	at time.Time
	// noneReady is set if there are nodes that count, and not one of them is ready.
	noneReady bool
	zones     map[string]tally
}

// tally counts the nodes of a zone.
type tally struct{ ready, notReady int }

// newSurvey counts the nodes.
func newSurvey(nodes []*corev1.Node, now time.Time) survey {
	s := survey{at: now, zones: map[string]tally{}}
	all := tally{}
	for _, node := range nodes {
		if _, ok := node.Labels[excluded]; ok {
			continue
		}
		zone := topology.GetZoneKey(node)
		t := s.zones[zone]
		if readiness(node) == corev1.ConditionTrue {
			all.ready++
			t.ready++
		} else {
			all.notReady++
			t.notReady++
		}
		s.zones[zone] = t
	}
	s.noneReady = all.ready == 0 && all.notReady > 0
	return s
}

// of says how long to leave between the evictions of two nodes of a zone; ok is false while no more may begin: when most of a small
// zone fails, moving the pods would overload the rest.
func (p Pace) of(t tally) (interval time.Duration, ok bool) {
	rate := p.Rate
	if t.ready > 0 && t.notReady > 2 && float64(t.notReady)/float64(t.notReady+t.ready) >= p.Unhealthy {
		if t.ready+t.notReady <= p.Large {
			return 0, false
		}
		rate = p.DisruptedRate
	}
	if rate == 0 {
		return 0, false
	}
	return time.Duration(min(float64(time.Second)/rate, float64(longest))), true
}

// decide says whether a node of the zone that is not ready is to have its NoExecute taint; tainted tells whether it has one, last
// when a node of the zone got one. turn is set if it gets it now. again is when to ask anew, because the return of other nodes
// raises no event for this one.
//
// When no node of the whole cluster is ready, it is more likely that this process is cut off than that all nodes failed: then
// nobody is evicted, as with upstream's master disruption mode, which takes the taints away. In all other cases a node keeps what
// it has, also in a zone where no more may get it.
func (p Pace) decide(s survey, zone string, tainted bool, last, now time.Time) (evict, turn bool, again time.Duration) {
	interval, ok := p.of(s.zones[zone])
	switch next := last.Add(interval); {
	case s.noneReady:
		return false, false, lookAgain
	case tainted:
		return true, false, lookAgain
	case !ok:
		return false, false, lookAgain
	case now.Before(next):
		return false, false, next.Sub(now)
	}
	return true, true, lookAgain
}
