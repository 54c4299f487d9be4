// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package statefulset

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/tools/record"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"minik8s.io/minik8s/pkg/controllers/controllertest"
	"minik8s.io/minik8s/pkg/controllers/internal/history"
)

var (
	now     = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	request = reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "ns", Name: "web"}}
	web     = map[string]string{"app": "web"}
)

func set(replicas int32, change ...func(*appsv1.StatefulSet)) *appsv1.StatefulSet {
	s := &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web", UID: "set-uid", Generation: 2},
		Spec: appsv1.StatefulSetSpec{
			Replicas:             &replicas,
			ServiceName:          "nginx",
			Selector:             &metav1.LabelSelector{MatchLabels: web},
			RevisionHistoryLimit: ptr.To[int32](10),
			PodManagementPolicy:  appsv1.OrderedReadyPodManagement,
			UpdateStrategy: appsv1.StatefulSetUpdateStrategy{
				Type:          appsv1.RollingUpdateStatefulSetStrategyType,
				RollingUpdate: &appsv1.RollingUpdateStatefulSetStrategy{Partition: ptr.To[int32](0), MaxUnavailable: new(intstr.FromInt32(1))},
			},
			Template: template("new"),
		},
	}
	for _, c := range change {
		c(s)
	}
	return s
}

func template(image string) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: web},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: image}}},
	}
}

func parallel(s *appsv1.StatefulSet) { s.Spec.PodManagementPolicy = appsv1.ParallelPodManagement }

func onDelete(s *appsv1.StatefulSet) {
	s.Spec.UpdateStrategy = appsv1.StatefulSetUpdateStrategy{Type: appsv1.OnDeleteStatefulSetStrategyType}
}

func partition(n int32) func(*appsv1.StatefulSet) {
	return func(s *appsv1.StatefulSet) { s.Spec.UpdateStrategy.RollingUpdate.Partition = &n }
}

func unavailable(n intstr.IntOrString) func(*appsv1.StatefulSet) {
	return func(s *appsv1.StatefulSet) { s.Spec.UpdateStrategy.RollingUpdate.MaxUnavailable = &n }
}

func start(n int32) func(*appsv1.StatefulSet) {
	return func(s *appsv1.StatefulSet) { s.Spec.Ordinals = &appsv1.StatefulSetOrdinals{Start: n} }
}

// current says that the set had the revision of an image before.
func current(image string) func(*appsv1.StatefulSet) {
	return func(s *appsv1.StatefulSet) { s.Status.CurrentRevision = revisionOf(image, 1).Name }
}

func claims(deleted, scaled appsv1.PersistentVolumeClaimRetentionPolicyType) func(*appsv1.StatefulSet) {
	return func(s *appsv1.StatefulSet) {
		s.Spec.VolumeClaimTemplates = []corev1.PersistentVolumeClaim{{ObjectMeta: metav1.ObjectMeta{Name: "data", Labels: map[string]string{"own": "label"}}}}
		s.Spec.PersistentVolumeClaimRetentionPolicy = &appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{WhenDeleted: deleted, WhenScaled: scaled}
	}
}

// revisionOf returns the revision of the set's template with the given image.
func revisionOf(image string, number int64) *appsv1.ControllerRevision {
	t := template(image)
	data, err := history.Patch(&t)
	if err != nil {
		panic(err)
	}
	r := newRevision(set(0), data, number, 0)
	r.UID = types.UID(r.Name)
	return r
}

// pod returns an available pod with the revision of an image.
func pod(ordinal int, image string, change ...func(*corev1.Pod)) *corev1.Pod {
	t := template(image)
	p := NewPod(set(0), &t, revisionOf(image, 0).Name, ordinal)
	p.UID = types.UID(p.Name)
	ready(p)
	for _, c := range change {
		c(p)
	}
	return p
}

func ready(p *corev1.Pod) {
	p.Status.Phase = corev1.PodRunning
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(now.Add(-time.Hour))}}
}

func readySince(d time.Duration) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Status.Conditions[0].LastTransitionTime = metav1.NewTime(now.Add(-d)) }
}

func unready(p *corev1.Pod) { p.Status.Conditions = nil }

func phase(phase corev1.PodPhase) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Status.Phase, p.Status.Conditions = phase, nil }
}

func deleted(p *corev1.Pod) {
	p.DeletionTimestamp = new(metav1.NewTime(now))
	p.Finalizers = []string{"test/stay"}
}

