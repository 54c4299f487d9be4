// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package configuration

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	componentbaseconfigv1alpha1 "k8s.io/component-base/config/v1alpha1"
	nodeaffinityhelper "k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	configv1 "k8s.io/kube-scheduler/config/v1"
)

// Validate checks a configuration that Default has completed.
func Validate(c *configv1.KubeSchedulerConfiguration) field.ErrorList {
	var errs field.ErrorList
	if *c.Parallelism <= 0 {
		errs = append(errs, field.Invalid(field.NewPath("parallelism"), *c.Parallelism, "should be an integer value greater than zero"))
	}
	if c.ClientConnection.Kubeconfig != "" {
		errs = append(errs, field.Forbidden(field.NewPath("clientConnection", "kubeconfig"), "the scheduler belongs to its cluster and has the cluster's credentials"))
	}
	errs = append(errs, unheeded(c)...)
	errs = append(errs, percentage(field.NewPath("percentageOfNodesToScore"), c.PercentageOfNodesToScore)...)
	if *c.PodInitialBackoffSeconds <= 0 {
		errs = append(errs, field.Invalid(field.NewPath("podInitialBackoffSeconds"), *c.PodInitialBackoffSeconds, "must be greater than 0"))
	}
	if *c.PodMaxBackoffSeconds < *c.PodInitialBackoffSeconds {
		errs = append(errs, field.Invalid(field.NewPath("podMaxBackoffSeconds"), *c.PodMaxBackoffSeconds, "must be greater than or equal to PodInitialBackoffSeconds"))
	}
	names := sets.New[string]()
	for i := range c.Profiles {
		path := field.NewPath("profiles").Index(i)
		p := &c.Profiles[i]
		switch {
		case p.SchedulerName == nil || *p.SchedulerName == "":
			errs = append(errs, field.Required(path.Child("schedulerName"), ""))
		case names.Has(*p.SchedulerName):
			errs = append(errs, field.Duplicate(path.Child("schedulerName"), *p.SchedulerName))
		default:
			names.Insert(*p.SchedulerName)
		}
		errs = append(errs, percentage(path.Child("percentageOfNodesToScore"), p.PercentageOfNodesToScore)...)
		errs = append(errs, validatePluginConfig(path, p)...)
	}
	return append(errs, validateExtenders(field.NewPath("extenders"), c.Extenders)...)
}

// unheeded refuses what a process of its own would need: nothing is ignored in silence.
func unheeded(c *configv1.KubeSchedulerConfiguration) (errs field.ErrorList) {
	const why = "the scheduler is a part of its cluster's process, which decides on this"
	connection := c.ClientConnection
	connection.Kubeconfig = "" // told of by itself
	if connection != (componentbaseconfigv1alpha1.ClientConnectionConfiguration{}) {
		errs = append(errs, field.Forbidden(field.NewPath("clientConnection"), why))
	}
	election := c.LeaderElection
	election.LeaderElect = nil
	if election != (componentbaseconfigv1alpha1.LeaderElectionConfiguration{}) {
		errs = append(errs, field.Forbidden(field.NewPath("leaderElection"), why+", but for leaderElect"))
	}
	if c.EnableProfiling != nil || c.EnableContentionProfiling != nil {
		errs = append(errs, field.Forbidden(field.NewPath("enableProfiling"), why))
	}
	if c.DelayCacheUntilActive {
		errs = append(errs, field.Forbidden(field.NewPath("delayCacheUntilActive"), why))
	}
	return errs
}

func percentage(path *field.Path, value *int32) field.ErrorList {
	if value == nil || *value >= 0 && *value <= 100 {
		return nil
	}
	return field.ErrorList{field.Invalid(path, *value, "not in valid range [0-100]")}
}

