// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"minik8s.io/minik8s/pkg/registry/core/endpoints"
)

var (
	protocols    = []corev1.Protocol{corev1.ProtocolSCTP, corev1.ProtocolTCP, corev1.ProtocolUDP}
	affinities   = []corev1.ServiceAffinity{corev1.ServiceAffinityClientIP, corev1.ServiceAffinityNone}
	serviceTypes = []corev1.ServiceType{corev1.ServiceTypeClusterIP, corev1.ServiceTypeExternalName, corev1.ServiceTypeLoadBalancer, corev1.ServiceTypeNodePort}
	external     = []corev1.ServiceExternalTrafficPolicy{corev1.ServiceExternalTrafficPolicyCluster, corev1.ServiceExternalTrafficPolicyLocal}
	internal     = []corev1.ServiceInternalTrafficPolicy{corev1.ServiceInternalTrafficPolicyCluster, corev1.ServiceInternalTrafficPolicyLocal}
	traffic      = []string{corev1.ServiceTrafficDistributionPreferClose, corev1.ServiceTrafficDistributionPreferSameZone, corev1.ServiceTrafficDistributionPreferSameNode}
)

func validate(_ context.Context, s *corev1.Service) field.ErrorList {
	return validateOver(s, &corev1.Service{})
}

// validateOver lets addresses stay that old has and that would be refused by now.
func validateOver(s, old *corev1.Service) field.ErrorList {
	path := field.NewPath("spec")
	errs := validateTopology(s.Annotations)
	errs = append(errs, validateType(s, path)...)
	errs = append(errs, validatePorts(s, path.Child("ports"))...)
	if s.Spec.Selector != nil {
		errs = append(errs, metav1validation.ValidateLabels(s.Spec.Selector, path.Child("selector"))...)
	}
	errs = append(errs, validateAffinity(&s.Spec, path)...)
	errs = append(errs, validateClusterIPs(s, old, path)...)
	for i, ip := range s.Spec.ExternalIPs {
		at := path.Child("externalIPs").Index(i)
		if bad := validation.IsValidIPForLegacyField(at, ip, true, old.Spec.ExternalIPs); len(bad) > 0 {
			errs = append(errs, bad...)
		} else {
			errs = append(errs, endpoints.ValidateReachable(ip, at)...)
		}
	}
	errs = append(errs, validateLoadBalancer(s, old, path)...)
	return append(errs, validateTraffic(s, path)...)
}

// validateTopology checks the two spellings of one annotation.
func validateTopology(annotations map[string]string) field.ErrorList {
	mode, hints := annotations[corev1.AnnotationTopologyMode], annotations[corev1.DeprecatedAnnotationTopologyAwareHints]
	if mode == "" || hints == "" || mode == hints {
		return nil
	}
	return field.ErrorList{field.Invalid(field.NewPath("metadata", "annotations").Key(corev1.AnnotationTopologyMode), mode,
		fmt.Sprintf("must match annotations[%s] when both are specified", corev1.DeprecatedAnnotationTopologyAwareHints))}
}

func notSupported[T ~string](path *field.Path, value T, allowed []T) field.ErrorList {
	switch {
	case value == "":
		return field.ErrorList{field.Required(path, "")}
	case !slices.Contains(allowed, value):
		return field.ErrorList{field.NotSupported(path, value, allowed)}
	}
	return nil
}

func validateType(s *corev1.Service, path *field.Path) field.ErrorList {
	errs := notSupported(path.Child("type"), s.Spec.Type, serviceTypes)
	if len(s.Spec.Ports) == 0 && !headlessIP(s) && s.Spec.Type != corev1.ServiceTypeExternalName {
		errs = append(errs, field.Required(path.Child("ports"), ""))
	}
	switch s.Spec.Type {
	case corev1.ServiceTypeLoadBalancer:
		if headlessIP(s) {
			errs = append(errs, field.Invalid(path.Child("clusterIPs").Index(0), corev1.ClusterIPNone, "may not be set to 'None' for LoadBalancer services"))
		}
	case corev1.ServiceTypeNodePort:
		if headlessIP(s) {
			errs = append(errs, field.Invalid(path.Child("clusterIPs").Index(0), corev1.ClusterIPNone, "may not be set to 'None' for NodePort services"))
		}
	case corev1.ServiceTypeExternalName:
		if len(s.Spec.ClusterIPs) > 0 {
			errs = append(errs, field.Forbidden(path.Child("clusterIPs"), "may not be set for ExternalName services"))
		}
		if len(s.Spec.IPFamilies) > 0 {
			errs = append(errs, field.Forbidden(path.Child("ipFamilies"), "may not be set for ExternalName services"))
		}
		if s.Spec.IPFamilyPolicy != nil {
			errs = append(errs, field.Forbidden(path.Child("ipFamilyPolicy"), "may not be set for ExternalName services"))
		}
		// A trailing dot marks a name as absolute and is not part of it.
		if name := strings.TrimSuffix(s.Spec.ExternalName, "."); name == "" {
			errs = append(errs, field.Required(path.Child("externalName"), ""))
		} else {
			for _, msg := range validation.IsDNS1123Subdomain(name) {
				errs = append(errs, field.Invalid(path.Child("externalName"), name, msg))
			}
		}
	}
	return errs
}