func reconciler(c client.Client, events record.EventRecorder) *Reconciler {
	return &Reconciler{Client: c, Live: controllertest.Live(c), Events: events, Clock: clocktesting.NewFakeClock(now)}
}

// kubelets lets all pods run.
func kubelets(ctx context.Context, c client.Client) error {
	var list corev1.PodList
	if err := c.List(ctx, &list); err != nil {
		return err
	}
	for i := range list.Items {
		if p := &list.Items[i]; p.Status.Phase == "" || p.Status.Phase == corev1.PodPending {
			ready(p)
			if err := c.Status().Update(ctx, p); err != nil {
				return err
			}
		}
	}
	return nil
}

// look describes the pods as "name image", the revisions as "number image" and the claims as "name owner".
func look(ctx context.Context, c client.Client) (pods, revisions, claims []string, err error) {
	var podList corev1.PodList
	var revisionList appsv1.ControllerRevisionList
	var claimList corev1.PersistentVolumeClaimList
	for _, list := range []client.ObjectList{&podList, &revisionList, &claimList} {
		if err := c.List(ctx, list); err != nil {
			return nil, nil, nil, err
		}
	}
	for _, p := range podList.Items {
		pods = append(pods, p.Name+" "+p.Spec.Containers[0].Image)
	}
	for _, r := range revisionList.Items {
		t, err := history.Template(r.Data.Raw)
		if err != nil {
			return nil, nil, nil, err
		}
		revisions = append(revisions, fmt.Sprintf("%d %s", r.Revision, t.Spec.Containers[0].Image))
	}
	for _, pvc := range claimList.Items {
		text := pvc.Name
		for _, ref := range pvc.OwnerReferences {
			text += " " + ref.Kind + " " + ref.Name
		}
		claims = append(claims, text)
	}
	slices.Sort(revisions)
	return pods, revisions, claims, nil
}

