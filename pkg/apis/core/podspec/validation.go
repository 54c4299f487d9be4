// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package podspec

import (
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"minik8s.io/minik8s/pkg/apis/core/affinity"
	"minik8s.io/minik8s/pkg/apis/core/container"
	"minik8s.io/minik8s/pkg/apis/core/dns"
	"minik8s.io/minik8s/pkg/apis/core/quantity"
	"minik8s.io/minik8s/pkg/apis/core/securitycontext"
	"minik8s.io/minik8s/pkg/apis/core/toleration"
	"minik8s.io/minik8s/pkg/apis/core/topologyspread"
	"minik8s.io/minik8s/pkg/apis/core/volume"
)

// Owner tells what a spec belongs to.
type Owner int

const (
	// Template specs are copied into pods later, and get some defaults then.
	Template Owner = iota
	// Pod specs are final.
	Pod
)

// maxHostname is the longest host name that Linux takes, in bytes.
const maxHostname = 64

var (
	restartPolicies    = []corev1.RestartPolicy{corev1.RestartPolicyAlways, corev1.RestartPolicyOnFailure, corev1.RestartPolicyNever}
	preemptionPolicies = []corev1.PreemptionPolicy{corev1.PreemptLowerPriority, corev1.PreemptNever}
	systems            = []corev1.OSName{corev1.Linux, corev1.Windows}
)

// Validate checks a spec whose defaults are filled in.
func Validate(s *corev1.PodSpec, owner Owner, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if s.TerminationGracePeriodSeconds == nil {
		errs = append(errs, field.Required(path.Child("terminationGracePeriodSeconds"), ""))
	}
	errs = append(errs, validateContainers(s, path)...)
	errs = append(errs, validateResources(s, path.Child("resources"))...)
	errs = append(errs, validateHostPorts(s, owner, path)...)
	errs = append(errs, oneOf(s.RestartPolicy, restartPolicies, path.Child("restartPolicy"))...)
	errs = append(errs, dns.ValidatePolicy(s.DNSPolicy, path.Child("dnsPolicy"))...)
	errs = append(errs, dns.ValidateConfig(s.DNSConfig, s.DNSPolicy, path.Child("dnsConfig"))...)
	errs = append(errs, metav1validation.ValidateLabels(s.NodeSelector, path.Child("nodeSelector"))...)
	errs = append(errs, securitycontext.ValidatePod(s, path)...)
	errs = append(errs, affinity.Validate(s.Affinity, path.Child("affinity"))...)
	for i, g := range s.ReadinessGates {
		errs = append(errs, qualifiedName(string(g.ConditionType), path.Child("readinessGates").Index(i).Child("conditionType"))...)
	}
	errs = append(errs, validateGates(s.SchedulingGates, path.Child("schedulingGates"))...)
	errs = append(errs, topologyspread.Validate(s.TopologySpreadConstraints, path.Child("topologySpreadConstraints"))...)
	errs = append(errs, toleration.Validate(s.Tolerations, path.Child("tolerations"))...)
	errs = append(errs, validateNames(s, path)...)
	if d := s.ActiveDeadlineSeconds; d != nil && (*d < 1 || *d > math.MaxInt32) {
		errs = append(errs, field.Invalid(path.Child("activeDeadlineSeconds"), *d, validation.InclusiveRangeError(1, math.MaxInt32)))
	}
	for i, a := range s.HostAliases {
		p := path.Child("hostAliases").Index(i)
		errs = append(errs, validation.IsValidIP(p.Child("ip"), a.IP)...)
		for j, name := range a.Hostnames {
			errs = append(errs, messages(validation.IsDNS1123Subdomain(name), name, p.Child("hostnames").Index(j))...)
		}
	}
	if s.PreemptionPolicy != nil {
		errs = append(errs, oneOf(*s.PreemptionPolicy, preemptionPolicies, path.Child("preemptionPolicy"))...)
	}
	if len(s.Overhead) > 0 {
		errs = append(errs, quantity.ValidateRequirements(&corev1.ResourceRequirements{Limits: s.Overhead}, quantity.Container, nil, path.Child("overhead"))...)
	}
	if s.OS != nil {
		errs = append(errs, oneOf(s.OS.Name, systems, path.Child("os", "name"))...)
	}
	return errs
}

