// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package pods

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

func TestIsUncertain(t *testing.T) {
	pod := schema.GroupResource{Resource: "pods"}
	for _, tt := range []struct {
		err  error
		want bool
	}{
		{io.ErrUnexpectedEOF, true},
		{context.DeadlineExceeded, true},
		{apierrors.NewTimeoutError("slow", 1), true},
		{apierrors.NewServerTimeout(pod, "create", 1), true},
		{apierrors.NewInternalError(errors.New("etcd")), true},
		{fmt.Errorf("creating: %w", apierrors.NewForbidden(pod, "p", errors.New("quota"))), false},
		{apierrors.NewAlreadyExists(pod, "p"), false},
		{apierrors.NewTooManyRequests("busy", 1), false},
	} {
		if got := isUncertain(tt.err); got != tt.want {
			t.Errorf("%v: %v", tt.err, got)
		}
	}
}

// A pod whose creation was not answered has to be waited for, else the next pass creates another one.
func TestControl_CreateWithoutAnswer(t *testing.T) {
	owner := &corev1.ReplicationController{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web", UID: "web"}}
	ref := *metav1.NewControllerRef(owner, corev1.SchemeGroupVersion.WithKind("ReplicationController"))
	template := &corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}}}
	known, foreign := FromTemplate(template, owner, ref), FromTemplate(template, owner, ref)
	known.Name, foreign.Name, foreign.OwnerReferences[0].UID = "known", "foreign", "other"
	stale := fake.NewClientBuilder().WithObjects(known).Build()
	server := fake.NewClientBuilder().WithObjects(known, foreign).Build()
	for name, fails := range map[string]struct {
		with     error
		done     bool
		awaiting []string
	}{
		"written": {io.ErrUnexpectedEOF, true, []string{"lost"}},
		"not":     {io.ErrUnexpectedEOF, false, nil},
		"refused": {apierrors.NewForbidden(schema.GroupResource{}, "", errors.New("quota")), false, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var patched []string
			failures := 2
			c := interceptor.NewClient(stale, interceptor.Funcs{
				Create: func(ctx context.Context, _ client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
					if fails.done {
						created := obj.DeepCopyObject().(client.Object)
						created.SetName("lost")
						if err := server.Create(ctx, created, opts...); err != nil {
							t.Error(err)
						}
						t.Cleanup(func() {
							if err := server.Delete(context.Background(), created); err != nil {
								t.Error(err)
							}
						})
					}
					return fails.with
				},
				Patch: func(_ context.Context, _ client.WithWatch, obj client.Object, _ client.Patch, _ ...client.PatchOption) error {
					if failures > 0 {
						failures--
						return io.ErrUnexpectedEOF
					}
					patched = append(patched, obj.GetName())
					return nil
				},
			})
			control := Control{Client: c, Live: server, Events: &record.FakeRecorder{}}
			if err := control.Create(t.Context(), owner, FromTemplate(template, owner, ref)); !errors.Is(err, fails.with) {
				t.Errorf("error %v", err)
			}
			if !slices.Equal(patched, fails.awaiting) {
				t.Errorf("waits for %v, want %v", patched, fails.awaiting)
			}
		})
	}
}
