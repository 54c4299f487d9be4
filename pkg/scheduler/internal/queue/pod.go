// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"container/list"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"

	"minik8s.io/minik8s/pkg/scheduler/framework"
)

// Pod is a pod in the queue.
type Pod struct {
	*framework.PodInfo
	// Timestamp is when the pod entered the queue or failed last.
	Timestamp time.Time
	// Attempts counts the scheduling attempts.
	Attempts int
	// RejectedBy names the plugins that rejected the pod in its last attempt.
	// Empty after an internal failure.
	RejectedBy sets.Set[string]
	// Gated tells that a PreEnqueue plugin holds the pod back.
	Gated bool
	// Flushed tells that the pod is tried again only because it waited too long.
	Flushed bool

	group      *group    // nil if the pod is tried alone
	rejection  rejection // among the waiting
	inCompany  bool      // held back for the sake of another of its group
	place      place
	index      int       // position in its heap
	backoffEnd time.Time // not tried before, unless an event came and there is nothing else to do
	failures   int       // failed attempts, the exponent of the back-off
	start      uint64    // number of the next event when the pod was popped
	flight     *list.Element
	errors     int // failed internally in a row
	flushed    time.Time
	initial    *time.Time
}

// holds tells whether the pod itself is held back, and with it its group.
func (p *Pod) holds() bool { return p.Gated && !p.inCompany }

type place int

const (
	nowhere place = iota
	active
	backoff
	errored // backs off after an internal failure, which nobody may shorten
	unschedulable
	resting // unschedulable, and backs off with its group
	inFlight
	landed
)

// label is the queue that a place belongs to, for metrics.
func (p place) label() string {
	switch p {
	case active:
		return "active"
	case backoff, errored, resting:
		return "backoff"
	case unschedulable:
		return "unschedulable"
	}
	return ""
}

var _ fwk.QueuedEntityInfo = (*Pod)(nil)

// Type implements fwk.QueuedEntityInfo.
func (p *Pod) Type() fwk.EntityKeyType { return fwk.PodKeyType }

// GetPriority implements fwk.QueuedEntityInfo.
func (p *Pod) GetPriority() int32 { return p.Priority() }

// GetTimestamp implements fwk.QueuedEntityInfo.
func (p *Pod) GetTimestamp() time.Time { return p.Timestamp }

// GetAttempts implements fwk.QueuedEntityInfo.
func (p *Pod) GetAttempts() int { return p.Attempts }

// GetBackoffExpiration implements fwk.QueuedEntityInfo.
func (p *Pod) GetBackoffExpiration() time.Time { return p.backoffEnd }

// GetUnschedulableCount implements fwk.QueuedEntityInfo.
func (p *Pod) GetUnschedulableCount() int { return p.failures }

// GetConsecutiveErrorsCount implements fwk.QueuedEntityInfo.
func (p *Pod) GetConsecutiveErrorsCount() int { return p.errors }

// GetInitialAttemptTimestamp implements fwk.QueuedEntityInfo.
func (p *Pod) GetInitialAttemptTimestamp() *time.Time { return p.initial }

// GetUnschedulablePlugins implements fwk.QueuedEntityInfo.
func (p *Pod) GetUnschedulablePlugins() sets.Set[string] { return p.RejectedBy }

// GetPendingPlugins implements fwk.QueuedEntityInfo: a pod that is pending is among the rejected ones.
func (p *Pod) GetPendingPlugins() sets.Set[string] { return nil }

// GetGatingPlugin implements fwk.QueuedEntityInfo.
func (p *Pod) GetGatingPlugin() string {
	if p.Gated {
		for name := range p.RejectedBy {
			return name
		}
	}
	return ""
}

// GetGatingPluginEvents implements fwk.QueuedEntityInfo: they are looked up when needed.
func (p *Pod) GetGatingPluginEvents() []fwk.ClusterEvent { return nil }
