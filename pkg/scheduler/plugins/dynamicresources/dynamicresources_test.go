// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package dynamicresources

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	clienttesting "k8s.io/client-go/testing"
	fwk "k8s.io/kube-scheduler/framework"

	"minik8s.io/minik8s/pkg/scheduler/framework"
	pt "minik8s.io/minik8s/pkg/scheduler/plugintest"
)

const driver = "d.example.com"

func class(name string) *resourcev1.DeviceClass {
	return &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

// slice has devices of a node.
func slice(node string, devices ...string) *resourcev1.ResourceSlice {
	s := &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: node}, Spec: resourcev1.ResourceSliceSpec{
		Driver: driver, NodeName: &node, Pool: resourcev1.ResourcePool{Name: node, Generation: 1, ResourceSliceCount: 1},
	}}
	for _, d := range devices {
		s.Spec.Devices = append(s.Spec.Devices, resourcev1.Device{Name: d})
	}
	return s
}

func exactly(class string) resourcev1.DeviceRequest {
	return resourcev1.DeviceRequest{Name: "r", Exactly: &resourcev1.ExactDeviceRequest{
		DeviceClassName: class, AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: 1,
	}}
}

type claimOption func(*resourcev1.ResourceClaim)

// claim asks for one device of class c.
func claim(name string, options ...claimOption) *resourcev1.ResourceClaim {
	c := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("claim-" + name)}}
	c.Spec.Devices.Requests = []resourcev1.DeviceRequest{exactly("c")}
	for _, o := range options {
		o(c)
	}
	return c
}

// has gives a device of a node to the claim.
func has(node, device string) claimOption {
	return func(c *resourcev1.ResourceClaim) {
		c.Status.Allocation = &resourcev1.AllocationResult{
			Devices: resourcev1.DeviceAllocationResult{Results: []resourcev1.DeviceRequestAllocationResult{{Request: "r", Driver: driver, Pool: node, Device: device}}},
			NodeSelector: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{
				{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{node}},
			}}}},
		}
	}
}

func usedBy(pods ...string) claimOption {
	return func(c *resourcev1.ResourceClaim) {
		for _, p := range pods {
			c.Status.ReservedFor = append(c.Status.ReservedFor, resourcev1.ResourceClaimConsumerReference{Resource: "pods", Name: p, UID: types.UID(p)})
		}
	}
}

func asks(requests ...resourcev1.DeviceRequest) claimOption {
	return func(c *resourcev1.ResourceClaim) { c.Spec.Devices.Requests = requests }
}

// conditions makes the claim's device one that is to be prepared, allocated some time ago.
func conditions(ago time.Duration, met ...string) claimOption {
	return func(c *resourcev1.ResourceClaim) {
		r := &c.Status.Allocation.Devices.Results[0]
		r.BindingConditions, r.BindingFailureConditions = []string{"ready"}, []string{"broken"}
		c.Status.Allocation.AllocationTimestamp = &metav1.Time{Time: time.Now().Add(-ago)}
		status := resourcev1.AllocatedDeviceStatus{Driver: r.Driver, Pool: r.Pool, Device: r.Device}
		for _, m := range met {
			status.Conditions = append(status.Conditions, metav1.Condition{Type: m, Status: metav1.ConditionTrue, Reason: "Because", Message: "so"})
		}
		c.Status.Devices = []resourcev1.AllocatedDeviceStatus{status}
	}
}

func uses(claims ...string) pt.PodOption {
	return func(p *corev1.Pod) {
		for _, c := range claims {
			p.Spec.ResourceClaims = append(p.Spec.ResourceClaims, corev1.PodResourceClaim{Name: c, ResourceClaimName: &c})
		}
	}
}

// templated has a claim made from a template; an empty name is one that is not made yet.
func templated(name string) pt.PodOption {
	return func(p *corev1.Pod) {
		p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "t", ResourceClaimTemplateName: new("template")}}
		if name != "" {
			p.Status.ResourceClaimStatuses = []corev1.PodResourceClaimStatus{{Name: "t", ResourceClaimName: &name}}
		}
	}
}

func ownedBy(pod string) claimOption {
	return func(c *resourcev1.ResourceClaim) {
		c.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: pod, UID: types.UID(pod), Controller: new(true)}}
	}
}

func many(n int) (out []string) {
	for i := range n {
		out = append(out, fmt.Sprint("other-", i))
	}
	return out
}

func TestSuite(t *testing.T) { pt.Run(t, Name, New, pt.Pod("with-claim", uses("missing"))) }

