// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package disruption

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/tools/record"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"minik8s.io/minik8s/pkg/controllers/controllertest"
)

var (
	now     = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	request = reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "ns", Name: "budget"}}
	web     = map[string]string{"app": "web"}
)

// resources is a discovery in which only Deployments, ReplicaSets and StatefulSets can be scaled.
type resources struct {
	discovery.ServerResourcesInterface
}

func (resources) ServerResourcesForGroupVersion(string) (*metav1.APIResourceList, error) {
	return &metav1.APIResourceList{APIResources: []metav1.APIResource{
		{Name: "daemonsets", Kind: "DaemonSet"}, {Name: "daemonsets/status", Kind: "DaemonSet"},
		{Name: "statefulsets/scale", Kind: "Scale"}, {Name: "statefulsets", Kind: "StatefulSet"},
		{Name: "replicasets/scale", Kind: "Scale"}, {Name: "replicasets", Kind: "ReplicaSet"},
	}}, nil
}

func budget(change ...func(*policyv1.PodDisruptionBudget)) *policyv1.PodDisruptionBudget {
	pdb := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "budget", Generation: 2},
		Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: web}},
	}
	for _, c := range change {
		c(pdb)
	}
	return pdb
}

func minAvailable(v intstr.IntOrString) func(*policyv1.PodDisruptionBudget) {
	return func(pdb *policyv1.PodDisruptionBudget) { pdb.Spec.MinAvailable = &v }
}

func maxUnavailable(v intstr.IntOrString) func(*policyv1.PodDisruptionBudget) {
	return func(pdb *policyv1.PodDisruptionBudget) { pdb.Spec.MaxUnavailable = &v }
}

func evicted(name string, ago time.Duration) func(*policyv1.PodDisruptionBudget) {
	return func(pdb *policyv1.PodDisruptionBudget) {
		pdb.Status.DisruptedPods = map[string]metav1.Time{name: metav1.NewTime(now.Add(-ago))}
	}
}

func pod(name, ownerKind, owner string, change ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, Labels: web},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{
			{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(now)},
		}},
	}
	if owner != "" {
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: ownerKind, Name: owner, UID: types.UID(owner), Controller: new(true)}}
	}
	for _, c := range change {
		c(p)
	}
	return p
}

func unready(p *corev1.Pod) { p.Status.Conditions = nil }

func deleted(p *corev1.Pod) {
	p.DeletionTimestamp = new(metav1.NewTime(now))
	p.Finalizers = []string{"test/stay"}
}

func replicaSet(name, deployment string, replicas int32) *appsv1.ReplicaSet {
	rs := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name)}, Spec: appsv1.ReplicaSetSpec{Replicas: &replicas}}
	if deployment != "" {
		rs.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "Deployment", Name: deployment, UID: types.UID(deployment), Controller: new(true)}}
	}
	return rs
}

func deployment(name string, replicas int32) *appsv1.Deployment {
	return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name)}, Spec: appsv1.DeploymentSpec{Replicas: &replicas}}
}

func statefulSet(name string, replicas int32) *appsv1.StatefulSet {
	return &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name)}, Spec: appsv1.StatefulSetSpec{Replicas: &replicas}}
}

func reconciler(c client.Client, events record.EventRecorder) *Reconciler {
	return &Reconciler{Client: c, Resources: resources{}, Events: events, Clock: clocktesting.NewFakePassiveClock(now)}
}

// numbers are what a test expects of a status.
type numbers struct {
	Expected, Desired, Healthy, Allowed int32
	Reason                              string
	Disrupted                           int
}

func numbersOf(s policyv1.PodDisruptionBudgetStatus) numbers {
	n := numbers{Expected: s.ExpectedPods, Desired: s.DesiredHealthy, Healthy: s.CurrentHealthy, Allowed: s.DisruptionsAllowed, Disrupted: len(s.DisruptedPods)}
	for _, c := range s.Conditions {
		if c.Type == policyv1.DisruptionAllowedCondition {
			n.Reason = c.Reason
		}
	}
	return n
}

