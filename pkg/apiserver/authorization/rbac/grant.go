// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package rbac

import (
	"fmt"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/tools/cache"
)

// bySubject finds the bindings of a user or group: whoever asks, most bindings are about somebody else.
const bySubject = "subject"

// Indexers are what informers of RoleBindings and ClusterRoleBindings must have before they run.
func Indexers() cache.Indexers {
	return cache.Indexers{bySubject: func(obj any) ([]string, error) {
		switch b := obj.(type) {
		case *rbacv1.ClusterRoleBinding:
			return keys(b.Subjects, ""), nil
		case *rbacv1.RoleBinding:
			return keys(b.Subjects, b.Namespace), nil
		}
		return nil, fmt.Errorf("%T is no binding", obj)
	}}
}

// keys are those of the subjects of a binding, which may be in a namespace.
func keys(subjects []rbacv1.Subject, namespace string) []string {
	var all []string
	for i := range subjects {
		s := &subjects[i]
		switch s.Kind {
		case rbacv1.UserKind:
			all = append(all, userKey(s.Name, namespace))
		case rbacv1.GroupKind:
			all = append(all, groupKey(s.Name, namespace))
		case rbacv1.ServiceAccountKind:
			if name := accountName(s, namespace); name != "" {
				all = append(all, userKey(name, namespace))
			}
		}
	}
	return all
}

func userKey(name, namespace string) string  { return namespace + "/user/" + name }
func groupKey(name, namespace string) string { return namespace + "/group/" + name }

// accountName is the user that a ServiceAccount is, empty if the subject does not say of which namespace.
func accountName(s *rbacv1.Subject, namespace string) string {
	if s.Namespace != "" {
		namespace = s.Namespace
	}
	if namespace == "" {
		return ""
	}
	return serviceaccount.MakeUsername(namespace, s.Name)
}

// grant is a binding that applies to a user.
type grant struct {
	kind, name, namespace string // of the binding
	role                  rbacv1.RoleRef
	subject               *rbacv1.Subject
}

func clusterGrants(bindings cache.Indexer, u user.Info) ([]grant, error) {
	found, err := lookUp(bindings, u, "")
	if err != nil {
		return nil, err
	}
	grants := make([]grant, 0, len(found))
	for _, o := range found {
		b := o.(*rbacv1.ClusterRoleBinding)
		if s := applies(u, b.Subjects, ""); s != nil {
			grants = append(grants, grant{kind: "ClusterRoleBinding", name: b.Name, role: b.RoleRef, subject: s})
		}
	}
	return grants, nil
}

func localGrants(bindings cache.Indexer, u user.Info, namespace string) ([]grant, error) {
	found, err := lookUp(bindings, u, namespace)
	if err != nil {
		return nil, err
	}
	grants := make([]grant, 0, len(found))
	for _, o := range found {
		b := o.(*rbacv1.RoleBinding)
		if s := applies(u, b.Subjects, namespace); s != nil {
			grants = append(grants, grant{kind: "RoleBinding", name: b.Name, namespace: namespace, role: b.RoleRef, subject: s})
		}
	}
	return grants, nil
}

// lookUp returns the bindings that name a user, or a group of his, each once.
func lookUp(bindings cache.Indexer, u user.Info, namespace string) ([]any, error) {
	all, err := bindings.ByIndex(bySubject, userKey(u.GetName(), namespace))
	if err != nil {
		return nil, fmt.Errorf("looking for bindings: %w", err)
	}
	for _, g := range u.GetGroups() {
		more, err := bindings.ByIndex(bySubject, groupKey(g, namespace))
		if err != nil {
			return nil, fmt.Errorf("looking for bindings: %w", err)
		}
		for _, b := range more {
			if !slices.Contains(all, b) {
				all = append(all, b)
			}
		}
	}
	return all, nil
}

// applies returns the subject that names the user, if any.
func applies(u user.Info, subjects []rbacv1.Subject, namespace string) *rbacv1.Subject {
	for i := range subjects {
		s := &subjects[i]
		switch s.Kind {
		case rbacv1.UserKind:
			if u.GetName() == s.Name {
				return s
			}
		case rbacv1.GroupKind:
			if slices.Contains(u.GetGroups(), s.Name) {
				return s
			}
		case rbacv1.ServiceAccountKind:
			if name := accountName(s, namespace); name != "" && name == u.GetName() {
				return s
			}
		}
	}
	return nil
}

// String is how audit tells of it.
func (g grant) String() string {
	name := g.name
	if g.namespace != "" {
		name += "/" + g.namespace
	}
	return fmt.Sprintf("%s %q of %s %q to %s", g.kind, name, g.role.Kind, g.role.Name, describe(g.subject, g.namespace))
}

func describe(s *rbacv1.Subject, namespace string) string {
	if s.Kind == rbacv1.ServiceAccountKind {
		if s.Namespace != "" {
			namespace = s.Namespace
		}
		return fmt.Sprintf("%s %q", s.Kind, s.Name+"/"+namespace)
	}
	return fmt.Sprintf("%s %q", s.Kind, s.Name)
}