func TestReconciler(t *testing.T) {
	const keep, drop = appsv1.RetainPersistentVolumeClaimRetentionPolicyType, appsv1.DeletePersistentVolumeClaimRetentionPolicyType
	old := []client.Object{pod(0, "old"), pod(1, "old"), pod(2, "old"), revisionOf("old", 1)}
	with := func(s *appsv1.StatefulSet, rest ...client.Object) []client.Object {
		return append([]client.Object{s}, rest...)
	}
	pvc := func(name string, refs ...metav1.OwnerReference) *corev1.PersistentVolumeClaim {
		return &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, OwnerReferences: refs}}
	}
	tests := []struct {
		name      string
		objects   []client.Object
		pods      []string
		revisions []string
		claims    []string
		status    appsv1.StatefulSetStatus
		// current is the image of the current revision in the status, if it is not that updated to.
		current string
	}{
		{
			name: "created in order", objects: with(set(3)),
			pods: []string{"web-0 new", "web-1 new", "web-2 new"}, revisions: []string{"1 new"},
			status: appsv1.StatefulSetStatus{Replicas: 3, ReadyReplicas: 3, AvailableReplicas: 3, CurrentReplicas: 3, UpdatedReplicas: 3},
		},
		{
			name: "created in parallel from an ordinal", objects: with(set(2, parallel, start(5))),
			pods: []string{"web-5 new", "web-6 new"}, revisions: []string{"1 new"},
			status: appsv1.StatefulSetStatus{Replicas: 2, ReadyReplicas: 2, AvailableReplicas: 2, CurrentReplicas: 2, UpdatedReplicas: 2},
		},
		{
			name: "rolling update", objects: with(set(3, current("old")), old...),
			pods: []string{"web-0 new", "web-1 new", "web-2 new"}, revisions: []string{"1 old", "2 new"},
			status: appsv1.StatefulSetStatus{Replicas: 3, ReadyReplicas: 3, AvailableReplicas: 3, CurrentReplicas: 3, UpdatedReplicas: 3},
		},
		{
			name: "parallel update of two at a time", objects: with(set(3, current("old"), parallel, unavailable(intstr.FromString("70%"))), old...),
			pods: []string{"web-0 new", "web-1 new", "web-2 new"}, revisions: []string{"1 old", "2 new"},
			status: appsv1.StatefulSetStatus{Replicas: 3, ReadyReplicas: 3, AvailableReplicas: 3, CurrentReplicas: 3, UpdatedReplicas: 3},
		},
		{
			name: "partition", objects: with(set(4, current("old"), partition(2)), old...),
			pods: []string{"web-0 old", "web-1 old", "web-2 new", "web-3 new"}, revisions: []string{"1 old", "2 new"}, current: "old",
			status: appsv1.StatefulSetStatus{Replicas: 4, ReadyReplicas: 4, AvailableReplicas: 4, CurrentReplicas: 2, UpdatedReplicas: 2},
		},
		{
			name: "on delete", objects: with(set(4, current("old"), onDelete), old...),
			pods: []string{"web-0 old", "web-1 old", "web-2 old", "web-3 new"}, revisions: []string{"1 old", "2 new"}, current: "old",
			status: appsv1.StatefulSetStatus{Replicas: 4, ReadyReplicas: 4, AvailableReplicas: 4, CurrentReplicas: 3, UpdatedReplicas: 1},
		},
		{
			name: "rollback", objects: with(set(1, current("bad")), pod(0, "bad"), revisionOf("new", 1), revisionOf("bad", 2)),
			pods: []string{"web-0 new"}, revisions: []string{"2 bad", "3 new"},
			status: appsv1.StatefulSetStatus{Replicas: 1, ReadyReplicas: 1, AvailableReplicas: 1, CurrentReplicas: 1, UpdatedReplicas: 1},
		},
		{
			name: "history limit", objects: with(set(1, func(s *appsv1.StatefulSet) { s.Spec.RevisionHistoryLimit = ptr.To[int32](1) }),
				revisionOf("a", 1), revisionOf("b", 2), revisionOf("c", 3)),
			pods: []string{"web-0 new"}, revisions: []string{"3 c", "4 new"},
			status: appsv1.StatefulSetStatus{Replicas: 1, ReadyReplicas: 1, AvailableReplicas: 1, CurrentReplicas: 1, UpdatedReplicas: 1},
		},
		{
			name: "scaled down and moved up", objects: with(set(1, start(1), current("new")), pod(0, "new"), pod(1, "new"), pod(2, "new"), pod(3, "new"), revisionOf("new", 1)),
			pods: []string{"web-1 new"}, revisions: []string{"1 new"},
			status: appsv1.StatefulSetStatus{Replicas: 1, ReadyReplicas: 1, AvailableReplicas: 1, CurrentReplicas: 1, UpdatedReplicas: 1},
		},
		{
			name: "ended pods", objects: with(set(2), pod(0, "new", phase(corev1.PodFailed)), pod(1, "new", phase(corev1.PodSucceeded)), revisionOf("new", 1)),
			pods: []string{"web-0 new", "web-1 new"}, revisions: []string{"1 new"},
			status: appsv1.StatefulSetStatus{Replicas: 2, ReadyReplicas: 2, AvailableReplicas: 2, CurrentReplicas: 2, UpdatedReplicas: 2},
		},
		{
			name: "claims stay", objects: with(set(1, claims(keep, keep)), pvc("data-web-7", *metav1.NewControllerRef(set(0), kind))),
			pods: []string{"web-0 new"}, revisions: []string{"1 new"}, claims: []string{"data-web-0", "data-web-7 StatefulSet web"},
			status: appsv1.StatefulSetStatus{Replicas: 1, ReadyReplicas: 1, AvailableReplicas: 1, CurrentReplicas: 1, UpdatedReplicas: 1},
		},
		{
			name: "claims go with the set", objects: with(set(2, parallel, claims(drop, keep)), pvc("data-web-1")),
			pods: []string{"web-0 new", "web-1 new"}, revisions: []string{"1 new"}, claims: []string{"data-web-0 StatefulSet web", "data-web-1 StatefulSet web"},
			status: appsv1.StatefulSetStatus{Replicas: 2, ReadyReplicas: 2, AvailableReplicas: 2, CurrentReplicas: 2, UpdatedReplicas: 2},
		},
		{
			name: "claims go with a pod scaled away", objects: with(set(1, claims(drop, drop)), pod(0, "new"), pod(1, "new"), revisionOf("new", 1),
				pvc("data-web-0", *metav1.NewControllerRef(set(0), kind)), pvc("data-web-1", *metav1.NewControllerRef(set(0), kind))),
			pods: []string{"web-0 new"}, revisions: []string{"1 new"}, claims: []string{"data-web-0 StatefulSet web", "data-web-1 Pod web-1"},
			status: appsv1.StatefulSetStatus{Replicas: 1, ReadyReplicas: 1, AvailableReplicas: 1, CurrentReplicas: 1, UpdatedReplicas: 1},
		},
		{
			name: "a doomed claim is waited for", objects: with(set(1, claims(keep, drop)), pvc("data-web-0", *metav1.NewControllerRef(pod(0, "new"), podKind))),
			revisions: []string{"1 new"}, claims: []string{"data-web-0 Pod web-0"},
		},
		{
			name: "strangers", objects: with(set(1, current("new")), revisionOf("new", 1),
				pod(0, "new", func(p *corev1.Pod) { p.OwnerReferences = nil; delete(p.Labels, appsv1.StatefulSetPodNameLabel) }),
				pod(9, "new", func(p *corev1.Pod) { p.Name = "other-9" })),
			pods: []string{"other-9 new", "web-0 new"}, revisions: []string{"1 new"},
			status: appsv1.StatefulSetStatus{Replicas: 1, ReadyReplicas: 1, AvailableReplicas: 1, CurrentReplicas: 1, UpdatedReplicas: 1},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			controllertest.Run(t, controllertest.Case{
				Objects:   tt.objects,
				Request:   request,
				New:       func(c client.Client) reconcile.Reconciler { return reconciler(c, &record.FakeRecorder{}) },
				World:     kubelets,
				MaxPasses: 30,
				Want: func(ctx context.Context, c client.Client) error {
					pods, revisions, claims, err := look(ctx, c)
					if err != nil {
						return err
					}
					if diff := cmp.Diff([][]string{tt.pods, tt.revisions, tt.claims}, [][]string{pods, revisions, claims}); diff != "" {
						return fmt.Errorf("pods, revisions, claims (-want +got): %s", diff)
					}
					var got appsv1.StatefulSet
					if err := c.Get(ctx, request.NamespacedName, &got); err != nil {
						return err
					}
					want := tt.status
					want.ObservedGeneration, want.CollisionCount = 2, ptr.To[int32](0)
					want.UpdateRevision = revisionOf("new", 0).Name
					want.CurrentRevision = want.UpdateRevision
					if tt.current != "" {
						want.CurrentRevision = revisionOf(tt.current, 0).Name
					}
					if diff := cmp.Diff(want, got.Status); diff != "" {
						return fmt.Errorf("status (-want +got): %s", diff)
					}
					return nil
				},
			})
		})
	}
}

