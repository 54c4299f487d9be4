// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package podspec

import (
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"minik8s.io/minik8s/pkg/apis/core/affinity"
	"minik8s.io/minik8s/pkg/apis/core/container"
	"minik8s.io/minik8s/pkg/apis/core/dns"
	"minik8s.io/minik8s/pkg/apis/core/quantity"
	"minik8s.io/minik8s/pkg/apis/core/ratchet"
	"minik8s.io/minik8s/pkg/apis/core/securitycontext"
	"minik8s.io/minik8s/pkg/apis/core/toleration"
	"minik8s.io/minik8s/pkg/apis/core/topologyspread"
	"minik8s.io/minik8s/pkg/apis/core/volume"
)

// maxHostname is the longest host name that Linux takes, in bytes.
const maxHostname = 64

var (
	restartPolicies    = []corev1.RestartPolicy{corev1.RestartPolicyAlways, corev1.RestartPolicyOnFailure, corev1.RestartPolicyNever}
	preemptionPolicies = []corev1.PreemptionPolicy{corev1.PreemptLowerPriority, corev1.PreemptNever}
)

// Validate checks a spec whose defaults are filled in. pod is the metadata of its pod, nil if the spec is that of a
// template, which gets some defaults later. Of some rules that old, the spec before an update, violates, the new one may
// do so too; old is nil on create.
func Validate(s, old *corev1.PodSpec, pod *metav1.ObjectMeta, path *field.Path) field.ErrorList {
	sysAdmin := old != nil && mayKeepSysAdmin(old)
	return ratchet.Drop(validate(s, pod, sysAdmin, path), func() field.ErrorList {
		if old == nil {
			return nil
		}
		return validate(old, pod, false, path)
	})
}

func validate(s *corev1.PodSpec, pod *metav1.ObjectMeta, sysAdmin bool, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if s.TerminationGracePeriodSeconds == nil {
		errs = append(errs, field.Required(path.Child("terminationGracePeriodSeconds"), ""))
	}
	errs = append(errs, validateContainers(s, pod, sysAdmin, path)...)
	errs = append(errs, validateResources(s, path.Child("resources"))...)
	errs = append(errs, validateHostPorts(s, pod != nil, path)...)
	errs = append(errs, oneOf(s.RestartPolicy, restartPolicies, path.Child("restartPolicy"))...)
	errs = append(errs, dns.ValidatePolicy(s.DNSPolicy, path.Child("dnsPolicy"))...)
	errs = append(errs, metav1validation.ValidateLabels(s.NodeSelector, path.Child("nodeSelector"))...)
	errs = append(errs, securitycontext.ValidatePod(s, path)...)
	errs = append(errs, affinity.Validate(s.Affinity, path.Child("affinity"))...)
	errs = append(errs, dns.ValidateConfig(s.DNSConfig, s.DNSPolicy, path.Child("dnsConfig"))...)
	for i, g := range s.ReadinessGates {
		errs = append(errs, qualifiedName(string(g.ConditionType), path.Child("readinessGates").Index(i).Child("conditionType"))...)
	}
	errs = append(errs, validateGates(s.SchedulingGates, path.Child("schedulingGates"))...)
	errs = append(errs, topologyspread.Validate(s.TopologySpreadConstraints, path.Child("topologySpreadConstraints"))...)
	errs = append(errs, validateHostProcess(s, path)...)
	errs = append(errs, validateUserNamespace(s, path)...)
	errs = append(errs, validateNames(s, path)...)
	if d := s.ActiveDeadlineSeconds; d != nil && (*d < 1 || *d > math.MaxInt32) {
		errs = append(errs, field.Invalid(path.Child("activeDeadlineSeconds"), *d, validation.InclusiveRangeError(1, math.MaxInt32)))
	}
	errs = append(errs, toleration.Validate(s.Tolerations, path.Child("tolerations"))...)
	for i, a := range s.HostAliases {
		p := path.Child("hostAliases").Index(i)
		errs = append(errs, validation.IsValidIPForLegacyField(p.Child("ip"), a.IP, true, nil)...)
		for j, name := range a.Hostnames {
			errs = append(errs, messages(validation.IsDNS1123Subdomain(name), name, p.Child("hostnames").Index(j))...)
		}
	}
	if s.PreemptionPolicy != nil {
		errs = append(errs, oneOf(*s.PreemptionPolicy, preemptionPolicies, path.Child("preemptionPolicy"))...)
	}
	if s.Overhead != nil {
		errs = append(errs, quantity.ValidateRequirements(&corev1.ResourceRequirements{Limits: s.Overhead}, quantity.Container, nil, path.Child("overhead"))...)
	}
	errs = append(errs, validateOS(s, path)...)
	errs = append(errs, validateSchedulingGroup(s.SchedulingGroup, path.Child("schedulingGroup"))...)
	return append(errs, validateVariableFiles(s, path)...)
}

