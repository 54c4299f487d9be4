// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package flowschema

import (
	"context"
	"fmt"
	"slices"
	"strings"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/apis/flowcontrol/bootstrap"
)

var (
	methods = []flowcontrolv1.FlowDistinguisherMethodType{flowcontrolv1.FlowDistinguisherMethodByNamespaceType, flowcontrolv1.FlowDistinguisherMethodByUserType}
	kinds   = []flowcontrolv1.SubjectKind{flowcontrolv1.SubjectKindGroup, flowcontrolv1.SubjectKindServiceAccount, flowcontrolv1.SubjectKindUser}
	verbs   = sets.New("get", "list", "create", "update", "delete", "deletecollection", "patch", "watch", "proxy")
)

func validate(_ context.Context, f *flowcontrolv1.FlowSchema) field.ErrorList {
	path := field.NewPath("spec")
	errs := validateSpec(f.Name, &f.Spec, path)
	for _, fixed := range bootstrap.MandatoryFlowSchemas {
		if f.Name == fixed.Name && !apiequality.Semantic.DeepEqual(f.Spec, fixed.Spec) {
			errs = append(errs, field.Invalid(path, f.Spec, fmt.Sprintf("spec of '%s' must equal the fixed value", f.Name)))
		}
	}
	return append(errs, validateConditions(f.Status.Conditions)...)
}

func validateStatus(_ context.Context, f, _ *flowcontrolv1.FlowSchema) field.ErrorList {
	return validateConditions(f.Status.Conditions)
}

func validateConditions(conditions []flowcontrolv1.FlowSchemaCondition) field.ErrorList {
	var errs field.ErrorList
	seen := sets.New[flowcontrolv1.FlowSchemaConditionType]()
	for i, c := range conditions {
		path := field.NewPath("status", "conditions").Index(i).Child("type")
		if seen.Has(c.Type) {
			errs = append(errs, field.Duplicate(path, c.Type))
		}
		seen.Insert(c.Type)
		if c.Type == "" {
			errs = append(errs, field.Required(path, ""))
		}
	}
	return errs
}

func validateSpec(name string, s *flowcontrolv1.FlowSchemaSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	precedence := path.Child("matchingPrecedence")
	switch n := s.MatchingPrecedence; {
	case n <= 0:
		errs = append(errs, field.Invalid(precedence, n, "must be a positive value"))
	case n > flowcontrolv1.FlowSchemaMaxMatchingPrecedence:
		errs = append(errs, field.Invalid(precedence, n, fmt.Sprintf("must not be greater than %v", flowcontrolv1.FlowSchemaMaxMatchingPrecedence)))
	case n == 1 && name != flowcontrolv1.FlowSchemaNameExempt:
		errs = append(errs, field.Invalid(precedence, n, "only the schema named 'exempt' may have matchingPrecedence 1"))
	}
	if m := s.DistinguisherMethod; m != nil && !slices.Contains(methods, m.Type) {
		errs = append(errs, field.NotSupported(path.Child("distinguisherMethod", "type"), m, methods))
	}
	level := path.Child("priorityLevelConfiguration", "name")
	if n := s.PriorityLevelConfiguration.Name; n == "" {
		errs = append(errs, field.Required(level, "must reference a priority level"))
	} else {
		errs = append(errs, named(n, apivalidation.NameIsDNSSubdomain, level)...)
	}
	for i := range s.Rules {
		errs = append(errs, validateRule(&s.Rules[i], path.Child("rules").Index(i))...)
	}
	return errs
}

func named(name string, validate apivalidation.ValidateNameFunc, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, msg := range validate(name, false) {
		errs = append(errs, field.Invalid(path, name, msg))
	}
	return errs
}

func validateRule(r *flowcontrolv1.PolicyRulesWithSubjects, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(r.Subjects) == 0 {
		errs = append(errs, field.Required(path.Child("subjects"), "subjects must contain at least one value"))
	}
	for i := range r.Subjects {
		errs = append(errs, validateSubject(&r.Subjects[i], path.Child("subjects").Index(i))...)
	}
	if len(r.ResourceRules) == 0 && len(r.NonResourceRules) == 0 {
		errs = append(errs, field.Required(path, "at least one of resourceRules and nonResourceRules has to be non-empty"))
	}
	for i := range r.ResourceRules {
		errs = append(errs, validateResourceRule(&r.ResourceRules[i], path.Child("resourceRules").Index(i))...)
	}
	for i := range r.NonResourceRules {
		errs = append(errs, validateNonResourceRule(&r.NonResourceRules[i], path.Child("nonResourceRules").Index(i))...)
	}
	return errs
}

