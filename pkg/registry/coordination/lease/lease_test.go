// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package lease_test

import (
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"minik8s.io/minik8s/pkg/registry/coordination/lease"
	"minik8s.io/minik8s/pkg/registry/registrytest"
)

func TestResource(t *testing.T) {
	registrytest.Run(t, lease.Resource, registrytest.Case[*coordinationv1.Lease]{
		AddToScheme: coordinationv1.AddToScheme,
		Valid: func() *coordinationv1.Lease {
			return &coordinationv1.Lease{
				ObjectMeta: metav1.ObjectMeta{Name: "l"},
				Spec:       coordinationv1.LeaseSpec{HolderIdentity: new("me"), LeaseDurationSeconds: new(int32(15))},
			}
		},
		Update: func(l *coordinationv1.Lease) { l.Spec.HolderIdentity = new("you") },
		Invalid: []registrytest.Invalid[*coordinationv1.Lease]{
			{Name: "no duration", Mutate: func(l *coordinationv1.Lease) { l.Spec.LeaseDurationSeconds = new(int32(0)) }, Field: "spec.leaseDurationSeconds"},
			{Name: "negative transitions", Mutate: func(l *coordinationv1.Lease) { l.Spec.LeaseTransitions = new(int32(-1)) }, Field: "spec.leaseTransitions"},
		},
		Row: []any{"l", "me"},
	})
}