func TestFilter(t *testing.T) {
	const none = "cannot allocate all claims"
	deleted := claim("deleted")
	deleted.DeletionTimestamp = &metav1.Time{}
	for _, tc := range []struct {
		name    string
		objects []runtime.Object
		pod     *corev1.Pod
		want    map[string]string // on nodes a and b
	}{
		{"no claims", nil, pt.Pod("p"), map[string]string{"a": "", "b": ""}},
		{"no such claim", nil, pt.Pod("p", uses("x")), both(`could not find ResourceClaim "default/x"`)},
		{"the template's claim is not made", nil, pt.Pod("p", templated("")), both(`pod "default/p": ResourceClaim not created yet`)},
		{"the template's claim is of another pod", []runtime.Object{claim("x", ownedBy("q"))}, pt.Pod("p", templated("x")),
			both("ResourceClaim default/x was not created for Pod default/p (Pod is not owner)")},
		{"the claim is being deleted", []runtime.Object{deleted}, pt.Pod("p", uses("deleted")), both(`resourceclaim "deleted" is being deleted`)},
		{"no such class", []runtime.Object{claim("x")}, pt.Pod("p", uses("x")), both("request r: device class c does not exist")},
		{"no such class among alternatives", []runtime.Object{class("c"), claim("x", asks(firstOf("c", "d")))}, pt.Pod("p", uses("x")),
			both("request r/1: device class d does not exist")},
		{"no devices", []runtime.Object{class("c"), claim("x")}, pt.Pod("p", uses("x")), both(none)},
		{"devices of one node", []runtime.Object{class("c"), slice("a", "1"), claim("x")}, pt.Pod("p", uses("x")), map[string]string{"a": "", "b": none}},
		{"a claim of a template", []runtime.Object{class("c"), slice("a", "1"), claim("x", ownedBy("p"))}, pt.Pod("p", templated("x")), map[string]string{"a": "", "b": none}},
		{"two claims, one device each", []runtime.Object{class("c"), slice("a", "1"), slice("b", "1", "2"), claim("x"), claim("y")}, pt.Pod("p", uses("x", "y")),
			map[string]string{"a": none, "b": ""}},
		{"the device is in use", []runtime.Object{class("c"), slice("a", "1"), slice("b", "1"), claim("x"), claim("y", has("a", "1"))}, pt.Pod("p", uses("x")),
			map[string]string{"a": none, "b": ""}},
		{"the claim has its device", []runtime.Object{claim("x", has("a", "1"), usedBy("q"))}, pt.Pod("p", uses("x")),
			map[string]string{"a": "", "b": "resourceclaim not available on the node"}},
		{"the claim has as many users as it may", []runtime.Object{claim("x", has("a", "1"), usedBy(many(256)...))}, pt.Pod("p", uses("x")), both("resourceclaim in use")},
		{"the pod is one of as many users as there may be", []runtime.Object{claim("x", has("a", "1"), usedBy(many(255)...), usedBy("p"))}, pt.Pod("p", uses("x")),
			map[string]string{"a": "", "b": "resourceclaim not available on the node"}},
		{"a taint", []runtime.Object{class("c"), tainted(slice("a", "1")), slice("b", "1"), claim("x")}, pt.Pod("p", uses("x")), map[string]string{"a": none, "b": ""}},
		{"a taint of a rule", []runtime.Object{class("c"), slice("a", "1"), slice("b", "1"), rule("a"), claim("x")}, pt.Pod("p", uses("x")), map[string]string{"a": none, "b": ""}},
		{"not prepared yet", []runtime.Object{claim("x", has("a", "1"), conditions(0))}, pt.Pod("p", uses("x")),
			map[string]string{"a": "", "b": "resourceclaim not available on the node"}},
		{"not prepared in time", []runtime.Object{claim("x", has("a", "1"), conditions(time.Hour))}, pt.Pod("p", uses("x")), both("resourceclaim not available on the node")},
		{"cannot be prepared", []runtime.Object{claim("x", has("a", "1"), conditions(0, "broken"))}, pt.Pod("p", uses("x")), both("resourceclaim not available on the node")},
		{"access for administrators", []runtime.Object{class("c"), slice("a", "1"), claim("x", asks(admin())), claim("y", has("a", "1"))}, pt.Pod("p", uses("x")),
			map[string]string{"a": "", "b": none}},
		{"an extended resource of the node", []runtime.Object{extended("c")}, pt.Pod("p", pt.Requests("example.com/own", "1")), both("")},
		{"an extended resource of a class", []runtime.Object{extended("c"), slice("a", "1", "2")}, pt.Pod("p", pt.Requests("example.com/x", "2")), map[string]string{"a": "", "b": none}},
		{"one by the name of the class", []runtime.Object{class("c"), slice("b", "1")}, pt.Pod("p", pt.Requests(resourcev1.ResourceDeviceClassPrefix+"c", "1")),
			map[string]string{"a": none, "b": ""}},
		{"an extended resource and a claim", []runtime.Object{extended("c"), slice("a", "1"), slice("b", "1", "2"), claim("x")},
			pt.Pod("p", uses("x"), pt.Requests("example.com/x", "1")), map[string]string{"a": none, "b": ""}},
		{"the claim of an earlier attempt", []runtime.Object{extended("c"), slice("a", "1"), special("left")}, pt.Pod("p", pt.Requests("example.com/x", "1")),
			both("cannot schedule extended resource claim")},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := pt.NewHandle(pt.Nodes([]*corev1.Node{pt.Node("a", pt.Allocatable("example.com/own", "1")), pt.Node("b", pt.Allocatable("example.com/own", "1"))}), tc.objects...)
			got := pt.Filter(t, h, pt.NewPlugin(t, h, New), tc.pod)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("reasons (-want +got):\n%s", diff)
			}
		})
	}
}

