// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestTransient(t *testing.T) {
	ending := apierrors.NewForbidden(corev1.Resource("pods"), "p", errors.New("the namespace is being terminated"))
	other := apierrors.NewForbidden(corev1.Resource("pods"), "p", errors.New("exceeded quota"))
	ending.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	for _, tc := range []struct {
		name string
		err  error
		want bool
	}{
		{"none", nil, false},
		{"the user's", fmt.Errorf("reading: %w", &userError{errors.New("no such ConfigMap")}), false},
		{"of a namespace that ends", errors.Join(fmt.Errorf("making: %w", ending)), false},
		{"refused otherwise", errors.Join(fmt.Errorf("making: %w", other)), true},
	} {
		if got := transient(tc.err) != nil; got != tc.want {
			t.Errorf("%s: transient %v, want %v", tc.name, got, tc.want)
		}
	}
}
