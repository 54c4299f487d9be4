// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package canonical

import (
	"fmt"
	"runtime"
	"strconv"
	"sync"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
)

func meta(uid types.UID, version string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: "a", UID: uid, ResourceVersion: version, ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubectl"}}}
}

func transform[T any](t *testing.T, a *Objects, o T) T {
	t.Helper()
	got, err := a.Transform(o)
	if err != nil {
		t.Fatal(err)
	}
	of, ok := got.(T)
	if !ok {
		t.Fatalf("%T became %T", o, got)
	}
	if m, ok := got.(metav1.Object); ok && m.GetManagedFields() != nil {
		t.Errorf("%T has managed fields", o)
	}
	return of
}

func TestTransform_Kinds(t *testing.T) {
	t.Parallel()
	for _, of := range []func(metav1.ObjectMeta) metav1.Object{
		func(m metav1.ObjectMeta) metav1.Object { return &corev1.Pod{ObjectMeta: m} },
		func(m metav1.ObjectMeta) metav1.Object { return &corev1.Node{ObjectMeta: m} },
		func(m metav1.ObjectMeta) metav1.Object { return &corev1.Namespace{ObjectMeta: m} },
		func(m metav1.ObjectMeta) metav1.Object { return &corev1.Service{ObjectMeta: m} },
		func(m metav1.ObjectMeta) metav1.Object { return &corev1.PersistentVolume{ObjectMeta: m} },
		func(m metav1.ObjectMeta) metav1.Object { return &corev1.PersistentVolumeClaim{ObjectMeta: m} },
		func(m metav1.ObjectMeta) metav1.Object { return &discoveryv1.EndpointSlice{ObjectMeta: m} },
		func(m metav1.ObjectMeta) metav1.Object { return &appsv1.ReplicaSet{ObjectMeta: m} },
	} {
		var a Objects
		first := transform(t, &a, of(meta("u", "1")))
		if again := transform(t, &a, of(meta("u", "1"))); again != first {
			t.Errorf("%T: another copy", first)
		}
		runtime.KeepAlive(first)
	}
}

func TestTransform_Versions(t *testing.T) {
	t.Parallel()
	pod := func(uid types.UID, version string) *corev1.Pod {
		return &corev1.Pod{TypeMeta: metav1.TypeMeta{Kind: "Pod", APIVersion: "v1"}, ObjectMeta: meta(uid, version)}
	}
	for _, tt := range []struct {
		name                string
		first, second, then *corev1.Pod
		same                int // of which the third is the same copy; 0: of none
	}{
		{"newer", pod("u", "9"), pod("u", "10"), pod("u", "10"), 2},
		{"a cache that lags", pod("u", "10"), pod("u", "9"), pod("u", "10"), 1},
		{"two that lag", pod("u", "10"), pod("u", "9"), pod("u", "9"), 0},
		{"of the same name", pod("u", "9"), pod("v", "9"), pod("w", "9"), 0},
		{"without a UID", pod("", "9"), pod("", "9"), pod("", "9"), 0},
		{"without a version", pod("u", ""), pod("u", ""), pod("u", ""), 0},
		{"no numbers", pod("u", "a"), pod("u", "b"), pod("u", "a"), 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var a Objects
			first, second := transform(t, &a, tt.first), transform(t, &a, tt.second)
			third := transform(t, &a, tt.then)
			same := 0
			if third == first {
				same = 1
			}
			if third == second {
				same = 2
			}
			if same != tt.same {
				t.Errorf("it is the copy of %d, want %d", same, tt.same)
			}
			if tt.same != 0 && third.Kind != "" {
				t.Errorf("the kind is %q", third.Kind)
			}
			runtime.KeepAlive(first)
			runtime.KeepAlive(second)
		})
	}
}

func TestTransform_Others(t *testing.T) {
	t.Parallel()
	var a Objects
	transform(t, &a, &batchv1.Job{ObjectMeta: meta("u", "1")})
	unknown := cache.DeletedFinalStateUnknown{Key: "a", Obj: 1}
	if got := transform(t, &a, unknown); got != unknown {
		t.Errorf("got %v", got)
	}
}

// TestTable_Forgets: what nobody has any more is not kept, nor are entries for it.
func TestTable_Forgets(t *testing.T) {
	t.Parallel()
	var a Objects
	kept := transform(t, &a, &corev1.Pod{ObjectMeta: meta("kept", "1")})
	for i := range 10 * leastSweep {
		transform(t, &a, &corev1.Pod{ObjectMeta: meta(types.UID(strconv.Itoa(i)), "1")})
		if i%leastSweep == 0 {
			runtime.GC()
		}
	}
	if n := len(a.pods.byUID); n > 2*leastSweep+1 {
		t.Errorf("%d entries", n)
	}
	if again := transform(t, &a, &corev1.Pod{ObjectMeta: meta("kept", "1")}); again != kept {
		t.Error("what somebody has was forgotten")
	}
	runtime.KeepAlive(kept)
}

func TestTransform_Concurrent(t *testing.T) {
	t.Parallel()
	var a Objects
	got := make([][]*corev1.Pod, 4)
	var all sync.WaitGroup
	for c := range got {
		all.Go(func() {
			for i := range 1000 {
				got[c] = append(got[c], transform(t, &a, &corev1.Pod{ObjectMeta: meta(types.UID(fmt.Sprint(i)), "1")}))
			}
		})
	}
	all.Wait()
	for c := range got {
		for i := range got[c] {
			if got[c][i] != got[0][i] {
				t.Fatalf("caches 0 and %d have two copies of pod %d", c, i)
			}
		}
	}
}
