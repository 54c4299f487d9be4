// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package resourceclaim

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"minik8s.io/minik8s/pkg/controllers/controllertest"
)

var (
	podRequest   = reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "ns", Name: "p"}}
	claimRequest = reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "ns", Name: "c"}}
)

func pod(change ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "pod"},
		Spec: corev1.PodSpec{ResourceClaims: []corev1.PodResourceClaim{
			{Name: "shared", ResourceClaimName: new("c")},
			{Name: "own", ResourceClaimTemplateName: new("t")},
		}},
	}
	for _, c := range change {
		c(p)
	}
	return p
}

func onNode(p *corev1.Pod) { p.Spec.NodeName = "n" }

func phase(phase corev1.PodPhase) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Status.Phase = phase }
}

func deleted(p *corev1.Pod) {
	p.DeletionTimestamp, p.Finalizers = &metav1.Time{Time: time.Unix(1_700_000_000, 0)}, []string{"test/stay"}
}

func template() *resourcev1.ResourceClaimTemplate {
	return &resourcev1.ResourceClaimTemplate{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "t"},
		Spec: resourcev1.ResourceClaimTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"l": "1"}, Annotations: map[string]string{"a": "1"}},
			Spec:       resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{{Name: "gpu"}}}},
		},
	}
}

func claim(change ...func(*resourcev1.ResourceClaim)) *resourcev1.ResourceClaim {
	c := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c", UID: "claim"}}
	for _, f := range change {
		f(c)
	}
	return c
}

func allocated(c *resourcev1.ResourceClaim) {
	c.Finalizers = append(c.Finalizers, resourcev1.Finalizer)
	c.Status.Allocation = &resourcev1.AllocationResult{}
}

func reserved(uids ...string) func(*resourcev1.ResourceClaim) {
	return func(c *resourcev1.ResourceClaim) {
		for _, uid := range uids {
			c.Status.ReservedFor = append(c.Status.ReservedFor, resourcev1.ResourceClaimConsumerReference{Resource: "pods", Name: "p", UID: types.UID(uid)})
		}
	}
}

func owned(c *resourcev1.ResourceClaim) {
	c.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "p", UID: "pod", Controller: new(true)}}
}

func ending(c *resourcev1.ResourceClaim) {
	c.DeletionTimestamp = &metav1.Time{Time: time.Unix(1_700_000_000, 0)}
}

func TestPodReconciler(t *testing.T) {
	for name, objects := range map[string][]client.Object{
		"new":               {pod(), template()},
		"on a node already": {pod(onNode), template(), claim(allocated)},
		"claim was deleted": {template(), pod(func(p *corev1.Pod) {
			p.Status.ResourceClaimStatuses = []corev1.PodResourceClaimStatus{{Name: "own", ResourceClaimName: new("p-own-gone")}}
		})},
	} {
		t.Run(name, func(t *testing.T) {
			controllertest.Run(t, controllertest.Case{
				Applies: true,
				Objects: objects,
				Request: podRequest,
				New: func(c client.Client) reconcile.Reconciler {
					return &PodReconciler{Client: c, Live: controllertest.Live(c), Events: record.NewFakeRecorder(100)}
				},
				Want: func(ctx context.Context, c client.Client) error {
					var list resourcev1.ResourceClaimList
					if err := c.List(ctx, &list, client.MatchingLabels{"l": "1"}); err != nil {
						return err
					}
					if len(list.Items) != 1 {
						return fmt.Errorf("made %d claims", len(list.Items))
					}
					made, p := list.Items[0], &corev1.Pod{}
					if err := c.Get(ctx, podRequest.NamespacedName, p); err != nil {
						return err
					}
					want := []corev1.PodResourceClaimStatus{{Name: "own", ResourceClaimName: &made.Name}}
					if diff := cmp.Diff(want, p.Status.ResourceClaimStatuses); diff != "" {
						return fmt.Errorf("statuses (-want +got):\n%s", diff)
					}
					if !metav1.IsControlledBy(&made, p) || !strings.HasPrefix(made.Name, "p-own-") || made.Spec.Devices.Requests[0].Name != "gpu" ||
						made.Annotations[resourcev1.PodResourceClaimAnnotation] != "own" || made.Annotations["a"] != "1" {
						return fmt.Errorf("claim %+v", made)
					}
					var shared resourcev1.ResourceClaim
					if err := c.Get(ctx, claimRequest.NamespacedName, &shared); err == nil && len(shared.Status.ReservedFor) != 1 {
						return fmt.Errorf("the claim is reserved for %v", shared.Status.ReservedFor)
					}
					return nil
				},
			})
		})
	}
}

// Of a pod that has ended the claims are given up, which is an event of theirs.
func TestPodReconciler_Ended(t *testing.T) {
	for _, ended := range []corev1.PodPhase{corev1.PodSucceeded, corev1.PodFailed} {
		p := pod(onNode, phase(ended), func(p *corev1.Pod) {
			p.Status.ResourceClaimStatuses = []corev1.PodResourceClaimStatus{{Name: "own", ResourceClaimName: new("p-own-gone")}}
		})
		c := controllertest.NewClientBuilder().WithObjects(p, template(), claim(allocated)).WithStatusSubresource(&resourcev1.ResourceClaim{}).Build()
		if _, err := (&PodReconciler{Client: c, Live: c, Events: record.NewFakeRecorder(1)}).Reconcile(t.Context(), podRequest); err != nil {
			t.Fatal(err)
		}
		var claims resourcev1.ResourceClaimList
		if err := c.List(t.Context(), &claims); err != nil {
			t.Fatal(err)
		}
		if len(claims.Items) != 1 || len(claims.Items[0].Status.ReservedFor) != 0 {
			t.Errorf("%s: claims %+v, want the shared one alone, which is not reserved", ended, claims.Items)
		}
	}
}

