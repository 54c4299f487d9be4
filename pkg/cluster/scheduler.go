// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"os"

	configv1 "k8s.io/kube-scheduler/config/v1"

	"minik8s.io/minik8s/pkg/apis/feature"
	"minik8s.io/minik8s/pkg/scheduler"
	"minik8s.io/minik8s/pkg/scheduler/configuration"
	"minik8s.io/minik8s/pkg/scheduler/policies"
)

// SchedulerConfig are settings of the scheduler.
type SchedulerConfig struct {
	// Policy is how default-scheduler chooses among the nodes that a pod fits on: RoundRobin, Random, LeastPod, LeastCpu, LeastMem, or
	// Default, which is upstream's. Not for a Config with profiles.
	Policy policies.Policy `json:"policy,omitempty"`
	// Config is a file as upstream's kube-scheduler takes it (kubescheduler.config.k8s.io/v1 KubeSchedulerConfiguration): profiles,
	// their plugins and arguments, extenders. The path is absolute. What this scheduler does not honour is refused.
	Config string `json:"config,omitempty"`
}

// read returns what the file says, nil if there is none. The scheduler judges it.
func (c SchedulerConfig) read() (*configv1.KubeSchedulerConfiguration, error) {
	if c.Config == "" {
		return nil, nil
	}
	data, err := os.ReadFile(c.Config)
	if err != nil {
		return nil, fmt.Errorf("scheduler.config: %w", err)
	}
	parsed, err := configuration.Parse(data)
	if err != nil {
		return nil, fmt.Errorf("scheduler.config: %s: %w", c.Config, err)
	}
	return parsed, nil
}

func (r *runner) buildScheduler() (func(context.Context) error, error) {
	settings, err := r.config.Scheduler.read()
	if err != nil {
		return nil, err
	}
	config, err := r.credentials.Client("system:kube-scheduler")
	if err != nil {
		return nil, err
	}
	client, err := clientOf(config, "kube-scheduler")
	if err != nil {
		return nil, err
	}
	shared := scheduler.NewInformers(client, r.objects.Transform)
	s, err := scheduler.New(scheduler.Config{
		Client: client, KubeConfig: config, Informers: shared, Configuration: settings, Policy: r.config.Scheduler.Policy,
		Identity: r.config.Kubelet.NodeName, Registerer: r.schedulerMetrics, Resources: r.schedulerResources,
		PodGroups: feature.Enabled(feature.GenericWorkload),
	})
	if err != nil {
		return nil, fmt.Errorf("building scheduler: %w", err)
	}
	return func(ctx context.Context) error {
		shared.Start(ctx.Done())
		return s.Start(ctx)
	}, nil
}
