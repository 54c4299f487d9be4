// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"
	"k8s.io/kubectl/pkg/polymorphichelpers"

	"minik8s.io/minik8s/test/integration/framework"
)

var statefulSetKind = appsv1.SchemeGroupVersion.WithKind("StatefulSet")

func statefulSet(app string, replicas int32, change ...func(*appsv1.StatefulSet)) *appsv1.StatefulSet {
	labels := map[string]string{"app": app}
	set := &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: app, Labels: labels},
		Spec: appsv1.StatefulSetSpec{
			Replicas:    &replicas,
			ServiceName: app,
			Selector:    &metav1.LabelSelector{MatchLabels: labels},
			Template:    corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: framework.PodSpec("v1")},
		},
	}
	for _, c := range change {
		c(set)
	}
	return set
}

func parallelPods(set *appsv1.StatefulSet) {
	set.Spec.PodManagementPolicy = appsv1.ParallelPodManagement
}

func withClaims(deleted, scaled appsv1.PersistentVolumeClaimRetentionPolicyType) func(*appsv1.StatefulSet) {
	return func(set *appsv1.StatefulSet) {
		set.Spec.VolumeClaimTemplates = []corev1.PersistentVolumeClaim{{
			ObjectMeta: metav1.ObjectMeta{Name: "data"},
			Spec: corev1.PersistentVolumeClaimSpec{
				AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
			},
		}}
		set.Spec.PersistentVolumeClaimRetentionPolicy = &appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{WhenDeleted: deleted, WhenScaled: scaled}
	}
}