func validatePluginConfig(path *field.Path, p *configv1.KubeSchedulerProfile) field.ErrorList {
	var errs field.ErrorList
	seen, known := sets.New[string](), knownArgs()
	for i := range p.PluginConfig {
		c := &p.PluginConfig[i]
		at := path.Child("pluginConfig").Index(i)
		if seen.Has(c.Name) {
			errs = append(errs, field.Duplicate(at, c.Name))
			continue
		}
		seen.Insert(c.Name)
		if want, ok := known[c.Name]; ok && fmt.Sprintf("%T", want) != fmt.Sprintf("%T", c.Args.Object) {
			errs = append(errs, field.Invalid(at.Child("args"), fmt.Sprintf("%T", c.Args.Object), "has to match plugin args"))
			continue
		}
		errs = append(errs, validateArgs(at.Child("args"), c.Args.Object)...)
	}
	return errs
}

func validateArgs(path *field.Path, args any) field.ErrorList {
	switch a := args.(type) {
	case *configv1.DefaultPreemptionArgs:
		return validatePreemption(path.Child("minCandidateNodesPercentage"), path.Child("minCandidateNodesAbsolute"), a)
	case *configv1.DynamicResourcesArgs:
		var errs field.ErrorList
		if a.FilterTimeout.Duration < 0 {
			errs = append(errs, field.Invalid(path.Child("filterTimeout"), a.FilterTimeout.Duration.String(), "must be zero or positive"))
		}
		if a.BindingTimeout.Duration < time.Second {
			errs = append(errs, field.Invalid(path.Child("bindingTimeout"), a.BindingTimeout.Duration.String(), "must be at least 1 second"))
		}
		return errs
	case *configv1.InterPodAffinityArgs:
		return upTo(path.Child("hardPodAffinityWeight"), int64(*a.HardPodAffinityWeight), 100)
	case *configv1.NodeAffinityArgs:
		return validateNodeAffinity(path.Child("addedAffinity"), a.AddedAffinity)
	case *configv1.NodeResourcesBalancedAllocationArgs:
		return validateBalanced(path.Child("resources"), a.Resources)
	case *configv1.NodeResourcesFitArgs:
		return validateFit(path, a)
	case *configv1.PodTopologySpreadArgs:
		return validateSpread(path, a)
	case *configv1.VolumeBindingArgs:
		var errs field.ErrorList
		if *a.BindTimeoutSeconds < 0 {
			errs = append(errs, field.Invalid(path.Child("bindTimeoutSeconds"), *a.BindTimeoutSeconds, "invalid BindTimeoutSeconds, should not be a negative value"))
		}
		return append(errs, validateShape(path.Child("shape"), a.Shape)...)
	}
	return nil
}

func validatePreemption(percentage, absolute *field.Path, a *configv1.DefaultPreemptionArgs) field.ErrorList {
	errs := upTo(percentage, int64(*a.MinCandidateNodesPercentage), 100)
	if *a.MinCandidateNodesAbsolute < 0 {
		errs = append(errs, field.Invalid(absolute, *a.MinCandidateNodesAbsolute, "not in valid range [0, inf)"))
	}
	if *a.MinCandidateNodesPercentage == 0 && *a.MinCandidateNodesAbsolute == 0 {
		errs = append(errs,
			field.Invalid(percentage, 0, "cannot be zero at the same time as minCandidateNodesAbsolute"),
			field.Invalid(absolute, 0, "cannot be zero at the same time as minCandidateNodesPercentage"))
	}
	return errs
}

// upTo checks that a value is not negative and at most high.
func upTo(path *field.Path, value, high int64) field.ErrorList {
	if value < 0 || value > high {
		return field.ErrorList{field.Invalid(path, value, fmt.Sprintf("not in valid range [0, %d]", high))}
	}
	return nil
}

func validateNodeAffinity(path *field.Path, affinity *corev1.NodeAffinity) field.ErrorList {
	if affinity == nil {
		return nil
	}
	var errs field.ErrorList
	if r := affinity.RequiredDuringSchedulingIgnoredDuringExecution; r != nil {
		at := path.Child("requiredDuringSchedulingIgnoredDuringExecution")
		if _, err := nodeaffinityhelper.NewNodeSelector(r, field.WithPath(at)); err != nil {
			errs = append(errs, each(at, err)...)
		}
	}
	if p := affinity.PreferredDuringSchedulingIgnoredDuringExecution; len(p) > 0 {
		at := path.Child("preferredDuringSchedulingIgnoredDuringExecution")
		if _, err := nodeaffinityhelper.NewPreferredSchedulingTerms(p, field.WithPath(at)); err != nil {
			errs = append(errs, each(at, err)...)
		}
	}
	return errs
}

