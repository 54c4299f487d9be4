// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package noderestriction keeps kubelets to their own node, its lease and its pods in what they write; what they read is
// the Node authorizer's business. Touch it when kubelets write something new. See
// https://kubernetes.io/docs/reference/access-authn-authz/admission-controllers/#noderestriction (KEP-279).
package noderestriction

import (
	"context"
	"errors"
	"fmt"

	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/diff"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/initializer"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/utils/ptr"

	"minik8s.io/minik8s/pkg/apiserver/admission/object"
	"minik8s.io/minik8s/pkg/apiserver/authorization/node"
)

// Name of the plugin.
const Name = "NodeRestriction"

// Plugin is the admission plugin.
type Plugin struct {
	*admission.Handler
	pods       corelisters.PodLister
	nodes      corelisters.NodeLister
	accounts   corelisters.ServiceAccountLister
	authorizer authorizer.UnconditionalAuthorizer
	client     kubernetes.Interface
}

var (
	_ admission.MutationInterface                  = (*Plugin)(nil)
	_ initializer.WantsExternalKubeInformerFactory = (*Plugin)(nil)
	_ initializer.WantsUnconditionalAuthorizer     = (*Plugin)(nil)
	_ initializer.WantsExternalKubeClientSet       = (*Plugin)(nil)
)

// New returns the plugin.
func New() admission.Interface {
	return &Plugin{Handler: admission.NewHandler(admission.Create, admission.Update, admission.Delete)}
}

// SetExternalKubeInformerFactory implements initializer.WantsExternalKubeInformerFactory.
func (p *Plugin) SetExternalKubeInformerFactory(f informers.SharedInformerFactory) {
	core := f.Core().V1()
	p.pods, p.nodes, p.accounts = core.Pods().Lister(), core.Nodes().Lister(), core.ServiceAccounts().Lister()
}

// SetUnconditionalAuthorizer implements initializer.WantsUnconditionalAuthorizer.
func (p *Plugin) SetUnconditionalAuthorizer(a authorizer.UnconditionalAuthorizer) { p.authorizer = a }

// SetExternalKubeClientSet implements initializer.WantsExternalKubeClientSet.
func (p *Plugin) SetExternalKubeClientSet(c kubernetes.Interface) { p.client = c }

// ValidateInitialization implements admission.InitializationValidator.
func (p *Plugin) ValidateInitialization() error {
	if p.pods == nil || p.nodes == nil || p.accounts == nil || p.authorizer == nil || p.client == nil {
		return errors.New(Name + " requires an authorizer, a client and listers of pods, nodes and service accounts")
	}
	return nil
}

// Admit implements admission.MutationInterface. It changes nothing; it refuses before others do their work.
func (p *Plugin) Admit(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	name, isNode := node.Identify(a.GetUserInfo())
	if !isNode {
		return nil
	}
	if name == "" {
		return admission.NewForbidden(a, fmt.Errorf("could not determine node from user %q", a.GetUserInfo().GetName()))
	}
	err := p.admit(ctx, name, a)
	var status apierrors.APIStatus
	if err == nil || errors.As(err, &status) {
		return err
	}
	return admission.NewForbidden(a, err)
}

func (p *Plugin) admit(ctx context.Context, name string, a admission.Attributes) error {
	switch a.GetResource().GroupResource() {
	case corev1.Resource("pods"):
		switch a.GetSubresource() {
		case "":
			return p.admitPod(ctx, name, a)
		case "status":
			return admitPodStatus(name, a)
		case "eviction":
			return p.admitEviction(ctx, name, a)
		}
		return fmt.Errorf("unexpected pod subresource %q, only 'status' and 'eviction' are allowed", a.GetSubresource())
	case corev1.Resource("nodes"):
		return admitNode(name, a)
	case corev1.Resource("persistentvolumeclaims"):
		if a.GetSubresource() != "status" {
			return errors.New("may only update PVC status")
		}
		return admitClaimStatus(name, a)
	case corev1.Resource("serviceaccounts"):
		return p.admitToken(ctx, name, a)
	case certificatesv1.Resource("podcertificaterequests"):
		return p.admitPodCertificateRequest(ctx, name, a)
	case certificatesv1.Resource("certificatesigningrequests"):
		return admitSigningRequest(name, a)
	case schema.GroupResource{Group: coordinationv1.GroupName, Resource: "leases"}:
		if a.GetNamespace() != corev1.NamespaceNodeLease {
			return fmt.Errorf("can only access leases in the %q system namespace", corev1.NamespaceNodeLease)
		}
		return ownName(name, a, "can only access node lease with the same name as the requesting node")
	case schema.GroupResource{Group: "storage.k8s.io", Resource: "csinodes"}:
		if err := ownName(name, a, "can only access CSINode with the same name as the requesting node"); err != nil {
			return err
		}
		if a.GetSubresource() == "status" { // KEP-1432, alpha
			return errors.New("CSIVolumeHealth feature gate is disabled")
		}
		return nil
	case schema.GroupResource{Group: "resource.k8s.io", Resource: "resourceslices"}:
		return admitSlice(name, a)
	}
	return nil
}

// admitSlice looks into slices where the Node authorizer cannot: before they are stored, and when they are deleted together.
func admitSlice(name string, a admission.Attributes) error {
	obj, verb := a.GetObject(), "create"
	switch a.GetOperation() {
	case admission.Create:
	case admission.Delete:
		obj, verb = a.GetOldObject(), "delete"
	default:
		return nil
	}
	slice, ok := obj.(*resourcev1.ResourceSlice)
	if !ok {
		return fmt.Errorf("unexpected type %T", obj)
	}
	if ptr.Deref(slice.Spec.NodeName, "") != name {
		return fmt.Errorf("can only %s ResourceSlice with the same NodeName as the requesting node", verb)
	}
	return nil
}

// ownName compares the name of the object: on create the request has none.
func ownName(name string, a admission.Attributes, text string) error {
	got := a.GetName()
	if a.GetOperation() == admission.Create {
		m, err := meta.Accessor(a.GetObject())
		if err != nil {
			return errors.New("unable to access the object name")
		}
		got = m.GetName()
	}
	if got != name {
		return errors.New(text)
	}
	return nil
}

func admitClaimStatus(name string, a admission.Attributes) error {
	if a.GetOperation() != admission.Update {
		return fmt.Errorf("unexpected operation %q", a.GetOperation())
	}
	claim, err := object.New[*corev1.PersistentVolumeClaim](a)
	if err != nil {
		return err
	}
	old, err := object.Old[*corev1.PersistentVolumeClaim](a)
	if err != nil {
		return err
	}
	if before, after := withoutNodesPart(old), withoutNodesPart(claim); !apiequality.Semantic.DeepEqual(before, after) {
		return fmt.Errorf("node %q is not allowed to update fields other than status.quantity and status.conditions: %s", name, diff.Diff(before, after))
	}
	return nil
}

// withoutNodesPart leaves out what nodes may write when they grow a volume.
func withoutNodesPart(c *corev1.PersistentVolumeClaim) *corev1.PersistentVolumeClaim {
	c = c.DeepCopy()
	c.ResourceVersion, c.ManagedFields = "", nil
	c.Status.Capacity, c.Status.Conditions = nil, nil
	c.Status.AllocatedResourceStatuses, c.Status.AllocatedResources = nil, nil
	return c
}
