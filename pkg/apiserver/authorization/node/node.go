// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package node lets kubelets reach what they need for the pods that run on them and nothing else, so that a broken-into
// node gives away no secrets but those of its own pods. Touch it when pods can refer to something new, or kubelets need
// another permission. See https://kubernetes.io/docs/reference/access-authn-authz/node/ (KEP-279, KEP-4601).
package node

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"minik8s.io/minik8s/pkg/apiserver/authorization/rbac"
)

// Authorizer allows requests of kubelets and has no opinion on others. Safe for concurrent use.
type Authorizer struct {
	// Index tells what belongs to which node.
	Index *Index
	// Rules hold for every node in what the authorizer does not narrow down itself.
	Rules []rbacv1.PolicyRule
	// Patience is how long a refusal for want of a relationship waits for one: a node's own watch may tell it of a pod a moment before
	// the Index knows it. 0 is not at all.
	Patience time.Duration
}

var (
	_ authorizer.Authorizer   = (*Authorizer)(nil)
	_ authorizer.RuleResolver = (*Authorizer)(nil)
)

const userPrefix = "system:node:"

// Identify returns the name of the node that a user is; isNode tells that it is some node's kubelet at all.
func Identify(u user.Info) (name string, isNode bool) {
	if u == nil || !slices.Contains(u.GetGroups(), user.NodesGroup) || !strings.HasPrefix(u.GetName(), userPrefix) {
		return "", false
	}
	return strings.TrimPrefix(u.GetName(), userPrefix), true
}

// RulesFor implements authorizer.RuleResolver. What a node may do depends on objects, so it cannot be listed.
func (a *Authorizer) RulesFor(_ context.Context, u user.Info, _ string) ([]authorizer.ResourceRuleInfo, []authorizer.NonResourceRuleInfo, bool, error) {
	if _, isNode := Identify(u); isNode {
		return nil, nil, true, fmt.Errorf("node authorizer does not support user rule resolution")
	}
	return nil, nil, false, nil
}

// Authorize implements authorizer.Authorizer.
func (a *Authorizer) Authorize(ctx context.Context, attrs authorizer.Attributes) (authorizer.Decision, string, error) {
	name, isNode := Identify(attrs.GetUser())
	if !isNode {
		return authorizer.DecisionNoOpinion, "", nil
	}
	if name == "" {
		return authorizer.DecisionNoOpinion, fmt.Sprintf("unknown node for user %q", attrs.GetUser().GetName()), nil
	}
	ok, reason := a.decide(name, attrs)
	if !ok && reason == unrelated(name) {
		ok, reason = a.await(ctx, name, attrs)
	}
	if !ok {
		return authorizer.DecisionNoOpinion, reason, nil
	}
	return authorizer.DecisionAllow, "", nil
}

// await decides again whenever the Index changes, until Patience is over.
func (a *Authorizer) await(ctx context.Context, node string, attrs authorizer.Attributes) (bool, string) {
	ctx, cancel := context.WithTimeout(ctx, a.Patience)
	defer cancel()
	for {
		changed := a.Index.next()
		ok, reason := a.decide(node, attrs)
		if ok || reason != unrelated(node) {
			return ok, reason
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return false, reason
		}
	}
}

func unrelated(node string) string {
	return fmt.Sprintf("no relationship found between node '%s' and this object", node)
}

// ConditionsAwareAuthorize implements authorizer.Authorizer; there are no conditions.
func (a *Authorizer) ConditionsAwareAuthorize(ctx context.Context, attrs authorizer.Attributes) authorizer.ConditionsAwareDecision {
	return authorizer.ConditionsAwareDecisionFromParts(a.Authorize(ctx, attrs))
}

// EvaluateConditions implements authorizer.Authorizer.
func (a *Authorizer) EvaluateConditions(context.Context, authorizer.ConditionsAwareDecision, authorizer.ConditionsData) (authorizer.Decision, string, error) {
	return authorizer.DecisionDeny, "", authorizer.ErrorConditionEvaluationNotSupported
}