func TestReconcile_Collision(t *testing.T) {
	foreign := revisionOf("new", 1)
	foreign.OwnerReferences[0].UID, foreign.Data = "other", runtime.RawExtension{Raw: []byte("{}")}
	c := newClient(set(1), foreign)
	if _, err := reconciler(c, &record.FakeRecorder{}).Reconcile(t.Context(), request); err != nil {
		t.Fatal(err)
	}
	var got appsv1.StatefulSet
	if err := c.Get(t.Context(), request.NamespacedName, &got); err != nil {
		t.Fatal(err)
	}
	if ptr.Deref(got.Status.CollisionCount, 0) != 1 || got.Status.UpdateRevision == foreign.Name {
		t.Errorf("status %v", got.Status)
	}
}

func newClient(objects ...client.Object) client.WithWatch {
	return controllertest.NewClientBuilder().WithObjects(objects...).WithStatusSubresource(&appsv1.StatefulSet{}, &corev1.Pod{}).Build()
}

func TestReconcile_Events(t *testing.T) {
	const keep, drop = appsv1.RetainPersistentVolumeClaimRetentionPolicyType, appsv1.DeletePersistentVolumeClaimRetentionPolicyType
	backup := metav1.OwnerReference{APIVersion: "example.com/v1", Kind: "Backup", Name: "b", UID: "b", Controller: new(true)}
	claimed := func(refs ...metav1.OwnerReference) *corev1.PersistentVolumeClaim {
		return &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "data-web-0", OwnerReferences: refs}}
	}
	const conflict = "Warning ConflictingController PersistentVolumeClaim data-web-0 has a conflicting OwnerReference that acts as a manging controller, " +
		"the retention policy is ignored for this claim"
	unlabeled := func(p *corev1.Pod) { delete(p.Labels, appsv1.StatefulSetPodNameLabel) }
	tests := []struct {
		name    string
		objects []client.Object
		want    []string
	}{
		{"create", []client.Object{set(2, claims(keep, keep))}, []string{
			"Normal SuccessfulCreate Create Claim data-web-0 Pod web-0 in StatefulSet web success",
			"Normal SuccessfulCreate Create Pod web-0 in StatefulSet web successful",
		}},
		{"delete", []client.Object{set(0), pod(0, "new")}, []string{"Normal SuccessfulDelete Delete Pod web-0 in StatefulSet web successful"}},
		{"update", []client.Object{set(1), pod(0, "new", unlabeled)}, []string{"Normal SuccessfulUpdate Update Pod web-0 in StatefulSet web successful"}},
		{"claim on its way out", []client.Object{set(1, claims(keep, keep)), &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: "data-web-0", DeletionTimestamp: new(metav1.NewTime(now)), Finalizers: []string{"test/stay"},
		}}}, []string{"Warning FailedCreate Create Pod web-0 in StatefulSet web failed error: pvc data-web-0 is being deleted"}},
		{"somebody else's claim", []client.Object{set(1, claims(drop, keep)), claimed(backup)}, []string{
			conflict, "Normal SuccessfulCreate Create Pod web-0 in StatefulSet web successful",
		}},
		{"of a pod that waits", []client.Object{set(1, claims(drop, keep)), pod(0, "new", phase(corev1.PodPending)), claimed(backup)}, []string{conflict}},
		{"once ours, of a pod that waits", []client.Object{
			set(1, claims(drop, keep)), pod(0, "new", phase(corev1.PodPending)), claimed(*metav1.NewControllerRef(set(0), kind), backup),
		}, []string{conflict}},
		{"somebody else's claim, kept anyhow", []client.Object{set(1, claims(keep, keep)), claimed(backup)}, []string{
			"Normal SuccessfulCreate Create Pod web-0 in StatefulSet web successful",
		}},
		{"foreign pod", []client.Object{set(1), pod(0, "new", func(p *corev1.Pod) { p.OwnerReferences[0].UID = "other" })}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			events := record.NewFakeRecorder(10)
			_, err := reconciler(newClient(tt.objects...), events).Reconcile(t.Context(), request)
			if fails := tt.want == nil || strings.HasPrefix(tt.want[0], "Warning Failed"); fails != (err != nil) {
				t.Errorf("error %v", err)
			}
			close(events.Events)
			var got []string
			for e := range events.Events {
				got = append(got, e)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
		})
	}
}