func both(reason string) map[string]string { return map[string]string{"a": reason, "b": reason} }

// firstOf asks for a device of the first class that has one.
func firstOf(classes ...string) resourcev1.DeviceRequest {
	r := resourcev1.DeviceRequest{Name: "r"}
	for i, c := range classes {
		r.FirstAvailable = append(r.FirstAvailable, resourcev1.DeviceSubRequest{
			Name: fmt.Sprint(i), DeviceClassName: c, AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: 1,
		})
	}
	return r
}

func admin() resourcev1.DeviceRequest {
	r := exactly("c")
	r.Exactly.AdminAccess = new(true)
	return r
}

func tainted(s *resourcev1.ResourceSlice) *resourcev1.ResourceSlice {
	for i := range s.Spec.Devices {
		s.Spec.Devices[i].Taints = []resourcev1.DeviceTaint{{Key: "k", Effect: resourcev1.DeviceTaintEffectNoSchedule}}
	}
	return s
}

// rule taints all devices of a pool.
func rule(pool string) *resourcev1.DeviceTaintRule {
	r := &resourcev1.DeviceTaintRule{ObjectMeta: metav1.ObjectMeta{Name: "rule"}}
	r.Spec.DeviceSelector = &resourcev1.DeviceTaintSelector{Driver: new(driver), Pool: &pool}
	r.Spec.Taint = resourcev1.DeviceTaint{Key: "k", Effect: resourcev1.DeviceTaintEffectNoSchedule}
	return r
}

// extended is a class for the resource example.com/x.
func extended(name string) *resourcev1.DeviceClass {
	c := class(name)
	c.Spec.ExtendedResourceName = new("example.com/x")
	return c
}

// special is a claim for the extended resources of pod p.
func special(name string) *resourcev1.ResourceClaim {
	return claim(name, ownedBy("p"), func(c *resourcev1.ResourceClaim) {
		c.Annotations = map[string]string{resourcev1.ExtendedResourceClaimAnnotation: "true"}
		c.Finalizers = []string{resourcev1.Finalizer}
	})
}

func TestScore(t *testing.T) {
	selects := func(name, node string) *resourcev1.DeviceClass {
		c := class(name)
		c.Spec.Selectors = []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{Expression: fmt.Sprintf("device.attributes[%q].node == %q", driver, node)}}}
		return c
	}
	labelled := func(node string) *resourcev1.ResourceSlice {
		s := slice(node, "1")
		s.Spec.Devices[0].Attributes = map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{"node": {StringValue: &node}}
		return s
	}
	for _, tc := range []struct {
		name  string
		claim *resourcev1.ResourceClaim
		want  map[string]int64
	}{
		{"no alternatives", claim("x"), nil},
		{"the first on a, the second on b", claim("x", asks(firstOf("on-a", "on-b"))), map[string]int64{"a": 100, "b": 87}},
		{"the third on a, the first on b", claim("x", asks(firstOf("on-b", "nowhere", "on-a"))), map[string]int64{"a": 75, "b": 100}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := pt.NewHandle(pt.Nodes([]*corev1.Node{pt.Node("a"), pt.Node("b")}),
				class("c"), selects("on-a", "a"), selects("on-b", "b"), selects("nowhere", "n"), labelled("a"), labelled("b"), tc.claim)
			pl := pt.NewPlugin(t, h, New).(*DynamicResources)
			pod := pt.Pod("p", uses("x"))
			cs := cycle(t, h, pl, pod)
			if s := pl.PreScore(t.Context(), cs, pod, h.Snapshot.Nodes()); s.IsSkip() != (tc.want == nil) {
				t.Fatalf("PreScore: %v", s)
			} else if s.IsSkip() {
				return
			}
			var scores fwk.NodeScoreList
			for _, n := range h.Snapshot.Nodes() {
				v, s := pl.Score(t.Context(), cs, pod, n)
				if !s.IsSuccess() {
					t.Fatal(s.AsError())
				}
				scores = append(scores, fwk.NodeScore{Name: n.Node().Name, Score: v})
			}
			pl.NormalizeScore(t.Context(), cs, pod, scores)
			got := map[string]int64{}
			for _, s := range scores {
				got[s.Name] = s.Score
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("scores (-want +got):\n%s", diff)
			}
		})
	}
}