// each takes apart what is several errors with a path each.
func each(path *field.Path, err error) (errs field.ErrorList) {
	all := []error{err}
	if several, ok := err.(interface{ Errors() []error }); ok {
		all = several.Errors()
	}
	for _, e := range all {
		var one *field.Error
		if !errors.As(e, &one) {
			one = field.InternalError(path, e)
		}
		errs = append(errs, one)
	}
	return errs
}

func validateResources(path *field.Path, list []configv1.ResourceSpec) (errs field.ErrorList) {
	for i, r := range list {
		if r.Weight <= 0 || r.Weight > 100 {
			errs = append(errs, field.Invalid(path.Index(i).Child("weight"), r.Weight, fmt.Sprintf("resource weight of %v not in valid range (0, 100]", r.Name)))
		}
	}
	return errs
}

func validateBalanced(path *field.Path, list []configv1.ResourceSpec) (errs field.ErrorList) {
	seen := sets.New[string]()
	for i, r := range list {
		if seen.Has(r.Name) {
			errs = append(errs, field.Duplicate(path.Index(i).Child("name"), r.Name))
		}
		seen.Insert(r.Name)
		if r.Weight != 1 {
			errs = append(errs, field.Invalid(path.Index(i).Child("weight"), r.Weight, "must be 1"))
		}
	}
	return errs
}

func validateFit(path *field.Path, a *configv1.NodeResourcesFitArgs) field.ErrorList {
	var errs field.ErrorList
	for i, name := range a.IgnoredResources {
		errs = append(errs, metav1validation.ValidateLabelName(name, path.Child("ignoredResources").Index(i))...)
	}
	for i, group := range a.IgnoredResourceGroups {
		at := path.Child("ignoredResourceGroups").Index(i)
		if strings.Contains(group, "/") {
			errs = append(errs, field.Invalid(at, group, "resource group name can't contain '/'"))
		}
		errs = append(errs, metav1validation.ValidateLabelName(group, at)...)
	}
	s, at := a.ScoringStrategy, path.Child("scoringStrategy")
	switch s.Type {
	case configv1.LeastAllocated, configv1.MostAllocated, configv1.RequestedToCapacityRatio:
	default:
		errs = append(errs, field.NotSupported(at.Child("type"), s.Type, []configv1.ScoringStrategyType{configv1.LeastAllocated, configv1.MostAllocated, configv1.RequestedToCapacityRatio}))
	}
	errs = append(errs, validateResources(at.Child("resources"), s.Resources)...)
	ratio := at.Child("requestedToCapacityRatio")
	switch has, needs := s.RequestedToCapacityRatio != nil, s.Type == configv1.RequestedToCapacityRatio; {
	case has && needs:
		errs = append(errs, validateShape(ratio.Child("shape"), s.RequestedToCapacityRatio.Shape)...)
	case needs:
		errs = append(errs, field.Required(ratio, "must be specified when type is RequestedToCapacityRatio"))
	case has:
		errs = append(errs, field.Forbidden(ratio, "must be nil when type is not RequestedToCapacityRatio"))
	}
	return errs
}

func validateShape(path *field.Path, shape []configv1.UtilizationShapePoint) field.ErrorList {
	if len(shape) == 0 {
		return field.ErrorList{field.Required(path, "at least one point must be specified")}
	}
	var errs field.ErrorList
	for i := 1; i < len(shape); i++ {
		if shape[i].Utilization <= shape[i-1].Utilization {
			errs = append(errs, field.Invalid(path.Index(i).Child("utilization"), shape[i].Utilization, "values must be sorted in increasing order"))
			break
		}
	}
	for i, p := range shape {
		errs = append(errs, upTo(path.Index(i).Child("utilization"), int64(p.Utilization), 100)...)
		errs = append(errs, upTo(path.Index(i).Child("score"), int64(p.Score), 10)...)
	}
	return errs
}

