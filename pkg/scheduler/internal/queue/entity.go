// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"time"

	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
)

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