// cycle runs PreFilter and the filters of all nodes.
func cycle(t *testing.T, h *pt.Handle, pl *DynamicResources, pod *corev1.Pod) fwk.CycleState {
	t.Helper()
	cs := framework.NewCycleState(framework.NewPodInfo(pod))
	if _, s := pl.PreFilter(t.Context(), cs, pod, h.Snapshot.Nodes()); !s.IsSuccess() {
		t.Fatalf("PreFilter: %v", s)
	}
	for _, n := range h.Snapshot.Nodes() {
		if s := pl.Filter(t.Context(), cs, pod, n); !s.IsSuccess() && !s.IsRejected() {
			t.Fatalf("Filter: %v", s)
		}
	}
	return cs
}

// setup has node a with devices, class c, and the objects.
func setup(t *testing.T, devices []string, objects ...runtime.Object) (*pt.Handle, *DynamicResources) {
	t.Helper()
	h := pt.NewHandle(pt.Nodes([]*corev1.Node{pt.Node("a")}), append(objects, class("c"), slice("a", devices...))...)
	return h, pt.NewPlugin(t, h, New).(*DynamicResources)
}

func stored(t *testing.T, h *pt.Handle, name string) *resourcev1.ResourceClaim {
	t.Helper()
	c, err := h.Fake.ResourceV1().ResourceClaims("default").Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func reserve(t *testing.T, pl *DynamicResources, cs fwk.CycleState, pod *corev1.Pod) {
	t.Helper()
	if s := pl.Reserve(t.Context(), cs, pod, "a"); !s.IsSuccess() {
		t.Fatalf("Reserve: %v", s)
	}
}

// From Reserve on nobody else gets the device, and Unreserve gives it back.
func TestReserve(t *testing.T) {
	h, pl := setup(t, []string{"1"}, claim("x"), claim("y"))
	p, q := pt.Pod("p", uses("x")), pt.Pod("q", uses("y"))
	cs := cycle(t, h, pl, p)
	reserve(t, pl, cs, p)
	if got := pt.Filter(t, h, pl, q)["a"]; got != "cannot allocate all claims" {
		t.Errorf("another claim: %q", got)
	}
	if got := pt.Filter(t, h, pl, pt.Pod("r", uses("x")))["a"]; got != "resource claim default/x is in the process of being allocated" {
		t.Errorf("the same claim: %q", got)
	}
	pl.Unreserve(t.Context(), cs, p, "a")
	pl.Unreserve(t.Context(), cs, p, "a")
	if got := pt.Filter(t, h, pl, q)["a"]; got != "" {
		t.Errorf("after Unreserve: %q", got)
	}
	if c := stored(t, h, "x"); c.Status.Allocation != nil || len(c.Finalizers) > 0 {
		t.Errorf("something was written: %+v", c)
	}
}

// fail answers verb on claims with err, times times; do comes first.
func fail(h *pt.Handle, verb, subresource string, times int32, err error, do func(clienttesting.Action) error) {
	var left atomic.Int32
	left.Store(times)
	h.Fake.PrependReactor(verb, "resourceclaims", func(a clienttesting.Action) (bool, runtime.Object, error) {
		if a.GetSubresource() != subresource || left.Add(-1) < 0 {
			return false, nil, nil
		}
		if do != nil {
			if err := do(a); err != nil {
				return true, nil, err
			}
		}
		return true, nil, err
	})
}

var (
	errLost     = errors.New("connection reset by peer")
	claims      = schema.GroupResource{Group: resourcev1.GroupName, Resource: "resourceclaims"}
	errConflict = apierrors.NewConflict(claims, "x", errors.New("changed"))
	errRefused  = apierrors.NewForbidden(claims, "x", errors.New("no"))
)

func TestPreBind(t *testing.T) {
	keep := func(h *pt.Handle) func(clienttesting.Action) error {
		return func(a clienttesting.Action) error {
			return h.Fake.Tracker().Update(resourcev1.SchemeGroupVersion.WithResource("resourceclaims"), a.(clienttesting.UpdateAction).GetObject(), "default")
		}
	}
	change := func(h *pt.Handle, f claimOption) func(clienttesting.Action) error {
		return func(clienttesting.Action) error {
			c := claim("x")
			f(c)
			return h.Fake.Tracker().Update(resourcev1.SchemeGroupVersion.WithResource("resourceclaims"), c, "default")
		}
	}
	for _, tc := range []struct {
		name  string
		claim *resourcev1.ResourceClaim
		fault func(*pt.Handle)
		err   string   // part of the failure, empty if it succeeds
		users []string // of the stored claim
	}{
		{"a device is given", claim("x"), nil, "", []string{"p"}},
		{"one more user", claim("x", has("a", "1"), usedBy("q")), nil, "", []string{"q", "p"}},
		{"done by an earlier scheduler", claim("x", has("a", "1"), usedBy("p")), func(h *pt.Handle) { fail(h, "update", "status", 100, errRefused, nil) }, "", []string{"p"}},
		{"conflicts", claim("x"), func(h *pt.Handle) { fail(h, "update", "status", 3, errConflict, nil) }, "", []string{"p"}},
		{"conflicts of the finalizer", claim("x"), func(h *pt.Handle) { fail(h, "update", "", 3, errConflict, nil) }, "", []string{"p"}},
		{"no answer, nothing stored", claim("x"), func(h *pt.Handle) { fail(h, "update", "status", 2, errLost, nil) }, "", []string{"p"}},
		{"no answer, but stored", claim("x"), func(h *pt.Handle) { fail(h, "update", "status", 1, errLost, keep(h)) }, "", []string{"p"}},
		{"no answer, but stored, and none for some time", claim("x"), func(h *pt.Handle) {
			fail(h, "update", "status", 1, errLost, func(a clienttesting.Action) error {
				fail(h, "get", "", 3, errLost, nil)
				return keep(h)(a)
			})
		}, "", []string{"p"}},
		{"never an answer, but it can be read", claim("x"), func(h *pt.Handle) { fail(h, "update", "status", 100, errLost, nil) },
			"add allocation and reservation to claim default/x: connection reset by peer", nil},
		{"refused", claim("x"), func(h *pt.Handle) { fail(h, "update", "status", 1, errRefused, nil) }, "add allocation and reservation to claim default/x: ", nil},
		{"deleted meanwhile", claim("x"), func(h *pt.Handle) {
			fail(h, "update", "status", 1, errConflict, change(h, func(c *resourcev1.ResourceClaim) { c.DeletionTimestamp = &metav1.Time{Time: time.Now()} }))
		}, "claim default/x got deleted in the meantime", nil},
		{"another of the same name meanwhile", claim("x"), func(h *pt.Handle) {
			fail(h, "update", "status", 1, errConflict, change(h, func(c *resourcev1.ResourceClaim) { c.UID = "other" }))
		}, "claim default/x got deleted in the meantime", nil},
		{"given a device by another meanwhile", claim("x"), func(h *pt.Handle) { fail(h, "update", "status", 1, errConflict, change(h, has("b", "1"))) },
			"claim default/x got allocated elsewhere in the meantime", nil},
		{"its device taken away meanwhile", claim("x", has("a", "1"), usedBy("q")), func(h *pt.Handle) {
			fail(h, "update", "status", 1, errConflict, change(h, func(*resourcev1.ResourceClaim) {}))
		}, "claim default/x got deallocated elsewhere in the meantime", nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h, pl := setup(t, []string{"1"}, tc.claim)
			pod := pt.Pod("p", uses("x"))
			cs := cycle(t, h, pl, pod)
			reserve(t, pl, cs, pod)
			if tc.fault != nil {
				tc.fault(h)
			}
			s := pl.PreBind(t.Context(), cs, pod, "a")
			if (tc.err == "") != s.IsSuccess() || !strings.Contains(s.Message(), tc.err) {
				t.Errorf("PreBind: %q, want %q", s.Message(), tc.err)
			}
			if !s.IsSuccess() {
				pl.Unreserve(t.Context(), cs, pod, "a")
			}
			c := stored(t, h, "x")
			var users []string
			for _, u := range c.Status.ReservedFor {
				users = append(users, u.Name)
			}
			if diff := cmp.Diff(tc.users, users); diff != "" {
				t.Errorf("users of the claim (-want +got):\n%s", diff)
			}
			if s.IsSuccess() && tc.claim.Status.Allocation == nil && (c.Status.Allocation.AllocationTimestamp == nil || len(c.Finalizers) != 1) {
				t.Errorf("the claim has no finalizer or no time: %+v", c)
			}
			if pl.dra.ResourceClaims().GetPendingAllocation("claim-x") != nil {
				t.Error("the device is still promised")
			}
		})
	}
}

