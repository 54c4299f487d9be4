// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"

	"minik8s.io/minik8s/pkg/registry"
)

// AuthorizeKind lets only those write a policy who may read all objects of the kind of its parameters: through the
// policy's messages they will. old is the kind before an update.
func AuthorizeKind(ctx context.Context, c registry.Config, kind, old *admissionv1.ParamKind) error {
	if kind == nil || old != nil && *old == *kind || c.Authorizer == nil {
		return nil
	}
	u, exempt, err := requester(ctx)
	if err != nil || exempt {
		return err
	}
	t, _ := resolve(c, kind)
	allowed, err := t.allows(ctx, c, u, "get", "*", "*")
	if err != nil || allowed {
		return err
	}
	return fmt.Errorf("user %v must have \"get\" permission on all objects of the referenced paramKind (kind=%s, apiVersion=%s)", u, kind.Kind, kind.APIVersion)
}

// AuthorizeRef lets only those write a binding who may read its parameters. kindOf finds the kind of the parameters of
// the policy that is bound. As upstream's, it asks on every update.
func AuthorizeRef(ctx context.Context, c registry.Config, ref *admissionv1.ParamRef, policy string, kindOf func() (*admissionv1.ParamKind, error)) error {
	if ref == nil || c.Authorizer == nil {
		return nil
	}
	u, exempt, err := requester(ctx)
	if err != nil || exempt {
		return err
	}
	kind, missing := kindOf()
	t := target{group: "*", version: "*", resource: "*"}
	var unresolved error
	if missing == nil && kind != nil {
		t, unresolved = resolve(c, kind)
	}
	verb := "get"
	if ref.Name == "" {
		verb = "list"
	}
	allowed, err := t.allows(ctx, c, u, verb, ref.Namespace, ref.Name)
	switch {
	case err != nil:
		return fmt.Errorf("failed to authorize request: %w", err)
	case allowed:
		return nil
	case missing != nil:
		return fmt.Errorf("unable to get policy %s to determine minimum required permissions and user %v does not have %q permission for all groups, versions and resources", policy, u, verb)
	case unresolved != nil:
		return fmt.Errorf("unable to resolve paramKind %v to determine minimum required permissions and user %v does not have %q permission for all groups, versions and resources", kind, u, verb)
	}
	return fmt.Errorf("user %v does not have %q permission on the object referenced by paramRef", u, verb)
}

// requester is the user of the request, and whether they may do everything.
func requester(ctx context.Context) (u user.Info, exempt bool, err error) {
	u, ok := genericapirequest.UserFrom(ctx)
	if !ok {
		return nil, false, errors.New("cannot identify user to authorize read access to parameters")
	}
	return u, slices.Contains(u.GetGroups(), user.SystemPrivilegedGroup), nil
}

// target is what has to be readable. What is not known is "*": then everything has to be.
type target struct{ group, version, resource string }

func (t target) allows(ctx context.Context, c registry.Config, u user.Info, verb, namespace, name string) (bool, error) {
	decision, _, err := c.Authorizer.Authorize(ctx, authorizer.AttributesRecord{
		User: u, Verb: verb, Namespace: namespace, Name: name,
		APIGroup: t.group, APIVersion: t.version, Resource: t.resource, ResourceRequest: true,
	})
	return decision == authorizer.DecisionAllow, err
}

// resolve finds the resource of a kind. With an error the target is as narrow as is known.
func resolve(c registry.Config, kind *admissionv1.ParamKind) (target, error) {
	gv, err := schema.ParseGroupVersion(kind.APIVersion)
	if err != nil {
		return target{"*", "*", "*"}, err
	}
	t := target{gv.Group, gv.Version, "*"}
	list, err := c.Discovery.ServerResourcesForGroupVersion(gv.String())
	if err != nil {
		return t, err
	}
	for _, r := range list.APIResources {
		foreign := r.Group != "" && r.Group != gv.Group || r.Version != "" && r.Version != gv.Version // a scale, an eviction
		if r.Kind == kind.Kind && !strings.Contains(r.Name, "/") && !foreign {
			t.resource = r.Name
			return t, nil
		}
	}
	return t, &meta.NoKindMatchError{GroupKind: gv.WithKind(kind.Kind).GroupKind(), SearchedVersions: []string{gv.Version}}
}
