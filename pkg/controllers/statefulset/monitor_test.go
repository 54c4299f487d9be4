// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package statefulset

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func TestCountUnavailable(t *testing.T) {
	rolling := appsv1.StatefulSetUpdateStrategy{
		Type:          appsv1.RollingUpdateStatefulSetStrategyType,
		RollingUpdate: &appsv1.RollingUpdateStatefulSetStrategy{MaxUnavailable: new(intstr.FromString("50%"))},
	}
	for _, tt := range []struct {
		name     string
		strategy appsv1.StatefulSetUpdateStrategy
		limit    float64
	}{
		{"rolling", rolling, 2},
		{"on delete", appsv1.StatefulSetUpdateStrategy{Type: appsv1.OnDeleteStatefulSetStrategyType}, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			set := &appsv1.StatefulSet{
				ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web"},
				Spec:       appsv1.StatefulSetSpec{Replicas: new(int32(4)), PodManagementPolicy: appsv1.ParallelPodManagement, UpdateStrategy: tt.strategy},
			}
			countUnavailable(set, []*corev1.Pod{{}, {}, {}}, time.Unix(0, 0))
			if got := testutil.ToFloat64(unavailableReplicas.WithLabelValues("ns", "web", "Parallel")); got != 3 {
				t.Errorf("%v unavailable, want 3", got)
			}
			if got := testutil.ToFloat64(mostUnavailable.WithLabelValues("ns", "web", "Parallel")); got != tt.limit {
				t.Errorf("%v may be unavailable, want %v", got, tt.limit)
			}
			forget(types.NamespacedName{Namespace: "ns", Name: "web"})
			if n := testutil.CollectAndCount(unavailableReplicas) + testutil.CollectAndCount(mostUnavailable); n != 0 {
				t.Errorf("%d are told of after the set is gone", n)
			}
		})
	}
}
