// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package ownerreferencespermissionenforcement lets nobody make the garbage collector do what they may not: change the
// owners of an object that they could not delete, or keep an owner from being deleted. Off by default. Touch it when
// references to owners mean something new.
package ownerreferencespermissionenforcement

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/initializer"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/utils/ptr"
)

// Name of the plugin.
const Name = "OwnerReferencesPermissionEnforcement"

type plugin struct {
	*admission.Handler
	authorizer authorizer.UnconditionalAuthorizer
	mapper     meta.RESTMapper
}

var (
	_ admission.ValidationInterface            = (*plugin)(nil)
	_ initializer.WantsUnconditionalAuthorizer = (*plugin)(nil)
	_ initializer.WantsRESTMapper              = (*plugin)(nil)
)

// New returns the plugin.
func New() admission.Interface {
	return &plugin{Handler: admission.NewHandler(admission.Create, admission.Update)}
}

// SetUnconditionalAuthorizer implements initializer.WantsUnconditionalAuthorizer.
func (p *plugin) SetUnconditionalAuthorizer(a authorizer.UnconditionalAuthorizer) { p.authorizer = a }

// SetRESTMapper implements initializer.WantsRESTMapper.
func (p *plugin) SetRESTMapper(m meta.RESTMapper) { p.mapper = m }

// ValidateInitialization implements admission.InitializationValidator.
func (p *plugin) ValidateInitialization() error {
	if p.authorizer == nil || p.mapper == nil {
		return errors.New(Name + " requires an authorizer and a RESTMapper")
	}
	return nil
}

// Validate implements admission.ValidationInterface.
func (p *plugin) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if a.GetResource().GroupResource() == corev1.Resource("pods") && a.GetSubresource() == "status" {
		return nil // writes of the status keep the owners as they are
	}
	owners, old := ownersOf(a.GetObject()), ownersOf(a.GetOldObject())
	if apiequality.Semantic.DeepEqual(owners, old) {
		return nil
	}
	// Who creates an object could as well not have done so.
	if a.GetOperation() != admission.Create {
		if reason, err := p.allowed(ctx, mayDelete(a)); reason != nil {
			return admission.NewForbidden(a, fmt.Errorf("cannot set an ownerRef on a resource you can't delete: %v, %v", *reason, err)) //nolint:errorlint // that is what upstream prints, an error that is nil too
		}
	}
	blocking := newlyBlocking(owners, old)
	if len(blocking) == 0 {
		return nil
	}
	// First what needs no discovery: that may hang while the network is being set up by the very pod in question.
	if reason, _ := p.allowed(ctx, mayFinalize(a, schema.GroupVersionResource{Group: "*", Version: "*", Resource: "*"}, "", "*")); reason == nil {
		return nil
	}
	for _, ref := range blocking {
		if err := p.validateOwner(ctx, a, ref); err != nil {
			return admission.NewForbidden(a, err)
		}
	}
	return nil
}

// validateOwner checks that the user may keep the owner from being deleted, whichever resource its kind is.
func (p *plugin) validateOwner(ctx context.Context, a admission.Attributes, ref metav1.OwnerReference) error {
	var mappings []*meta.RESTMapping
	gv, err := schema.ParseGroupVersion(ref.APIVersion)
	if err == nil {
		mappings, err = p.mapper.RESTMappings(gv.WithKind(ref.Kind).GroupKind(), gv.Version)
	}
	if err != nil {
		return fmt.Errorf("cannot set blockOwnerDeletion in this case because cannot find RESTMapping for APIVersion %s Kind %s: %w", ref.APIVersion, ref.Kind, err)
	}
	for _, m := range mappings {
		namespace := ""
		if m.Scope.Name() == meta.RESTScopeNameNamespace {
			namespace = a.GetNamespace()
		}
		if reason, err := p.allowed(ctx, mayFinalize(a, m.Resource, namespace, ref.Name)); reason != nil {
			return fmt.Errorf("cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set finalizers on: %v, %v", *reason, err) //nolint:errorlint // that is what upstream prints, an error that is nil too
		}
	}
	return nil
}

// allowed returns nil if the authorizer allows it, else its reason.
func (p *plugin) allowed(ctx context.Context, r authorizer.AttributesRecord) (*string, error) {
	decision, reason, err := p.authorizer.Authorize(ctx, r)
	if decision == authorizer.DecisionAllow {
		return nil, nil
	}
	return &reason, err
}

func mayDelete(a admission.Attributes) authorizer.AttributesRecord {
	r := a.GetResource()
	return authorizer.AttributesRecord{
		User: a.GetUserInfo(), Verb: "delete", Namespace: a.GetNamespace(), APIGroup: r.Group, APIVersion: r.Version,
		Resource: r.Resource, Subresource: a.GetSubresource(), Name: a.GetName(), ResourceRequest: true,
	}
}

func mayFinalize(a admission.Attributes, r schema.GroupVersionResource, namespace, name string) authorizer.AttributesRecord {
	return authorizer.AttributesRecord{
		User: a.GetUserInfo(), Verb: "update", Namespace: namespace, APIGroup: r.Group, APIVersion: r.Version,
		Resource: r.Resource, Subresource: "finalizers", Name: name, ResourceRequest: true,
	}
}

// ownersOf returns nothing for what is no object.
func ownersOf(obj runtime.Object) []metav1.OwnerReference {
	m, err := meta.Accessor(obj)
	if err != nil {
		return nil
	}
	return m.GetOwnerReferences()
}

// newlyBlocking returns the owners that could be deleted before.
func newlyBlocking(owners, old []metav1.OwnerReference) []metav1.OwnerReference {
	blocks := func(o metav1.OwnerReference) bool { return ptr.Deref(o.BlockOwnerDeletion, false) }
	return slices.DeleteFunc(slices.Clone(owners), func(o metav1.OwnerReference) bool {
		return !blocks(o) || slices.ContainsFunc(old, func(was metav1.OwnerReference) bool { return was.UID == o.UID && blocks(was) })
	})
}
