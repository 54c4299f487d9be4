// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package deployment

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/tools/record"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"minik8s.io/minik8s/pkg/controllers/controllertest"
)

var (
	now     = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	request = reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "ns", Name: "web"}}
)

func webDeployment(change ...func(*appsv1.Deployment)) *appsv1.Deployment {
	labels := map[string]string{"app": "web"}
	d := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web", UID: "d-uid", Generation: 1, Annotations: map[string]string{"team": "a"}},
		Spec: appsv1.DeploymentSpec{
			Replicas:                ptr.To[int32](4),
			Selector:                &metav1.LabelSelector{MatchLabels: labels},
			RevisionHistoryLimit:    ptr.To[int32](10),
			ProgressDeadlineSeconds: ptr.To[int32](600),
			Strategy: appsv1.DeploymentStrategy{
				Type: appsv1.RollingUpdateDeploymentStrategyType,
				RollingUpdate: &appsv1.RollingUpdateDeployment{
					MaxSurge:       new(intstr.FromString("25%")),
					MaxUnavailable: new(intstr.FromString("25%")),
				},
			},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "new"}}},
			},
		},
	}
	for _, c := range change {
		c(d)
	}
	return d
}

// replicaSet returns one of the Deployment's ReplicaSets with the given image and size, all available.
func replicaSet(name, image string, revision int, size int32, change ...func(*appsv1.ReplicaSet)) *appsv1.ReplicaSet {
	d := webDeployment()
	labels := map[string]string{"app": "web", appsv1.DefaultDeploymentUniqueLabelKey: name}
	rs := &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: "web-" + name, UID: types.UID(name), Labels: labels, Generation: 1,
			CreationTimestamp: metav1.NewTime(now.Add(time.Duration(revision)*time.Minute - time.Hour)),
			OwnerReferences:   []metav1.OwnerReference{*metav1.NewControllerRef(d, kind)},
			Annotations:       map[string]string{RevisionAnnotation: fmt.Sprint(revision), DesiredReplicasAnnotation: "4", MaxReplicasAnnotation: "5"},
		},
		Spec: appsv1.ReplicaSetSpec{
			Replicas: &size,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: *d.Spec.Template.DeepCopy(),
		},
		Status: appsv1.ReplicaSetStatus{Replicas: size, ReadyReplicas: size, AvailableReplicas: size, ObservedGeneration: 1, TerminatingReplicas: ptr.To[int32](0)},
	}
	rs.Spec.Template.Labels = labels
	rs.Spec.Template.Spec.Containers[0].Image = image
	for _, c := range change {
		c(rs)
	}
	return rs
}

// replicaSetController makes all pods of all ReplicaSets available at once.
func replicaSetController(ctx context.Context, c client.Client) error {
	var list appsv1.ReplicaSetList
	if err := c.List(ctx, &list); err != nil {
		return err
	}
	for i := range list.Items {
		rs := &list.Items[i]
		n := *rs.Spec.Replicas
		status := appsv1.ReplicaSetStatus{Replicas: n, ReadyReplicas: n, AvailableReplicas: n, ObservedGeneration: rs.Generation, TerminatingReplicas: ptr.To[int32](0)}
		if equality.Semantic.DeepEqual(rs.Status, status) {
			continue
		}
		rs.Status = status
		if err := c.Status().Update(ctx, rs); err != nil {
			return err
		}
	}
	return nil
}

// deployments is a client by which the annotations of a Deployment are written with its status, as the API server does it; the
// fake client leaves metadata as they are then. The Deployment itself is the user's: a write would be another generation, which
// only one who asks for a rollback wants.
type deployments struct{ client.Client }

func (c deployments) Update(ctx context.Context, obj client.Object, opts ...client.UpdateOption) error {
	if _, is := obj.(*appsv1.Deployment); is {
		var there appsv1.Deployment
		if err := c.Get(ctx, client.ObjectKeyFromObject(obj), &there); err != nil {
			return err
		}
		if there.Annotations[appsv1.DeprecatedRollbackTo] == "" {
			return errors.New("a write of the Deployment itself is a new generation")
		}
	}
	return c.Client.Update(ctx, obj, opts...)
}

func (c deployments) Status() client.SubResourceWriter { return statuses{c.Client.Status(), c.Client} }

type statuses struct {
	client.SubResourceWriter
	main client.Client
}

func (s statuses) Update(ctx context.Context, obj client.Object, opts ...client.SubResourceUpdateOption) error {
	if d, is := obj.(*appsv1.Deployment); is {
		status := *d.Status.DeepCopy()
		if err := s.main.Update(ctx, d); err != nil {
			return err
		}
		d.Status = status
	}
	return s.SubResourceWriter.Update(ctx, obj, opts...)
}

