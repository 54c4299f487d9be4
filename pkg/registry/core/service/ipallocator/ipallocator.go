// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package ipallocator hands out ClusterIPs. Each is an IPAddress object whose name is the address, so that no address has
// two owners on any API server; the ranges are those of the ServiceCIDRs. Touch it when the choice of addresses changes.
package ipallocator

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"

	"minik8s.io/minik8s/pkg/registry"
	"minik8s.io/minik8s/pkg/registry/networking/ipaddress"
	"minik8s.io/minik8s/pkg/registry/networking/servicecidr"
)

// ControllerName is the label of the IPAddresses that belong to Services.
const ControllerName = "ipallocator.k8s.io"

var (
	// ErrAllocated means that the address belongs to somebody.
	ErrAllocated = errors.New("provided IP is already allocated")
	// ErrMismatchedNetwork means that the address is in no range.
	ErrMismatchedNetwork = errors.New("the provided network does not match the current range")
	// ErrFull means that no address is left.
	ErrFull = errors.New("range is full")
)

// Allocator hands out addresses. It keeps no state of its own.
type Allocator struct{ stores *registry.Stores }

// New returns an allocator on the stores of ServiceCIDRs and IPAddresses.
func New(stores *registry.Stores) *Allocator { return &Allocator{stores} }

// Allocate takes a certain address for a Service.
func (a *Allocator) Allocate(ctx context.Context, owner types.NamespacedName, ip netip.Addr, dryRun bool) error {
	in, err := a.ready(ctx, func(r Range) bool { return r.Contains(ip) })
	switch {
	case err != nil:
		return err
	case len(in) == 0:
		return ErrMismatchedNetwork
	case dryRun:
		return nil
	}
	return a.Create(ctx, Address(ip, owner))
}

// AllocateNext takes any free address of a family for a Service.
func (a *Allocator) AllocateNext(ctx context.Context, owner types.NamespacedName, family corev1.IPFamily, dryRun bool) (netip.Addr, error) {
	full := map[netip.Prefix]bool{}
	// A range may be newer than the cache: that all which it has are full says nothing yet.
	for _, version := range []string{"0", ""} {
		all, err := a.ranges(ctx, version, servicecidr.IsReady)
		if err != nil {
			return netip.Addr{}, err
		}
		for _, r := range all {
			switch {
			case r.Family() != family || full[r.prefix]:
				continue
			case dryRun:
				return r.prefix.Addr(), nil // upstream's placeholder: an address found now could be another's when it counts
			}
			ip, err := a.takeFrom(ctx, r, owner)
			if !errors.Is(err, ErrFull) {
				return ip, err
			}
			full[r.prefix] = true
		}
	}
	return netip.Addr{}, ErrFull
}

// takeFrom takes any free address of a range.
func (a *Allocator) takeFrom(ctx context.Context, r Range, owner types.NamespacedName) (netip.Addr, error) {
	store, err := a.stores.Get(ipaddress.Resource.GroupResource())
	if err != nil {
		return netip.Addr{}, err
	}
	for ip := range r.candidates(rand.Uint64N) {
		// The cache spares the write for nearly all that are taken; what it has not seen yet, etcd knows.
		if _, err := store.Get(ctx, ip.String(), &metav1.GetOptions{ResourceVersion: "0"}); err == nil {
			continue
		}
		err := a.Create(ctx, Address(ip, owner))
		if errors.Is(err, ErrAllocated) {
			continue
		}
		return ip, err
	}
	return netip.Addr{}, ErrFull
}

// Release gives an address back; it may be free already.
func (a *Allocator) Release(ctx context.Context, ip netip.Addr) error {
	return a.delete(ctx, ip.String(), &metav1.DeleteOptions{})
}

// Remove deletes this very object, not one that has taken its place.
func (a *Allocator) Remove(ctx context.Context, ip *networkingv1.IPAddress) error {
	return a.delete(ctx, ip.Name, metav1.NewPreconditionDeleteOptions(string(ip.UID)))
}

// Address is the object that gives an address to a Service.
func Address(ip netip.Addr, owner types.NamespacedName) *networkingv1.IPAddress {
	return &networkingv1.IPAddress{
		ObjectMeta: metav1.ObjectMeta{
			Name:   ip.String(),
			Labels: map[string]string{networkingv1.LabelIPAddressFamily: string(family(ip)), networkingv1.LabelManagedBy: ControllerName},
		},
		Spec: networkingv1.IPAddressSpec{
			ParentRef: &networkingv1.ParentReference{Resource: "services", Namespace: owner.Namespace, Name: owner.Name},
		},
	}
}

