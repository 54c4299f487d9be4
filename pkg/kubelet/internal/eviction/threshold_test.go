// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package eviction

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

func quantity(s string) Value {
	q := resource.MustParse(s)
	return Value{Quantity: &q}
}

func TestParse(t *testing.T) {
	t.Parallel()
	type m = map[string]string
	reclaim := quantity("500Mi")
	for _, tc := range []struct {
		name string
		in   Settings
		want []Threshold
		err  string
	}{
		{name: "nothing"},
		{
			name: "all", in: Settings{
				Hard: m{"memory.available": "100Mi", "nodefs.available": "10%", "nodefs.inodesFree": "0%", "imagefs.available": "100%"},
				Soft: m{"memory.available": "1Gi"}, SoftGracePeriod: m{"memory.available": "1m30s"}, MinimumReclaim: m{"memory.available": "500Mi"},
			},
			want: []Threshold{
				{Signal: MemoryAvailable, Value: quantity("100Mi"), MinReclaim: &reclaim},
				{Signal: NodeFsAvailable, Value: Value{Part: 0.1}},
				{Signal: MemoryAvailable, Value: quantity("1Gi"), Grace: 90 * time.Second, MinReclaim: &reclaim},
			},
		},
		{name: "containerfs is that of images", in: Settings{Hard: m{"containerfs.available": "1Gi", "pid.available": "100"}}, want: []Threshold{{Signal: PIDAvailable, Value: quantity("100")}}},
		{name: "no signal", in: Settings{Hard: m{"mem.available": "1"}}, err: "unsupported eviction signal mem.available"},
		{name: "no signal of a grace period", in: Settings{SoftGracePeriod: m{"x": "1s"}}, err: "unsupported eviction signal x"},
		{name: "zero", in: Settings{Hard: m{"memory.available": "0"}}, err: "eviction threshold memory.available must be positive: 0"},
		{name: "negative", in: Settings{Hard: m{"memory.available": "-1Mi"}}, err: "eviction threshold memory.available must be positive: -1Mi"},
		{name: "negative part", in: Settings{Hard: m{"memory.available": "-5%"}}, err: "eviction percentage threshold memory.available must be >= 0%: -5%"},
		{name: "more than all", in: Settings{Hard: m{"memory.available": "101%"}}, err: "eviction percentage threshold memory.available must be <= 100%: 101%"},
		{name: "no number", in: Settings{Hard: m{"memory.available": "much"}}, err: "quantities must match"},
		{name: "no percentage", in: Settings{Hard: m{"memory.available": "x%"}}, err: "invalid syntax"},
		{name: "soft without grace", in: Settings{Soft: m{"memory.available": "1Gi"}}, err: "grace period must be specified for the soft eviction threshold memory.available"},
		{name: "negative grace", in: Settings{SoftGracePeriod: m{"memory.available": "-1s"}}, err: "invalid eviction grace period specified: -1s, must be a positive value"},
		{name: "negative reclaim", in: Settings{MinimumReclaim: m{"memory.available": "-1"}}, err: "negative eviction minimum reclaim specified for memory.available"},
		{name: "no reclaim", in: Settings{MinimumReclaim: m{"memory.available": "0%"}}, err: "eviction percentage minimum reclaim memory.available must be positive: 0%"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			got, err := Parse(tc.in)
			if err != nil || tc.err != "" {
				if err == nil || tc.err == "" || !strings.Contains(err.Error(), tc.err) {
					t.Fatalf("error %v, want %q", err, tc.err)
				}
				return
			}
			if diff := cmp.Diff(tc.want, got); diff != "" && len(tc.want)+len(got) > 0 {
				t.Error(diff)
			}
		})
	}
}

func TestReserved(t *testing.T) {
	t.Parallel()
	got := Reserved([]Threshold{
		{Signal: MemoryAvailable, Value: quantity("100Mi")}, {Signal: MemoryAvailable, Value: quantity("1Gi"), Grace: time.Second},
		{Signal: NodeFsAvailable, Value: Value{Part: 0.5}}, {Signal: ImageFsAvailable, Value: quantity("1Gi")}, {Signal: NodeFsInodesFree, Value: quantity("7")},
	}, corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("8Gi"), corev1.ResourceEphemeralStorage: resource.MustParse("10Gi")})
	want := corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("100Mi"), corev1.ResourceEphemeralStorage: resource.MustParse("5Gi")}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// seen is an observation of each signal, of a capacity of 1000.
func seen(available map[Signal]int64) Observations {
	o := Observations{}
	for s, n := range available {
		o[s] = Observation{*resource.NewQuantity(n, resource.DecimalSI), *resource.NewQuantity(1000, resource.DecimalSI)}
	}
	return o
}