func validateContainers(s *corev1.PodSpec, path *field.Path) field.ErrorList {
	volumes, errs := volume.Validate(s.Volumes, path.Child("volumes"))
	pod := container.Pod{
		Volumes:       volumes,
		Claims:        sets.New[string](),
		GracePeriod:   s.TerminationGracePeriodSeconds,
		RestartPolicy: s.RestartPolicy,
		HostUsers:     s.HostUsers == nil || *s.HostUsers,
	}
	if s.OS != nil {
		pod.OS = s.OS.Name
	}
	for _, c := range s.ResourceClaims {
		pod.Claims.Insert(c.Name)
	}
	errs = append(errs, container.Validate(s.Containers, pod, path.Child("containers"))...)
	errs = append(errs, container.ValidateInit(s.InitContainers, s.Containers, pod, path.Child("initContainers"))...)
	var others []string
	for _, c := range slices.Concat(s.Containers, s.InitContainers) {
		others = append(others, c.Name)
	}
	return append(errs, container.ValidateEphemeral(s.EphemeralContainers, others, pod, path.Child("ephemeralContainers"))...)
}

// validateHostPorts lets containers on the node's network have their own ports only. In a template the host port may
// still be missing.
func validateHostPorts(s *corev1.PodSpec, owner Owner, path *field.Path) field.ErrorList {
	if !s.HostNetwork {
		return nil
	}
	var errs field.ErrorList
	for i, c := range s.Containers {
		for j, p := range c.Ports {
			if (owner == Pod || p.HostPort != 0) && p.HostPort != p.ContainerPort {
				errs = append(errs, field.Invalid(path.Child("containers").Index(i).Child("ports").Index(j).Child("hostPort"), p.HostPort, "must match `containerPort` when `hostNetwork` is true"))
			}
		}
	}
	return errs
}

func validateGates(gates []corev1.PodSchedulingGate, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	seen := sets.New[string]()
	for i, g := range gates {
		errs = append(errs, qualifiedName(g.Name, path.Index(i))...)
		if seen.Has(g.Name) {
			errs = append(errs, field.Duplicate(path.Index(i), g.Name))
		}
		seen.Insert(g.Name)
	}
	return errs
}

func validateNames(s *corev1.PodSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	check := func(name, child string, valid func(string) []string) {
		if name != "" {
			errs = append(errs, messages(valid(name), name, path.Child(child))...)
		}
	}
	subdomain := func(name string) []string { return apivalidation.NameIsDNSSubdomain(name, false) }
	check(s.ServiceAccountName, "serviceAccountName", subdomain)
	check(s.NodeName, "nodeName", subdomain)
	check(s.Hostname, "hostname", validation.IsDNS1123Label)
	check(s.Subdomain, "subdomain", validation.IsDNS1123Label)
	check(s.PriorityClassName, "priorityClassName", subdomain)
	if s.RuntimeClassName != nil {
		errs = append(errs, messages(subdomain(*s.RuntimeClassName), *s.RuntimeClassName, path.Child("runtimeClassName"))...)
	}
	if h := s.HostnameOverride; h != nil {
		p := path.Child("hostnameOverride")
		errs = append(errs, messages(validation.IsDNS1123Subdomain(*h), *h, p)...)
		if len(*h) > maxHostname {
			errs = append(errs, field.TooLong(p, *h, maxHostname))
		}
		if s.SetHostnameAsFQDN != nil && *s.SetHostnameAsFQDN {
			errs = append(errs, field.Forbidden(p, "may not be specified when `setHostnameAsFQDN` is true"))
		}
		if s.HostNetwork {
			errs = append(errs, field.Forbidden(p, "may not be specified when `hostNetwork` is true"))
		}
	}
	return errs
}

func messages(msgs []string, value string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, msg := range msgs {
		errs = append(errs, field.Invalid(path, value, msg))
	}
	return errs
}

func qualifiedName(name string, path *field.Path) field.ErrorList {
	return messages(validation.IsQualifiedName(name), name, path)
}

func oneOf[T ~string](value T, allowed []T, path *field.Path) field.ErrorList {
	switch {
	case value == "":
		return field.ErrorList{field.Required(path, "")}
	case !slices.Contains(allowed, value):
		return field.ErrorList{field.NotSupported(path, value, allowed)}
	}
	return nil
}
