// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package persistentvolumebinder

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"
	volumehelper "k8s.io/component-helpers/storage/volume"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"minik8s.io/minik8s/pkg/controllers/controllertest"
)

func class(name, provisioner string, mode storagev1.VolumeBindingMode) *storagev1.StorageClass {
	return &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: provisioner, VolumeBindingMode: &mode}
}

func claimRequest(name string) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "ns", Name: name}}
}

func newClaims(c client.Client) *ClaimReconciler {
	return &ClaimReconciler{Client: c, Live: controllertest.Live(c), Events: &record.FakeRecorder{}}
}

func newVolumes(c client.Client) *VolumeReconciler {
	return &VolumeReconciler{Client: c, Live: controllertest.Live(c), Events: &record.FakeRecorder{}}
}

// state is what a test compares: "phase other-end marks" of every claim and volume, by name. The marks are c for bound by
// the controller and b for completed.
func state(ctx context.Context, c client.Client) (map[string]string, error) {
	got := map[string]string{}
	mark := func(obj client.Object, phase, other string) {
		text := []string{phase, other, ""}
		for key, letter := range map[string]string{volumehelper.AnnBindCompleted: "b", volumehelper.AnnBoundByController: "c"} {
			if obj.GetAnnotations()[key] == "yes" {
				text[2] = strings.Join([]string{min(text[2], letter), max(text[2], letter)}, "")
			}
		}
		got[obj.GetName()] = strings.TrimSpace(strings.Join(text, " "))
	}
	var claims corev1.PersistentVolumeClaimList
	if err := c.List(ctx, &claims); err != nil {
		return nil, err
	}
	for i := range claims.Items {
		mark(&claims.Items[i], string(claims.Items[i].Status.Phase), claims.Items[i].Spec.VolumeName)
	}
	var volumes corev1.PersistentVolumeList
	if err := c.List(ctx, &volumes); err != nil {
		return nil, err
	}
	for i := range volumes.Items {
		v, other := &volumes.Items[i], ""
		if v.Spec.ClaimRef != nil {
			other = v.Spec.ClaimRef.Name + "/" + string(v.Spec.ClaimRef.UID)
		}
		mark(v, string(v.Status.Phase), other)
	}
	return got, nil
}

func wantState(want map[string]string) func(context.Context, client.Client) error {
	return func(ctx context.Context, c client.Client) error {
		got, err := state(ctx, c)
		if err != nil {
			return err
		}
		if diff := cmp.Diff(want, got); diff != "" {
			return fmt.Errorf("claims and volumes (-want +got):\n%s", diff)
		}
		return nil
	}
}

// bound is a claim that was bound to a volume by hand.
func bound(name, to string) *corev1.PersistentVolumeClaim {
	return claim(name, func(c *corev1.PersistentVolumeClaim) {
		c.Spec.VolumeName, c.Status.Phase = to, corev1.ClaimBound
		c.Annotations = map[string]string{volumehelper.AnnBindCompleted: "yes"}
	})
}

func TestReconcile_Claim(t *testing.T) {
	t.Parallel()
	const now, late = storagev1.VolumeBindingImmediate, storagev1.VolumeBindingWaitForFirstConsumer
	named := func(v string) func(*corev1.PersistentVolumeClaim) {
		return func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeName = v }
	}
	fresh := func(c *corev1.PersistentVolumeClaim) { c.Status.Phase = "" }
	for _, tc := range []struct {
		name    string
		objects []client.Object
		want    map[string]string
	}{
		{"any volume", []client.Object{claim("c"), volume("v", "1Gi")}, map[string]string{"c": "Bound v bc", "v": "Bound c/uid-of-c c"}},
		{"a volume meant for it", []client.Object{claim("c"), volume("v", "1Gi", forClaim("c", ""))},
			map[string]string{"c": "Bound v bc", "v": "Bound c/uid-of-c"}},
		{"the volume that it names", []client.Object{claim("c", named("v")), volume("v", "1Gi"), volume("w", "1Gi")},
			map[string]string{"c": "Bound v b", "v": "Bound c/uid-of-c c", "w": "Available"}},
		{"it and its volume name each other", []client.Object{claim("c", named("v")), volume("v", "1Gi", forClaim("c", ""))},
			map[string]string{"c": "Bound v b", "v": "Bound c/uid-of-c"}},
		{"names what does not exist", []client.Object{claim("c", named("v"), fresh)}, map[string]string{"c": "Pending v"}},
		{"names what does not fit", []client.Object{claim("c", named("v"), fresh), volume("v", "1Mi")}, map[string]string{"c": "Pending v", "v": "Available"}},
		{"names what is another one's", []client.Object{claim("c", named("v"), fresh), volume("v", "1Gi", forClaim("d", "x"))},
			map[string]string{"c": "Pending v", "v": "Available d/x"}},
		{"waits for a consumer", []client.Object{claim("c", fresh), class("k", "example.com/p", late), volume("v", "1Gi")},
			map[string]string{"c": "Pending", "v": "Available"}},
		{"lost its volume", []client.Object{bound("c", "v")}, map[string]string{"c": "Lost v b"}},
		{"lost its volume to another one", []client.Object{bound("c", "v"), volume("v", "1Gi", forClaim("d", "x"))},
			map[string]string{"c": "Lost v b", "v": "Available d/x"}},
		{"its volume forgot it", []client.Object{bound("c", "v"), volume("v", "1Gi")}, map[string]string{"c": "Bound v b", "v": "Bound c/uid-of-c c"}},
		{"asks the provisioner", []client.Object{claim("c"), class("k", "example.com/p", now)}, map[string]string{"c": "Pending"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			controllertest.Run(t, controllertest.Case{
				Objects: tc.objects,
				Request: claimRequest("c"),
				New:     func(c client.Client) reconcile.Reconciler { return newClaims(c) },
				Want:    wantState(tc.want),
			})
		})
	}
}