func TestReconciler(t *testing.T) {
	one, half := intstr.FromInt32(1), intstr.FromString("50%")
	tests := []struct {
		name    string
		objects []client.Object
		want    numbers
	}{
		{
			name: "minimum", objects: []client.Object{budget(minAvailable(one)), pod("a", "ReplicaSet", "rs"), pod("b", "ReplicaSet", "rs"), pod("c", "", "", unready)},
			want: numbers{Expected: 3, Desired: 1, Healthy: 2, Allowed: 1, Reason: policyv1.SufficientPodsReason},
		},
		{
			name: "minimum of unmanaged pods needs no controller", objects: []client.Object{budget(minAvailable(one)), pod("a", "", "")},
			want: numbers{Expected: 1, Desired: 1, Healthy: 1, Reason: policyv1.InsufficientPodsReason},
		},
		{
			name: "one Deployment with two ReplicaSets", objects: []client.Object{
				budget(maxUnavailable(one)), deployment("d", 3), replicaSet("old", "d", 1), replicaSet("new", "d", 2),
				pod("a", "ReplicaSet", "old"), pod("b", "ReplicaSet", "new"), pod("c", "ReplicaSet", "new"),
			},
			want: numbers{Expected: 3, Desired: 2, Healthy: 3, Allowed: 1, Reason: policyv1.SufficientPodsReason},
		},
		{
			name: "two controllers add up", objects: []client.Object{
				budget(minAvailable(half)), replicaSet("rs", "", 2), statefulSet("sts", 3),
				pod("a", "ReplicaSet", "rs"), pod("b", "ReplicaSet", "rs"), pod("c", "StatefulSet", "sts"), pod("d", "StatefulSet", "sts"),
			},
			want: numbers{Expected: 5, Desired: 3, Healthy: 4, Allowed: 1, Reason: policyv1.SufficientPodsReason},
		},
		{
			name: "unmanaged pods do not count for the scale", objects: []client.Object{
				budget(maxUnavailable(one)), replicaSet("rs", "", 1), pod("a", "ReplicaSet", "rs"), pod("b", "", ""),
			},
			want: numbers{Expected: 1, Desired: 0, Healthy: 2, Allowed: 2, Reason: policyv1.SufficientPodsReason},
		},
		{
			name: "pod being evicted", objects: []client.Object{
				budget(minAvailable(one), evicted("a", time.Minute)), pod("a", "", ""), pod("b", "", ""), pod("c", "", ""),
			},
			want: numbers{Expected: 3, Desired: 1, Healthy: 2, Allowed: 1, Reason: policyv1.SufficientPodsReason, Disrupted: 1},
		},
		{
			name: "evicted pod is being deleted", objects: []client.Object{
				budget(minAvailable(one), evicted("a", time.Minute)), pod("a", "", "", deleted), pod("b", "", ""),
			},
			want: numbers{Expected: 2, Desired: 1, Healthy: 1, Reason: policyv1.InsufficientPodsReason},
		},
		{
			name: "evicted pod stays", objects: []client.Object{
				budget(minAvailable(one), evicted("a", 3*time.Minute)), pod("a", "", ""), pod("b", "", ""),
			},
			want: numbers{Expected: 2, Desired: 1, Healthy: 2, Allowed: 1, Reason: policyv1.SufficientPodsReason},
		},
		{
			name: "no pods", objects: []client.Object{budget(maxUnavailable(one))},
			want: numbers{Reason: policyv1.InsufficientPodsReason},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			controllertest.Run(t, controllertest.Case{
				Objects: tt.objects,
				Request: request,
				New:     func(c client.Client) reconcile.Reconciler { return reconciler(c, &record.FakeRecorder{}) },
				Want: func(ctx context.Context, c client.Client) error {
					var pdb policyv1.PodDisruptionBudget
					if err := c.Get(ctx, request.NamespacedName, &pdb); err != nil {
						return err
					}
					if diff := cmp.Diff(tt.want, numbersOf(pdb.Status)); diff != "" {
						return fmt.Errorf("status (-want +got):\n%s", diff)
					}
					if pdb.Status.ObservedGeneration != 2 {
						return fmt.Errorf("observed generation %d", pdb.Status.ObservedGeneration)
					}
					return nil
				},
			})
		})
	}
}