func reconciler(c client.Client) *Reconciler {
	return &Reconciler{Client: deployments{c}, Live: controllertest.Live(c), Events: &record.FakeRecorder{}, Clock: clocktesting.NewFakePassiveClock(now)}
}

func TestReconciler(t *testing.T) {
	recreate := func(d *appsv1.Deployment) {
		d.Spec.Strategy = appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType}
	}
	paused := func(d *appsv1.Deployment) { d.Spec.Paused = true }
	rollback := func(to string) func(*appsv1.Deployment) {
		return func(d *appsv1.Deployment) { d.Annotations[appsv1.DeprecatedRollbackTo] = to }
	}
	forgetful := func(d *appsv1.Deployment) { d.Spec.RevisionHistoryLimit = new(int32(0)) }
	tests := []struct {
		name    string
		objects []client.Object
		// want maps images to replicas, revision is the Deployment's.
		want     map[string]int32
		revision string
		reason   string
	}{
		{name: "from nothing", objects: []client.Object{webDeployment()}, want: map[string]int32{"new": 4}, revision: "1", reason: ReasonReplicaSetAvailable},
		{name: "rolling update", objects: []client.Object{webDeployment(), replicaSet("old", "old", 1, 4)}, want: map[string]int32{"new": 4, "old": 0}, revision: "2", reason: ReasonReplicaSetAvailable},
		{name: "rollback", objects: []client.Object{webDeployment(), replicaSet("a", "new", 1, 0), replicaSet("b", "bad", 2, 4)}, want: map[string]int32{"new": 4, "bad": 0}, revision: "3", reason: ReasonReplicaSetAvailable},
		{name: "rollback by annotation", objects: []client.Object{webDeployment(rollback("1")), replicaSet("a", "old", 1, 0), replicaSet("b", "new", 2, 4)}, want: map[string]int32{"old": 4, "new": 0}, revision: "3", reason: ReasonReplicaSetAvailable},
		{name: "rollback of what has no ReplicaSet yet", objects: []client.Object{webDeployment(rollback("0")), replicaSet("a", "old", 1, 4)}, want: map[string]int32{"old": 4, "new": 0}, revision: "3", reason: ReasonReplicaSetAvailable},
		{name: "rollback while paused", objects: []client.Object{webDeployment(rollback("1"), paused), replicaSet("a", "old", 1, 0), replicaSet("b", "new", 2, 4)}, want: map[string]int32{"old": 0, "new": 4}, revision: "2", reason: ReasonPaused},
		{name: "what a paused one is to go back to stays", objects: []client.Object{webDeployment(rollback("1"), paused, forgetful), replicaSet("a", "old", 1, 0), replicaSet("b", "new", 2, 4)}, want: map[string]int32{"old": 0, "new": 4}, revision: "2", reason: ReasonPaused},
		{name: "paused ones forget, too", objects: []client.Object{webDeployment(paused, forgetful), replicaSet("a", "old", 1, 0), replicaSet("b", "new", 2, 4)}, want: map[string]int32{"new": 4}, revision: "2", reason: ReasonPaused},
		{name: "recreate", objects: []client.Object{webDeployment(recreate), replicaSet("old", "old", 1, 4)}, want: map[string]int32{"new": 4, "old": 0}, revision: "2", reason: ReasonReplicaSetAvailable},
		{name: "paused", objects: []client.Object{webDeployment(paused), replicaSet("old", "old", 1, 4)}, want: map[string]int32{"old": 4}, reason: ReasonPaused},
		{name: "scaled while paused", objects: []client.Object{webDeployment(paused, func(d *appsv1.Deployment) { d.Spec.Replicas = ptr.To[int32](6) }), replicaSet("old", "old", 1, 4)}, want: map[string]int32{"old": 6}, reason: ReasonPaused},
		{
			name: "history limit", objects: []client.Object{
				webDeployment(func(d *appsv1.Deployment) { d.Spec.RevisionHistoryLimit = ptr.To[int32](1) }),
				replicaSet("1", "one", 1, 0), replicaSet("2", "two", 2, 0), replicaSet("3", "new", 3, 4),
			},
			want: map[string]int32{"two": 0, "new": 4}, revision: "3", reason: ReasonReplicaSetAvailable,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			controllertest.Run(t, controllertest.Case{
				Objects:   tt.objects,
				Request:   request,
				New:       func(c client.Client) reconcile.Reconciler { return reconciler(c) },
				World:     replicaSetController,
				MaxPasses: 40,
				Want: func(ctx context.Context, c client.Client) error {
					var list appsv1.ReplicaSetList
					if err := c.List(ctx, &list); err != nil {
						return err
					}
					got := map[string]int32{}
					for i := range list.Items {
						got[list.Items[i].Spec.Template.Spec.Containers[0].Image] = *list.Items[i].Spec.Replicas
					}
					if !equality.Semantic.DeepEqual(got, tt.want) {
						return fmt.Errorf("replicas by image: %v, want %v", got, tt.want)
					}
					var d appsv1.Deployment
					if err := c.Get(ctx, request.NamespacedName, &d); err != nil {
						return err
					}
					if got := d.Annotations[RevisionAnnotation]; got != tt.revision {
						return fmt.Errorf("revision %q, want %q", got, tt.revision)
					}
					if got := condition(&d.Status, appsv1.DeploymentProgressing); got == nil || got.Reason != tt.reason {
						return fmt.Errorf("Progressing is %v, want reason %s", got, tt.reason)
					}
					return nil
				},
			})
		})
	}
}