// While nobody knows whether a device was given to a claim, it is given to no other.
func TestPreBind_UnknownKeepsDevice(t *testing.T) {
	h, pl := setup(t, []string{"1"}, claim("x"), claim("y"))
	p, q := pt.Pod("p", uses("x")), pt.Pod("q", uses("y"))
	cs := cycle(t, h, pl, p)
	reserve(t, pl, cs, p)
	ctx, cancel := context.WithCancel(t.Context())
	fail(h, "update", "status", 1, errLost, func(a clienttesting.Action) error {
		cancel() // by a pod that preempts this one
		return h.Fake.Tracker().Update(resourcev1.SchemeGroupVersion.WithResource("resourceclaims"), a.(clienttesting.UpdateAction).GetObject(), "default")
	})
	if s := pl.PreBind(ctx, cs, p, "a"); s.IsSuccess() {
		t.Fatal("PreBind succeeds")
	}
	if got := pt.Filter(t, h, pl, q)["a"]; got != "cannot allocate all claims" {
		t.Errorf("before it is known: %q", got)
	}
	pl.Unreserve(t.Context(), cs, p, "a")
	if c := stored(t, h, "x"); c.Status.Allocation == nil || len(c.Status.ReservedFor) > 0 {
		t.Errorf("the claim is stored as %+v", c.Status)
	}
	if got := pt.Filter(t, h, pl, q)["a"]; got != "cannot allocate all claims" {
		t.Errorf("the device of the other claim: %q", got)
	}
}

