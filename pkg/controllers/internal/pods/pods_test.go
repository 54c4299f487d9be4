// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package pods

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

var now = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

// running returns a ready pod on a node, an hour old, as the template that tests change one thing of.
func running(name string, change ...func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), CreationTimestamp: metav1.NewTime(now.Add(-time.Hour))},
		Spec:       corev1.PodSpec{NodeName: "n1"},
		Status: corev1.PodStatus{
			Phase:      corev1.PodRunning,
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(now.Add(-time.Hour))}},
		},
	}
	for _, c := range change {
		c(pod)
	}
	return pod
}

func TestSetCondition(t *testing.T) {
	earlier, later := metav1.NewTime(now.Add(-time.Hour)), metav1.NewTime(now)
	condition := func(kind corev1.PodConditionType, status corev1.ConditionStatus, reason string, since metav1.Time) corev1.PodCondition {
		return corev1.PodCondition{Type: kind, Status: status, Reason: reason, LastTransitionTime: since}
	}
	other := condition("Other", "True", "", earlier)
	for _, tt := range []struct {
		name    string
		before  []corev1.PodCondition
		want    []corev1.PodCondition
		changed bool
	}{
		{"new", []corev1.PodCondition{other}, []corev1.PodCondition{other, condition("C", "True", "R", later)}, true},
		{"the same", []corev1.PodCondition{condition("C", "True", "R", earlier), other}, []corev1.PodCondition{condition("C", "True", "R", earlier), other}, false},
		{"another reason", []corev1.PodCondition{condition("C", "True", "Before", earlier), other}, []corev1.PodCondition{condition("C", "True", "R", earlier), other}, true},
		{"another status", []corev1.PodCondition{condition("C", "False", "R", earlier), other}, []corev1.PodCondition{condition("C", "True", "R", later), other}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			status := corev1.PodStatus{Conditions: tt.before}
			if changed := SetCondition(&status, condition("C", "True", "R", later)); changed != tt.changed {
				t.Errorf("changed: %t", changed)
			}
			if diff := cmp.Diff(tt.want, status.Conditions); diff != "" {
				t.Errorf("conditions (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSortForDeletion(t *testing.T) {
	related := map[string]int{"n1": 1, "crowded": 3}
	tests := []struct {
		name  string
		first func(*corev1.Pod)
	}{
		{name: "not assigned", first: func(p *corev1.Pod) { p.Spec.NodeName = "" }},
		{name: "pending", first: func(p *corev1.Pod) { p.Status.Phase = corev1.PodPending }},
		{name: "not ready", first: func(p *corev1.Pod) { p.Status.Conditions = nil }},
		{name: "cheap", first: func(p *corev1.Pod) { p.Annotations = map[string]string{corev1.PodDeletionCost: "-5"} }},
		{name: "crowded node", first: func(p *corev1.Pod) { p.Spec.NodeName = "crowded" }},
		{name: "ready for a short time", first: func(p *corev1.Pod) { p.Status.Conditions[0].LastTransitionTime = metav1.NewTime(now.Add(-time.Second)) }},
		{name: "restarted", first: func(p *corev1.Pod) { p.Status.ContainerStatuses = []corev1.ContainerStatus{{RestartCount: 2}} }},
		{name: "restarted sidecar", first: func(p *corev1.Pod) {
			p.Spec.InitContainers = []corev1.Container{{Name: "s", RestartPolicy: new(corev1.ContainerRestartPolicyAlways)}}
			p.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "s", RestartCount: 1}}
		}},
		{name: "young", first: func(p *corev1.Pod) { p.CreationTimestamp = metav1.NewTime(now.Add(-time.Second)) }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			// The names would put it last.
			list := []*corev1.Pod{running("a"), running("b"), running("z", tt.first)}
			SortForDeletion(list, related, now)
			if list[0].Name != "z" {
				t.Errorf("%q goes first", list[0].Name)
			}
		})
	}
}

func TestDeletionCost(t *testing.T) {
	for value, want := range map[string]int32{"10": 10, "-10": -10, "+10": 0, "010": 0, "-010": 0, "0": 0, "x": 0, "4294967296": 0} {
		pod := running("a", func(p *corev1.Pod) { p.Annotations = map[string]string{corev1.PodDeletionCost: value} })
		if got := DeletionCost(pod); got != want {
			t.Errorf("cost of %q is %d, want %d", value, got, want)
		}
	}
}

func TestAvailableIn(t *testing.T) {
	tests := []struct {
		name  string
		pod   *corev1.Pod
		min   int32
		want  time.Duration
		ready bool
	}{
		{name: "not ready", pod: running("a", func(p *corev1.Pod) { p.Status.Conditions = nil })},
		{name: "no minimum", pod: running("a"), ready: true},
		{name: "long enough", pod: running("a"), min: 3600, ready: true},
		{name: "not yet", pod: running("a"), min: 3601, want: time.Second, ready: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, ok := AvailableIn(tt.pod, tt.min, now)
			if got != tt.want || ok != tt.ready {
				t.Errorf("got %v, %v", got, ok)
			}
		})
	}
}

