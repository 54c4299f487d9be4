// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package podstatus

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	corelisters "k8s.io/client-go/listers/core/v1"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
)

// written is what a patch says.
type written struct {
	Pod, Message, Nominated string
}

// cleared stands for a patch that ends a nomination.
const cleared = "none"

// rig is a writer on an API that hands each patch to the test.
type rig struct {
	*Writer
	patches chan written
	// answers has what the API says to each patch.
	answers chan error
}

func pod(name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID(name)}}
}

func newRig(t *testing.T, pods ...*corev1.Pod) rig {
	t.Helper()
	store := cache.NewIndexer(cache.MetaNamespaceKeyFunc, nil)
	for _, p := range pods {
		if err := store.Add(p); err != nil {
			t.Fatal(err)
		}
	}
	client := fake.NewClientset()
	r := rig{NewWriter(client, corelisters.NewPodLister(store), nil), make(chan written), make(chan error)}
	client.PrependReactor("patch", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
		patch := a.(clienttesting.PatchAction)
		var p corev1.Pod
		if err := json.Unmarshal(patch.GetPatch(), &p); err != nil {
			return true, nil, err
		}
		w := written{Pod: patch.GetName(), Nominated: p.Status.NominatedNodeName}
		if bytes.Contains(patch.GetPatch(), []byte(`"nominatedNodeName":null`)) {
			w.Nominated = cleared
		}
		for _, c := range p.Status.Conditions {
			w.Message = c.Message
		}
		r.patches <- w
		return true, &p, <-r.answers
	})
	return r
}

// run writes until the test ends.
func (r rig) run(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
}

// next waits for a patch.
func (r rig) next(t *testing.T) written {
	t.Helper()
	select {
	case w := <-r.patches:
		return w
	case <-time.After(20 * time.Second):
		t.Fatal("nothing is written")
		return written{}
	}
}

func update(message string, nomination *string) Update {
	return Update{&corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: message}, nomination}
}

func equal(t *testing.T, want, got written) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestWriter_LastOneWins(t *testing.T) {
	p := pod("p")
	r := newRig(t, p)
	r.Write(p, update("first", new("n")))
	r.Write(p, update("second", nil))
	if n := r.Pending(); n != 1 {
		t.Errorf("%d updates wait, want 1", n)
	}
	r.run(t)
	equal(t, written{"p", "second", "n"}, r.next(t))
	r.answers <- nil
}

func TestWriter_TriesAgain(t *testing.T) {
	p := pod("p")
	r := newRig(t, p)
	r.run(t)
	r.Write(p, update("one", nil))
	equal(t, written{"p", "one", ""}, r.next(t))
	r.answers <- errors.New("refused")
	equal(t, written{"p", "one", ""}, r.next(t))
	// What comes while it is written is written after it, not what failed.
	r.Write(p, update("two", nil))
	r.answers <- errors.New("refused")
	equal(t, written{"p", "two", ""}, r.next(t))
	r.answers <- nil
}

func TestWriter_Drop(t *testing.T) {
	dropped, other := pod("dropped"), pod("other")
	r := newRig(t, dropped, other)
	r.Write(dropped, update("of no use", nil))
	if running := r.Drop(dropped.UID); running != nil {
		t.Error("something is being written before Run")
	}
	r.run(t)
	r.Write(other, update("one", nil))
	equal(t, written{"other", "one", ""}, r.next(t)) // and nothing of the other one before
	running := r.Drop(other.UID)
	select {
	case <-running:
		t.Error("a request has ended that has no answer")
	default:
	}
	r.answers <- nil
	select {
	case <-running:
	case <-time.After(20 * time.Second):
		t.Error("the end of the request is not told")
	}
}

// Nothing is written about a pod that has a node, is gone, or is another of the
// same name, nor what the pod says already.
func TestWriter_LeavesAlone(t *testing.T) {
	bound, replaced, told, last := pod("bound"), pod("replaced"), pod("told"), pod("last")
	bound.Spec.NodeName = "n"
	told.Status.Conditions = []corev1.PodCondition{*update("known", nil).Condition}
	r := newRig(t, bound, replaced, told, last)
	before := pod("replaced")
	before.UID = "another"
	for _, p := range []*corev1.Pod{bound, before, told, pod("gone")} {
		r.Write(p, update("known", nil))
	}
	r.run(t)
	r.Write(last, update("last", nil))
	equal(t, written{"last", "last", ""}, r.next(t))
	r.answers <- nil
	if n := r.Pending(); n != 0 {
		t.Errorf("%d updates wait", n)
	}
}

// A nomination ends although the lister does not show yet that it was made, and is made again although it does not show that it has ended.
func TestWriter_NominationNotSeen(t *testing.T) {
	p := pod("p")
	r := newRig(t, p)
	r.run(t)
	for _, step := range []struct{ node, want string }{{"n", "n"}, {"", cleared}, {"n", "n"}} {
		r.Write(p, Update{Nomination: &step.node})
		equal(t, written{Pod: "p", Nominated: step.want}, r.next(t))
		r.answers <- nil
	}
	// One that could not be ended is tried again.
	r.Write(p, Update{Nomination: new("")})
	for _, answer := range []error{errors.New("refused"), nil} {
		equal(t, written{Pod: "p", Nominated: cleared}, r.next(t))
		r.answers <- answer
	}
	r.Write(p, Update{Nomination: new("")}) // which it is
	r.Write(p, update("last", nil))
	equal(t, written{Pod: "p", Message: "last"}, r.next(t))
	r.answers <- nil
	r.Forget(p.UID)
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.nominations) != 0 {
		t.Errorf("nominations of pods that are forgotten are kept: %v", r.nominations)
	}
}

// Of what waits, the last condition and the last nomination are written.
func TestWriter_Joins(t *testing.T) {
	p := pod("p")
	r := newRig(t, p)
	r.Write(p, update("why", new("m")))
	r.Write(p, Update{Nomination: new("n")})
	r.run(t)
	equal(t, written{"p", "why", "n"}, r.next(t))
	r.answers <- nil
}

func TestSetCondition(t *testing.T) {
	early, late := metav1.NewTime(time.Unix(1000, 0)), metav1.NewTime(time.Unix(2000, 0))
	have := corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: "a", LastTransitionTime: early}
	for _, tc := range []struct {
		name    string
		want    corev1.PodCondition
		changed bool
		at      metav1.Time
	}{
		{"the same later", corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: "a", LastTransitionTime: late}, false, early},
		{"another message", corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: "b", LastTransitionTime: late}, true, early},
		{"another status", corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, Message: "a", LastTransitionTime: late}, true, late},
		{"another type", corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: late}, true, late},
	} {
		t.Run(tc.name, func(t *testing.T) {
			status := corev1.PodStatus{Conditions: []corev1.PodCondition{have}}
			if got := SetCondition(&status, tc.want); got != tc.changed {
				t.Errorf("changed = %v", got)
			}
			for _, c := range status.Conditions {
				if c.Type == tc.want.Type && !c.LastTransitionTime.Equal(&tc.at) {
					t.Errorf("it changed at %v, want %v", c.LastTransitionTime, tc.at)
				}
			}
		})
	}
}
