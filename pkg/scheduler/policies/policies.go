// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package policies is the list of simple ways to choose among the nodes that a pod
// fits on, each in place of all scores of the default profile: filters stay
// upstream's, and so does preemption. A new policy is a folder here with a score
// plugin, and a line in list.
package policies

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"minik8s.io/minik8s/pkg/scheduler/configuration"
	"minik8s.io/minik8s/pkg/scheduler/framework"
	"minik8s.io/minik8s/pkg/scheduler/policies/leastcpu"
	"minik8s.io/minik8s/pkg/scheduler/policies/leastmem"
	"minik8s.io/minik8s/pkg/scheduler/policies/leastpod"
	"minik8s.io/minik8s/pkg/scheduler/policies/random"
	"minik8s.io/minik8s/pkg/scheduler/policies/roundrobin"
)

// Policy is the name of one, which is that of its plugin too. Default and none are
// upstream's scores.
type Policy string

// Default is the policy of a scheduler for which none is chosen.
const Default Policy = "Default"

type entry struct {
	policy Policy
	// schedulerName is how pods choose the policy.
	schedulerName string
	factory       framework.Factory
}

func list() []entry {
	return []entry{
		{roundrobin.Name, "round-robin", roundrobin.New},
		{random.Name, "random", random.New},
		{leastpod.Name, "least-pod", leastpod.New},
		{leastcpu.Name, "least-cpu", leastcpu.New},
		{leastmem.Name, "least-mem", leastmem.New},
	}
}

// Registry returns the factories of the policies' plugins.
func Registry() framework.Registry {
	r := framework.Registry{}
	for _, e := range list() {
		r[string(e.policy)] = e.factory
	}
	return r
}

// AddProfiles gives a configuration without profiles that of each policy, and
// default-scheduler, which is p's. One that has profiles says in them who decides.
func AddProfiles(c *configv1.KubeSchedulerConfiguration, p Policy) error {
	chosen := p != "" && p != Default
	if len(c.Profiles) > 0 {
		if chosen {
			return fmt.Errorf("policy %s is for a configuration without profiles, and this one has some: enable the plugin %[1]s in one of them instead", p)
		}
		return nil
	}
	own := configv1.KubeSchedulerProfile{SchedulerName: new(corev1.DefaultSchedulerName)}
	if chosen {
		own = profile(corev1.DefaultSchedulerName, p)
	}
	c.Profiles = append(c.Profiles, own)
	for _, e := range list() {
		c.Profiles = append(c.Profiles, profile(e.schedulerName, e.policy))
	}
	return nil
}

// profile has all default plugins, of which only the policy's scores nodes: all
// that a pod fits on.
func profile(schedulerName string, p Policy) configv1.KubeSchedulerProfile {
	others := configv1.PluginSet{Disabled: configuration.DefaultPlugins().MultiPoint.Enabled}
	return configv1.KubeSchedulerProfile{
		SchedulerName:            new(schedulerName),
		PercentageOfNodesToScore: new(int32(100)),
		Plugins: &configv1.Plugins{
			MultiPoint: configv1.PluginSet{Enabled: []configv1.Plugin{{Name: string(p)}}},
			PreScore:   others,
			Score:      others,
		},
	}
}

// MarshalText implements encoding.TextMarshaler.
func (p Policy) MarshalText() ([]byte, error) { return []byte(p), nil }

// UnmarshalText implements encoding.TextUnmarshaler. Case does not count.
func (p *Policy) UnmarshalText(text []byte) error {
	for _, name := range Names() {
		if strings.EqualFold(name, string(text)) {
			*p = Policy(name)
			return nil
		}
	}
	return fmt.Errorf("there is no scheduler policy %q: use one of %s", text, strings.Join(Names(), ", "))
}

// Names are all policies there are.
func Names() []string {
	all := []string{string(Default)}
	for _, e := range list() {
		all = append(all, string(e.policy))
	}
	return all
}