func TestSlowStart(t *testing.T) {
	tests := []struct {
		name    string
		count   int
		failing []int
		// calls is the most there may be: one at a time more with each success.
		calls int
	}{
		{name: "none"},
		{name: "all", count: 1000, calls: 1000},
		{name: "first fails", count: 1000, failing: []int{0}, calls: 1},
		{name: "all but one fail", count: 1000, failing: []int{1, 2}, calls: 3},
		{name: "one in between fails", count: 1000, failing: []int{20}, calls: 1000},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var calls, failed atomic.Int32
			done, err := SlowStart(tt.count, func(i int) error {
				calls.Add(1)
				if slices.Contains(tt.failing, i) {
					failed.Add(1)
					return errors.New("no")
				}
				return nil
			})
			if done != int(calls.Load()-failed.Load()) || int(calls.Load()) > tt.calls || (err != nil) != (len(tt.failing) > 0) {
				t.Errorf("done %d, calls %d, error %v", done, calls.Load(), err)
			}
		})
	}
}

// A call that does not return does not stop others, up to a bound.
func TestSlowStart_Parallel(t *testing.T) {
	var running atomic.Int32
	full, fill := context.WithCancel(t.Context())
	done, err := SlowStart(2*parallelWrites, func(i int) error {
		if i < parallelWrites-1 {
			return nil
		}
		switch n := running.Add(1); {
		case n == parallelWrites:
			fill()
		case n > parallelWrites:
			return errors.New("too many at a time")
		}
		<-full.Done()
		running.Add(-1)
		return nil
	})
	if err != nil || done != 2*parallelWrites {
		t.Errorf("done %d, error %v", done, err)
	}
}

func TestEach(t *testing.T) {
	odd := errors.New("odd")
	errs := Each(3*parallelWrites, func(i int) error {
		if i%2 == 1 {
			return odd
		}
		return nil
	})
	for i, err := range errs {
		if (err != nil) != (i%2 == 1) {
			t.Errorf("error of %d: %v", i, err)
		}
	}
	if len(errs) != 3*parallelWrites {
		t.Errorf("%d errors", len(errs))
	}
}

func TestTemplateHash(t *testing.T) {
	template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}}}
	plain, collided := TemplateHash(&template, nil), TemplateHash(&template, new(int32(1)))
	if plain == collided || plain != TemplateHash(&template, nil) {
		t.Errorf("hashes %q and %q", plain, collided)
	}
	if strings.ContainsAny(plain, "aeiou013") {
		t.Errorf("hash %q could spell a word", plain)
	}
}

func TestNextAvailable(t *testing.T) {
	since := func(ago time.Duration) *corev1.Pod {
		return running("a", func(p *corev1.Pod) { p.Status.Conditions[0].LastTransitionTime = metav1.NewTime(now.Add(-ago)) })
	}
	list := []*corev1.Pod{since(10 * time.Second), since(4 * time.Second), since(time.Second), running("b", func(p *corev1.Pod) { p.Status.Conditions = nil })}
	for minReadySeconds, want := range map[int32]time.Duration{0: 0, 1: 0, 10: 6 * time.Second} {
		if got := NextAvailable(list, minReadySeconds, now); got != want {
			t.Errorf("with minReadySeconds %d the next is available in %v, want %v", minReadySeconds, got, want)
		}
	}
}