// headlessIP tells whether "None" is asked for, whatever the type.
func headlessIP(s *corev1.Service) bool {
	return len(s.Spec.ClusterIPs) == 1 && s.Spec.ClusterIPs[0] == corev1.ClusterIPNone
}

func validatePorts(s *corev1.Service, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	type number struct {
		protocol corev1.Protocol
		port     int32
	}
	names, ports, nodes := map[string]bool{}, map[number]bool{}, map[number]bool{}
	for i, p := range s.Spec.Ports {
		at := path.Index(i)
		switch {
		case p.Name == "" && len(s.Spec.Ports) > 1:
			errs = append(errs, field.Required(at.Child("name"), ""))
		case p.Name != "":
			for _, msg := range validation.IsDNS1123Label(p.Name) {
				errs = append(errs, field.Invalid(at.Child("name"), p.Name, msg))
			}
			if names[p.Name] {
				errs = append(errs, field.Duplicate(at.Child("name"), p.Name))
			}
			names[p.Name] = true
		}
		for _, msg := range validation.IsValidPortNum(int(p.Port)) {
			errs = append(errs, field.Invalid(at.Child("port"), p.Port, msg))
		}
		errs = append(errs, notSupported(at.Child("protocol"), p.Protocol, protocols)...)
		errs = append(errs, validateTargetPort(p.TargetPort, at.Child("targetPort"))...)
		if p.AppProtocol != nil {
			for _, msg := range validation.IsQualifiedName(*p.AppProtocol) {
				errs = append(errs, field.Invalid(at.Child("appProtocol"), *p.AppProtocol, msg))
			}
		}
		if k := (number{p.Protocol, p.Port}); ports[k] {
			errs = append(errs, field.Duplicate(at, corev1.ServicePort{Protocol: p.Protocol, Port: p.Port}))
		} else {
			ports[k] = true
		}
		if p.NodePort == 0 {
			continue
		}
		if s.Spec.Type == corev1.ServiceTypeClusterIP {
			errs = append(errs, field.Forbidden(at.Child("nodePort"), "may not be used when `type` is 'ClusterIP'"))
		}
		if k := (number{p.Protocol, p.NodePort}); nodes[k] {
			errs = append(errs, field.Duplicate(at.Child("nodePort"), p.NodePort))
		} else {
			nodes[k] = true
		}
	}
	return errs
}

func validateTargetPort(p intstr.IntOrString, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if p.Type == intstr.Int {
		for _, msg := range validation.IsValidPortNum(p.IntValue()) {
			errs = append(errs, field.Invalid(path, p.IntValue(), msg))
		}
		return errs
	}
	for _, msg := range validation.IsValidPortName(p.StrVal) {
		errs = append(errs, field.Invalid(path, p.StrVal, msg))
	}
	return errs
}

func validateAffinity(spec *corev1.ServiceSpec, path *field.Path) field.ErrorList {
	errs := notSupported(path.Child("sessionAffinity"), spec.SessionAffinity, affinities)
	at := path.Child("sessionAffinityConfig")
	c := spec.SessionAffinityConfig
	if spec.SessionAffinity == corev1.ServiceAffinityNone && c != nil {
		return append(errs, field.Forbidden(at, fmt.Sprintf("must not be set when session affinity is %s", corev1.ServiceAffinityNone)))
	}
	if spec.SessionAffinity != corev1.ServiceAffinityClientIP {
		return errs
	}
	const limit = 86400
	why := fmt.Sprintf("when session affinity type is %s", corev1.ServiceAffinityClientIP)
	switch {
	case c == nil:
		errs = append(errs, field.Required(at, why))
	case c.ClientIP == nil:
		errs = append(errs, field.Required(at.Child("clientIP"), why))
	case c.ClientIP.TimeoutSeconds == nil:
		errs = append(errs, field.Required(at.Child("clientIP", "timeoutSeconds"), why))
	case *c.ClientIP.TimeoutSeconds <= 0 || *c.ClientIP.TimeoutSeconds > limit:
		errs = append(errs, field.Invalid(at.Child("clientIP", "timeoutSeconds"), *c.ClientIP.TimeoutSeconds,
			fmt.Sprintf("must be greater than 0 and less than %d", limit)))
	}
	return errs
}