func TestPreBind_BindingConditions(t *testing.T) {
	for _, tc := range []struct {
		name string
		then claimOption
		want string
		told string // by metrics
	}{
		{"met", conditions(0, "ready"), "", "success"},
		{"failed", conditions(0, "broken"), `device binding failed: claim=x, reason=Because, message="so"`, "failure"},
		{"too late", conditions(time.Hour), "device binding timeout: claim=x", "timeout"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h, pl := setup(t, nil, claim("x", has("a", "1"), conditions(0), usedBy("p")))
			counted := h.Count(t)
			pl.count = h.Metrics
			pod := pt.Pod("p", uses("x"))
			cs := cycle(t, h, pl, pod)
			reserve(t, pl, cs, pod)
			done := make(chan *fwk.Status, 1)
			go func() { done <- pl.PreBind(t.Context(), cs, pod, "a") }()
			if got := <-h.Events.Events; got != "Normal BindingConditionsPending waiting for binding conditions for device on node a" {
				t.Errorf("the event is %q", got)
			}
			if _, err := h.Fake.ResourceV1().ResourceClaims("default").UpdateStatus(t.Context(), claim("x", has("a", "1"), tc.then, usedBy("p")), metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
			if got := (<-done).Message(); got != tc.want {
				t.Errorf("PreBind: %q, want %q", got, tc.want)
			}
			for _, name := range []string{"allocations_total", "wait_duration_seconds"} {
				// The profile of the tests has no name.
				if series := fmt.Sprintf("scheduler_dra_bindingconditions_%s %s  %s", name, driver, tc.told); counted(series) != 1 {
					t.Errorf("%s is %v, want 1", series, counted(series))
				}
			}
		})
	}
}

func TestPostFilter(t *testing.T) {
	for _, tc := range []struct {
		name    string
		objects []runtime.Object
		pod     *corev1.Pod
		want    string
		freed   bool
	}{
		{"no claims", nil, pt.Pod("p"), "", false},
		{"no devices", []runtime.Object{claim("x")}, pt.Pod("p", uses("x")), "", false},
		{"elsewhere, unused", []runtime.Object{claim("x", has("gone", "1"))}, pt.Pod("p", uses("x")), "deallocation of ResourceClaim completed", true},
		{"elsewhere, used by the pod alone", []runtime.Object{claim("x", has("gone", "1"), usedBy("p"))}, pt.Pod("p", uses("x")), "deallocation of ResourceClaim completed", true},
		{"elsewhere, used by others", []runtime.Object{claim("x", has("gone", "1"), usedBy("q"))}, pt.Pod("p", uses("x")), "", false},
		{"cannot be prepared", []runtime.Object{claim("x", has("a", "1"), conditions(0, "broken"), usedBy("p"))}, pt.Pod("p", uses("x")), "deallocation of ResourceClaim completed", true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h, pl := setup(t, nil, tc.objects...)
			cs := framework.NewCycleState(framework.NewPodInfo(tc.pod))
			if _, s := pl.PreFilter(t.Context(), cs, tc.pod, nil); s.IsSuccess() {
				for _, n := range h.Snapshot.Nodes() {
					pl.Filter(t.Context(), cs, tc.pod, n)
				}
			}
			result, s := pl.PostFilter(t.Context(), cs, tc.pod, framework.NewNodeStatuses(nil))
			if result != nil || s.Code() != fwk.Unschedulable || s.Message() != tc.want {
				t.Errorf("PostFilter: %v, %v", result, s)
			}
			if tc.freed {
				if c := stored(t, h, "x"); c.Status.Allocation != nil || len(c.Status.ReservedFor) > 0 || len(c.Status.Devices) > 0 {
					t.Errorf("the claim still has %+v", c.Status)
				}
			}
		})
	}
}

