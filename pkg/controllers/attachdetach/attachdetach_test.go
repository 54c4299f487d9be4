// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package attachdetach

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"minik8s.io/minik8s/pkg/controllers/controllertest"
)

const driver = "csi.example.com"

var now = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

func node(name string, change ...func(*corev1.Node)) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{managedAnnotation: "true"}}}
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	for _, f := range change {
		f(n)
	}
	return n
}

func inUse(handle string) func(*corev1.Node) {
	return func(n *corev1.Node) {
		n.Status.VolumesInUse = append(n.Status.VolumesInUse, corev1.UniqueVolumeName("kubernetes.io/csi/"+driver+"^"+handle))
	}
}

func notReady(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionUnknown }

func outOfService(n *corev1.Node) {
	n.Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeOutOfService, Effect: corev1.TaintEffectNoExecute}}
}

// pod uses the claim of the same namespace.
func pod(name, node, claim string, change ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name)}}
	p.Spec.NodeName = node
	p.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim}}}}
	p.Status.Phase = corev1.PodRunning
	for _, f := range change {
		f(p)
	}
	return p
}

func succeeded(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }

// volume is a volume "v" that is bound to a claim "c".
func volume(modes ...corev1.PersistentVolumeAccessMode) []client.Object {
	v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "v"}}
	v.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: "h"}
	v.Spec.AccessModes = modes
	v.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "ns", Name: "c", UID: "uid"}
	c := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c", UID: "uid"}}
	c.Spec.VolumeName, c.Status.Phase = "v", corev1.ClaimBound
	return []client.Object{v, c}
}

func attachment(on string, attached bool, change ...func(*storagev1.VolumeAttachment)) *storagev1.VolumeAttachment {
	csi := &corev1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: "h"}
	a := &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: attachmentName(csi, on), UID: "a"}}
	a.Spec = storagev1.VolumeAttachmentSpec{Attacher: driver, NodeName: on, Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: new("v")}}
	a.Status.Attached = attached
	for _, f := range change {
		f(a)
	}
	return a
}

// unattached is the driver, which needs no attachments.
func unattached() *storagev1.CSIDriver {
	return &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: driver}, Spec: storagev1.CSIDriverSpec{AttachRequired: new(false)}}
}

func newReconciler(c client.Client) *Reconciler {
	return &Reconciler{Client: c, Events: &record.FakeRecorder{}, Clock: clocktesting.NewFakePassiveClock(now)}
}

// state are the attachments by node, and what the status of node a says.
type state struct {
	Attachments map[string]string
	Reported    []corev1.UniqueVolumeName
}

func look(ctx context.Context, c client.Client) (state, error) {
	s := state{Attachments: map[string]string{}}
	var attachments storagev1.VolumeAttachmentList
	if err := c.List(ctx, &attachments); err != nil {
		return s, err
	}
	for _, a := range attachments.Items {
		s.Attachments[a.Spec.NodeName] = *a.Spec.Source.PersistentVolumeName
	}
	n := &corev1.Node{}
	if err := c.Get(ctx, types.NamespacedName{Name: "a"}, n); client.IgnoreNotFound(err) != nil {
		return s, err
	}
	for _, v := range n.Status.VolumesAttached {
		s.Reported = append(s.Reported, v.Name)
	}
	return s, nil
}

// attacher plays the external attacher.
func attacher(ctx context.Context, c client.Client) error {
	var list storagev1.VolumeAttachmentList
	if err := c.List(ctx, &list); err != nil {
		return err
	}
	for i := range list.Items {
		if list.Items[i].Status.Attached {
			continue
		}
		list.Items[i].Status.Attached = true
		if err := c.Status().Update(ctx, &list.Items[i]); err != nil {
			return err
		}
	}
	return nil
}

