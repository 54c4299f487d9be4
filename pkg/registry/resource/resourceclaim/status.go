// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package resourceclaim

import (
	"context"
	"slices"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"minik8s.io/minik8s/pkg/apis/core/affinity"
	"minik8s.io/minik8s/pkg/registry/resource/claim"
	"minik8s.io/minik8s/pkg/registry/resource/device"
)

// allocated identifies a device, or a share of one.
type allocated struct{ driver, pool, device, share string }

func resultID(r *resourcev1.DeviceRequestAllocationResult) allocated {
	id := allocated{driver: r.Driver, pool: r.Pool, device: r.Device}
	if r.ShareID != nil {
		id.share = string(*r.ShareID)
	}
	return id
}

func statusID(d *resourcev1.AllocatedDeviceStatus) allocated {
	id := allocated{driver: d.Driver, pool: d.Pool, device: d.Device}
	if d.ShareID != nil {
		id.share = *d.ShareID
	}
	return id
}

func allocatedIn(s *resourcev1.ResourceClaimStatus) sets.Set[allocated] {
	ids := sets.New[allocated]()
	if s.Allocation != nil {
		for i := range s.Allocation.Devices.Results {
			ids.Insert(resultID(&s.Allocation.Devices.Results[i]))
		}
	}
	return ids
}

// prepareStatus takes away the fields whose gate is off in 1.37 (skipped node operations), and what was reported of devices
// that are allocated no more: who deallocates need not know of it.
func prepareStatus(_ context.Context, c, old *resourcev1.ResourceClaim) {
	if a := c.Status.Allocation; a != nil {
		for i := range a.Devices.Results {
			a.Devices.Results[i].SkipNodeOperations = nil
		}
	}
	gone := allocatedIn(&old.Status).Difference(allocatedIn(&c.Status))
	c.Status.Devices = slices.DeleteFunc(c.Status.Devices, func(d resourcev1.AllocatedDeviceStatus) bool { return gone.Has(statusID(&d)) })
	if len(c.Status.Devices) == 0 {
		c.Status.Devices = nil
	}
}

func validateStatus(_ context.Context, c, old *resourcev1.ResourceClaim) field.ErrorList {
	path, status := field.NewPath("status"), &c.Status
	ids := allocatedIn(status)
	errs := device.ValidateSet(status.ReservedFor, resourcev1.ResourceClaimReservedForMaxSize, validateConsumer,
		func(r resourcev1.ResourceClaimConsumerReference) types.UID { return r.UID }, path.Child("reservedFor"))
	errs = append(errs, device.ValidateSet(status.Devices, device.Unlimited,
		func(d resourcev1.AllocatedDeviceStatus, path *field.Path) field.ErrorList {
			errs := validateDevice(&d, path)
			if !ids.Has(statusID(&d)) {
				errs = append(errs, field.Invalid(path, statusID(&d), "must be an allocated device in the claim"))
			}
			return errs
		},
		func(d resourcev1.AllocatedDeviceStatus) allocated { return statusID(&d) }, path.Child("devices"))...)
	if len(status.ReservedFor) > 0 && status.Allocation == nil {
		errs = append(errs, field.Forbidden(path.Child("reservedFor"), "may not be specified when `allocated` is not set"))
	} else if c.DeletionTimestamp != nil && sets.New(status.ReservedFor...).Difference(sets.New(old.Status.ReservedFor...)).Len() > 0 {
		errs = append(errs, field.Forbidden(path.Child("reservedFor"), "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set"))
	}
	switch {
	case status.Allocation == nil:
	case old.Status.Allocation != nil:
		errs = append(errs, validation.ValidateImmutableField(status.Allocation, old.Status.Allocation, path.Child("allocation"))...)
	default:
		errs = append(errs, validateAllocation(status.Allocation, claim.RequestsOf(&c.Spec), path.Child("allocation"))...)
	}
	return errs
}

func validateConsumer(r resourcev1.ResourceClaimConsumerReference, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for name, value := range map[string]string{"resource": r.Resource, "name": r.Name, "uid": string(r.UID)} {
		if value == "" {
			errs = append(errs, field.Required(path.Child(name), ""))
		}
	}
	return errs
}