// validateSubject wants the member that the kind names, and no other.
func validateSubject(s *flowcontrolv1.Subject, path *field.Path) field.ErrorList {
	if !slices.Contains(kinds, s.Kind) {
		return field.ErrorList{field.NotSupported(path.Child("kind"), s.Kind, kinds)}
	}
	var errs field.ErrorList
	for _, member := range []struct {
		kind     flowcontrolv1.SubjectKind
		name     string
		set      bool
		validate func(*field.Path) field.ErrorList
	}{
		{flowcontrolv1.SubjectKindServiceAccount, "serviceAccount", s.ServiceAccount != nil, func(p *field.Path) field.ErrorList { return validateAccount(s.ServiceAccount, p) }},
		{flowcontrolv1.SubjectKindUser, "user", s.User != nil, func(p *field.Path) field.ErrorList { return nonempty(s.User.Name, p) }},
		{flowcontrolv1.SubjectKindGroup, "group", s.Group != nil, func(p *field.Path) field.ErrorList { return nonempty(s.Group.Name, p) }},
	} {
		at := path.Child(member.name)
		switch {
		case member.kind != s.Kind && member.set:
			errs = append(errs, field.Forbidden(at, fmt.Sprintf("%s is forbidden when subject kind is not '%s'", member.name, member.kind)))
		case member.kind == s.Kind && !member.set:
			errs = append(errs, field.Required(at, fmt.Sprintf("%s is required when subject kind is '%s'", member.name, member.kind)))
		case member.kind == s.Kind:
			errs = append(errs, member.validate(at)...)
		}
	}
	return errs
}

func nonempty(name string, path *field.Path) field.ErrorList {
	if name == "" {
		return field.ErrorList{field.Required(path.Child("name"), "")}
	}
	return nil
}

func validateAccount(s *flowcontrolv1.ServiceAccountSubject, path *field.Path) field.ErrorList {
	errs := nonempty(s.Name, path)
	if s.Name != "" && s.Name != flowcontrolv1.NameAll {
		errs = append(errs, named(s.Name, apivalidation.ValidateServiceAccountName, path.Child("name"))...)
	}
	if s.Namespace == "" {
		return append(errs, field.Required(path.Child("namespace"), "must specify namespace for service account"))
	}
	return append(errs, named(s.Namespace, apivalidation.ValidateNamespaceName, path.Child("namespace"))...)
}

func validateVerbs(list []string, path *field.Path) field.ErrorList {
	switch {
	case len(list) == 0:
		return field.ErrorList{field.Required(path, "verbs must contain at least one value")}
	case slices.Contains(list, flowcontrolv1.VerbAll):
		return wildcardAlone(list, "verbs", path)
	case !verbs.HasAll(list...):
		return field.ErrorList{field.NotSupported(path, list, sets.List(verbs))}
	}
	return nil
}

// wildcardAlone refuses a list that names more besides "*".
func wildcardAlone(list []string, what string, path *field.Path) field.ErrorList {
	if len(list) > 1 && slices.Contains(list, "*") {
		return field.ErrorList{field.Invalid(path, list, "if '*' is present, must not specify other "+what)}
	}
	return nil
}

func validateResourceRule(r *flowcontrolv1.ResourcePolicyRule, path *field.Path) field.ErrorList {
	errs := validateVerbs(r.Verbs, path.Child("verbs"))
	if len(r.APIGroups) == 0 {
		errs = append(errs, field.Required(path.Child("apiGroups"), "resource rules must supply at least one api group"))
	}
	errs = append(errs, wildcardAlone(r.APIGroups, "api groups", path.Child("apiGroups"))...)
	if len(r.Resources) == 0 {
		errs = append(errs, field.Required(path.Child("resources"), "resource rules must supply at least one resource"))
	}
	errs = append(errs, wildcardAlone(r.Resources, "resources", path.Child("resources"))...)
	namespaces := path.Child("namespaces")
	switch {
	case len(r.Namespaces) == 0 && !r.ClusterScope:
		errs = append(errs, field.Required(namespaces, "resource rules that are not cluster scoped must supply at least one namespace"))
	case slices.Contains(r.Namespaces, flowcontrolv1.NamespaceEvery):
		errs = append(errs, wildcardAlone(r.Namespaces, "namespaces", namespaces)...)
	default:
		for i, n := range r.Namespaces {
			for _, msg := range apivalidation.ValidateNamespaceName(n, false) {
				errs = append(errs, field.Invalid(namespaces.Index(i), n, "each member of this list must be '*' or a DNS-1123 label; "+msg))
			}
		}
	}
	return errs
}

func validateNonResourceRule(r *flowcontrolv1.NonResourcePolicyRule, path *field.Path) field.ErrorList {
	errs := validateVerbs(r.Verbs, path.Child("verbs"))
	urls := path.Child("nonResourceURLs")
	switch {
	case len(r.NonResourceURLs) == 0:
		errs = append(errs, field.Required(urls, "nonResourceURLs must contain at least one value"))
	case slices.Contains(r.NonResourceURLs, flowcontrolv1.NonResourceAll):
		errs = append(errs, wildcardAlone(r.NonResourceURLs, "non-resource URLs", urls)...)
	default:
		for i, u := range r.NonResourceURLs {
			if msg := badURL(u); msg != "" {
				errs = append(errs, field.Invalid(urls.Index(i), u, msg))
			}
		}
	}
	return errs
}

// badURL says what is wrong with a path; "*" may only stand for the whole rest behind a slash.
func badURL(u string) string {
	switch {
	case u == "":
		return "must not be empty"
	case u == "/":
		return ""
	case !strings.HasPrefix(u, "/"):
		return "must start with slash"
	case strings.Contains(u, " "):
		return "must not contain white-space"
	case strings.Contains(u, "//"):
		return "must not contain double slash"
	}
	if n := strings.Count(u, "*"); n > 1 || n == 1 && !strings.HasSuffix(u, "/*") {
		return "wildcard can only do suffix matching"
	}
	return ""
}