func TestReconcile(t *testing.T) {
	t.Parallel()
	const unique = corev1.UniqueVolumeName("kubernetes.io/csi/" + driver + "^h")
	reported := func(n *corev1.Node) {
		n.Status.VolumesAttached = []corev1.AttachedVolume{{Name: unique}, {Name: "example.com/flex/x"}}
	}
	for _, tc := range []struct {
		name    string
		objects []client.Object
		want    state
	}{
		{"attach", append(volume(corev1.ReadWriteOnce), node("a"), pod("p", "a", "c")),
			state{map[string]string{"a": "v"}, []corev1.UniqueVolumeName{unique}}},
		{"attach to another node too", append(volume(corev1.ReadWriteMany), node("a"), pod("p", "a", "c"), attachment("b", true)),
			state{map[string]string{"a": "v", "b": "v"}, []corev1.UniqueVolumeName{unique}}},
		{"detach", append(volume(), node("a", reported), pod("p", "a", "c", succeeded), attachment("a", true)),
			state{map[string]string{}, []corev1.UniqueVolumeName{"example.com/flex/x"}}},
		{"detach what is in use on a node that was shut down", append(volume(), node("a", inUse("h"), outOfService), attachment("a", true)),
			state{map[string]string{}, nil}},
		{"detach a volume that is gone", []client.Object{node("a", reported), attachment("a", true)},
			state{map[string]string{}, []corev1.UniqueVolumeName{"example.com/flex/x"}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			controllertest.Run(t, controllertest.Case{
				Objects: tc.objects,
				Request: request("a"),
				New:     func(c client.Client) reconcile.Reconciler { return newReconciler(c) },
				World:   attacher,
				Want: func(ctx context.Context, c client.Client) error {
					got, err := look(ctx, c)
					if err != nil {
						return err
					}
					if diff := cmp.Diff(tc.want, got); diff != "" {
						return fmt.Errorf("state (-want +got):\n%s", diff)
					}
					return nil
				},
			})
		})
	}
}

// TestReconcile_Nothing: these situations ask for no write.
func TestReconcile_Nothing(t *testing.T) {
	t.Parallel()
	unmanaged := func(n *corev1.Node) { n.Annotations = nil }
	for _, tc := range []struct {
		name    string
		objects []client.Object
		want    map[string]string
		again   time.Duration
		event   string
	}{
		{"node attaches itself", append(volume(), node("a", unmanaged), pod("p", "a", "c")), map[string]string{}, 0, ""},
		{"driver needs no attaching", append(volume(), node("a"), pod("p", "a", "c"),
			unattached()), map[string]string{}, 0, ""},
		{"claim not there", []client.Object{node("a"), pod("p", "a", "c")}, map[string]string{}, 0, ""},
		{"still mounted", append(volume(), node("a", inUse("h")), attachment("a", false)), map[string]string{"a": "v"}, unmountTimeout, ""},
		{"node gone", append(volume(), attachment("a", false)), map[string]string{"a": "v"}, unmountTimeout, ""},
		{"somebody else's attachment", append(volume(), node("a"), attachment("a", false, func(a *storagev1.VolumeAttachment) { a.Name = "by-hand" })),
			map[string]string{"a": "v"}, 0, ""},
		{"on another node", append(volume(corev1.ReadWriteOnce), node("a"), pod("p", "a", "c"), attachment("b", true)), map[string]string{"b": "v"}, 0,
			`Warning FailedAttachVolume Waiting for detach for volume "v" Volume is already exclusively attached to one node, waiting on detach before it can be attached to another node`},
		{"on the node of another pod", append(volume(corev1.ReadWriteOncePod), node("a"), pod("p", "a", "c"), pod("q", "b", "c"), attachment("b", true)),
			map[string]string{"b": "v"}, 0, `Warning FailedAttachVolume Waiting for detach for volume "v" Volume is already used by pod(s) q`},
		{"driver fails", append(volume(), node("a"), pod("p", "a", "c"), attachment("a", false, func(a *storagev1.VolumeAttachment) {
			a.Status.AttachError = &storagev1.VolumeError{Message: "no room"}
		})), map[string]string{"a": "v"}, 0, `Warning FailedAttachVolume AttachVolume.Attach failed for volume "v" : no room`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			c := controllertest.NewClientBuilder().WithObjects(tc.objects...).Build()
			events := record.NewFakeRecorder(5)
			r := newReconciler(c)
			r.Events = events
			result, err := r.Reconcile(t.Context(), request("a"))
			if err != nil {
				t.Fatal(err)
			}
			if result.RequeueAfter != tc.again {
				t.Errorf("looks again after %v, want %v", result.RequeueAfter, tc.again)
			}
			got, err := look(t.Context(), c)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(state{Attachments: tc.want}, got); diff != "" {
				t.Errorf("state (-want +got):\n%s", diff)
			}
			close(events.Events)
			if e := <-events.Events; e != tc.event {
				t.Errorf("event is %q, want %q", e, tc.event)
			}
		})
	}
}