func validateLoadBalancer(s, old *corev1.Service, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	spec := &s.Spec
	const only = "may only be used when `type` is 'LoadBalancer'"
	balanced := spec.Type == corev1.ServiceTypeLoadBalancer
	if len(spec.LoadBalancerSourceRanges) > 0 {
		at := path.Child("LoadBalancerSourceRanges")
		if !balanced {
			errs = append(errs, field.Forbidden(at, only))
		}
		had := trimmed(old.Spec.LoadBalancerSourceRanges)
		for i, cidr := range trimmed(spec.LoadBalancerSourceRanges) {
			errs = append(errs, validation.IsValidCIDRForLegacyField(at.Index(i), cidr, true, had)...)
		}
	} else if ranges, set := s.Annotations[corev1.AnnotationLoadBalancerSourceRangesKey]; set {
		at := field.NewPath("metadata", "annotations").Key(corev1.AnnotationLoadBalancerSourceRangesKey)
		if !balanced {
			errs = append(errs, field.Forbidden(at, only))
		}
		if before, had := old.Annotations[corev1.AnnotationLoadBalancerSourceRangesKey]; strings.TrimSpace(ranges) != "" && (!had || before != ranges) {
			for _, cidr := range trimmed(strings.Split(ranges, ",")) {
				errs = append(errs, validation.IsValidCIDRForLegacyField(at, cidr, true, nil)...)
			}
		}
	}
	switch at := path.Child("allocateLoadBalancerNodePorts"); {
	case balanced && spec.AllocateLoadBalancerNodePorts == nil:
		errs = append(errs, field.Required(field.NewPath("allocateLoadBalancerNodePorts"), "")) // sic
	case !balanced && spec.AllocateLoadBalancerNodePorts != nil:
		errs = append(errs, field.Forbidden(at, only))
	}
	switch at := path.Child("loadBalancerClass"); {
	case spec.LoadBalancerClass == nil:
	case !balanced:
		errs = append(errs, field.Forbidden(at, only))
	default:
		for _, msg := range validation.IsQualifiedName(*spec.LoadBalancerClass) {
			errs = append(errs, field.Invalid(at, *spec.LoadBalancerClass, msg))
		}
	}
	return errs
}

// trimmed leaves out blanks around values: they were accepted once.
func trimmed(values []string) []string {
	out := make([]string, len(values))
	for i, v := range values {
		out[i] = strings.TrimSpace(v)
	}
	return out
}

func validateTraffic(s *corev1.Service, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	at := path.Child("externalTrafficPolicy")
	if externallyAccessible(s) {
		errs = append(errs, notSupported(at, s.Spec.ExternalTrafficPolicy, external)...)
	} else if s.Spec.ExternalTrafficPolicy != "" {
		errs = append(errs, field.Invalid(at, s.Spec.ExternalTrafficPolicy, "may only be set for externally-accessible services"))
	}
	at = path.Child("healthCheckNodePort")
	switch port := s.Spec.HealthCheckNodePort; {
	case needsHealthCheck(s) && port == 0:
		errs = append(errs, field.Required(at, ""))
	case needsHealthCheck(s):
		for _, msg := range validation.IsValidPortNum(int(port)) {
			errs = append(errs, field.Invalid(at, port, msg))
		}
	case port != 0:
		errs = append(errs, field.Invalid(at, port, "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"))
	}
	at = path.Child("internalTrafficPolicy")
	if p := s.Spec.InternalTrafficPolicy; p != nil {
		if !slices.Contains(internal, *p) {
			errs = append(errs, field.NotSupported(at, *p, internal))
		}
	} else if needsClusterIP(s) {
		errs = append(errs, field.Required(at, ""))
	}
	if d := s.Spec.TrafficDistribution; d != nil && !slices.Contains(traffic, *d) {
		errs = append(errs, field.NotSupported(path.Child("trafficDistribution"), *d, traffic))
	}
	return errs
}