func TestReconcile_Volume(t *testing.T) {
	t.Parallel()
	isBound := func(v *corev1.PersistentVolume) { v.Status.Phase = corev1.VolumeBound }
	pending := func(v *corev1.PersistentVolume) { v.Status.Phase = corev1.VolumePending }
	byController := func(v *corev1.PersistentVolume) {
		metav1.SetMetaDataAnnotation(&v.ObjectMeta, volumehelper.AnnBoundByController, "yes")
	}
	provisioned := func(v *corev1.PersistentVolume) {
		metav1.SetMetaDataAnnotation(&v.ObjectMeta, volumehelper.AnnDynamicallyProvisioned, "example.com/p")
		v.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimDelete
	}
	recycled := func(v *corev1.PersistentVolume) {
		v.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRecycle
	}
	mine := forClaim("c", "uid-of-c")
	for _, tc := range []struct {
		name    string
		objects []client.Object
		want    map[string]string
	}{
		{"new", []client.Object{volume("v", "1Gi", pending)}, map[string]string{"v": "Available"}},
		{"new and meant for a claim", []client.Object{volume("v", "1Gi", pending, forClaim("c", ""))}, map[string]string{"v": "Available c/"}},
		{"bound", []client.Object{volume("v", "1Gi", pending, mine), bound("c", "v")}, map[string]string{"v": "Bound c/uid-of-c", "c": "Bound v b"}},
		{"claim gone", []client.Object{volume("v", "1Gi", isBound, mine, byController)}, map[string]string{"v": "Released c/uid-of-c c"}},
		{"another claim of that name", []client.Object{volume("v", "1Gi", isBound, forClaim("c", "older")), claim("c")},
			map[string]string{"v": "Released c/older", "c": "Pending"}},
		{"claim gone, to be recycled", []client.Object{volume("v", "1Gi", isBound, mine, recycled)}, map[string]string{"v": "Failed c/uid-of-c"}},
		{"claim bound elsewhere", []client.Object{volume("v", "1Gi", isBound, mine, byController), bound("c", "w")},
			map[string]string{"v": "Available", "c": "Bound w b"}},
		{"claim bound elsewhere, meant for it", []client.Object{volume("v", "1Gi", isBound, mine), bound("c", "w")},
			map[string]string{"v": "Available c/", "c": "Bound w b"}},
		{"claim bound elsewhere, made for it", []client.Object{volume("v", "1Gi", isBound, mine, provisioned), bound("c", "w")},
			map[string]string{"v": "Released c/uid-of-c", "c": "Bound w b"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			controllertest.Run(t, controllertest.Case{
				Objects: tc.objects,
				Request: reconcile.Request{NamespacedName: types.NamespacedName{Name: "v"}},
				New:     func(c client.Client) reconcile.Reconciler { return newVolumes(c) },
				Want:    wantState(tc.want),
			})
		})
	}
}

func newFake(objects ...client.Object) client.WithWatch {
	return controllertest.NewClientBuilder().WithObjects(objects...).Build()
}