func validateSpread(path *field.Path, a *configv1.PodTopologySpreadArgs) field.ErrorList {
	var errs field.ErrorList
	switch a.DefaultingType {
	case configv1.SystemDefaulting:
		if len(a.DefaultConstraints) > 0 {
			errs = append(errs, field.Invalid(path.Child("defaultingType"), a.DefaultingType, "when .defaultConstraints are not empty"))
		}
	case configv1.ListDefaulting:
	default:
		errs = append(errs, field.NotSupported(path.Child("defaultingType"), a.DefaultingType, []configv1.PodTopologySpreadConstraintsDefaulting{configv1.SystemDefaulting, configv1.ListDefaulting}))
	}
	type pair struct {
		key    string
		action corev1.UnsatisfiableConstraintAction
	}
	seen := sets.New[pair]()
	for i, c := range a.DefaultConstraints {
		at := path.Child("defaultConstraints").Index(i)
		if c.MaxSkew <= 0 {
			errs = append(errs, field.Invalid(at.Child("maxSkew"), c.MaxSkew, "not in valid range (0, inf)"))
		}
		if c.TopologyKey == "" {
			errs = append(errs, field.Required(at.Child("topologyKey"), "can not be empty"))
		} else {
			errs = append(errs, metav1validation.ValidateLabelName(c.TopologyKey, at.Child("topologyKey"))...)
		}
		if c.WhenUnsatisfiable == "" {
			errs = append(errs, field.Required(at.Child("whenUnsatisfiable"), "can not be empty"))
		} else if c.WhenUnsatisfiable != corev1.DoNotSchedule && c.WhenUnsatisfiable != corev1.ScheduleAnyway {
			errs = append(errs, field.NotSupported(at.Child("whenUnsatisfiable"), c.WhenUnsatisfiable, []corev1.UnsatisfiableConstraintAction{corev1.DoNotSchedule, corev1.ScheduleAnyway}))
		}
		if c.LabelSelector != nil {
			errs = append(errs, field.Forbidden(at.Child("labelSelector"), "constraint must not define a selector, as they deduced for each pod"))
		}
		if p := (pair{c.TopologyKey, c.WhenUnsatisfiable}); seen.Has(p) {
			errs = append(errs, field.Duplicate(at, fmt.Sprintf("{%v, %v}", p.key, p.action)))
		} else {
			seen.Insert(p)
		}
	}
	return errs
}

func validateExtenders(path *field.Path, list []configv1.Extender) field.ErrorList {
	var errs field.ErrorList
	binders, managed := 0, sets.New[string]()
	for i, e := range list {
		at := path.Index(i)
		if u, err := url.Parse(e.URLPrefix); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			errs = append(errs, field.Invalid(at.Child("urlPrefix"), e.URLPrefix, "must be an http or https URL"))
		}
		if e.PrioritizeVerb != "" && e.Weight <= 0 {
			errs = append(errs, field.Invalid(at.Child("weight"), e.Weight, "must have a positive weight applied to it"))
		}
		if e.HTTPTimeout.Duration < 0 {
			errs = append(errs, field.Invalid(at.Child("httpTimeout"), e.HTTPTimeout.String(), "must not be negative"))
		}
		if e.BindVerb != "" {
			binders++
		}
		for k, r := range e.ManagedResources {
			name := at.Child("managedResources").Index(k).Child("name")
			for _, msg := range validation.IsQualifiedName(r.Name) {
				errs = append(errs, field.Invalid(name, r.Name, msg))
			}
			if managed.Has(r.Name) {
				errs = append(errs, field.Invalid(name, r.Name, "duplicate extender managed resource name"))
			}
			managed.Insert(r.Name)
		}
	}
	if binders > 1 {
		errs = append(errs, field.Invalid(path, fmt.Sprintf("found %d extenders implementing bind", binders), "only one extender can implement bind"))
	}
	return errs
}