func TestReconcile_Events(t *testing.T) {
	one := intstr.FromInt32(1)
	tests := []struct {
		name    string
		objects []client.Object
		event   string
		// failure is the message of the condition of reason SyncFailed.
		failure string
	}{
		{name: "no pods", objects: []client.Object{budget(minAvailable(one))}, event: "Normal NoPods No matching pods found"},
		{
			name: "unmanaged", objects: []client.Object{budget(maxUnavailable(one)), pod("a", "", "")},
			event: "Warning UnmanagedPods Pods selected by this PodDisruptionBudget (selector: &LabelSelector{MatchLabels:map[string]string{app: web,},",
		},
		{
			name: "controller is gone", objects: []client.Object{budget(maxUnavailable(one)), pod("a", "ReplicaSet", "gone")},
			event:   "Warning CalculateExpectedPodCountFailed Failed to calculate the number of expected pods: found no controllers for pod \"a\"",
			failure: "found no controllers for pod \"a\"",
		},
		{
			name: "controller without scale", objects: []client.Object{budget(maxUnavailable(one)), pod("a", "DaemonSet", "ds")},
			event:   "Warning CalculateExpectedPodCountFailed Failed to calculate the number of expected pods: daemonsets.apps does not implement the scale subresource",
			failure: "daemonsets.apps does not implement the scale subresource",
		},
		{
			name: "not deleted", objects: []client.Object{budget(minAvailable(one), evicted("a", 3*time.Minute)), pod("a", "", "")},
			event: "Warning NotDeleted Pod was expected by PDB ns/ns to be deleted but it wasn't",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			events := record.NewFakeRecorder(10)
			store := controllertest.NewClientBuilder().WithObjects(tt.objects...).WithStatusSubresource(&policyv1.PodDisruptionBudget{}).Build()
			r := reconciler(store, events)
			_, err := r.Reconcile(t.Context(), request)
			if (err != nil) != (tt.failure != "") {
				t.Fatalf("error %v", err)
			}
			if tt.failure != "" {
				// The queue tries it again, which is nothing new.
				if _, err := r.Reconcile(t.Context(), request); err == nil || len(events.Events) != 1 {
					t.Errorf("%d events after the second attempt, error %v", len(events.Events), err)
				}
			}
			if got := <-events.Events; !strings.HasPrefix(got, tt.event) {
				t.Errorf("event %q, want %q", got, tt.event)
			}
			var pdb policyv1.PodDisruptionBudget
			if err := store.Get(t.Context(), request.NamespacedName, &pdb); err != nil {
				t.Fatal(err)
			}
			if c := pdb.Status.Conditions[0]; tt.failure != "" && (c.Reason != policyv1.SyncFailedReason || c.Message != tt.failure || c.Status != metav1.ConditionFalse) {
				t.Errorf("condition %+v", c)
			}
		})
	}
}

// An eviction between the read and the write of the controller must not be undone.
func TestReconcile_ConflictLeavesTheBudgetAlone(t *testing.T) {
	store := controllertest.NewClientBuilder().WithObjects(budget(minAvailable(intstr.FromInt32(1))), pod("a", "", ""), pod("b", "", "")).
		WithStatusSubresource(&policyv1.PodDisruptionBudget{}).Build()
	c := interceptor.NewClient(store, interceptor.Funcs{
		SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, obj client.Object, opts ...client.SubResourceUpdateOption) error {
			var current policyv1.PodDisruptionBudget
			if err := store.Get(ctx, request.NamespacedName, &current); err != nil {
				return err
			}
			current.Status.DisruptedPods = map[string]metav1.Time{"a": metav1.NewTime(now)}
			if err := store.Status().Update(ctx, &current); err != nil {
				return err
			}
			return c.SubResource(sub).Update(ctx, obj, opts...)
		},
	})
	if _, err := reconciler(c, &record.FakeRecorder{}).Reconcile(t.Context(), request); !apierrors.IsConflict(err) {
		t.Fatalf("error %v", err)
	}
	var pdb policyv1.PodDisruptionBudget
	if err := store.Get(t.Context(), request.NamespacedName, &pdb); err != nil {
		t.Fatal(err)
	}
	if len(pdb.Status.DisruptedPods) != 1 || len(pdb.Status.Conditions) != 0 {
		t.Errorf("status %+v", pdb.Status)
	}
}

