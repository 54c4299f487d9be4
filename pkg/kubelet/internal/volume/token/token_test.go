// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package token

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	clocktesting "k8s.io/utils/clock/testing"

	"minik8s.io/minik8s/pkg/kubelet/internal/volume/plugin"
)

func TestGet(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(time.Unix(1e9, 0))
	client := fake.NewSimpleClientset()
	var fail error
	issued := 0
	var last *authenticationv1.TokenRequest
	client.PrependReactor("create", "serviceaccounts", func(a clienttesting.Action) (bool, runtime.Object, error) {
		if fail != nil {
			return true, nil, fail
		}
		r := a.(clienttesting.CreateAction).GetObject().(*authenticationv1.TokenRequest).DeepCopy()
		issued++
		r.Status.Token = fmt.Sprintf("t%d", issued)
		r.Status.ExpirationTimestamp = metav1.NewTime(clock.Now().Add(time.Duration(*r.Spec.ExpirationSeconds) * time.Second))
		last = r
		return true, r, nil
	})
	m := New(client, clock)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "u"}, Spec: corev1.PodSpec{ServiceAccountName: "sa"}}
	p := &corev1.ServiceAccountTokenProjection{ExpirationSeconds: new(int64(1000)), Audience: "vault"}
	get := func(want string) {
		t.Helper()
		if got, err := m.Get(context.Background(), pod, p); err != nil || got != want {
			t.Errorf("got %q, %v; want %q", got, err, want)
		}
	}
	step := func(d time.Duration) { clock.SetTime(clock.Now().Add(d)) }

	get("t1")
	if b := last.Spec.BoundObjectRef; b.Kind != "Pod" || b.UID != "u" || b.Name != "p" || last.Spec.Audiences[0] != "vault" {
		t.Errorf("token is not bound to the pod: %+v", last.Spec)
	}
	step(799 * time.Second)
	get("t1")
	step(2 * time.Second)
	get("t2")
	fail = errors.New("connection refused")
	step(900 * time.Second)
	get("t2")
	step(200 * time.Second)
	if _, err := m.Get(context.Background(), pod, p); !errors.Is(err, plugin.ErrUnavailable) {
		t.Errorf("error %v, want ErrUnavailable", err)
	}
	fail = apierrors.NewNotFound(corev1.Resource("serviceaccounts"), "sa")
	if _, err := m.Get(context.Background(), pod, p); err == nil || errors.Is(err, plugin.ErrUnavailable) {
		t.Errorf("error %v, want a final one", err)
	}
	fail = nil
	p.ExpirationSeconds = new(int64(100 * 60 * 60))
	get("t3")
	step(24*time.Hour + time.Second)
	get("t4")
	// The clock is set back, and then goes on.
	step(-2 * time.Hour)
	get("t5")
	step(time.Minute)
	get("t5")
	m.Forget("u")
	get("t6")
}
