// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"minik8s.io/minik8s/test/integration/framework"
)

func rights(resource string, verbs ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{resourcev1.GroupName}, Resources: []string{resource}, Verbs: verbs}
}

// TestDeviceClaim_StatusRights separates who binds claims from who reports on their devices.
func TestDeviceClaim_StatusRights(t *testing.T) {
	t.Parallel()
	ns := cluster.Namespace(t)
	status := rights("resourceclaims/status", "get", "update")
	binder := userWith(t, ns+"-binder", status, rights("resourceclaims/binding", "update")).ResourceV1().ResourceClaims(ns)
	driver := userWith(t, ns+"-driver", status, rights("resourceclaims/driver", "arbitrary-node:update")).ResourceV1().ResourceClaims(ns)
	c, err := cluster.Client.ResourceV1().ResourceClaims(ns).Create(t.Context(), &resourcev1.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "c"},
		Spec: resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{
			Requests: []resourcev1.DeviceRequest{{Name: "gpu", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: "gpu"}}},
		}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	c.Status.Allocation = &resourcev1.AllocationResult{Devices: resourcev1.DeviceAllocationResult{
		Results: []resourcev1.DeviceRequestAllocationResult{{Request: "gpu", Driver: "gpu.example.com", Pool: "p", Device: "d"}},
	}}
	// The authorizer learns of the new roles from its informers.
	framework.Eventually(t, "a driver may not allocate", func() error {
		_, err := driver.UpdateStatus(t.Context(), c, metav1.UpdateOptions{})
		return refusedAt(err, "status.allocation")
	})
	framework.Eventually(t, "the binder may", func() error {
		bound, err := binder.UpdateStatus(t.Context(), c, metav1.UpdateOptions{})
		if err == nil {
			c = bound
		}
		return err
	})
	c.Status.Devices = []resourcev1.AllocatedDeviceStatus{{Driver: "gpu.example.com", Pool: "p", Device: "d", NetworkData: &resourcev1.NetworkDeviceData{InterfaceName: "eth1"}}}
	_, err = binder.UpdateStatus(t.Context(), c, metav1.UpdateOptions{})
	if err := refusedAt(err, "status.devices"); err != nil {
		t.Errorf("the binder reports on a device: %v", err)
	}
	if c, err = driver.UpdateStatus(t.Context(), c, metav1.UpdateOptions{}); err != nil {
		t.Fatalf("the driver may not report: %v", err)
	}
	c.Status.Allocation = nil
	if c, err = binder.UpdateStatus(t.Context(), c, metav1.UpdateOptions{}); err != nil {
		t.Fatalf("the binder may not deallocate: %v", err)
	}
	if c.Status.Devices != nil {
		t.Errorf("of a claim without devices %v is reported", c.Status.Devices)
	}
}

// TestDeviceClaim_AdminAccess is for marked namespaces only.
func TestDeviceClaim_AdminAccess(t *testing.T) {
	t.Parallel()
	ns := cluster.Namespace(t)
	claims := cluster.Client.ResourceV1().ResourceClaims(ns)
	c := &resourcev1.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "c"},
		Spec: resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{
			Requests: []resourcev1.DeviceRequest{{Name: "gpu", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: "gpu", AdminAccess: new(true)}}},
		}},
	}
	_, err := claims.Create(t.Context(), c, metav1.CreateOptions{})
	if err := refusedAt(err, "spec.devices.requests[0].adminAccess"); err != nil {
		t.Error(err)
	}
	namespace, err := cluster.Client.CoreV1().Namespaces().Get(t.Context(), ns, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	namespace.Labels[resourcev1.DRAAdminNamespaceLabelKey] = "true"
	if _, err := cluster.Client.CoreV1().Namespaces().Update(t.Context(), namespace, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := claims.Create(t.Context(), c, metav1.CreateOptions{}); err != nil {
		t.Errorf("a marked namespace: %v", err)
	}
}