func TestDisrupted_Recheck(t *testing.T) {
	granted := map[string]metav1.Time{"a": metav1.NewTime(now.Add(-30 * time.Second)), "b": metav1.NewTime(now.Add(-90 * time.Second)), "gone": metav1.NewTime(now)}
	got := Disrupted(granted, []*corev1.Pod{pod("a", "", ""), pod("b", "", "")}, now)
	if got.Recheck != 30*time.Second || len(got.Pods) != 2 || len(got.Survivors) != 0 {
		t.Errorf("got %+v", got)
	}
}

func TestBudgets(t *testing.T) {
	other := budget(func(pdb *policyv1.PodDisruptionBudget) {
		pdb.Name, pdb.Spec.Selector = "other", &metav1.LabelSelector{MatchLabels: map[string]string{"app": "other"}}
	})
	all := budget(func(pdb *policyv1.PodDisruptionBudget) {
		pdb.Name, pdb.Spec.Selector = "everything", &metav1.LabelSelector{}
	})
	none := budget(func(pdb *policyv1.PodDisruptionBudget) { pdb.Name, pdb.Spec.Selector = "nothing", nil })
	events := record.NewFakeRecorder(10)
	listed := 0
	c := controllertest.Counting(controllertest.NewClientBuilder().WithObjects(budget(), other, all, none).Build(), &listed)
	var names []string
	for _, r := range reconciler(c, events).budgets(t.Context(), pod("a", "", "")) {
		names = append(names, r.Name)
	}
	if diff := cmp.Diff([]string{"budget", "everything"}, names); diff != "" {
		t.Errorf("budgets (-want +got):\n%s", diff)
	}
	if listed != 2 {
		t.Errorf("looked at %d budgets", listed)
	}
	if got, want := <-events.Events, `Warning MultiplePodDisruptionBudgets Pod "ns"/"a" matches multiple PodDisruptionBudgets.  Chose "budget" arbitrarily.`; got != want {
		t.Errorf("event %q, want %q", got, want)
	}
}

// The scale of the kinds that every cluster has is in the cache; a question to the API server for each pass is for custom ones.
func TestReconcile_AsksForNoScaleOfBuiltInKinds(t *testing.T) {
	for name, objects := range map[string][]client.Object{
		"StatefulSet": {statefulSet("db", 3), pod("a", "StatefulSet", "db")},
		"ReplicaSet":  {replicaSet("web", "", 3), pod("a", "ReplicaSet", "web")},
		"Deployment":  {deployment("web", 3), replicaSet("web-1", "web", 1), pod("a", "ReplicaSet", "web-1")},
	} {
		t.Run(name, func(t *testing.T) {
			store := controllertest.NewClientBuilder().WithObjects(append(objects, budget(maxUnavailable(intstr.FromInt32(1))))...).
				WithStatusSubresource(&policyv1.PodDisruptionBudget{}).Build()
			c := interceptor.NewClient(store, interceptor.Funcs{
				SubResourceGet: func(context.Context, client.Client, string, client.Object, client.Object, ...client.SubResourceGetOption) error {
					return errors.New("asked for the scale")
				},
			})
			if _, err := reconciler(c, record.NewFakeRecorder(10)).Reconcile(t.Context(), request); err != nil {
				t.Fatal(err)
			}
			var pdb policyv1.PodDisruptionBudget
			if err := store.Get(t.Context(), request.NamespacedName, &pdb); err != nil {
				t.Fatal(err)
			}
			if pdb.Status.ExpectedPods != 3 {
				t.Errorf("expects %d pods", pdb.Status.ExpectedPods)
			}
		})
	}
}