func TestAllocatable(t *testing.T) {
	hard := Threshold{Signal: MemoryAvailable, Value: quantity("200"), MinReclaim: new(quantity("1"))}
	soft := Threshold{Signal: MemoryAvailable, Value: quantity("300"), Grace: time.Second}
	disk := Threshold{Signal: NodeFsAvailable, Value: Value{Part: 0.1}}
	pods := hard
	pods.Signal = AllocatableMemoryAvailable
	all := Allocatable([]Threshold{disk, hard, soft})
	if diff := cmp.Diff([]Threshold{disk, hard, soft, pods}, all); diff != "" {
		t.Error(diff)
	}
	conditions, starved := NewTracker(all, 0).Observe(seen(map[Signal]int64{NodeFsAvailable: 9, MemoryAvailable: 300, AllocatableMemoryAvailable: 100}), time.Now())
	if diff := cmp.Diff([]corev1.NodeConditionType{corev1.NodeDiskPressure, corev1.NodeMemoryPressure}, conditions); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]Threshold{pods, disk}, starved); diff != "" {
		t.Errorf("memory first: %s", diff)
	}
}

func TestTracker(t *testing.T) {
	t.Parallel()
	twenty := quantity("20")
	hard := Threshold{Signal: NodeFsAvailable, Value: Value{Part: 0.1}, MinReclaim: &twenty}
	soft := Threshold{Signal: MemoryAvailable, Value: quantity("200"), Grace: 30 * time.Second}
	type step struct {
		name       string
		after      time.Duration
		disk, mem  int64
		conditions []corev1.NodeConditionType
		starved    []Threshold
	}
	memory, disk := corev1.NodeMemoryPressure, corev1.NodeDiskPressure
	tracker, now := NewTracker([]Threshold{hard, soft}, time.Minute), time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, s := range []step{
		{name: "calm", disk: 100, mem: 200},
		{name: "below the soft one", after: 10 * time.Second, disk: 100, mem: 199, conditions: []corev1.NodeConditionType{memory}},
		{name: "within its grace", after: 20 * time.Second, disk: 100, mem: 100, conditions: []corev1.NodeConditionType{memory}},
		{name: "grace is over", after: 10 * time.Second, disk: 100, mem: 100, conditions: []corev1.NodeConditionType{memory}, starved: []Threshold{soft}},
		{name: "both, memory first", after: 10 * time.Second, disk: 99, mem: 100, conditions: []corev1.NodeConditionType{disk, memory}, starved: []Threshold{soft, hard}},
		{name: "not enough reclaimed", after: 10 * time.Second, disk: 119, mem: 300, conditions: []corev1.NodeConditionType{disk, memory}, starved: []Threshold{hard}},
		{name: "enough", after: 10 * time.Second, disk: 120, mem: 300, conditions: []corev1.NodeConditionType{disk, memory}},
		{name: "no longer starved, so the value counts", after: 10 * time.Second, disk: 101, mem: 300, conditions: []corev1.NodeConditionType{disk, memory}},
		{name: "memory was last met a minute ago", after: 30 * time.Second, disk: 130, mem: 300, conditions: []corev1.NodeConditionType{disk}},
		{name: "grace begins anew", after: time.Minute, disk: 130, mem: 100, conditions: []corev1.NodeConditionType{memory}},
	} {
		now = now.Add(s.after)
		conditions, starved := tracker.Observe(seen(map[Signal]int64{NodeFsAvailable: s.disk, MemoryAvailable: s.mem}), now)
		if diff := cmp.Diff(s.conditions, conditions); diff != "" {
			t.Errorf("%s: conditions: %s", s.name, diff)
		}
		if diff := cmp.Diff(s.starved, starved); diff != "" {
			t.Errorf("%s: starved: %s", s.name, diff)
		}
	}
	if conditions, starved := tracker.Observe(Observations{}, now.Add(time.Hour)); len(conditions)+len(starved) > 0 {
		t.Errorf("what is not observed is short: %v, %v", conditions, starved)
	}
}

// TestTracker_NoTransition: without a transition period a condition is there as long as its threshold is met.
func TestTracker_NoTransition(t *testing.T) {
	t.Parallel()
	tracker, now := NewTracker([]Threshold{{Signal: PIDAvailable, Value: quantity("10")}}, 0), time.Now()
	if c, _ := tracker.Observe(seen(map[Signal]int64{PIDAvailable: 9}), now); len(c) != 1 || c[0] != corev1.NodePIDPressure {
		t.Errorf("%v", c)
	}
	if c, _ := tracker.Observe(seen(map[Signal]int64{PIDAvailable: 10}), now.Add(time.Second)); len(c) != 0 {
		t.Errorf("%v", c)
	}
}