// validateSchedulingGroup checks by what a pod names its group: one of the possible ways, of which there is one so far.
func validateSchedulingGroup(g *corev1.PodSchedulingGroup, path *field.Path) field.ErrorList {
	switch path = path.Child("podGroupName"); {
	case g == nil:
		return nil
	case g.PodGroupName == nil:
		return field.ErrorList{field.Invalid(path, g.PodGroupName, "must specify one of: `podGroupName`")}
	}
	return messages(apivalidation.NameIsDNSSubdomain(*g.PodGroupName, false), *g.PodGroupName, path)
}

func validateContainers(s *corev1.PodSpec, meta *metav1.ObjectMeta, sysAdmin bool, path *field.Path) field.ErrorList {
	podName := ""
	if meta != nil {
		podName = meta.Name
	}
	volumes, errs := volume.Validate(s.Volumes, podName, path.Child("volumes"))
	errs = append(errs, validateClaims(s.ResourceClaims, meta, path.Child("resourceClaims"))...)
	pod := container.Pod{
		Volumes:       volumes,
		Claims:        claimNames(s),
		GracePeriod:   s.TerminationGracePeriodSeconds,
		RestartPolicy: s.RestartPolicy,
		HostUsers:     s.HostUsers == nil || *s.HostUsers,
		SysAdmin:      sysAdmin,
	}
	if s.OS != nil {
		pod.OS = s.OS.Name
	}
	errs = append(errs, container.Validate(s.Containers, pod, path.Child("containers"))...)
	errs = append(errs, container.ValidateInit(s.InitContainers, s.Containers, pod, path.Child("initContainers"))...)
	var others []string
	for _, c := range slices.Concat(s.Containers, s.InitContainers) {
		others = append(others, c.Name)
	}
	return append(errs, container.ValidateEphemeral(s.EphemeralContainers, others, pod, path.Child("ephemeralContainers"))...)
}

// mayKeepSysAdmin tells whether a container has a capability that contradicts its not escalating privileges. One that
// says nothing about escalation counts here, although it contradicts nothing yet.
func mayKeepSysAdmin(old *corev1.PodSpec) bool {
	for _, c := range All(old, nil) {
		sc := c.SecurityContext
		if sc == nil || sc.Capabilities == nil || sc.AllowPrivilegeEscalation != nil && *sc.AllowPrivilegeEscalation {
			continue
		}
		if slices.Contains(sc.Capabilities.Add, securitycontext.SysAdmin) {
			return true
		}
	}
	return false
}

func claimNames(s *corev1.PodSpec) sets.Set[string] {
	names := sets.New[string]()
	for _, c := range s.ResourceClaims {
		if c.Name != "" {
			names.Insert(c.Name)
		}
	}
	return names
}

// validateClaims checks the resource claims of a pod (KEP-4381).
func validateClaims(claims []corev1.PodResourceClaim, pod *metav1.ObjectMeta, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	seen := sets.New[string]()
	for i, c := range claims {
		if pod != nil {
			if _, mirror := pod.Annotations[corev1.MirrorPodAnnotationKey]; mirror {
				errs = append(errs, field.Forbidden(field.NewPath(""), "static pods do not support resource claims"))
				continue
			}
		}
		p := path.Index(i)
		switch {
		case c.Name == "":
			errs = append(errs, field.Required(p.Child("name"), ""))
		case seen.Has(c.Name):
			errs = append(errs, field.Duplicate(p.Child("name"), c.Name))
		default:
			errs = append(errs, messages(validation.IsDNS1123Label(c.Name), c.Name, p.Child("name"))...)
			seen.Insert(c.Name)
		}
		switch claim, template := c.ResourceClaimName, c.ResourceClaimTemplateName; {
		case claim != nil && template != nil:
			errs = append(errs, field.Invalid(p, c, "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"))
		case claim == nil && template == nil:
			errs = append(errs, field.Invalid(p, c, "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"))
		}
		errs = append(errs, optionalName(c.ResourceClaimName, p.Child("resourceClaimName"))...)
		errs = append(errs, optionalName(c.ResourceClaimTemplateName, p.Child("resourceClaimTemplateName"))...)
	}
	return errs
}