func TestAnnotateNew_RollbackKeepsHistory(t *testing.T) {
	rs := replicaSet("a", "new", 1, 0, func(rs *appsv1.ReplicaSet) { rs.Annotations[RevisionHistoryAnnotation] = "0" })
	if !annotateNew(webDeployment(), rs, 3) {
		t.Error("no change reported")
	}
	if rs.Annotations[RevisionAnnotation] != "3" || rs.Annotations[RevisionHistoryAnnotation] != "0,1" || rs.Annotations["team"] != "a" {
		t.Errorf("annotations %v", rs.Annotations)
	}
	if annotateNew(webDeployment(), rs, 3) {
		t.Error("a change is reported where there is none")
	}
}

// Of several old ReplicaSets that have failed the oldest is told of, in whichever order they are listed: else the status would change
// all the time.
func TestReconcile_OldestFailure(t *testing.T) {
	failed := func(reason string) func(*appsv1.ReplicaSet) {
		return func(rs *appsv1.ReplicaSet) {
			rs.Status.Conditions = []appsv1.ReplicaSetCondition{{Type: appsv1.ReplicaSetReplicaFailure, Status: corev1.ConditionTrue, Reason: reason}}
		}
	}
	d := webDeployment()
	c := controllertest.NewClientBuilder().WithStatusSubresource(d).WithObjects(d,
		replicaSet("a", "two", 2, 0, failed("FailedDelete")), replicaSet("b", "one", 1, 0, failed("FailedCreate")), replicaSet("c", "new", 3, 4)).Build()
	if _, err := reconciler(c).Reconcile(t.Context(), request); err != nil {
		t.Fatal(err)
	}
	if err := c.Get(t.Context(), request.NamespacedName, d); err != nil {
		t.Fatal(err)
	}
	if got := condition(&d.Status, appsv1.DeploymentReplicaFailure); got == nil || got.Reason != "FailedCreate" {
		t.Errorf("the condition is %+v", got)
	}
}

// An old ReplicaSet says that it has pods, and the cache has none of them yet: the new ones have to wait.
func TestReconcile_RecreateWaitsForReplicaSet(t *testing.T) {
	d := webDeployment(func(d *appsv1.Deployment) {
		d.Spec.Strategy = appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType}
	})
	old := replicaSet("old", "old", 1, 0, func(rs *appsv1.ReplicaSet) { rs.Status.Replicas = 4 })
	c := controllertest.NewClientBuilder().WithObjects(d, old).WithStatusSubresource(d, old).Build()
	if _, err := reconciler(c).Reconcile(t.Context(), request); err != nil {
		t.Fatal(err)
	}
	var list appsv1.ReplicaSetList
	if err := c.List(t.Context(), &list); err != nil || len(list.Items) != 1 {
		t.Errorf("%d replica sets, error %v", len(list.Items), err)
	}
}

func TestTerminating(t *testing.T) {
	counted := func(n int32) *appsv1.ReplicaSet {
		return replicaSet("counted", "a", 1, 1, func(rs *appsv1.ReplicaSet) { rs.Status.TerminatingReplicas = &n })
	}
	seen := replicaSet("seen", "b", 2, 1, func(rs *appsv1.ReplicaSet) { rs.Status.TerminatingReplicas = nil })
	unseen := replicaSet("unseen", "c", 3, 1, func(rs *appsv1.ReplicaSet) { rs.Status = appsv1.ReplicaSetStatus{} })
	tests := []struct {
		name string
		all  []*appsv1.ReplicaSet
		want *int32
	}{
		{name: "none", all: []*appsv1.ReplicaSet{nil}, want: ptr.To[int32](0)},
		{name: "counted", all: []*appsv1.ReplicaSet{counted(1), nil, counted(2)}, want: ptr.To[int32](3)},
		{name: "one is new", all: []*appsv1.ReplicaSet{counted(1), unseen}, want: ptr.To[int32](1)},
		{name: "one has not counted", all: []*appsv1.ReplicaSet{counted(1), seen}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := terminating(tt.all); !ptr.Equal(got, tt.want) {
				t.Errorf("%d, want %d", ptr.Deref(got, -1), ptr.Deref(tt.want, -1))
			}
		})
	}
}