func TestPodReconciler_NoTemplate(t *testing.T) {
	c := controllertest.NewClientBuilder().WithObjects(pod()).Build()
	events := record.NewFakeRecorder(1)
	if _, err := (&PodReconciler{Client: c, Live: c, Events: events}).Reconcile(t.Context(), podRequest); err == nil {
		t.Error("no error without the template")
	}
	want := `Warning FailedResourceClaimCreation PodResourceClaim own: resource claim template "t": resourceclaimtemplate.resource.k8s.io "t" not found`
	if got := <-events.Events; got != want {
		t.Errorf("event %q, want %q", got, want)
	}
}

func TestClaimReconciler(t *testing.T) {
	type state struct {
		Gone                  bool
		Reserved              int
		Allocated, Finalizing bool
	}
	for name, tc := range map[string]struct {
		objects []client.Object
		want    state
		quiet   bool
	}{
		"in use":              {objects: []client.Object{claim(allocated, reserved("pod")), pod()}, want: state{Reserved: 1, Allocated: true, Finalizing: true}, quiet: true},
		"idle from the start": {objects: []client.Object{claim(allocated)}, want: state{Allocated: true, Finalizing: true}, quiet: true},
		"pod is gone":         {objects: []client.Object{claim(allocated, reserved("pod"))}},
		"pod was replaced":    {objects: []client.Object{claim(allocated, reserved("pod", "before")), pod()}, want: state{Reserved: 1, Allocated: true, Finalizing: true}},
		"pod has ended":       {objects: []client.Object{claim(allocated, reserved("pod")), pod(onNode, phase(corev1.PodSucceeded))}},
		"own pod has ended":   {objects: []client.Object{claim(owned, allocated, reserved("pod")), pod(onNode, phase(corev1.PodFailed))}, want: state{Gone: true}},
		"own pod never ran":   {objects: []client.Object{claim(owned), pod(deleted)}, want: state{Gone: true}},
		"own pod ends":        {objects: []client.Object{claim(owned, reserved("pod")), pod(onNode, deleted)}, want: state{Reserved: 1}, quiet: true},
		"deleted":             {objects: []client.Object{claim(allocated, ending)}, want: state{Gone: true}},
		"deleted in use":      {objects: []client.Object{claim(allocated, ending, reserved("pod")), pod()}, want: state{Reserved: 1, Allocated: true, Finalizing: true}, quiet: true},
		"another consumer": {
			objects: []client.Object{claim(allocated, func(c *resourcev1.ResourceClaim) {
				c.Status.ReservedFor = []resourcev1.ResourceClaimConsumerReference{{APIGroup: "example.com", Resource: "things", Name: "x"}}
			})},
			want: state{Reserved: 1, Allocated: true, Finalizing: true}, quiet: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			check := func(ctx context.Context, c client.Client) error {
				var after resourcev1.ResourceClaim
				err := c.Get(ctx, claimRequest.NamespacedName, &after)
				got := state{Gone: err != nil, Reserved: len(after.Status.ReservedFor), Allocated: after.Status.Allocation != nil, Finalizing: len(after.Finalizers) > 0}
				if got.Finalizing && !got.Allocated {
					// A crash between the two writes leaves the finalizer until the claim is allocated again, or deleted.
					got.Finalizing = false
				}
				if diff := cmp.Diff(tc.want, got); diff != "" {
					return fmt.Errorf("claim (-want +got):\n%s", diff)
				}
				return nil
			}
			if tc.quiet {
				c := controllertest.NewClientBuilder().WithObjects(tc.objects...).WithStatusSubresource(&resourcev1.ResourceClaim{}).Build()
				if _, err := (&ClaimReconciler{Client: c, Live: c}).Reconcile(t.Context(), claimRequest); err != nil {
					t.Fatal(err)
				}
				if err := check(t.Context(), c); err != nil {
					t.Error(err)
				}
				return
			}
			controllertest.Run(t, controllertest.Case{
				Applies: true,
				Objects: tc.objects,
				Request: claimRequest,
				New: func(c client.Client) reconcile.Reconciler {
					return &ClaimReconciler{Client: c, Live: controllertest.Live(c)}
				},
				Want: check,
			})
		})
	}
}

func TestClaimsOf(t *testing.T) {
	p := pod(func(p *corev1.Pod) {
		p.Status.ResourceClaimStatuses = []corev1.PodResourceClaimStatus{{Name: "own", ResourceClaimName: new("p-own-x")}}
		p.Status.ExtendedResourceClaimStatus = &corev1.PodExtendedResourceClaimStatus{ResourceClaimName: "p-extended"}
	})
	var got []string
	for _, r := range claimsOf(t.Context(), p) {
		got = append(got, r.String())
	}
	if diff := cmp.Diff([]string{"ns/c", "ns/p-own-x", "ns/p-extended"}, got); diff != "" {
		t.Errorf("claims (-want +got):\n%s", diff)
	}
}

func TestBase(t *testing.T) {
	long := strings.Repeat("p", 60)
	for _, tc := range []struct{ pod, wanted, want string }{
		{"p", "gpu", "p-gpu-"},
		{long, "gpu", long[:52] + "-gp"},
		{long, strings.Repeat("c", 60), long[:28] + "-" + strings.Repeat("c", 28)},
	} {
		if got := base(tc.pod, tc.wanted); got != tc.want || len(got) > maxBase {
			t.Errorf("base of %q and %q is %q, want %q", tc.pod, tc.wanted, got, tc.want)
		}
	}
}