func TestReconcile_Events(t *testing.T) {
	t.Parallel()
	const now, late = storagev1.VolumeBindingImmediate, storagev1.VolumeBindingWaitForFirstConsumer
	waits := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}}
	waits.Spec.Volumes = []corev1.Volume{{VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "c"}}}}
	selected := func(c *corev1.PersistentVolumeClaim) {
		c.Annotations = map[string]string{volumehelper.AnnSelectedNode: "n"}
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}
	noClass := func(c *corev1.PersistentVolumeClaim) { c.Spec.StorageClassName = new("") }
	const external = "Normal ExternalProvisioning Waiting for a volume to be created either by the external provisioner '%s' or manually by the system " +
		"administrator. If volume creation is delayed, please verify that the provisioner is running and correctly registered."
	for _, tc := range []struct {
		name    string
		objects []client.Object
		want    string
	}{
		{"first consumer", []client.Object{claim("c"), class("k", "example.com/p", late)},
			"Normal WaitForFirstConsumer waiting for first consumer to be created before binding"},
		{"scheduler", []client.Object{claim("c"), class("k", "example.com/p", late), waits}, "Normal WaitForPodScheduled waiting for pod p to be scheduled"},
		{"provisioner", []client.Object{claim("c"), class("k", "example.com/p", now)}, fmt.Sprintf(external, "example.com/p")},
		{"provisioner, node chosen", []client.Object{claim("c", selected), class("k", "example.com/p", late), node}, fmt.Sprintf(external, "example.com/p")},
		{"node gone", []client.Object{claim("c", selected), class("k", "example.com/p", late)}, `Warning ProvisioningFailed node "n" not found`},
		{"driver that took over", []client.Object{claim("c"), class("k", "kubernetes.io/aws-ebs", now)}, fmt.Sprintf(external, "ebs.csi.aws.com")},
		{"no class of that name", []client.Object{claim("c")}, `Warning ProvisioningFailed storageclass.storage.k8s.io "k" not found`},
		{"no provisioner", []client.Object{claim("c"), class("k", "kubernetes.io/no-provisioner", now)},
			"Warning ProvisioningFailed no volume plugin matched name: kubernetes.io/no-provisioner"},
		{"no provisioner of that name", []client.Object{claim("c"), class("k", "kubernetes.io/nfs", now)}, "Warning ProvisioningFailed no provisionable volume plugin matched"},
		{"no class", []client.Object{claim("c", noClass)}, "Normal FailedBinding no persistent volumes available for this claim and no storage class is set"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			events := record.NewFakeRecorder(10)
			c := newFake(tc.objects...)
			result, err := (&ClaimReconciler{Client: c, Live: c, Events: events}).Reconcile(t.Context(), claimRequest("c"))
			if err != nil {
				t.Fatal(err)
			}
			if result.RequeueAfter != remind {
				t.Errorf("looked at again after %v", result.RequeueAfter)
			}
			if got := <-events.Events; got != tc.want {
				t.Errorf("event is\n%s, want\n%s", got, tc.want)
			}
		})
	}
}

// A claim whose node goes before the volume is made is looked at, and is the scheduler's again.
func TestReconcile_NodeGone(t *testing.T) {
	t.Parallel()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}
	promised := claim("c", func(c *corev1.PersistentVolumeClaim) {
		c.Annotations = map[string]string{volumehelper.AnnSelectedNode: "n", volumehelper.AnnStorageProvisioner: "example.com/p"}
	})
	objects := []client.Object{promised, bound("b", "v"), class("k", "example.com/p", storagev1.VolumeBindingWaitForFirstConsumer)}
	build := func(objects ...client.Object) client.Client {
		return controllertest.NewClientBuilder().WithIndex(promised, byWaiting, waitingKeys).WithObjects(objects...).Build()
	}
	for _, tc := range []struct {
		name         string
		cached, live []client.Object
		want         string
	}{
		{name: "there", cached: []client.Object{node}, want: "n"},
		{name: "not in the cache yet", live: []client.Object{node}, want: "n"},
		{name: "gone"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			c := build(append(tc.cached, objects...)...)
			r := &ClaimReconciler{Client: c, Live: build(tc.live...), Events: &record.FakeRecorder{}}
			woken := waker{c}.claimsOfNode(t.Context(), node)
			if diff := cmp.Diff([]reconcile.Request{claimRequest("c")}, woken); diff != "" {
				t.Errorf("woken (-want +got):\n%s", diff)
			}
			if _, err := r.Reconcile(t.Context(), claimRequest("c")); err != nil {
				t.Fatal(err)
			}
			got := claim("c")
			if err := c.Get(t.Context(), client.ObjectKeyFromObject(got), got); err != nil {
				t.Fatal(err)
			}
			if node := got.Annotations[volumehelper.AnnSelectedNode]; node != tc.want {
				t.Errorf("the node is %q, want %q", node, tc.want)
			}
		})
	}
}