func validateAllocation(a *resourcev1.AllocationResult, requests claim.Requests, path *field.Path) field.ErrorList {
	devices := path.Child("devices")
	errs := device.ValidateSlice(a.Devices.Results, resourcev1.AllocationResultsMaxSize,
		func(r resourcev1.DeviceRequestAllocationResult, path *field.Path) field.ErrorList {
			errs := requests.ValidateRef(r.Request, path.Child("request"))
			errs = append(errs, device.ValidateDriver(r.Driver, path.Child("driver"))...)
			errs = append(errs, device.ValidatePool(r.Pool, path.Child("pool"))...)
			errs = append(errs, device.ValidateLabel(r.Device, path.Child("device"))...)
			errs = append(errs, device.ValidateBinding(r.BindingConditions, r.BindingFailureConditions, path)...)
			errs = append(errs, device.ValidateSlice(r.Tolerations, device.Unlimited, device.ValidateToleration, path.Child("tolerations"))...)
			if r.ShareID != nil {
				errs = append(errs, device.ValidateUID(string(*r.ShareID), path.Child("shareID"))...)
			}
			return errs
		}, devices.Child("results"))
	const perSource = 2 // of the class and of the claim
	errs = append(errs, device.ValidateSlice(a.Devices.Config, perSource*resourcev1.DeviceConfigMaxSize,
		func(c resourcev1.DeviceAllocationConfiguration, path *field.Path) field.ErrorList {
			errs := validateSource(c.Source, path.Child("source"))
			errs = append(errs, requests.ValidateRefs(c.Requests, path.Child("requests"))...)
			return append(errs, device.ValidateConfiguration(c.DeviceConfiguration, false, path)...)
		}, devices.Child("config"))...)
	if a.NodeSelector != nil {
		errs = append(errs, affinity.ValidateNodeSelector(a.NodeSelector, path.Child("nodeSelector"))...)
	}
	return errs
}

func validateSource(s resourcev1.AllocationConfigSource, path *field.Path) field.ErrorList {
	sources := []resourcev1.AllocationConfigSource{resourcev1.AllocationConfigSourceClaim, resourcev1.AllocationConfigSourceClass}
	switch {
	case s == "":
		return field.ErrorList{field.Required(path, "")}
	case !slices.Contains(sources, s):
		return field.ErrorList{field.NotSupported(path, s, sources)}
	}
	return nil
}

// validateDevice checks what a driver reports of one device.
func validateDevice(d *resourcev1.AllocatedDeviceStatus, path *field.Path) field.ErrorList {
	errs := device.ValidateDriver(d.Driver, path.Child("driver"))
	errs = append(errs, device.ValidatePool(d.Pool, path.Child("pool"))...)
	errs = append(errs, device.ValidateLabel(d.Device, path.Child("device"))...)
	if d.ShareID != nil {
		errs = append(errs, device.ValidateUID(*d.ShareID, path.Child("shareID"))...)
	}
	if len(d.Conditions) > resourcev1.AllocatedDeviceStatusMaxConditions {
		errs = append(errs, field.TooMany(path.Child("conditions"), len(d.Conditions), resourcev1.AllocatedDeviceStatusMaxConditions))
	}
	errs = append(errs, metav1validation.ValidateConditions(d.Conditions, path.Child("conditions"))...)
	if d.Data != nil && len(d.Data.Raw) > 0 {
		errs = append(errs, device.ValidateObject(*d.Data, resourcev1.AllocatedDeviceStatusDataMaxLength, path.Child("data"))...)
	}
	return append(errs, validateNetwork(d.NetworkData, path.Child("networkData"))...)
}

func validateNetwork(n *resourcev1.NetworkDeviceData, path *field.Path) field.ErrorList {
	if n == nil {
		return nil
	}
	var errs field.ErrorList
	if len(n.InterfaceName) > resourcev1.NetworkDeviceDataInterfaceNameMaxLength {
		errs = append(errs, field.TooLong(path.Child("interfaceName"), "", resourcev1.NetworkDeviceDataInterfaceNameMaxLength))
	}
	if len(n.HardwareAddress) > resourcev1.NetworkDeviceDataHardwareAddressMaxLength {
		errs = append(errs, field.TooLong(path.Child("hardwareAddress"), "", resourcev1.NetworkDeviceDataHardwareAddressMaxLength))
	}
	return append(errs, device.ValidateSet(n.IPs, resourcev1.NetworkDeviceDataMaxIPs,
		func(ip string, path *field.Path) field.ErrorList {
			return utilvalidation.IsValidInterfaceAddress(path, ip)
		},
		func(ip string) string { return ip }, path.Child("ips"))...)
}