// ownedFields are those of an Address.
const ownedFields = `{"f:metadata":{"f:labels":{".":{},"f:ipaddress.kubernetes.io/ip-family":{},"f:ipaddress.kubernetes.io/managed-by":{}}},` +
	`"f:spec":{"f:parentRef":{".":{},"f:name":{},"f:namespace":{},"f:resource":{}}}}`

// Create stores an IPAddress. It fails with ErrAllocated if there is one of this name.
func (a *Allocator) Create(ctx context.Context, ip *networkingv1.IPAddress) error {
	store, err := a.stores.Get(ipaddress.Resource.GroupResource())
	if err != nil {
		return err
	}
	// Upstream makes them through its own API, which notes who owns what.
	ip.ManagedFields = []metav1.ManagedFieldsEntry{{
		Manager: "kube-apiserver", Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: networkingv1.SchemeGroupVersion.String(),
		Time: new(metav1.Now()), FieldsType: "FieldsV1", FieldsV1: &metav1.FieldsV1{Raw: []byte(ownedFields)},
	}}
	_, err = store.Create(asRequest(ctx, "create", ip.Name), ip, rest.ValidateAllObjectFunc, &metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return ErrAllocated
	}
	return err
}

func (a *Allocator) delete(ctx context.Context, name string, options *metav1.DeleteOptions) error {
	store, err := a.stores.Get(ipaddress.Resource.GroupResource())
	if err != nil {
		return err
	}
	_, _, err = store.Delete(asRequest(ctx, "delete", name), name, rest.ValidateAllObjectFunc, options)
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// asRequest lets validation and errors see a request for an IPAddress: ctx is that of one for a Service.
func asRequest(ctx context.Context, verb, name string) context.Context {
	kind := ipaddress.Resource.Kind
	return genericapirequest.WithRequestInfo(genericapirequest.WithNamespace(ctx, metav1.NamespaceNone), &genericapirequest.RequestInfo{
		IsResourceRequest: true, Verb: verb, APIGroup: kind.Group, APIVersion: kind.Version, Resource: ipaddress.Resource.Name, Name: name,
	})
}

// Addresses lists all IPAddresses, as etcd has them.
func (a *Allocator) Addresses(ctx context.Context) ([]networkingv1.IPAddress, error) {
	store, err := a.stores.Get(ipaddress.Resource.GroupResource())
	if err != nil {
		return nil, err
	}
	list, err := store.List(ctx, &internalversion.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("listing IPAddresses: %w", err)
	}
	return list.(*networkingv1.IPAddressList).Items, nil
}

// ready returns the ranges that addresses may be taken from and that match.
func (a *Allocator) ready(ctx context.Context, match func(Range) bool) ([]Range, error) {
	// A range may be newer than the cache.
	for _, version := range []string{"0", ""} {
		all, err := a.ranges(ctx, version, servicecidr.IsReady)
		if err != nil {
			return nil, err
		}
		var out []Range
		for _, r := range all {
			if match(r) {
				out = append(out, r)
			}
		}
		if len(out) > 0 {
			return out, nil
		}
	}
	return nil, nil
}

// Ranges returns all ranges, also those that give nothing out at the moment.
func (a *Allocator) Ranges(ctx context.Context) ([]Range, error) {
	return a.ranges(ctx, "", func(*networkingv1.ServiceCIDR) bool { return true })
}

func (a *Allocator) ranges(ctx context.Context, version string, use func(*networkingv1.ServiceCIDR) bool) ([]Range, error) {
	store, err := a.stores.Get(servicecidr.Resource.GroupResource())
	if err != nil {
		return nil, err
	}
	list, err := store.List(ctx, &internalversion.ListOptions{ResourceVersion: version})
	if err != nil {
		return nil, fmt.Errorf("listing ServiceCIDRs: %w", err)
	}
	var out []Range
	for _, c := range list.(*networkingv1.ServiceCIDRList).Items {
		if !use(&c) {
			continue
		}
		for _, cidr := range c.Spec.CIDRs {
			prefix, err := netip.ParsePrefix(cidr)
			if err != nil {
				continue // validation lets none in
			}
			if r, err := NewRange(prefix); err == nil { // nothing is given out of what is too big
				out = append(out, r)
			}
		}
	}
	return out, nil
}
