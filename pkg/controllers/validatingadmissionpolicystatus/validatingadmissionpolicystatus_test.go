// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package validatingadmissionpolicystatus

import (
	"context"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"minik8s.io/minik8s/pkg/controllers/controllertest"
)

func TestReconciler(t *testing.T) {
	warning := admissionv1.ExpressionWarning{FieldRef: "spec.validations[0].expression", Warning: "undefined field"}
	for name, tc := range map[string]struct {
		warnings []admissionv1.ExpressionWarning
		before   admissionv1.ValidatingAdmissionPolicyStatus
	}{
		"right":         {},
		"wrong":         {warnings: []admissionv1.ExpressionWarning{warning}},
		"no more wrong": {before: admissionv1.ValidatingAdmissionPolicyStatus{ObservedGeneration: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			controllertest.Run(t, controllertest.Case{
				Applies: true,
				Objects: []client.Object{&admissionv1.ValidatingAdmissionPolicy{
					ObjectMeta: metav1.ObjectMeta{Name: "p", Generation: 2}, Status: tc.before,
				}},
				Request: reconcile.Request{NamespacedName: types.NamespacedName{Name: "p"}},
				New: func(c client.Client) reconcile.Reconciler {
					return &Reconciler{Client: c, Check: func(*admissionv1.ValidatingAdmissionPolicy) []admissionv1.ExpressionWarning { return tc.warnings }}
				},
				Want: func(ctx context.Context, c client.Client) error {
					var p admissionv1.ValidatingAdmissionPolicy
					if err := c.Get(ctx, types.NamespacedName{Name: "p"}, &p); err != nil {
						return err
					}
					want := admissionv1.ValidatingAdmissionPolicyStatus{
						ObservedGeneration: 2, TypeChecking: &admissionv1.TypeChecking{ExpressionWarnings: tc.warnings},
					}
					if diff := cmp.Diff(want, p.Status); diff != "" {
						return fmt.Errorf("status (-want +got):\n%s", diff)
					}
					return nil
				},
			})
		})
	}
}