func createSet(t *testing.T, c kubernetes.Interface, ns string, set *appsv1.StatefulSet) {
	t.Helper()
	if _, err := c.AppsV1().StatefulSets(ns).Create(t.Context(), set, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func applySet(t *testing.T, c kubernetes.Interface, ns, name, patch string) {
	t.Helper()
	if _, err := c.AppsV1().StatefulSets(ns).Patch(t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		t.Fatalf("patching stateful set %q: %v", name, err)
	}
}

// setRolledOut waits until all pods of the set are of the present template and available.
func setRolledOut(t *testing.T, c kubernetes.Interface, ns, name string) *appsv1.StatefulSet {
	t.Helper()
	var set *appsv1.StatefulSet
	framework.Eventually(t, "rollout of "+name, func() error {
		var err error
		if set, err = c.AppsV1().StatefulSets(ns).Get(context.Background(), name, metav1.GetOptions{}); err != nil {
			return err
		}
		s, n := set.Status, *set.Spec.Replicas
		if s.ObservedGeneration < set.Generation || s.Replicas != n || s.UpdatedReplicas != n || s.AvailableReplicas != n || s.CurrentReplicas != n || s.CurrentRevision != s.UpdateRevision {
			return fmt.Errorf("generation %d, status %+v", set.Generation, s)
		}
		return nil
	})
	return set
}

// images are the pods of a namespace as "name image".
func images(c kubernetes.Interface, ns string) ([]string, error) {
	active, err := activePods(c, ns)
	var got []string
	for _, p := range active {
		got = append(got, p.Name+" "+p.Spec.Containers[0].Image)
	}
	slices.Sort(got)
	return got, err
}

func eventualImages(t *testing.T, c kubernetes.Interface, ns string, want ...string) {
	t.Helper()
	framework.Eventually(t, fmt.Sprintf("pods %v", want), func() error {
		got, err := images(c, ns)
		if diff := cmp.Diff(want, got); err == nil && diff != "" {
			return fmt.Errorf("(-want +got): %s", diff)
		}
		return err
	})
}

func ordinal(p *corev1.Pod) int {
	n, err := strconv.Atoi(p.Name[strings.LastIndex(p.Name, "-")+1:])
	if err != nil {
		return -1
	}
	return n
}

// watchOrder checks that a pod comes only when those below it are ready and goes only when those above it are gone.
func watchOrder(t *testing.T, ns string) (violations func() []string) {
	t.Helper()
	var mu sync.Mutex
	var found []string
	there := map[int]*corev1.Pod{}
	list, err := cluster.Client.CoreV1().Pods(ns).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range list.Items {
		there[ordinal(&list.Items[i])] = &list.Items[i]
	}
	stop := framework.Observe(t, func(ctx context.Context) (watch.Interface, error) {
		return cluster.Client.CoreV1().Pods(ns).Watch(ctx, metav1.ListOptions{ResourceVersion: list.ResourceVersion})
	}, func(e watch.EventType, p *corev1.Pod) {
		mu.Lock()
		defer mu.Unlock()
		n := ordinal(p)
		before := there[n]
		there[n] = p
		if e == watch.Deleted {
			delete(there, n)
		}
		for other, q := range there {
			switch {
			case e == watch.Added && other < n && (!isReady(q) || q.DeletionTimestamp != nil):
				found = append(found, fmt.Sprintf("%s came though %s was not ready", p.Name, q.Name))
			case e == watch.Modified && p.DeletionTimestamp != nil && before != nil && before.DeletionTimestamp == nil && other > n:
				found = append(found, fmt.Sprintf("%s went before %s", p.Name, q.Name))
			}
		}
	})
	return func() []string {
		stop()
		mu.Lock()
		defer mu.Unlock()
		return found
	}
}

func TestStatefulSet_ComesAndGoesInOrder(t *testing.T) {
	t.Parallel()
	ns := cluster.Namespace(t)
	violations := watchOrder(t, ns)
	createSet(t, cluster.Client, ns, statefulSet("web", 4))
	set := setRolledOut(t, cluster.Client, ns, "web")
	active, err := activePods(cluster.Client, ns)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range active {
		want := map[string]string{
			"app": "web", appsv1.StatefulSetPodNameLabel: p.Name, appsv1.PodIndexLabel: strconv.Itoa(ordinal(&p)), appsv1.ControllerRevisionHashLabelKey: set.Status.CurrentRevision,
		}
		if diff := cmp.Diff(want, p.Labels); diff != "" {
			t.Errorf("labels of %s (-want +got):\n%s", p.Name, diff)
		}
		if p.Spec.Hostname != p.Name || p.Spec.Subdomain != "web" {
			t.Errorf("%s is called %q in %q", p.Name, p.Spec.Hostname, p.Spec.Subdomain)
		}
	}
	framework.Eventually(t, "the events tell of the pods", func() error {
		events, err := cluster.Client.CoreV1().Events(ns).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		told := slices.ContainsFunc(events.Items, func(e corev1.Event) bool {
			return e.Reason == "SuccessfulCreate" && e.Source.Component == "statefulset-controller" && e.Message == "Create Pod web-3 in StatefulSet web successful"
		})
		if !told {
			return fmt.Errorf("they do not: %d events", len(events.Items))
		}
		return nil
	})
	applySet(t, cluster.Client, ns, "web", `{"spec":{"replicas":1}}`)
	setRolledOut(t, cluster.Client, ns, "web")
	eventualImages(t, cluster.Client, ns, "web-0 v1")
	for _, v := range violations() {
		t.Error(v)
	}
}

// TestStatefulSet_WaitsForEachPod keeps the first pod from being ready for a while.
func TestStatefulSet_WaitsForEachPod(t *testing.T) {
	t.Parallel()
	ns := cluster.Namespace(t)
	createSet(t, cluster.Client, ns, statefulSet("web", 2, func(s *appsv1.StatefulSet) { s.Spec.Template.Spec.Containers[0].Image = "broken" }))
	framework.Eventually(t, "the status is written", func() error {
		set, err := cluster.Client.AppsV1().StatefulSets(ns).Get(t.Context(), "web", metav1.GetOptions{})
		if err == nil && (set.Status.Replicas != 1 || set.Status.ReadyReplicas != 0) {
			return fmt.Errorf("status %+v", set.Status)
		}
		return err
	})
	eventualImages(t, cluster.Client, ns, "web-0 broken")
	// An ordered set does not replace a broken pod by itself: one has to delete it, as the documentation says.
	applySet(t, cluster.Client, ns, "web", image("v2"))
	framework.Eventually(t, "the update is seen", func() error {
		set, err := cluster.Client.AppsV1().StatefulSets(ns).Get(t.Context(), "web", metav1.GetOptions{})
		if err == nil && set.Status.ObservedGeneration < set.Generation {
			return fmt.Errorf("status %+v", set.Status)
		}
		return err
	})
	eventualImages(t, cluster.Client, ns, "web-0 broken")
	if err := cluster.Client.CoreV1().Pods(ns).Delete(t.Context(), "web-0", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	setRolledOut(t, cluster.Client, ns, "web")
	eventualImages(t, cluster.Client, ns, "web-0 v2", "web-1 v2")
}

func TestStatefulSet_Partition(t *testing.T) {
	t.Parallel()
	ns := cluster.Namespace(t)
	createSet(t, cluster.Client, ns, statefulSet("web", 4))
	first := setRolledOut(t, cluster.Client, ns, "web").Status.CurrentRevision
	applySet(t, cluster.Client, ns, "web", `{"spec":{"updateStrategy":{"rollingUpdate":{"partition":2}}}}`)
	applySet(t, cluster.Client, ns, "web", image("v2"))
	eventualImages(t, cluster.Client, ns, "web-0 v1", "web-1 v1", "web-2 v2", "web-3 v2")
	framework.Eventually(t, "kubectl says that the partition is rolled out", func() error {
		set, err := cluster.Client.AppsV1().StatefulSets(ns).Get(t.Context(), "web", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if s := set.Status; s.CurrentRevision != first || s.UpdateRevision == first || s.CurrentReplicas != 2 || s.UpdatedReplicas != 2 || s.ReadyReplicas != 4 {
			return fmt.Errorf("status %+v", s)
		}
		viewer, err := polymorphichelpers.StatusViewerFor(statefulSetKind.GroupKind())
		if err != nil {
			return err
		}
		content, err := toUnstructured(set)
		if err != nil {
			return err
		}
		text, done, err := viewer.Status(content, 0)
		if want := "partitioned roll out complete: 2 new pods have been updated...\n"; err != nil || !done || text != want {
			return fmt.Errorf("kubectl rollout status says %q, done %t, %w", text, done, err)
		}
		return nil
	})
	// A pod below the partition comes back with the old template.
	if err := cluster.Client.CoreV1().Pods(ns).Delete(t.Context(), "web-0", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventualImages(t, cluster.Client, ns, "web-0 v1", "web-1 v1", "web-2 v2", "web-3 v2")
	applySet(t, cluster.Client, ns, "web", `{"spec":{"updateStrategy":{"rollingUpdate":{"partition":0}}}}`)
	setRolledOut(t, cluster.Client, ns, "web")
	eventualImages(t, cluster.Client, ns, "web-0 v2", "web-1 v2", "web-2 v2", "web-3 v2")
}

// TestStatefulSet_MaxUnavailable watches that an update takes no more pods at a time than it may.
func TestStatefulSet_MaxUnavailable(t *testing.T) {
	for name, change := range map[string]func(*appsv1.StatefulSet){"ordered": func(*appsv1.StatefulSet) {}, "parallel": parallelPods} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := cluster.Namespace(t)
			two := intstr.FromInt32(2)
			createSet(t, cluster.Client, ns, statefulSet("web", 6, change, func(s *appsv1.StatefulSet) {
				s.Spec.UpdateStrategy.RollingUpdate = &appsv1.RollingUpdateStatefulSetStrategy{MaxUnavailable: &two}
				s.Spec.UpdateStrategy.Type = appsv1.RollingUpdateStatefulSetStrategyType
			}))
			setRolledOut(t, cluster.Client, ns, "web")
			b := watchBounds(t, ns, 0, 4)
			applySet(t, cluster.Client, ns, "web", image("v2"))
			setRolledOut(t, cluster.Client, ns, "web")
			b.check(t)
		})
	}
}

// TestStatefulSet_ParallelRecovers updates a parallel set whose pods are all broken.
func TestStatefulSet_ParallelRecovers(t *testing.T) {
	t.Parallel()
	ns := cluster.Namespace(t)
	createSet(t, cluster.Client, ns, statefulSet("web", 3, parallelPods, func(s *appsv1.StatefulSet) { s.Spec.Template.Spec.Containers[0].Image = "broken" }))
	eventualImages(t, cluster.Client, ns, "web-0 broken", "web-1 broken", "web-2 broken")
	applySet(t, cluster.Client, ns, "web", image("v2"))
	setRolledOut(t, cluster.Client, ns, "web")
	eventualImages(t, cluster.Client, ns, "web-0 v2", "web-1 v2", "web-2 v2")
}

func TestStatefulSet_OnDelete(t *testing.T) {
	t.Parallel()
	ns := cluster.Namespace(t)
	createSet(t, cluster.Client, ns, statefulSet("web", 2, func(s *appsv1.StatefulSet) { s.Spec.UpdateStrategy.Type = appsv1.OnDeleteStatefulSetStrategyType }))
	setRolledOut(t, cluster.Client, ns, "web")
	applySet(t, cluster.Client, ns, "web", image("v2"))
	if err := cluster.Client.CoreV1().Pods(ns).Delete(t.Context(), "web-0", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventualImages(t, cluster.Client, ns, "web-0 v2", "web-1 v1")
}

// TestStatefulSet_EndedPodsComeBack fails a pod as a kubelet does which evicts it.
func TestStatefulSet_EndedPodsComeBack(t *testing.T) {
	t.Parallel()
	ns := cluster.Namespace(t)
	createSet(t, cluster.Client, ns, statefulSet("web", 2, func(s *appsv1.StatefulSet) { s.Spec.Ordinals = &appsv1.StatefulSetOrdinals{Start: 3} }))
	setRolledOut(t, cluster.Client, ns, "web")
	for _, phase := range []string{"Failed", "Succeeded"} {
		before, err := cluster.Client.CoreV1().Pods(ns).Get(t.Context(), "web-3", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		patch := fmt.Sprintf(`{"status":{"phase":%q,"conditions":[{"type":"Ready","status":"False"}]}}`, phase)
		if _, err := cluster.Client.CoreV1().Pods(ns).Patch(t.Context(), "web-3", types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}, "status"); err != nil {
			t.Fatal(err)
		}
		framework.Eventually(t, "another pod in place of that which "+phase, func() error {
			after, err := cluster.Client.CoreV1().Pods(ns).Get(t.Context(), "web-3", metav1.GetOptions{})
			if err == nil && (after.UID == before.UID || !isReady(after)) {
				return errors.New("not yet")
			}
			return err
		})
	}
	setRolledOut(t, cluster.Client, ns, "web")
	eventualImages(t, cluster.Client, ns, "web-3 v1", "web-4 v1")
}

// TestStatefulSet_Undo uses kubectl's own code.
func TestStatefulSet_Undo(t *testing.T) {
	t.Parallel()
	ns := cluster.Namespace(t)
	createSet(t, cluster.Client, ns, statefulSet("web", 2))
	first := setRolledOut(t, cluster.Client, ns, "web").Status.CurrentRevision
	applySet(t, cluster.Client, ns, "web", image("v2"))
	set := setRolledOut(t, cluster.Client, ns, "web")
	rollbacker, err := polymorphichelpers.RollbackerFor(statefulSetKind.GroupKind(), cluster.Client)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := rollbacker.Rollback(set, map[string]string{}, 0, cmdutil.DryRunNone); err != nil {
		t.Fatal(err)
	}
	if got := setRolledOut(t, cluster.Client, ns, "web").Status.CurrentRevision; got != first {
		t.Errorf("after undo the revision is %q, formerly %q", got, first)
	}
	eventualImages(t, cluster.Client, ns, "web-0 v1", "web-1 v1")
	history, err := polymorphichelpers.HistoryViewerFor(statefulSetKind.GroupKind(), cluster.Client)
	if err != nil {
		t.Fatal(err)
	}
	text, err := history.ViewHistory(ns, "web", 0)
	if diff := cmp.Diff("REVISION  CHANGE-CAUSE\n2         <none>\n3         <none>\n", text); err != nil || diff != "" {
		t.Errorf("rollout history: %v (-want +got):\n%s", err, diff)
	}
}

// TestStatefulSet_Adoption deletes a set but not its pods and creates it anew.
func TestStatefulSet_Adoption(t *testing.T) {
	t.Parallel()
	ns := cluster.Namespace(t)
	createSet(t, cluster.Client, ns, statefulSet("web", 2))
	setRolledOut(t, cluster.Client, ns, "web")
	before, err := activePods(cluster.Client, ns)
	if err != nil {
		t.Fatal(err)
	}
	orphan := metav1.DeletePropagationOrphan
	if err := cluster.Client.AppsV1().StatefulSets(ns).Delete(t.Context(), "web", metav1.DeleteOptions{PropagationPolicy: &orphan}); err != nil {
		t.Fatal(err)
	}
	gone(t, "the set", func() error {
		_, err := cluster.Client.AppsV1().StatefulSets(ns).Get(t.Context(), "web", metav1.GetOptions{})
		return err
	})
	createSet(t, cluster.Client, ns, statefulSet("web", 2))
	set := setRolledOut(t, cluster.Client, ns, "web")
	after, err := activePods(cluster.Client, ns)
	if err != nil || len(after) != 2 {
		t.Fatalf("%d pods, %v", len(after), err)
	}
	for i := range after {
		if after[i].UID != before[i].UID || !metav1.IsControlledBy(&after[i], set) {
			t.Errorf("%s was replaced or not adopted", after[i].Name)
		}
	}
}

// TestStatefulSet_ClaimRetention lets all pods run by itself: no volume is ever bound here.
func TestStatefulSet_ClaimRetention(t *testing.T) {
	const keep, drop = appsv1.RetainPersistentVolumeClaimRetentionPolicyType, appsv1.DeletePersistentVolumeClaimRetentionPolicyType
	c := framework.Start(t, framework.Options{Controllers: []string{"statefulset", "garbagecollector", "ephemeralvolume"}})
	for _, tt := range []struct {
		name            string
		deleted, scaled appsv1.PersistentVolumeClaimRetentionPolicyType
		// afterScaling says whether the claim of a pod scaled away goes, afterDeleting whether those left do.
		afterScaling, afterDeleting bool
	}{
		{"kept", keep, keep, false, false},
		{"with the pod", keep, drop, true, false},
		{"with the set", drop, keep, false, true},
		{"with either", drop, drop, true, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ns := c.Namespace(t)
			runAllPods(t, c, ns)
			claim := func(name string) (*corev1.PersistentVolumeClaim, error) {
				return c.Client.CoreV1().PersistentVolumeClaims(ns).Get(t.Context(), name, metav1.GetOptions{})
			}
			createSet(t, c.Client, ns, statefulSet("web", 2, withClaims(tt.deleted, tt.scaled)))
			setRolledOut(t, c.Client, ns, "web")
			before, err := claim("data-web-1")
			if err != nil {
				t.Fatal(err)
			}
			applySet(t, c.Client, ns, "web", `{"spec":{"replicas":1}}`)
			setRolledOut(t, c.Client, ns, "web")
			if tt.afterScaling {
				gone(t, "the claim of the pod scaled away", func() error { _, err := claim("data-web-1"); return err })
			}
			applySet(t, c.Client, ns, "web", `{"spec":{"replicas":2}}`)
			setRolledOut(t, c.Client, ns, "web")
			if after, err := claim("data-web-1"); err != nil || (after.UID != before.UID) != tt.afterScaling {
				t.Errorf("the claim had the UID %s, now %s, %v", before.UID, after.UID, err)
			}
			if err := c.Client.AppsV1().StatefulSets(ns).Delete(t.Context(), "web", metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			for _, name := range []string{"web-0", "web-1"} {
				gone(t, name, func() error {
					_, err := c.Client.CoreV1().Pods(ns).Get(t.Context(), name, metav1.GetOptions{})
					return err
				})
				if tt.afterDeleting {
					gone(t, "the claim of "+name, func() error { _, err := claim("data-" + name); return err })
				} else if _, err := claim("data-" + name); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// TestEphemeralVolume_ClaimLivesWithPod follows the claim of a generic ephemeral volume.
func TestEphemeralVolume_ClaimLivesWithPod(t *testing.T) {
	c := framework.Start(t, framework.Options{Controllers: []string{"garbagecollector", "ephemeralvolume"}})
	ns := c.Namespace(t)
	claims := c.Client.CoreV1().PersistentVolumeClaims(ns)
	pod := framework.Pod("p", "p")
	set := statefulSet("x", 1, withClaims("", ""))
	pod.Spec.Volumes = []corev1.Volume{{Name: "scratch", VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{
		VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{Spec: set.Spec.VolumeClaimTemplates[0].Spec},
	}}}}
	if _, err := c.Client.CoreV1().Pods(ns).Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	var first types.UID
	framework.Eventually(t, "the claim", func() error {
		claim, err := claims.Get(t.Context(), "p-scratch", metav1.GetOptions{})
		if err == nil {
			first = claim.UID
		}
		return err
	})
	if err := claims.Delete(t.Context(), "p-scratch", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	// The API server protects claims with a finalizer, whose controller does not run here.
	unfinalize := []byte(`{"metadata":{"finalizers":null}}`)
	if _, err := claims.Patch(t.Context(), "p-scratch", types.MergePatchType, unfinalize, metav1.PatchOptions{}); err != nil && !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
	framework.Eventually(t, "another claim", func() error {
		claim, err := claims.Get(t.Context(), "p-scratch", metav1.GetOptions{})
		if err == nil && claim.UID == first {
			return errors.New("it is the same")
		}
		return err
	})
	if _, err := claims.Patch(t.Context(), "p-scratch", types.MergePatchType, unfinalize, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := c.Client.CoreV1().Pods(ns).Delete(t.Context(), "p", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	gone(t, "the claim", func() error {
		_, err := claims.Get(t.Context(), "p-scratch", metav1.GetOptions{})
		return err
	})

	foreign := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "q-scratch"}, Spec: set.Spec.VolumeClaimTemplates[0].Spec}
	if _, err := claims.Create(t.Context(), foreign, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	pod.Name = "q"
	if _, err := c.Client.CoreV1().Pods(ns).Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	framework.Eventually(t, "the event about somebody else's claim", func() error {
		events, err := c.Client.CoreV1().Events(ns).List(t.Context(), metav1.ListOptions{FieldSelector: "reason=FailedBinding"})
		if err != nil {
			return err
		}
		want := fmt.Sprintf("ephemeral volume scratch: PVC %s/q-scratch was not created for pod %s/q (pod is not owner)", ns, ns)
		if len(events.Items) != 1 || events.Items[0].Message != want || events.Items[0].Source.Component != "ephemeral_volume" {
			return fmt.Errorf("events %+v", events.Items)
		}
		return nil
	})
}

// runAllPods makes every pod of the namespace ready at once, and lets go of claims that are deleted, until the test ends.
func runAllPods(t *testing.T, c *framework.Cluster, ns string) {
	t.Helper()
	const running = `{"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True"}]}}`
	framework.Observe(t, func(ctx context.Context) (watch.Interface, error) {
		return c.Client.CoreV1().Pods(ns).Watch(ctx, metav1.ListOptions{})
	}, func(e watch.EventType, p *corev1.Pod) {
		if e == watch.Deleted || p.Status.Phase != corev1.PodPending {
			return
		}
		_, err := c.Client.CoreV1().Pods(ns).Patch(context.Background(), p.Name, types.StrategicMergePatchType, []byte(running), metav1.PatchOptions{}, "status")
		if err != nil && !apierrors.IsNotFound(err) {
			t.Error(err)
		}
	})
	framework.Observe(t, func(ctx context.Context) (watch.Interface, error) {
		return c.Client.CoreV1().PersistentVolumeClaims(ns).Watch(ctx, metav1.ListOptions{})
	}, func(e watch.EventType, claim *corev1.PersistentVolumeClaim) {
		if e == watch.Deleted || claim.DeletionTimestamp == nil {
			return
		}
		_, err := c.Client.CoreV1().PersistentVolumeClaims(ns).Patch(context.Background(), claim.Name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			t.Error(err)
		}
	})
}