// TestReconcile_Refuses: a pod learns once that its volume is on another node, however often its own is looked at, and once more when
// that happens anew.
func TestReconcile_Refuses(t *testing.T) {
	t.Parallel()
	c := controllertest.NewClientBuilder().WithObjects(append(volume(corev1.ReadWriteOnce), node("a"), pod("p", "a", "c"))...).Build()
	events := record.NewFakeRecorder(5)
	r := newReconciler(c)
	r.Events = events
	for _, step := range []struct {
		name      string
		elsewhere bool
		want      int
	}{{"there", true, 1}, {"still there", true, 1}, {"gone", false, 1}, {"there again", true, 2}} {
		here, there := attachment("a", true), attachment("b", true)
		write := c.Create
		if !step.elsewhere {
			write = func(ctx context.Context, obj client.Object, _ ...client.CreateOption) error {
				return c.Delete(ctx, obj)
			}
		} else if err := c.Delete(t.Context(), here); client.IgnoreNotFound(err) != nil {
			t.Fatal(err)
		}
		if err := write(t.Context(), there); client.IgnoreAlreadyExists(err) != nil {
			t.Fatal(err)
		}
		if _, err := r.Reconcile(t.Context(), request("a")); err != nil {
			t.Fatal(err)
		}
		if got := len(events.Events); got != step.want {
			t.Errorf("%s: %d events, want %d", step.name, got, step.want)
		}
	}
}

// TestReconcile_Patience: a node that is not heard of keeps what it has mounted for six minutes, and a pod whose driver has ceased
// to need attachments has a minute to mount by the one that it has asked for.
func TestReconcile_Patience(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name    string
		objects []client.Object
		limit   time.Duration
	}{
		{"silent node", []client.Object{node("a", inUse("h"), notReady)}, unmountTimeout},
		{"driver without attachments", []client.Object{node("a"), pod("p", "a", "c"), unattached()}, ceaseTimeout},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			clock := clocktesting.NewFakePassiveClock(now)
			c := controllertest.NewClientBuilder().WithObjects(append(volume(), attachment("a", true))...).WithObjects(tc.objects...).Build()
			r := newReconciler(c)
			r.Clock = clock
			for _, step := range []struct {
				after time.Duration
				left  int
			}{{0, 1}, {tc.limit - time.Second, 1}, {tc.limit, 0}} {
				clock.SetTime(now.Add(step.after))
				result, err := r.Reconcile(t.Context(), request("a"))
				if err != nil {
					t.Fatal(err)
				}
				if again := result.RequeueAfter; step.left > 0 && (again <= 0 || again > tc.limit-step.after) {
					t.Errorf("after %v: looks again after %v", step.after, again)
				}
				got, err := look(t.Context(), c)
				if err != nil {
					t.Fatal(err)
				}
				if len(got.Attachments) != step.left {
					t.Errorf("after %v: attachments are %v", step.after, got.Attachments)
				}
			}
		})
	}
}