func (a *Authorizer) decide(node string, attrs authorizer.Attributes) (bool, string) {
	if attrs.IsResourceRequest() {
		switch (schema.GroupResource{Group: attrs.GetAPIGroup(), Resource: attrs.GetResource()}) {
		case corev1.Resource("secrets"):
			return a.read(node, secret, attrs)
		case corev1.Resource("configmaps"):
			return a.read(node, configMap, attrs)
		case corev1.Resource("persistentvolumeclaims"):
			if attrs.GetSubresource() == "status" {
				return a.updateStatus(node, claim, attrs)
			}
			return a.get(node, claim, attrs)
		case corev1.Resource("persistentvolumes"):
			return a.get(node, volume, attrs)
		case schema.GroupResource{Group: "resource.k8s.io", Resource: "resourceclaims"}:
			return a.get(node, resourceClaim, attrs)
		case schema.GroupResource{Group: "storage.k8s.io", Resource: "volumeattachments"}:
			return a.get(node, volumeAttachment, attrs)
		case corev1.Resource("serviceaccounts"):
			if attrs.GetVerb() == "get" && attrs.GetSubresource() == "" {
				return a.read(node, serviceAccount, attrs)
			}
			return a.createToken(node, attrs)
		case schema.GroupResource{Group: "certificates.k8s.io", Resource: "podcertificaterequests"}:
			return a.certificateRequest(node, attrs)
		case schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}:
			return lease(node, attrs)
		case schema.GroupResource{Group: "storage.k8s.io", Resource: "csinodes"}:
			return csiNode(node, attrs)
		case schema.GroupResource{Group: "resource.k8s.io", Resource: "resourceslices"}:
			return a.resourceSlice(node, attrs)
		case corev1.Resource("nodes"):
			return ownNode(node, attrs)
		case corev1.Resource("pods"):
			return a.pod(node, attrs)
		}
	}
	return slices.ContainsFunc(a.Rules, func(r rbacv1.PolicyRule) bool { return rbac.Allows(attrs, &r) }), ""
}

// read allows get, list and watch of one named object that belongs to the node.
func (a *Authorizer) read(node string, k kind, attrs authorizer.Attributes) (bool, string) {
	switch {
	case !slices.Contains([]string{"get", "list", "watch"}, attrs.GetVerb()):
		return false, "can only read resources of this type"
	case attrs.GetSubresource() != "":
		return false, "cannot read subresource"
	case attrs.GetNamespace() == "":
		return false, "can only read namespaced object of this type"
	}
	return a.related(node, k, attrs)
}

func (a *Authorizer) get(node string, k kind, attrs authorizer.Attributes) (bool, string) {
	switch {
	case attrs.GetVerb() != "get":
		return false, "can only get individual resources of this type"
	case attrs.GetSubresource() != "":
		return false, "cannot get subresource"
	}
	return a.related(node, k, attrs)
}

func (a *Authorizer) updateStatus(node string, k kind, attrs authorizer.Attributes) (bool, string) {
	if v := attrs.GetVerb(); v != "update" && v != "patch" {
		return false, "can only get/update/patch this type"
	}
	return a.related(node, k, attrs)
}

// related allows what belongs to the node. A list or watch has a name if its field selector asks for one.
func (a *Authorizer) related(node string, k kind, attrs authorizer.Attributes) (bool, string) {
	if attrs.GetName() == "" {
		return false, "No Object name found"
	}
	if !a.Index.Has(node, ref{k, attrs.GetNamespace(), attrs.GetName()}) {
		return false, unrelated(node)
	}
	return true, ""
}

func (a *Authorizer) createToken(node string, attrs authorizer.Attributes) (bool, string) {
	switch {
	case attrs.GetVerb() != "create" || attrs.GetName() == "":
		return false, "can only create tokens for individual service accounts"
	case attrs.GetSubresource() != "token":
		return false, "can only create token subresource of serviceaccount"
	}
	return a.related(node, serviceAccount, attrs)
}

// certificateRequest allows a node requests for its own pods; NodeRestriction looks at what is asked for.
func (a *Authorizer) certificateRequest(node string, attrs authorizer.Attributes) (bool, string) {
	if attrs.GetSubresource() != "" {
		return false, "nodes may not access the status subresource of PodCertificateRequests"
	}
	switch verb := attrs.GetVerb(); verb {
	case "create":
		return true, ""
	case "get":
		return a.related(node, certificateRequest, attrs)
	case "list", "watch":
		if selects(attrs, "spec.nodeName", node) {
			return true, ""
		}
		return false, "can only list/watch podcertificaterequests with nodeName field selector"
	default:
		return false, fmt.Sprintf("nodes may not %s podcertificaterequests", verb)
	}
}

