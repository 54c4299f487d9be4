// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package eventratelimit

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/admission"
	clocktesting "k8s.io/utils/clock/testing"

	"minik8s.io/minik8s/pkg/apiserver/admission/admissiontest"
)

func build(t *testing.T, limits string) (admission.Interface, *clocktesting.FakeClock) {
	t.Helper()
	c := clocktesting.NewFakeClock(time.Unix(1, 0))
	p, err := newPlugin(strings.NewReader("apiVersion: eventratelimit.admission.k8s.io/v1alpha1\nkind: Configuration\nlimits: "+limits), c)
	if err != nil {
		t.Fatal(err)
	}
	return p, c
}

func TestLimits(t *testing.T) {
	event := func(ns, object string) admissiontest.Request {
		return admissiontest.Request{Resource: "events", Namespace: ns, Object: &corev1.Event{InvolvedObject: corev1.ObjectReference{Name: object}}}
	}
	for _, tc := range []struct {
		limit string
		// other is counted apart from an event about "a" in "x".
		other admissiontest.Request
		apart bool
	}{
		{"Server", event("y", "b"), false},
		{"Namespace", event("y", "a"), true},
		{"Namespace", event("x", "b"), false},
		{"User", event("y", "b"), false},
		{"SourceAndObject", event("x", "b"), true},
		{"SourceAndObject", event("y", "a"), false},
	} {
		t.Run(tc.limit, func(t *testing.T) {
			p, clock := build(t, "[{type: "+tc.limit+", qps: 1, burst: 2}]")
			a := event("x", "a").Attributes()
			for range 2 {
				if err := admissiontest.Run(p, a); err != nil {
					t.Fatal(err)
				}
			}
			if err := admissiontest.Run(p, a); !apierrors.IsTooManyRequests(err) {
				t.Errorf("third event: %v, want TooManyRequests", err)
			}
			if err := admissiontest.Run(p, tc.other.Attributes()); (err == nil) != tc.apart {
				t.Errorf("another event: %v, want one counted apart = %v", err, tc.apart)
			}
			if err := admissiontest.Run(p, admissiontest.Request{Resource: "pods", Namespace: "x", Object: &corev1.Pod{}}.Attributes()); err != nil {
				t.Errorf("a pod: %v", err)
			}
			clock.Step(time.Second)
			if err := admissiontest.Run(p, a); err != nil {
				t.Errorf("a second later: %v", err)
			}
		})
	}
}

func TestConfiguration(t *testing.T) {
	for _, limits := range []string{"[]", "[{type: x, qps: 1, burst: 1}]", "[{type: Server, qps: 0, burst: 1}]", "[{type: Server, qps: 1}]", "[{type: User, qps: 1, burst: 1, cacheSize: -1}]"} {
		if _, err := newPlugin(strings.NewReader("limits: "+limits), nil); err == nil {
			t.Errorf("%s: no error", limits)
		}
	}
	if _, err := New(nil); err == nil {
		t.Error("no configuration: no error")
	}
}
