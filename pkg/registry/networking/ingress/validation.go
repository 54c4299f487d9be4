// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package ingress

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"

	"minik8s.io/minik8s/pkg/registry"
)

var (
	pathTypes = []networkingv1.PathType{networkingv1.PathTypeExact, networkingv1.PathTypeImplementationSpecific, networkingv1.PathTypePrefix}
	// What a server might resolve to another path than the one that was matched.
	badInPath    = []string{"//", "/./", "/../", "%2f", "%2F"}
	badPathEnds  = []string{"/..", "/."}
	notAnAddress = "must be a DNS name, not an IP address"
)

// leniency is what an update may keep because it was stored before there was a rule against it.
type leniency struct{ secretNames, wildcardRules bool }

func validate(_ context.Context, in *networkingv1.Ingress) field.ErrorList {
	errs := validateSpec(&in.Spec, field.NewPath("spec"), leniency{})
	if class, set := in.Annotations[ClassAnnotation]; set && in.Spec.IngressClassName != nil && class != *in.Spec.IngressClassName {
		// The path is upstream's, which leaves metadata out.
		errs = append(errs, field.Invalid(field.NewPath("annotations").Child(ClassAnnotation), class, "must match `ingressClassName` when both are specified"))
	}
	return errs
}

func validateUpdate(_ context.Context, in, old *networkingv1.Ingress) field.ErrorList {
	errs := registry.ValidateMetadata(in, true, apivalidation.NameIsDNSSubdomain)
	return append(errs, validateSpec(&in.Spec, field.NewPath("spec"), leniencyFor(&old.Spec))...)
}

func leniencyFor(old *networkingv1.IngressSpec) leniency {
	return leniency{
		secretNames: slices.ContainsFunc(old.TLS, func(t networkingv1.IngressTLS) bool { return len(secretName(t.SecretName)) > 0 }),
		wildcardRules: slices.ContainsFunc(old.Rules, func(r networkingv1.IngressRule) bool {
			return strings.Contains(r.Host, "*") && len(validatePaths(r.HTTP, nil)) > 0
		}),
	}
}

func validateSpec(spec *networkingv1.IngressSpec, path *field.Path, l leniency) field.ErrorList {
	var errs field.ErrorList
	if len(spec.Rules) == 0 && spec.DefaultBackend == nil {
		errs = append(errs, field.Invalid(path, spec.Rules, "either `defaultBackend` or `rules` must be specified"))
	}
	if spec.DefaultBackend != nil {
		errs = append(errs, validateBackend(spec.DefaultBackend, path.Child("defaultBackend"))...)
	}
	for i, r := range spec.Rules {
		at := path.Child("rules").Index(i)
		if r.Host != "" && netutils.ParseIPSloppy(r.Host) != nil {
			errs = append(errs, field.Invalid(at.Child("host"), r.Host, notAnAddress))
		}
		if r.Host != "" {
			errs = append(errs, validateHost(r.Host, at.Child("host"))...)
		}
		if !l.wildcardRules || !strings.Contains(r.Host, "*") {
			errs = append(errs, validatePaths(r.HTTP, at.Child("http"))...)
		}
	}
	for i, t := range spec.TLS {
		at := path.Child("tls").Index(i)
		for j, host := range t.Hosts {
			errs = append(errs, validateHost(host, at.Child("hosts").Index(j))...)
		}
		if !l.secretNames {
			errs = append(errs, invalid(secretName(t.SecretName), t.SecretName, at.Child("secretName"))...)
		}
	}
	if c := spec.IngressClassName; c != nil {
		errs = append(errs, invalid(apivalidation.NameIsDNSSubdomain(*c, false), *c, path.Child("ingressClassName"))...)
	}
	return errs
}

func invalid(msgs []string, value any, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, msg := range msgs {
		errs = append(errs, field.Invalid(path, value, msg))
	}
	return errs
}

func secretName(name string) []string {
	if name == "" {
		return nil
	}
	return apivalidation.NameIsDNSSubdomain(name, false)
}

func validateHost(host string, path *field.Path) field.ErrorList {
	if strings.Contains(host, "*") {
		return invalid(validation.IsWildcardDNS1123Subdomain(host), host, path)
	}
	return invalid(validation.IsDNS1123Subdomain(host), host, path)
}

func validatePaths(http *networkingv1.HTTPIngressRuleValue, path *field.Path) field.ErrorList {
	if http == nil {
		return nil
	}
	paths := path.Child("paths")
	if len(http.Paths) == 0 {
		return field.ErrorList{field.Required(paths, "")}
	}
	var errs field.ErrorList
	for i := range http.Paths {
		errs = append(errs, validatePath(&http.Paths[i], paths.Index(i))...)
	}
	return errs
}

