// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package deployment

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func rolling(replicas int32, surge, unavailable string) *appsv1.Deployment {
	return webDeployment(func(d *appsv1.Deployment) {
		d.Spec.Replicas = &replicas
		d.Spec.Strategy.RollingUpdate.MaxSurge = new(intstr.Parse(surge))
		d.Spec.Strategy.RollingUpdate.MaxUnavailable = new(intstr.Parse(unavailable))
	})
}

func availableReplicas(n int32) func(*appsv1.ReplicaSet) {
	return func(rs *appsv1.ReplicaSet) { rs.Status.AvailableReplicas = n }
}

func sizes(resizes []Resize) map[string]int32 {
	got := map[string]int32{}
	for _, r := range resizes {
		got[r.ReplicaSet.Name] = r.Replicas
	}
	return got
}

func TestFenceposts(t *testing.T) {
	tests := []struct {
		name                   string
		d                      *appsv1.Deployment
		wantSurge, wantMissing int32
	}{
		{name: "surge rounds up, unavailable down", d: rolling(10, "25%", "25%"), wantSurge: 3, wantMissing: 2},
		{name: "numbers", d: rolling(10, "2", "1"), wantSurge: 2, wantMissing: 1},
		{name: "both zero", d: rolling(10, "0", "0"), wantMissing: 1},
		{name: "both round to zero", d: rolling(1, "0%", "25%"), wantMissing: 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			surge, unavailable := fenceposts(tt.d)
			if surge != tt.wantSurge || unavailable != tt.wantMissing {
				t.Errorf("got %d, %d", surge, unavailable)
			}
		})
	}
}

func TestGrowNew(t *testing.T) {
	tests := []struct {
		name     string
		d        *appsv1.Deployment
		new, old int32
		want     int32
		ok       bool
	}{
		{name: "room of the surge", d: rolling(10, "2", "0"), new: 0, old: 10, want: 2, ok: true},
		{name: "no room", d: rolling(10, "2", "0"), new: 2, old: 10, want: 2},
		{name: "not beyond the wanted", d: rolling(10, "5", "0"), new: 9, old: 0, want: 10, ok: true},
		{name: "too many", d: rolling(3, "1", "0"), new: 5, old: 0, want: 3, ok: true},
		{name: "enough", d: rolling(3, "1", "0"), new: 3, old: 0, want: 3},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, ok := growNew(tt.d, replicaSet("new", "new", 2, tt.new), []*appsv1.ReplicaSet{replicaSet("old", "old", 1, tt.old)})
			if ok != tt.ok || got.Replicas != tt.want {
				t.Errorf("got %d, %v", got.Replicas, ok)
			}
		})
	}
}