// TestReconcile_NobodyAttaches: a pod whose volume nobody attaches learns that every two minutes, however often its node is looked at.
func TestReconcile_NobodyAttaches(t *testing.T) {
	t.Parallel()
	clock := clocktesting.NewFakePassiveClock(now)
	made := func(a *storagev1.VolumeAttachment) { a.CreationTimestamp = metav1.NewTime(now) }
	c := controllertest.NewClientBuilder().WithObjects(append(volume(), node("a"), pod("p", "a", "c"), attachment("a", false, made))...).Build()
	events := record.NewFakeRecorder(9)
	r := newReconciler(c)
	r.Events, r.Clock = events, clock
	for _, step := range []struct{ after, again time.Duration }{
		{0, attachTimeout}, {attachTimeout - time.Second, time.Second}, {attachTimeout, attachTimeout}, {attachTimeout + time.Minute, time.Minute},
		{2*attachTimeout + time.Second, attachTimeout}, {2*attachTimeout + 2*time.Second, attachTimeout - time.Second},
	} {
		clock.SetTime(now.Add(step.after))
		result, err := r.Reconcile(t.Context(), request("a"))
		if err != nil {
			t.Fatal(err)
		}
		if result.RequeueAfter != step.again {
			t.Errorf("after %v: looks again after %v, want %v", step.after, result.RequeueAfter, step.again)
		}
	}
	if err := attacher(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if result, err := r.Reconcile(t.Context(), request("a")); err != nil || result.RequeueAfter != 0 {
		t.Errorf("attached: looks again after %v, %v", result.RequeueAfter, err)
	}
	late := `Warning FailedAttachVolume AttachVolume.Attach failed for volume "v" : timed out waiting for external-attacher of csi.example.com CSI driver to attach volume h`
	want := []string{late, late, `Normal SuccessfulAttachVolume AttachVolume.Attach succeeded for volume "v" `}
	close(events.Events)
	var got []string
	for e := range events.Events {
		got = append(got, e)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	if len(r.late.of) != 0 {
		t.Errorf("remembers %v of what is attached", r.late.of)
	}
}

// TestReconcile_Leaves: that an attachment is on its way out, while the next pod waits for it, is no failure to attach, however old it is.
func TestReconcile_Leaves(t *testing.T) {
	t.Parallel()
	leaves := func(a *storagev1.VolumeAttachment) {
		a.CreationTimestamp, a.DeletionTimestamp = metav1.NewTime(now.Add(-time.Hour)), &metav1.Time{Time: now}
		a.Finalizers = []string{"external-attacher/csi-example-com"}
	}
	c := controllertest.NewClientBuilder().WithObjects(append(volume(), node("a"), pod("p", "a", "c"), attachment("a", true, leaves))...).Build()
	events := record.NewFakeRecorder(1)
	r := newReconciler(c)
	r.Events = events
	if _, err := r.Reconcile(t.Context(), request("a")); err != nil {
		t.Fatal(err)
	}
	if len(events.Events) > 0 {
		t.Errorf("told: %s", <-events.Events)
	}
}

// A node is about its own pods, the attachments to it, and those of the volumes that it wants.
func TestReconcile_LooksAtItsOwn(t *testing.T) {
	t.Parallel()
	var elsewhere []client.Object
	for i := range 10 {
		other := attachment("b", true)
		other.Name, other.Spec.Source.PersistentVolumeName = fmt.Sprintf("other-%d", i), new("other")
		elsewhere = append(elsewhere, other, pod(fmt.Sprintf("other-%d", i), "b", "other"))
	}
	controllertest.Bystanders(t, controllertest.Case{
		Objects: append(volume(corev1.ReadWriteOnce), node("a"), pod("p", "a", "c")),
		Request: request("a"),
		New:     func(c client.Client) reconcile.Reconciler { return newReconciler(c) },
		Want:    func(context.Context, client.Client) error { return nil },
	}, elsewhere...)
}

// A driver that begins or ceases to need attachments concerns every node that may have pods with its volumes.
func TestWakesByDriver(t *testing.T) {
	required := func(yes *bool) *storagev1.CSIDriver {
		return &storagev1.CSIDriver{Spec: storagev1.CSIDriverSpec{AttachRequired: yes}}
	}
	for _, tc := range []struct {
		before, after *bool
		want          bool
	}{{nil, new(true), false}, {new(false), new(false), false}, {nil, new(false), true}, {new(false), new(true), true}} {
		if got := attachesOtherwise(event.UpdateEvent{ObjectOld: required(tc.before), ObjectNew: required(tc.after)}); got != tc.want {
			t.Errorf("%v to %v: got %v", tc.before, tc.after, got)
		}
	}
	c := controllertest.NewClientBuilder().WithObjects(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "b"}}).Build()
	if got := (waker{c}).nodes(t.Context(), required(nil)); len(got) != 2 || got[0].Name != "a" || got[1].Name != "b" {
		t.Errorf("nodes %v", got)
	}
}