func validatePath(p *networkingv1.HTTPIngressPath, path *field.Path) field.ErrorList {
	if p.PathType == nil {
		return field.ErrorList{field.Required(path.Child("pathType"), "pathType must be specified")}
	}
	var errs field.ErrorList
	at, absolute := path.Child("path"), strings.HasPrefix(p.Path, "/")
	const must = "must be an absolute path"
	switch *p.PathType {
	case networkingv1.PathTypeExact, networkingv1.PathTypePrefix:
		if !absolute {
			errs = append(errs, field.Invalid(at, p.Path, must))
		}
		for _, bad := range badInPath {
			if strings.Contains(p.Path, bad) {
				errs = append(errs, field.Invalid(at, p.Path, fmt.Sprintf("must not contain '%s'", bad)))
			}
		}
		for _, bad := range badPathEnds {
			if strings.HasSuffix(p.Path, bad) {
				errs = append(errs, field.Invalid(at, p.Path, fmt.Sprintf("cannot end with '%s'", bad)))
			}
		}
	case networkingv1.PathTypeImplementationSpecific:
		if p.Path != "" && !absolute {
			errs = append(errs, field.Invalid(at, p.Path, must))
		}
	default:
		errs = append(errs, field.NotSupported(path.Child("pathType"), *p.PathType, pathTypes))
	}
	return append(errs, validateBackend(&p.Backend, path.Child("backend"))...)
}

func validateBackend(b *networkingv1.IngressBackend, path *field.Path) field.ErrorList {
	switch {
	case b.Resource != nil && b.Service != nil:
		return field.ErrorList{field.Invalid(path, "", "cannot set both resource and service backends")}
	case b.Resource != nil:
		return validateReference(b.Resource, path.Child("resource"))
	case b.Service != nil:
		return validateService(b.Service, path)
	}
	return field.ErrorList{field.Invalid(path, "", "resource or service backend is required")}
}

func validateService(s *networkingv1.IngressServiceBackend, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	at := path.Child("service")
	if s.Name == "" {
		errs = append(errs, field.Required(at.Child("name"), ""))
	} else {
		errs = append(errs, invalid(apivalidation.NameIsDNSLabel(s.Name, false), s.Name, at.Child("name"))...)
	}
	switch port := s.Port; {
	case port.Name != "" && port.Number != 0:
		errs = append(errs, field.Invalid(path, "", "cannot set both port name & port number"))
	case port.Name != "":
		errs = append(errs, invalid(validation.IsValidPortName(port.Name), port.Name, at.Child("port", "name"))...)
	case port.Number != 0:
		errs = append(errs, invalid(validation.IsValidPortNum(int(port.Number)), port.Number, at.Child("port", "number"))...)
	default:
		errs = append(errs, field.Required(path, "port name or number is required"))
	}
	return errs
}

func validateReference(r *corev1.TypedLocalObjectReference, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if r.APIGroup != nil {
		errs = append(errs, invalid(validation.IsDNS1123Subdomain(*r.APIGroup), *r.APIGroup, path.Child("apiGroup"))...)
	}
	for _, f := range []struct{ name, value string }{{"kind", r.Kind}, {"name", r.Name}} {
		if f.value == "" {
			errs = append(errs, field.Required(path.Child(f.name), ""))
		} else {
			errs = append(errs, invalid(content.IsPathSegmentName(f.value), f.value, path.Child(f.name))...)
		}
	}
	return errs
}

func validateStatus(_ context.Context, in, old *networkingv1.Ingress) field.ErrorList {
	var had []string
	for _, point := range old.Status.LoadBalancer.Ingress {
		had = append(had, point.IP)
	}
	var errs field.ErrorList
	for i, point := range in.Status.LoadBalancer.Ingress {
		at := field.NewPath("status", "loadBalancer", "ingress").Index(i)
		if point.IP != "" {
			errs = append(errs, validation.IsValidIPForLegacyField(at.Child("ip"), point.IP, true, had)...)
		}
		if point.Hostname != "" {
			errs = append(errs, invalid(validation.IsDNS1123Subdomain(point.Hostname), point.Hostname, at.Child("hostname"))...)
			if netutils.ParseIPSloppy(point.Hostname) != nil {
				errs = append(errs, field.Invalid(at.Child("hostname"), point.Hostname, notAnAddress))
			}
		}
	}
	return errs
}
