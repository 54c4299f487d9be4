// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1alpha1 "minik8s.io/minik8s/pkg/addons/apis/functions/v1alpha1"
)

func TestUnneeded(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	answered := func(name string, age time.Duration, size int) v1alpha1.Invocation {
		return v1alpha1.Invocation{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Status:     v1alpha1.InvocationStatus{CompletionTime: new(metav1.NewTime(now.Add(-age))), Body: make([]byte, size)},
		}
	}
	var many []v1alpha1.Invocation
	for i := range maxInvocations + 2 {
		many = append(many, answered(fmt.Sprint(i), time.Duration(i)*time.Millisecond, 1))
	}
	for _, test := range []struct {
		name string
		all  []v1alpha1.Invocation
		want string
	}{
		{"none", nil, ""},
		{"old", []v1alpha1.Invocation{answered("a", answerKept, 1), answered("b", answerKept-1, 1), {ObjectMeta: metav1.ObjectMeta{Name: "waiting"}}}, "a"},
		{"large", []v1alpha1.Invocation{answered("a", 2, maxInvocationsBytes/2+1), answered("b", 1, maxInvocationsBytes/2), answered("c", 3, 0)}, "ac"},
		{"many", many, fmt.Sprint(maxInvocations, maxInvocations+1)},
	} {
		got := ""
		for _, inv := range unneeded(test.all, now) {
			if test.name == "many" && got != "" {
				got += " "
			}
			got += inv.Name
		}
		if got != test.want {
			t.Errorf("%s: got %q, want %q", test.name, got, test.want)
		}
	}
}

// What was kept but is never seen counts for a minute.
func TestInvocations_Unseen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := newInvocations(t.Context(), nil, nil)
		for n := range maxInvocations {
			if !i.wait(types.NamespacedName{Name: fmt.Sprint(n)}, 1) {
				t.Fatalf("there is no room for the %d.", n)
			}
		}
		i.waiting[types.NamespacedName{Name: "0"}].made = "u"
		time.Sleep(unseen + time.Second) //nolint:forbidigo // in a bubble, where it costs nothing
		if !i.wait(types.NamespacedName{Name: "new"}, 1) || len(i.waiting) != 2 {
			t.Errorf("%d count, want what is being made and the new one", len(i.waiting))
		}
	})
}

// Requests that wait are bounded in number and size, and so is what is written in the long run.
func TestInvocations_Wait(t *testing.T) {
	name := func(n int) types.NamespacedName { return types.NamespacedName{Name: fmt.Sprint(n)} }
	i := newInvocations(context.Background(), nil, nil)
	for n := range maxInvocations {
		if !i.wait(name(n), 1) {
			t.Fatalf("there is no room for the %d.", n)
		}
	}
	if i.wait(name(-1), 1) {
		t.Error("there is room for one more")
	}
	i.forget(name(0))
	if !i.wait(name(-1), 1) {
		t.Error("there is no room although one has its answer")
	}

	i = newInvocations(context.Background(), nil, nil)
	const size = 512 << 10
	for n := range maxInvocationsBytes/size - 1 {
		if !i.wait(name(n), size) {
			t.Fatalf("there is no room for %d bytes more than %d", size, n*size)
		}
	}
	if i.wait(name(-1), 2*size) {
		t.Error("there is room for more than there should be")
	}
	for n := range maxInvocationsBytes / size {
		i.forget(name(n))
	}
	if i.wait(name(0), size) && i.wait(name(1), size) && i.wait(name(2), size) {
		t.Error("as much was written at once as in many seconds")
	}
}
