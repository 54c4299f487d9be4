// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package configuration reads, completes and checks the scheduler's
// KubeSchedulerConfiguration (kubescheduler.config.k8s.io/v1). Touch it when a
// default or a field changes, or a plugin joins the default ones.
package configuration

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/sets"
	configv1 "k8s.io/kube-scheduler/config/v1"
)

// Parse reads a configuration from YAML or JSON. A field that does not exist or is
// given twice is an error. Nothing is filled in yet.
func Parse(data []byte) (*configv1.KubeSchedulerConfiguration, error) {
	scheme := runtime.NewScheme()
	if err := configv1.AddToScheme(scheme); err != nil {
		return nil, fmt.Errorf("registering the scheduler's configuration: %w", err)
	}
	decoder := serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer()
	obj, kind, err := decoder.Decode(data, nil, nil)
	if err != nil {
		return nil, fmt.Errorf("reading KubeSchedulerConfiguration: %w", err)
	}
	cfg, ok := obj.(*configv1.KubeSchedulerConfiguration)
	if !ok {
		return nil, fmt.Errorf("reading KubeSchedulerConfiguration: this is a %v", kind)
	}
	if err := cfg.DecodeNestedObjects(decoder); err != nil {
		return nil, fmt.Errorf("reading KubeSchedulerConfiguration: %w", err)
	}
	return cfg, nil
}

// DefaultPlugins are the plugins of every profile, in the order in which they are
// called, with upstream's weights. Cheap filters that reject many nodes come first.
func DefaultPlugins() *configv1.Plugins {
	plugin := func(name string, weight int32) configv1.Plugin {
		p := configv1.Plugin{Name: name}
		if weight > 0 {
			p.Weight = new(weight)
		}
		return p
	}
	return &configv1.Plugins{MultiPoint: configv1.PluginSet{Enabled: []configv1.Plugin{
		plugin("SchedulingGates", 0),
		plugin("PrioritySort", 0),
		plugin("NodeName", 0),
		plugin("NodeUnschedulable", 0),
		plugin("TaintToleration", 3),
		plugin("NodeAffinity", 2),
		plugin("NodePorts", 0),
		plugin("NodeResourcesFit", 1),
		plugin("VolumeRestrictions", 0),
		plugin("NodeVolumeLimits", 0),
		plugin("VolumeBinding", 0),
		plugin("VolumeZone", 0),
		plugin("PodTopologySpread", 2),
		plugin("InterPodAffinity", 2),
		plugin("DynamicResources", 2),
		plugin("DefaultPreemption", 0),
		plugin("NodeResourcesBalancedAllocation", 1),
		plugin("ImageLocality", 1),
		plugin("DefaultBinder", 0),
		plugin("NodeDeclaredFeatures", 0),
	}}}
}

// AddGroups has all profiles schedule pods by their PodGroups, but those that disable
// the plugin. To call before Default, which adds the other plugins.
func AddGroups(c *configv1.KubeSchedulerConfiguration) {
	const gang = "GangScheduling"
	for i := range c.Profiles {
		p := &c.Profiles[i]
		if p.Plugins == nil {
			p.Plugins = &configv1.Plugins{}
		}
		set := &p.Plugins.MultiPoint
		of := func(x configv1.Plugin) bool { return x.Name == gang }
		off := func(x configv1.Plugin) bool { return x.Name == gang || x.Name == "*" }
		if !slices.ContainsFunc(set.Enabled, of) && !slices.ContainsFunc(set.Disabled, off) {
			set.Enabled = append(set.Enabled, configv1.Plugin{Name: gang})
		}
	}
}

// Default fills in what is not given. It may be called again.
func Default(c *configv1.KubeSchedulerConfiguration) {
	c.Parallelism = or(c.Parallelism, 16)
	c.PercentageOfNodesToScore = or(c.PercentageOfNodesToScore, 0)
	c.PodInitialBackoffSeconds = or(c.PodInitialBackoffSeconds, 1)
	c.PodMaxBackoffSeconds = or(c.PodMaxBackoffSeconds, 10)
	// There is one scheduler in a cluster, unlike upstream's default.
	c.LeaderElection.LeaderElect = or(c.LeaderElection.LeaderElect, false)
	if len(c.Profiles) == 0 {
		c.Profiles = []configv1.KubeSchedulerProfile{{}}
	}
	if len(c.Profiles) == 1 {
		c.Profiles[0].SchedulerName = or(c.Profiles[0].SchedulerName, corev1.DefaultSchedulerName)
	}
	for i := range c.Profiles {
		defaultProfile(&c.Profiles[i], ignoredByScheduler(c.Extenders))
	}
	for i := range c.Extenders {
		if e := &c.Extenders[i]; e.PrioritizeVerb != "" && e.Weight == 0 {
			e.Weight = 1
		}
	}
}

// ignoredByScheduler are the resources that extenders want to be left to them.
func ignoredByScheduler(extenders []configv1.Extender) (out []string) {
	for _, e := range extenders {
		for _, r := range e.ManagedResources {
			if r.IgnoredByScheduler {
				out = append(out, r.Name)
			}
		}
	}
	return out
}

func defaultProfile(p *configv1.KubeSchedulerProfile, ignored []string) {
	p.Plugins = merge(DefaultPlugins(), p.Plugins)
	given := sets.New[string]()
	for i := range p.PluginConfig {
		given.Insert(p.PluginConfig[i].Name)
	}
	known := knownArgs()
	for _, name := range sets.List(sets.KeySet(known)) {
		if !given.Has(name) {
			p.PluginConfig = append(p.PluginConfig, configv1.PluginConfig{Name: name, Args: runtime.RawExtension{Object: known[name]}})
		}
	}
	for i := range p.PluginConfig {
		args := p.PluginConfig[i].Args.Object
		defaultArgs(args)
		if fit, ok := args.(*configv1.NodeResourcesFitArgs); ok {
			for _, name := range ignored {
				if !slices.Contains(fit.IgnoredResources, name) {
					fit.IgnoredResources = append(fit.IgnoredResources, name)
				}
			}
		}
	}
}

// merge puts what a profile says of MultiPoint into the default list: what it
// disables is left out, what it enables again takes the place of the default
// line, and the rest follows. The other extension points have no default list.
func merge(defaults, own *configv1.Plugins) *configv1.Plugins {
	if own == nil {
		return defaults
	}
	out := own.DeepCopy()
	disabled := sets.New[string]()
	for _, d := range own.MultiPoint.Disabled {
		disabled.Insert(d.Name)
	}
	rest := slices.Clone(own.MultiPoint.Enabled)
	out.MultiPoint.Enabled = nil
	for _, d := range defaults.MultiPoint.Enabled {
		if disabled.Has("*") || disabled.Has(d.Name) {
			continue
		}
		if i := slices.IndexFunc(rest, func(p configv1.Plugin) bool { return p.Name == d.Name }); i >= 0 {
			d, rest = rest[i], slices.Delete(rest, i, i+1)
		}
		out.MultiPoint.Enabled = append(out.MultiPoint.Enabled, d)
	}
	out.MultiPoint.Enabled = append(out.MultiPoint.Enabled, rest...)
	// What is merged must stay as it is when it is merged again.
	out.MultiPoint.Disabled = []configv1.Plugin{{Name: "*"}}
	return out
}
