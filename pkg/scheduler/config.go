// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"

	"minik8s.io/minik8s/pkg/scheduler/framework"
	"minik8s.io/minik8s/pkg/scheduler/plugins"
)

// Config says what the scheduler works with and how.
type Config struct {
	// Client talks to the API with the identity system:kube-scheduler. Required.
	Client kubernetes.Interface
	// Informers are shared with the other parts of the process. The caller starts
	// them after New, which asks for those it needs. Required.
	Informers informers.SharedInformerFactory
	// SchedulerName selects the pods to schedule by spec.schedulerName and names the
	// scheduler in events. Default "default-scheduler".
	SchedulerName string
	// Profile is the ordered list of plugins with their weights.
	// Default plugins.Default().
	Profile []framework.Entry
	// PercentageOfNodesToScore is the share of the nodes after which the search for
	// feasible ones stops, 1 to 100. Default 0: all nodes up to 100, then a share
	// that falls from 50 % to 5 % as the cluster grows, but at least 100 nodes.
	PercentageOfNodesToScore int
	// LeaderElection makes Start wait for the Lease kube-system/kube-scheduler, for
	// several schedulers on one cluster. Default false.
	LeaderElection bool
	// Identity is the holder's name in the Lease. Required with LeaderElection.
	Identity string
	// Seed makes ties between nodes fall the same way each run. Default 0: a random seed.
	Seed uint64
	// InitialBackoff and MaxBackoff bound the delay of a failed pod.
	// Defaults 1s and 10s.
	InitialBackoff, MaxBackoff time.Duration
	// Clock is replaced in tests. Default the real one.
	Clock clock.WithTicker
	// Registerer receives the metrics scheduler_*. Default nil: none.
	Registerer prometheus.Registerer
}

func (c Config) complete() (Config, error) {
	if c.Client == nil || c.Informers == nil {
		return c, errors.New("scheduler needs a client and informers")
	}
	if c.SchedulerName == "" {
		c.SchedulerName = corev1.DefaultSchedulerName
	}
	if c.Profile == nil {
		c.Profile = plugins.Default()
	}
	if c.PercentageOfNodesToScore < 0 || c.PercentageOfNodesToScore > 100 {
		return c, fmt.Errorf("percentage of nodes to score %d is not within 0 and 100", c.PercentageOfNodesToScore)
	}
	if c.LeaderElection && c.Identity == "" {
		return c, errors.New("leader election needs an identity")
	}
	if c.Clock == nil {
		c.Clock = clock.RealClock{}
	}
	if c.Seed == 0 {
		c.Seed = uint64(c.Clock.Now().UnixNano())
	}
	return c, nil
}