// The claim for extended resources is made when the pod is bound, and deleted when that fails or the pod is tried again.
func TestExtendedResources(t *testing.T) {
	h, pl := setup(t, []string{"1", "2"}, pt.Pod("p"))
	counted := h.Count(t)
	pl.count = h.Metrics
	if _, err := h.Fake.ResourceV1().DeviceClasses().Update(t.Context(), extended("c"), metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	await(t, func() bool { return pl.dra.DeviceClassResolver().GetDeviceClass("example.com/x") != nil })
	h.Fake.PrependReactor("create", "resourceclaims", func(a clienttesting.Action) (bool, runtime.Object, error) {
		c := a.(clienttesting.CreateAction).GetObject().(*resourcev1.ResourceClaim)
		c.Name, c.UID = c.GenerateName+"1", "made"
		if diff := cmp.Diff([]string{resourcev1.Finalizer}, c.Finalizers); diff != "" {
			t.Errorf("finalizers of the new claim (-want +got):\n%s", diff)
		}
		return false, nil, nil
	})
	pod := pt.Pod("p", pt.Requests("example.com/x", "2"))
	cs := cycle(t, h, pl, pod)
	reserve(t, pl, cs, pod)
	if s := pl.PreBind(t.Context(), cs, pod, "a"); !s.IsSuccess() {
		t.Fatalf("PreBind: %v", s)
	}
	c := stored(t, h, "p-extended-resources-1")
	if n := counted("dynamic_resource_allocation_resourceclaim_creates_total false  Pod success"); n != 1 {
		t.Errorf("%v claims are counted, want 1", n)
	}
	if !metav1.IsControlledBy(c, pod) || c.Status.Allocation == nil || len(c.Status.Allocation.Devices.Results) != 2 || len(c.Status.ReservedFor) != 1 {
		t.Errorf("the claim is %+v", c)
	}
	bound, err := h.Fake.CoreV1().Pods("default").Get(t.Context(), "p", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	want := &corev1.PodExtendedResourceClaimStatus{ResourceClaimName: c.Name, RequestMappings: []corev1.ContainerExtendedResourceRequest{
		{ContainerName: "main", ResourceName: "example.com/x", RequestName: "container-0-request-0"},
	}}
	if diff := cmp.Diff(want, bound.Status.ExtendedResourceClaimStatus); diff != "" {
		t.Errorf("the pod's status (-want +got):\n%s", diff)
	}
	if got := pt.Filter(t, h, pl, pt.Pod("q", pt.Requests("example.com/x", "1")))["a"]; got != "cannot allocate all claims" {
		t.Errorf("another pod: %q", got)
	}

	// The scheduler is killed before the Binding: the next one begins anew.
	again := framework.NewCycleState(framework.NewPodInfo(pod))
	if _, s := pl.PreFilter(t.Context(), again, pod, nil); !s.IsSuccess() {
		t.Fatalf("PreFilter: %v", s)
	}
	if s := pl.Filter(t.Context(), again, pod, h.Snapshot.Nodes()[0]); s.Message() != "cannot schedule extended resource claim" {
		t.Errorf("Filter: %v", s)
	}
	if _, s := pl.PostFilter(t.Context(), again, pod, framework.NewNodeStatuses(nil)); s.Message() != "deletion of ResourceClaim completed" {
		t.Errorf("PostFilter: %v", s)
	}
	await(t, func() bool { return pt.Filter(t, h, pl, pt.Pod("q", pt.Requests("example.com/x", "1")))["a"] == "" })
}

func await(t *testing.T, condition func() bool) {
	t.Helper()
	if err := wait.PollUntilContextTimeout(t.Context(), time.Millisecond, 10*time.Second, true, func(context.Context) (bool, error) { return condition(), nil }); err != nil {
		t.Fatal(err)
	}
}

func TestRequestsFor(t *testing.T) {
	container := func(name, amount string, sidecar bool) corev1.Container {
		c := corev1.Container{Name: name}
		if amount != "" {
			c.Resources.Requests = pt.Pod("", pt.Requests("cpu", "1", "example.com/x", amount)).Spec.Containers[0].Resources.Requests
		}
		if sidecar {
			c.RestartPolicy = new(corev1.ContainerRestartPolicyAlways)
		}
		return c
	}
	for _, tc := range []struct {
		name       string
		init, main []corev1.Container
		requests   string // name=count
		mappings   string // container>request
	}{
		{"each container its own", nil, []corev1.Container{container("a", "1", false), container("b", "", false), container("c", "2", false)},
			"container-0-request-1=1 container-2-request-1=2", "a>container-0-request-1 c>container-2-request-1"},
		{"the early use those of the later", []corev1.Container{container("i", "2", false)}, []corev1.Container{container("a", "1", false), container("b", "2", false)},
			"container-1-request-1=1 container-2-request-1=2",
			"a>container-1-request-1 b>container-2-request-1 i>container-1-request-1 i>container-2-request-1"},
		{"the early want more, and share it", []corev1.Container{container("i", "3", false), container("j", "5", false)}, []corev1.Container{container("a", "1", false)},
			"container-1-request-1=4 container-2-request-1=1",
			"a>container-2-request-1 i>container-2-request-1 i>container-1-request-1 j>container-2-request-1 j>container-1-request-1"},
		{"a sidecar keeps its own from those after it", []corev1.Container{container("s", "1", true), container("i", "1", false)}, nil,
			"container-0-request-1=1 container-1-request-1=1", "s>container-0-request-1 i>container-1-request-1"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			pod := &corev1.Pod{Spec: corev1.PodSpec{InitContainers: tc.init, Containers: tc.main}}
			requests, mappings := requestsFor(pod, map[corev1.ResourceName]string{"example.com/x": "c"})
			var r, m []string
			for _, x := range requests {
				r = append(r, fmt.Sprintf("%s=%d", x.Name, x.Exactly.Count))
			}
			for _, x := range mappings {
				m = append(m, x.ContainerName+">"+x.RequestName)
			}
			if diff := cmp.Diff(tc.requests, strings.Join(r, " ")); diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.mappings, strings.Join(m, " ")); diff != "" {
				t.Errorf("mappings (-want +got):\n%s", diff)
			}
		})
	}
}