// A set that is being deleted makes nothing any more but tells what is left.
func TestReconcile_Deleted(t *testing.T) {
	ctx := t.Context()
	gone := set(3, current("new"), func(s *appsv1.StatefulSet) {
		s.DeletionTimestamp, s.Finalizers = new(metav1.NewTime(now)), []string{metav1.FinalizerDeleteDependents}
	})
	c := newClient(gone, pod(0, "new"))
	if _, err := reconciler(c, &record.FakeRecorder{}).Reconcile(ctx, request); err != nil {
		t.Fatal(err)
	}
	pods, revisions, _, err := look(ctx, c)
	if err != nil || len(pods) != 1 || len(revisions) != 0 {
		t.Errorf("pods %v, revisions %v, error %v", pods, revisions, err)
	}
	var got appsv1.StatefulSet
	if err := c.Get(ctx, request.NamespacedName, &got); err != nil || got.Status.Replicas != 1 {
		t.Errorf("status %v, error %v", got.Status, err)
	}
}

// A pod that has to be ready for a while is looked at again when that while is over.
func TestReconcile_MinReadySeconds(t *testing.T) {
	s := set(2, func(s *appsv1.StatefulSet) { s.Spec.MinReadySeconds = 30 })
	c := newClient(s, pod(0, "new", readySince(20*time.Second)))
	result, err := reconciler(c, &record.FakeRecorder{}).Reconcile(t.Context(), request)
	if err != nil || result.RequeueAfter != 10*time.Second {
		t.Errorf("result %v, error %v", result, err)
	}
	pods, _, _, err := look(t.Context(), c)
	if err != nil || len(pods) != 1 {
		t.Errorf("pods %v, error %v: the second one comes too early", pods, err)
	}
}

// The claims of a pod that does not start have their owners all the same: they go with the set if that is deleted meanwhile.
func TestReconcile_ClaimsOfPendingPod(t *testing.T) {
	const keep, drop = appsv1.RetainPersistentVolumeClaimRetentionPolicyType, appsv1.DeletePersistentVolumeClaimRetentionPolicyType
	there := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "data-web-0"}}
	c := newClient(set(1, claims(drop, keep)), pod(0, "new", phase(corev1.PodPending)), there)
	if _, err := reconciler(c, &record.FakeRecorder{}).Reconcile(t.Context(), request); err != nil {
		t.Fatal(err)
	}
	_, _, claims, err := look(t.Context(), c)
	if err != nil || !slices.Equal(claims, []string{"data-web-0 StatefulSet web"}) {
		t.Errorf("claims %v, error %v", claims, err)
	}
}