// validateHostPorts lets containers on the node's network have their own ports only. In a template the host port may
// still be missing.
func validateHostPorts(s *corev1.PodSpec, isPod bool, path *field.Path) field.ErrorList {
	if !s.HostNetwork {
		return nil
	}
	var errs field.ErrorList
	for i, c := range s.Containers {
		for j, p := range c.Ports {
			if (isPod || p.HostPort != 0) && p.HostPort != p.ContainerPort {
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

// validateUserNamespace refuses what does not work in a user namespace of the pod's own (KEP-127).
func validateUserNamespace(s *corev1.PodSpec, path *field.Path) field.ErrorList {
	if s.HostUsers == nil || *s.HostUsers {
		return nil
	}
	const own = "when `hostUsers` is false"
	var errs field.ErrorList
	for _, f := range []struct {
		name string
		set  bool
	}{{"hostNetwork", s.HostNetwork}, {"HostPID", s.HostPID}, {"HostIPC", s.HostIPC}} { // upstream's spelling
		if f.set {
			errs = append(errs, field.Forbidden(path.Child(f.name), own))
		}
	}
	for p, c := range All(s, path) {
		if len(c.VolumeDevices) > 0 {
			errs = append(errs, ratchet.Mark("user namespace with devices", field.Forbidden(p.Child("volumeDevices"), own))...)
		}
	}
	return errs
}

// validateVariableFiles lets variables come from files in emptyDirs only (KEP-3721).
func validateVariableFiles(s *corev1.PodSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for p, c := range All(s, path) {
		for i, v := range c.Env {
			if v.ValueFrom == nil || v.ValueFrom.FileKeyRef == nil {
				continue
			}
			name := v.ValueFrom.FileKeyRef.VolumeName
			p := p.Child("env").Index(i).Child("valueFrom", "fileKeyRef", "volumeName")
			named := func(v corev1.Volume) bool { return v.Name == name }
			switch at := slices.IndexFunc(s.Volumes, named); {
			case at < 0:
				errs = append(errs, field.NotFound(p, name))
			case s.Volumes[at].EmptyDir == nil:
				errs = append(errs, field.Invalid(p, name, "referenced volume must be of type emptyDir"))
			}
		}
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
	if h := s.HostnameOverride; h != nil {
		p := path.Child("hostnameOverride")
		if s.SetHostnameAsFQDN != nil && *s.SetHostnameAsFQDN {
			errs = append(errs, field.Forbidden(p, "may not be specified when setHostnameAsFQDN is true"))
		}
		if s.HostNetwork {
			errs = append(errs, field.Forbidden(p, "may not be specified when hostNetwork is true"))
		}
		if len(*h) > maxHostname {
			errs = append(errs, field.TooLong(p, "", maxHostname))
		}
		errs = append(errs, messages(validation.IsDNS1123Subdomain(*h), *h, p)...)
	}
	check(s.ServiceAccountName, "serviceAccountName", subdomain)
	check(s.NodeName, "nodeName", subdomain)
	check(s.Hostname, "hostname", validation.IsDNS1123Label)
	check(s.Subdomain, "subdomain", validation.IsDNS1123Label)
	check(s.PriorityClassName, "priorityClassName", subdomain)
	return append(errs, optionalName(s.RuntimeClassName, path.Child("runtimeClassName"))...)
}

func subdomain(name string) []string { return apivalidation.NameIsDNSSubdomain(name, false) }

func optionalName(name *string, path *field.Path) field.ErrorList {
	if name == nil {
		return nil
	}
	return messages(subdomain(*name), *name, path)
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