func TestEvents(t *testing.T) {
	h := pt.NewHandle(nil, claim("x"), extended("c"))
	pl := pt.NewPlugin(t, h, New)
	pod := pt.Pod("p", uses("x"))
	onClaim := func(a fwk.ActionType) fwk.ClusterEvent {
		return fwk.ClusterEvent{Resource: fwk.ResourceClaim, ActionType: a}
	}
	for _, tc := range []struct {
		name     string
		pod      *corev1.Pod
		event    fwk.ClusterEvent
		old, new any
		want     bool
	}{
		{"its claim is there", pod, onClaim(fwk.Add), nil, claim("x"), true},
		{"another claim is there", pod, onClaim(fwk.Add), nil, claim("y"), false},
		{"one of its claims is still missing", pt.Pod("p", uses("x", "z")), onClaim(fwk.Add), nil, claim("x"), false},
		{"its claim has changed", pod, onClaim(fwk.Update), claim("x"), claim("x", has("a", "1")), true},
		{"its claim got a finalizer", pod, onClaim(fwk.Update), claim("x"), claim("x", ownedBy("q")), false},
		{"another claim lost its device", pod, onClaim(fwk.Update), claim("y", has("a", "1")), claim("y"), true},
		{"another claim got one", pod, onClaim(fwk.Update), claim("y"), claim("y", has("a", "1")), false},
		{"a claim with a device is gone", pod, onClaim(fwk.Delete), claim("y", has("a", "1")), nil, true},
		{"a claim without is gone", pod, onClaim(fwk.Delete), claim("y"), nil, false},
		{"its claims are made", pod, fwk.ClusterEvent{Resource: fwk.TargetPod, ActionType: fwk.UpdatePodGeneratedResourceClaim}, pod, pod, true},
		{"only some of them", pod, fwk.ClusterEvent{Resource: fwk.TargetPod, ActionType: fwk.UpdatePodGeneratedResourceClaim}, pod, pt.Pod("p", templated("z")), false},
		{"a pod with a claim is gone", pod, fwk.ClusterEvent{Resource: fwk.AssignedPod, ActionType: fwk.Delete}, pod, nil, true},
		{"a pod with a device is gone", pod, fwk.ClusterEvent{Resource: fwk.AssignedPod, ActionType: fwk.Delete}, pt.Pod("q", pt.Requests("example.com/x", "1")), nil, true},
		{"a pod without is gone", pod, fwk.ClusterEvent{Resource: fwk.AssignedPod, ActionType: fwk.Delete}, pt.Pod("q", pt.Requests("cpu", "1")), nil, false},
		{"a slice", pod, fwk.ClusterEvent{Resource: fwk.ResourceSlice, ActionType: fwk.Add}, nil, slice("a"), true},
		{"a class", pod, fwk.ClusterEvent{Resource: fwk.DeviceClass, ActionType: fwk.Update}, class("c"), class("c"), true},
		{"a node", pod, fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Add}, nil, pt.Node("a"), true},
		{"a taint", pod, fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.UpdateNodeTaint}, pt.Node("a"), pt.Node("a"), false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := pt.Helps(t, pl, tc.pod, tc.event, tc.old, tc.new); got != tc.want {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}

func TestPreEnqueue(t *testing.T) {
	h := pt.NewHandle(nil, claim("x"))
	pl := pt.NewPlugin(t, h, New).(*DynamicResources)
	if s := pl.PreEnqueue(t.Context(), pt.Pod("p", uses("x"))); !s.IsSuccess() {
		t.Errorf("its claim is there: %v", s)
	}
	s := pl.PreEnqueue(t.Context(), pt.Pod("p", uses("y")))
	if s.Code() != fwk.UnschedulableAndUnresolvable || s.Message() != `could not find ResourceClaim "default/y"` {
		t.Errorf("its claim is not: %v", s)
	}
}

func TestSignPod(t *testing.T) {
	pl := &DynamicResources{}
	if _, s := pl.SignPod(t.Context(), pt.Pod("p")); !s.IsSuccess() {
		t.Errorf("a pod without claims: %v", s)
	}
	if _, s := pl.SignPod(t.Context(), pt.Pod("p", uses("x"))); s.Code() != fwk.Unschedulable {
		t.Errorf("a pod with claims: %v", s)
	}
}