// The cache may not have a controller yet whose pod it has, and a ReplicaSet's controller need not be a Deployment because it is
// called so.
func TestReconcile_AsksForTheScaleOfWhatTheCacheLacks(t *testing.T) {
	foreign := replicaSet("web", "web", 3)
	foreign.OwnerReferences[0].APIVersion = "example.com/v1"
	for name, objects := range map[string][]client.Object{
		"not there yet":      nil,
		"foreign Deployment": {foreign},
	} {
		t.Run(name, func(t *testing.T) {
			store := controllertest.NewClientBuilder().WithObjects(append(objects, budget(maxUnavailable(intstr.FromInt32(1))), pod("a", "ReplicaSet", "web"))...).
				WithStatusSubresource(&policyv1.PodDisruptionBudget{}).Build()
			c := interceptor.NewClient(store, interceptor.Funcs{
				SubResourceGet: func(_ context.Context, _ client.Client, sub string, obj, scale client.Object, _ ...client.SubResourceGetOption) error {
					if sub != "scale" || obj.GetName() != "web" {
						return fmt.Errorf("asked for %s of %s", sub, obj.GetName())
					}
					*scale.(*autoscalingv1.Scale) = autoscalingv1.Scale{ObjectMeta: metav1.ObjectMeta{UID: "web"}, Spec: autoscalingv1.ScaleSpec{Replicas: 3}}
					return nil
				},
			})
			if _, err := reconciler(c, record.NewFakeRecorder(10)).Reconcile(t.Context(), request); err != nil {
				t.Fatal(err)
			}
			var pdb policyv1.PodDisruptionBudget
			if err := store.Get(t.Context(), request.NamespacedName, &pdb); err != nil {
				t.Fatal(err)
			}
			if pdb.Status.ExpectedPods != 3 {
				t.Errorf("expects %d pods", pdb.Status.ExpectedPods)
			}
		})
	}
}

func TestStaleReconciler(t *testing.T) {
	target := func(ago time.Duration) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{
				Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "EvictionByEvictionAPI", LastTransitionTime: metav1.NewTime(now.Add(-ago)),
			})
		}
	}
	key := reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "ns", Name: "a"}}
	fresh := func(c client.Client) reconcile.Reconciler {
		return &StaleReconciler{Client: c, Clock: clocktesting.NewFakePassiveClock(now)}
	}
	controllertest.Run(t, controllertest.Case{
		Objects: []client.Object{pod("a", "", "", target(3*time.Minute))},
		Request: key,
		New:     fresh,
		Want: func(ctx context.Context, c client.Client) error {
			var p corev1.Pod
			if err := c.Get(ctx, key.NamespacedName, &p); err != nil {
				return err
			}
			if got := p.Status.Conditions[1]; got.Status != corev1.ConditionFalse || got.Reason != "" {
				return fmt.Errorf("condition %+v", got)
			}
			return nil
		},
	})
	tests := []struct {
		name string
		pod  *corev1.Pod
		want time.Duration
		ok   bool
	}{
		{name: "not a target", pod: pod("a", "", "")},
		{name: "recent", pod: pod("a", "", "", target(30*time.Second)), want: 90 * time.Second, ok: true},
		{name: "stale", pod: pod("a", "", "", target(time.Hour)), ok: true},
		{name: "deleted", pod: pod("a", "", "", target(time.Hour), deleted)},
		{name: "the kubelet's", pod: pod("a", "", "", target(time.Hour), func(p *corev1.Pod) { p.Status.Conditions[1].Reason = corev1.PodReasonTerminationByKubelet })},
		{name: "ended", pod: pod("a", "", "", target(time.Hour), func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed })},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got, ok := staleIn(tt.pod, now); got != tt.want || ok != tt.ok {
				t.Errorf("stale in %v, %v", got, ok)
			}
		})
	}
}
