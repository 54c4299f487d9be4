// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
)

func TestEvents_Allows(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC))
	e := &events{clock: clock}
	pod := func(name string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}}
	}
	count := func(allowed func() bool) int {
		n := 0
		for range 2 * eventBurst {
			if allowed() {
				n++
			}
		}
		return n
	}
	if n := count(func() bool { return e.allows(pod("a")) }); n != eventBurst {
		t.Errorf("%d at once, want %d", n, eventBurst)
	}
	if !e.allows(pod("b")) || !e.allows(&corev1.ObjectReference{Kind: "Pod", Namespace: "ns", Name: "c"}) {
		t.Error("another object has none")
	}
	clock.SetTime(clock.Now().Add(eventPeriod + time.Second))
	if n := count(func() bool { return e.allows(pod("a")) }); n != 1 {
		t.Errorf("%d after a while, want 1", n)
	}
}