// pod allows a node its own pods. Whose a pod is that it creates, deletes or reports on is seen by the NodeRestriction
// admission plugin, which has the object.
func (a *Authorizer) pod(node string, attrs authorizer.Attributes) (bool, string) {
	switch verb := attrs.GetVerb(); attrs.GetSubresource() {
	case "":
		switch verb {
		case "get":
			return a.get(node, pod, attrs)
		case "list", "watch":
			if selects(attrs, "spec.nodeName", node) {
				return true, ""
			}
			if attrs.GetName() != "" {
				return a.related(node, pod, attrs)
			}
			return false, "can only list/watch pods with spec.nodeName field selector"
		case "create", "delete":
			return true, ""
		}
	case "status":
		return verb == "update" || verb == "patch", ""
	case "eviction":
		return verb == "create", ""
	}
	return false, ""
}

// ownNode allows a node its own object; NodeRestriction looks at what is written.
func ownNode(node string, attrs authorizer.Attributes) (bool, string) {
	switch verb := attrs.GetVerb(); attrs.GetSubresource() {
	case "":
		switch verb {
		case "create", "update", "patch":
			return true, ""
		case "get", "list", "watch":
			switch attrs.GetName() {
			case node:
				return true, ""
			case "":
				return false, fmt.Sprintf("node '%s' cannot read all nodes, only its own Node object", node)
			}
			return false, fmt.Sprintf("node '%s' cannot read '%s', only its own Node object", node, attrs.GetName())
		}
	case "status":
		return verb == "update" || verb == "patch", ""
	}
	return false, ""
}

var ownObjectVerbs = []string{"get", "create", "update", "patch", "delete"}

// lease allows the node's own lease. The name is not known yet when it is created; NodeRestriction checks it then.
func lease(node string, attrs authorizer.Attributes) (bool, string) {
	switch {
	case !slices.Contains(ownObjectVerbs, attrs.GetVerb()):
		return false, "can only get, create, update, patch, or delete a node lease"
	case attrs.GetNamespace() != corev1.NamespaceNodeLease:
		return false, fmt.Sprintf("can only access leases in the %q system namespace", corev1.NamespaceNodeLease)
	case attrs.GetVerb() != "create" && attrs.GetName() != node:
		return false, "can only access node lease with the same name as the requesting node"
	}
	return true, ""
}

func csiNode(node string, attrs authorizer.Attributes) (bool, string) {
	switch {
	case !slices.Contains(ownObjectVerbs, attrs.GetVerb()):
		return false, "can only get, create, update, patch, or delete a CSINode"
	case attrs.GetSubresource() != "":
		return false, "cannot authorize CSINode subresources"
	case attrs.GetVerb() != "create" && attrs.GetName() != node:
		return false, "can only access CSINode with the same name as the requesting node"
	}
	return true, ""
}

// resourceSlice allows a node the slices that name it. Those that it makes, and each of those that it deletes by selector,
// are seen by NodeRestriction.
func (a *Authorizer) resourceSlice(node string, attrs authorizer.Attributes) (bool, string) {
	if attrs.GetSubresource() != "" {
		return false, "cannot authorize ResourceSlice subresources"
	}
	switch attrs.GetVerb() {
	case "create":
		return true, ""
	case "list", "watch", "deletecollection":
		if selects(attrs, resourcev1.ResourceSliceSelectorNodeName, node) {
			return true, ""
		}
		return false, "can only list/watch/deletecollection resourceslices with nodeName field selector"
	case "get", "update", "patch", "delete":
		return a.related(node, deviceSlice, attrs)
	}
	return false, "only the following verbs are allowed for a ResourceSlice: get, watch, list, create, update, patch, delete, deletecollection"
}

// selects reports whether a request is limited to objects whose field is the node.
func selects(attrs authorizer.Attributes, field, node string) bool {
	// The requirements that could be read hold even if others could not.
	requirements, _ := attrs.GetFieldSelector()
	for _, r := range requirements {
		if r.Field == field && r.Operator == selection.Equals && r.Value == node {
			return true
		}
	}
	return false
}