func TestReconcile_DefaultClassComesLater(t *testing.T) {
	t.Parallel()
	c := newFake(claim("c", func(c *corev1.PersistentVolumeClaim) { c.Spec.StorageClassName = nil }))
	r := newClaims(c)
	if _, err := r.Reconcile(t.Context(), claimRequest("c")); err != nil {
		t.Fatal(err)
	}
	marked := class("k", "example.com/p", storagev1.VolumeBindingImmediate)
	marked.Annotations = map[string]string{"storageclass.kubernetes.io/is-default-class": "true"}
	if err := c.Create(t.Context(), marked); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := r.Reconcile(t.Context(), claimRequest("c")); err != nil {
			t.Fatal(err)
		}
	}
	got := claim("c")
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(got), got); err != nil {
		t.Fatal(err)
	}
	if ptr.Deref(got.Spec.StorageClassName, "") != "k" || got.Annotations[volumehelper.AnnStorageProvisioner] != "example.com/p" {
		t.Errorf("class is %v, annotations are %v", got.Spec.StorageClassName, got.Annotations)
	}
}

// TestReconcile_Race: many claims at once, fewer volumes. Every volume gets one claim.
func TestReconcile_Race(t *testing.T) {
	t.Parallel()
	const claims, volumes = 8, 5
	var objects []client.Object
	for i := range claims {
		objects = append(objects, claim(fmt.Sprintf("c%d", i)))
	}
	for i := range volumes {
		objects = append(objects, volume(fmt.Sprintf("v%d", i), "1Gi"))
	}
	c := newFake(objects...)
	// Two managers that do not know of one another, as at a change of the leader.
	reconcilers := []*ClaimReconciler{newClaims(c), newClaims(c)}
	var wg sync.WaitGroup
	for i := range claims {
		for _, r := range reconcilers {
			wg.Go(func() {
				for range 10 { // conflicts are retried
					if _, err := r.Reconcile(context.Background(), claimRequest(fmt.Sprintf("c%d", i))); err == nil {
						return
					}
				}
			})
		}
	}
	wg.Wait()
	// Whoever lost a race rolls back.
	for i := range volumes {
		if _, err := newVolumes(c).Reconcile(t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Name: fmt.Sprintf("v%d", i)}}); err != nil {
			t.Fatal(err)
		}
	}
	for i := range claims {
		if _, err := reconcilers[0].Reconcile(t.Context(), claimRequest(fmt.Sprintf("c%d", i))); err != nil {
			t.Fatal(err)
		}
	}
	got, err := state(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	taken := 0
	for i := range claims {
		name := fmt.Sprintf("c%d", i)
		words := strings.Fields(got[name])
		if words[0] != string(corev1.ClaimBound) {
			continue
		}
		taken++
		if want := fmt.Sprintf("Bound %s/uid-of-%s c", name, name); got[words[1]] != want {
			t.Errorf("claim %s has volume %s, which is %q", name, words[1], got[words[1]])
		}
	}
	if taken != volumes {
		t.Errorf("%d claims are bound, want %d: %v", taken, volumes, got)
	}
}

// A claim whose pod is not scheduled soon says so, though nothing happens to the claim.
func TestNewUsers(t *testing.T) {
	t.Parallel()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}, Spec: corev1.PodSpec{Volumes: []corev1.Volume{
		{Name: "v", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "c"}}},
		{Name: "own", VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}},
		{Name: "e", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
	}}}
	onNode, plain := pod.DeepCopy(), pod.DeepCopy()
	onNode.Spec.NodeName, plain.Spec.Volumes = "n", pod.Spec.Volumes[2:]
	if !unscheduledUser(pod) || unscheduledUser(onNode) || unscheduledUser(plain) {
		t.Error("other pods than those that wait for a node with claims are looked at")
	}
	q := queue{later: map[string]time.Duration{}}
	newUsers().Create(t.Context(), event.CreateEvent{Object: pod}, q)
	if diff := cmp.Diff(map[string]time.Duration{"ns/c": 15 * time.Second, "ns/p-own": 15 * time.Second}, q.later); diff != "" {
		t.Errorf("looked at later (-want +got):\n%s", diff)
	}
}

// queue notes what is added to it for later.
type queue struct {
	workqueue.TypedRateLimitingInterface[reconcile.Request]
	later map[string]time.Duration
}

func (q queue) AddAfter(r reconcile.Request, after time.Duration) { q.later[r.String()] = after }
