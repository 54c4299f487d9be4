// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package resourceclaim

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/filters"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"

	"minik8s.io/minik8s/pkg/registry"
	"minik8s.io/minik8s/pkg/registry/resource/claim"
)

// authorizeStatus asks for more than the right to write the status: who allocates needs the right to bind, who reports of
// a device the right to speak for its driver (KEP-4817). Both are rights on subresources that do not exist otherwise.
func authorizeStatus(ctx context.Context, c registry.Config, rc, old *resourcev1.ResourceClaim, _ field.ErrorList) field.ErrorList {
	errs := authorizeAdmin(ctx, c, rc, old)
	if c.Authorizer == nil {
		return errs
	}
	path := field.NewPath("status")
	binds := !apiequality.Semantic.DeepEqual(rc.Status.Allocation, old.Status.Allocation) || !apiequality.Semantic.DeepEqual(rc.Status.ReservedFor, old.Status.ReservedFor)
	var drivers sets.Set[string]
	if rc.Status.Allocation != nil { // otherwise nothing is reported of devices
		drivers = changedDrivers(rc.Status.Devices, old.Status.Devices)
	}
	if !binds && drivers.Len() == 0 {
		return errs
	}
	request, err := filters.GetAuthorizerAttributes(ctx)
	if err != nil {
		return append(errs, field.InternalError(path.Child("allocation"), fmt.Errorf("cannot build authorizer attributes: %w", err)))
	}
	if binds {
		a := right{Attributes: request, verb: request.GetVerb(), subresource: resourcev1.SubresourceBinding}
		if err := a.check(ctx, c.Authorizer); err != nil {
			errs = append(errs, field.Forbidden(path.Child("allocation"), fmt.Sprintf(
				"changing status.allocation or status.reservedFor requires resource=\"resourceclaims/binding\", verb=%q permission: %s", a.verb, err)))
		}
	}
	verbs := driverVerbs(request.GetVerb(), request.GetUser(), allocatedNode(rc.Status.Allocation))
	for _, driver := range sets.List(drivers) {
		if err := speaksFor(ctx, c.Authorizer, request, driver, verbs); err != nil {
			errs = append(errs, field.Forbidden(path.Child("devices"), fmt.Sprintf(
				"changing status.devices requires resource=\"resourceclaims/driver\", verb=%q permission: %s", verbs, err)))
		}
	}
	return errs
}

// authorizeAdmin refuses to grant admin access outside the namespaces that are marked for it.
func authorizeAdmin(ctx context.Context, c registry.Config, rc, old *resourcev1.ResourceClaim) field.ErrorList {
	if i := grantsAdmin(&rc.Status); i >= 0 && grantsAdmin(&old.Status) < 0 {
		return claim.RequireAdminNamespace(ctx, c, rc.Namespace, field.NewPath("status", "allocation", "devices", "results").Index(i).Child("adminAccess"))
	}
	return nil
}

// grantsAdmin is the index of the first device to which the status grants admin access, -1 if there is none.
func grantsAdmin(s *resourcev1.ResourceClaimStatus) int {
	if s.Allocation == nil {
		return -1
	}
	return slices.IndexFunc(s.Allocation.Devices.Results, func(r resourcev1.DeviceRequestAllocationResult) bool {
		return r.AdminAccess != nil && *r.AdminAccess
	})
}

// changedDrivers are the drivers of whose devices something else is reported than before.
func changedDrivers(devices, old []resourcev1.AllocatedDeviceStatus) sets.Set[string] {
	before := map[allocated]resourcev1.AllocatedDeviceStatus{}
	for _, d := range old {
		before[statusID(&d)] = d
	}
	drivers := sets.New[string]()
	for _, d := range devices {
		was, known := before[statusID(&d)]
		delete(before, statusID(&d))
		if !known || !apiequality.Semantic.DeepEqual(was, d) {
			drivers.Insert(d.Driver)
		}
	}
	for gone := range before {
		drivers.Insert(gone.driver)
	}
	return drivers
}

// driverVerbs are the verbs of which one is needed. A driver that runs on the node of the claim, as its service account's
// token proves, needs less.
func driverVerbs(verb string, u user.Info, node string) []string {
	anywhere := resourcev1.VerbPrefixArbitraryNode + verb
	if node == "" || nodeOf(u) != node {
		return []string{anywhere}
	}
	return []string{resourcev1.VerbPrefixAssociatedNode + verb, anywhere}
}

// nodeOf is the node to which the token of a service account is bound.
func nodeOf(u user.Info) string {
	if _, _, err := serviceaccount.SplitUsername(u.GetName()); err != nil {
		return ""
	}
	nodes := u.GetExtra()[serviceaccount.NodeNameKey]
	if len(nodes) != 1 || len(validation.NameIsDNSSubdomain(nodes[0], false)) > 0 {
		return ""
	}
	return nodes[0]
}

// allocatedNode is the single node on which the devices are, "" if there may be several.
func allocatedNode(a *resourcev1.AllocationResult) string {
	if a == nil || a.NodeSelector == nil || len(a.NodeSelector.NodeSelectorTerms) != 1 {
		return ""
	}
	term := a.NodeSelector.NodeSelectorTerms[0]
	if len(term.MatchExpressions) > 0 || len(term.MatchFields) != 1 {
		return ""
	}
	f := term.MatchFields[0]
	if f.Key != "metadata.name" || f.Operator != corev1.NodeSelectorOpIn || len(f.Values) != 1 {
		return ""
	}
	return f.Values[0]
}

// speaksFor fails, as the first of the verbs does, if the user has none of them for the driver.
func speaksFor(ctx context.Context, a authorizer.Authorizer, request authorizer.Attributes, driver string, verbs []string) error {
	var first error
	for _, verb := range verbs {
		err := right{Attributes: request, verb: verb, subresource: resourcev1.SubresourceDriver, namespace: request.GetNamespace(), name: driver}.check(ctx, a)
		if err == nil {
			return nil
		}
		if first == nil {
			first = err
		}
	}
	return first
}

// right is a request for something else than what the client sent.
type right struct {
	authorizer.Attributes
	verb, subresource, namespace, name string
}

// GetVerb implements authorizer.Attributes, as do the others.
func (r right) GetVerb() string        { return r.verb }
func (r right) GetSubresource() string { return r.subresource }
func (r right) GetNamespace() string   { return r.namespace }
func (r right) GetName() string        { return r.name }

func (r right) check(ctx context.Context, a authorizer.Authorizer) error {
	decision, reason, err := a.Authorize(ctx, r)
	if decision == authorizer.DecisionAllow { // errors that come with it are about rules that were not needed
		return nil
	}
	if err != nil && reason != "" {
		reason = fmt.Sprintf("%v: %s", err, reason)
	} else if err != nil {
		reason = err.Error()
	}
	return errors.New(responsewriters.ForbiddenStatusError(r, reason).Error())
}
