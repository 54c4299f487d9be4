// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/storage"

	"minik8s.io/minik8s/pkg/registry"
)

// restless is a storage with a pod that somebody changes whenever it is about to be written.
type restless struct {
	storage.Interface
	pod      corev1.Pod
	attempts int
	times    []time.Time
	// noise is how many attempts fail before the pod comes to rest; negative: it never does.
	noise int
}

func (s *restless) Get(_ context.Context, _ string, _ storage.GetOptions, into runtime.Object) error {
	s.pod.DeepCopyInto(into.(*corev1.Pod))
	return nil
}

func (s *restless) GuaranteedUpdate(_ context.Context, key string, _ runtime.Object, _ bool, _ *storage.Preconditions, _ storage.UpdateFunc, _ runtime.Object) error {
	s.attempts++
	s.times = append(s.times, time.Now())
	if s.noise != 0 {
		s.noise--
		return storage.NewInvalidObjError(key, "Precondition failed: the pod has changed")
	}
	return errAtRest
}

var errAtRest = errors.New("the pod is at rest")

func TestEvict_Conflicts(t *testing.T) {
	backoff := wait.Backoff{Steps: 5, Duration: 5 * time.Millisecond, Factor: 1}
	revision, uid := "1", types.UID("other")
	for _, tc := range []struct {
		name          string
		noise         int
		preconditions *metav1.Preconditions
		attempts      int
		conflict      bool
	}{
		{"at rest", 0, nil, 1, false},
		{"comes to rest", 3, nil, 4, false},
		{"never comes to rest", -1, nil, backoff.Steps, true},
		{"one revision only", -1, &metav1.Preconditions{ResourceVersion: &revision}, 1, true},
		{"another pod", -1, &metav1.Preconditions{UID: &uid}, 0, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := &restless{pod: corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", UID: "u", ResourceVersion: "1"}, Status: corev1.PodStatus{Phase: corev1.PodPending}}, noise: tc.noise}
			r := &EvictionREST{stores: registry.NewStores(), backoff: backoff, pods: &genericregistry.Store{
				NewFunc: func() runtime.Object { return &corev1.Pod{} }, DefaultQualifiedResource: corev1.Resource("pods"),
				KeyFunc: func(_ context.Context, name string) (string, error) { return "/pods/" + name, nil },
				Storage: genericregistry.DryRunnableStorage{Storage: s},
			}}
			e := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: "p"}, DeleteOptions: &metav1.DeleteOptions{Preconditions: tc.preconditions}}
			_, err := r.Create(apirequest.WithNamespace(t.Context(), "default"), "p", e, nil, &metav1.CreateOptions{})
			if apierrors.IsConflict(err) != tc.conflict || !tc.conflict && !errors.Is(err, errAtRest) {
				t.Errorf("error = %v, want a conflict: %v", err, tc.conflict)
			}
			if s.attempts != tc.attempts {
				t.Errorf("%d attempts, want %d", s.attempts, tc.attempts)
			}
			for i := 1; i < len(s.times); i++ {
				if pause := s.times[i].Sub(s.times[i-1]); pause < backoff.Duration {
					t.Errorf("only %v before attempt %d", pause, i+1)
				}
			}
		})
	}
}

func TestDecrement_Refused(t *testing.T) {
	t.Parallel()
	failed := metav1.Condition{Type: policyv1.DisruptionAllowedCondition, Status: metav1.ConditionFalse, Reason: policyv1.SyncFailedReason, Message: "no scale"}
	other := failed
	other.Reason, other.Message = "Other", "not now"
	many := map[string]metav1.Time{}
	for i := range maxDisrupted + 1 {
		many[strconv.Itoa(i)] = metav1.Time{}
	}
	for _, tc := range []struct {
		name   string
		status policyv1.PodDisruptionBudgetStatus
		code   int32
		want   string
	}{
		{"behind", policyv1.PodDisruptionBudgetStatus{}, 429, "The disruption budget b is still being processed by the server."},
		{"negative", policyv1.PodDisruptionBudgetStatus{ObservedGeneration: 1, DisruptionsAllowed: -1}, 403,
			"The disruption budget b does not allow evicting pods currently: pdb disruptions allowed is negative"},
		{"too many", policyv1.PodDisruptionBudgetStatus{ObservedGeneration: 1, DisruptionsAllowed: 1, DisruptedPods: many}, 403,
			"The disruption budget b does not allow evicting pods currently: too many pending evictions not confirmed by PDB controller"},
		{"controller failed", policyv1.PodDisruptionBudgetStatus{ObservedGeneration: 1, Conditions: []metav1.Condition{failed}}, 429,
			"The disruption budget b does not allow evicting pods currently because it failed sync: no scale"},
		{"too few", policyv1.PodDisruptionBudgetStatus{ObservedGeneration: 1, CurrentHealthy: 2, DesiredHealthy: 2, Conditions: []metav1.Condition{other}}, 429,
			"The disruption budget b needs 2 healthy pods and has 2 currently"},
		{"told", policyv1.PodDisruptionBudgetStatus{ObservedGeneration: 1, CurrentHealthy: 2, DesiredHealthy: 1, Conditions: []metav1.Condition{other}}, 429,
			"The disruption budget b does not allow evicting pods currently (Other): not now"},
		{"not told", policyv1.PodDisruptionBudgetStatus{ObservedGeneration: 1, CurrentHealthy: 2, DesiredHealthy: 1}, 429,
			"The disruption budget b does not allow evicting pods currently"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			err := decrement(&policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: "b", Generation: 1}, Status: tc.status}, "p", time.Now())
			var status apierrors.APIStatus
			if !errors.As(err, &status) || status.Status().Code != tc.code {
				t.Fatalf("got %v, want code %d", err, tc.code)
			}
			causes := status.Status().Details.Causes
			if len(causes) == 0 || causes[len(causes)-1].Message != tc.want {
				t.Errorf("causes are %v, want %q", causes, tc.want)
			}
		})
	}
}
