// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package ownwrites

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"

	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func evictionOf(name string) *policyv1.Eviction {
	return &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}}
}

func TestIsUncertain(t *testing.T) {
	pod := schema.GroupResource{Resource: "pods"}
	for _, tt := range []struct {
		err  error
		want bool
	}{
		{nil, false},
		{io.ErrUnexpectedEOF, true},
		{context.DeadlineExceeded, true},
		{fmt.Errorf("creating: %w", context.Canceled), true},
		{apierrors.NewTimeoutError("slow", 1), true},
		{apierrors.NewServerTimeout(pod, "create", 1), true},
		{apierrors.NewInternalError(errors.New("etcd")), true},
		{apierrors.NewServiceUnavailable("nobody there"), true},
		{fmt.Errorf("creating: %w", apierrors.NewForbidden(pod, "p", errors.New("quota"))), false},
		{apierrors.NewAlreadyExists(pod, "p"), false},
		{apierrors.NewConflict(pod, "p", errors.New("changed")), false},
		{apierrors.NewTooManyRequests("busy", 1), false},
	} {
		if got := IsUncertain(tt.err); got != tt.want {
			t.Errorf("%v: %v", tt.err, got)
		}
	}
}