func TestShrinkOld(t *testing.T) {
	tests := []struct {
		name string
		d    *appsv1.Deployment
		new  *appsv1.ReplicaSet
		old  []*appsv1.ReplicaSet
		want map[string]int32
	}{
		{
			name: "what may be unavailable goes", d: rolling(10, "0", "2"), new: replicaSet("new", "new", 2, 0),
			old: []*appsv1.ReplicaSet{replicaSet("old", "old", 1, 10)}, want: map[string]int32{"web-old": 8},
		},
		{
			name: "the new one has to be available first", d: rolling(10, "2", "0"), new: replicaSet("new", "new", 2, 2, availableReplicas(0)),
			old: []*appsv1.ReplicaSet{replicaSet("old", "old", 1, 10)}, want: map[string]int32{},
		},
		{
			name: "as many as the new one serves", d: rolling(10, "2", "0"), new: replicaSet("new", "new", 2, 2),
			old: []*appsv1.ReplicaSet{replicaSet("old", "old", 1, 10)}, want: map[string]int32{"web-old": 8},
		},
		{
			name: "unhealthy ones first, oldest set first", d: rolling(10, "2", "2"), new: replicaSet("new", "new", 3, 2, availableReplicas(0)),
			old:  []*appsv1.ReplicaSet{replicaSet("b", "b", 2, 8), replicaSet("a", "a", 1, 2, availableReplicas(0))},
			want: map[string]int32{"web-a": 0},
		},
		{
			// One of 10 went before, and the status of the old set has not followed yet.
			name: "a stale status takes no more than the sizes allow", d: rolling(10, "1", "0"), new: replicaSet("new", "new", 2, 2),
			old: []*appsv1.ReplicaSet{replicaSet("old", "old", 1, 9, availableReplicas(10))}, want: map[string]int32{"web-old": 8},
		},
		{
			// A fourth pod, created twice by mistake, goes at once.
			name: "pods that are too many do not count", d: rolling(8, "2", "1"), new: replicaSet("new", "new", 2, 3, availableReplicas(4)),
			old: []*appsv1.ReplicaSet{replicaSet("old", "old", 1, 5)}, want: map[string]int32{"web-old": 4},
		},
		{
			name: "a status older than the size", d: rolling(10, "1", "1"), new: replicaSet("new", "new", 2, 2),
			old: []*appsv1.ReplicaSet{replicaSet("old", "old", 1, 10, func(rs *appsv1.ReplicaSet) { rs.Generation = 2 })}, want: map[string]int32{},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, sizes(shrinkOld(tt.d, tt.new, tt.old))); diff != "" {
				t.Errorf("sizes (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRescale_Proportional(t *testing.T) {
	annotated := func(maximum string) func(*appsv1.ReplicaSet) {
		return func(rs *appsv1.ReplicaSet) { rs.Annotations[MaxReplicasAnnotation] = maximum }
	}
	tests := []struct {
		name string
		d    *appsv1.Deployment
		new  *appsv1.ReplicaSet
		old  []*appsv1.ReplicaSet
		want map[string]int32
	}{
		{
			// 10 replicas and a surge of 3 while rolling: 8 old and 5 new, scaled to 15.
			name: "up", d: rolling(15, "3", "2"), new: replicaSet("new", "new", 2, 5, annotated("13")),
			old: []*appsv1.ReplicaSet{replicaSet("old", "old", 1, 8, annotated("13"))}, want: map[string]int32{"web-new": 7, "web-old": 11},
		},
		{
			name: "down", d: rolling(5, "0", "1"), new: replicaSet("new", "new", 2, 5, annotated("10")),
			old: []*appsv1.ReplicaSet{replicaSet("old", "old", 1, 5, annotated("10"))}, want: map[string]int32{"web-new": 3, "web-old": 2},
		},
		{
			name: "to nothing", d: rolling(0, "25%", "25%"), new: replicaSet("new", "new", 2, 5),
			old: []*appsv1.ReplicaSet{replicaSet("old", "old", 1, 8)}, want: map[string]int32{"web-new": 0, "web-old": 0},
		},
		{
			name: "a maximum that is none", want: map[string]int32{"web-new": 7, "web-old": 11},
			d: func() *appsv1.Deployment {
				d := rolling(15, "3", "2")
				d.Status.Replicas = 13
				return d
			}(),
			new: replicaSet("new", "new", 2, 5, annotated("-13")), old: []*appsv1.ReplicaSet{replicaSet("old", "old", 1, 8, annotated("+13"))},
		},
		{
			name: "only one active", d: rolling(7, "25%", "25%"), new: replicaSet("new", "new", 2, 5),
			old: []*appsv1.ReplicaSet{replicaSet("old", "old", 1, 0)}, want: map[string]int32{"web-new": 7},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, sizes(rescale(tt.d, tt.new, tt.old))); diff != "" {
				t.Errorf("sizes (-want +got):\n%s", diff)
			}
		})
	}
}

// Once all is handed out, nobody loses what others have got.
func TestShare_AllHandedOut(t *testing.T) {
	rs := &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Name: "web-1", Annotations: map[string]string{MaxReplicasAnnotation: "10"}},
		Spec:       appsv1.ReplicaSetSpec{Replicas: new(int32(5))},
	}
	if got := share(rolling(4, "0", "1"), rs, 2, 2); got != 0 {
		t.Errorf("got %d", got)
	}
}

func TestRolloutStatus(t *testing.T) {
	progressing := func(reason string, at time.Time) []appsv1.DeploymentCondition {
		return []appsv1.DeploymentCondition{{
			Type: appsv1.DeploymentProgressing, Status: corev1.ConditionTrue, Reason: reason,
			LastUpdateTime: metav1.NewTime(at), LastTransitionTime: metav1.NewTime(at),
		}}
	}
	stuck := replicaSet("new", "new", 1, 4, func(rs *appsv1.ReplicaSet) { rs.Status = appsv1.ReplicaSetStatus{Replicas: 4} })
	before := appsv1.DeploymentStatus{Replicas: 4, UpdatedReplicas: 4}
	tests := []struct {
		name    string
		rs      *appsv1.ReplicaSet
		conds   []appsv1.DeploymentCondition
		reason  string
		message string
		avail   string
		recheck time.Duration
	}{
		{name: "complete", rs: replicaSet("new", "new", 1, 4), conds: progressing(ReasonReplicaSetUpdated, now), reason: ReasonReplicaSetAvailable, message: `ReplicaSet "web-new" has successfully progressed.`, avail: ReasonMinimumAvailable},
		{name: "waiting", rs: stuck, conds: progressing(ReasonReplicaSetUpdated, now.Add(-time.Minute)), reason: ReasonReplicaSetUpdated, avail: ReasonMinimumNotAvailable, recheck: 541 * time.Second},
		{name: "timed out", rs: stuck, conds: progressing(ReasonReplicaSetUpdated, now.Add(-601*time.Second)), reason: ReasonTimedOut, message: `ReplicaSet "web-new" has timed out progressing.`, avail: ReasonMinimumNotAvailable},
		{name: "progress", rs: replicaSet("new", "new", 1, 4, availableReplicas(2)), conds: progressing(ReasonNewReplicaSet, now.Add(-time.Minute)), reason: ReasonReplicaSetUpdated, message: `ReplicaSet "web-new" is progressing.`, avail: ReasonMinimumNotAvailable, recheck: 601 * time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := webDeployment(func(d *appsv1.Deployment) { d.Status = before; d.Status.Conditions = tt.conds })
			status, recheck := rolloutStatus(d, tt.rs, nil, now)
			c := condition(&status, appsv1.DeploymentProgressing)
			if c.Reason != tt.reason || c.Message != tt.message || recheck != tt.recheck {
				t.Errorf("Progressing %+v, recheck %v", c, recheck)
			}
			if c := condition(&status, appsv1.DeploymentAvailable); c.Reason != tt.avail {
				t.Errorf("Available %+v", c)
			}
		})
	}
}
