// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package devicetainteviction

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/record"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"minik8s.io/minik8s/pkg/controllers/controllertest"
)

var (
	added       = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	podRequest  = reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "ns", Name: "p"}}
	ruleRequest = reconcile.Request{NamespacedName: types.NamespacedName{Name: "r"}}
)

func pod() *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "pod"},
		Spec:       corev1.PodSpec{NodeName: "n", ResourceClaims: []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimName: new("c")}}},
	}
}

func claim(tolerations ...resourcev1.DeviceToleration) *resourcev1.ResourceClaim {
	return &resourcev1.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c"},
		Status: resourcev1.ResourceClaimStatus{
			ReservedFor: []resourcev1.ResourceClaimConsumerReference{{Resource: "pods", Name: "p", UID: "pod"}},
			Allocation: &resourcev1.AllocationResult{Devices: resourcev1.DeviceAllocationResult{Results: []resourcev1.DeviceRequestAllocationResult{
				{Driver: "d", Pool: "pool", Device: "gpu-0", Tolerations: tolerations},
			}}},
		},
	}
}

func taint(effect resourcev1.DeviceTaintEffect) resourcev1.DeviceTaint {
	return resourcev1.DeviceTaint{Key: "broken", Effect: effect, TimeAdded: &metav1.Time{Time: added}}
}

func slice(name string, generation int64, taints ...resourcev1.DeviceTaint) *resourcev1.ResourceSlice {
	return &resourcev1.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: resourcev1.ResourceSliceSpec{
			Driver: "d", Pool: resourcev1.ResourcePool{Name: "pool", Generation: generation},
			Devices: []resourcev1.Device{{Name: "gpu-0", Taints: taints}, {Name: "gpu-1"}},
		},
	}
}

func rule(effect resourcev1.DeviceTaintEffect) *resourcev1.DeviceTaintRule {
	return &resourcev1.DeviceTaintRule{
		ObjectMeta: metav1.ObjectMeta{Name: "r", UID: "rule", Generation: 1},
		Spec:       resourcev1.DeviceTaintRuleSpec{DeviceSelector: &resourcev1.DeviceTaintSelector{Driver: new("d")}, Taint: taint(effect)},
	}
}

func tolerates(seconds ...int64) resourcev1.DeviceToleration {
	t := resourcev1.DeviceToleration{Operator: resourcev1.DeviceTolerationOpExists, Effect: resourcev1.DeviceTaintEffectNoExecute}
	if len(seconds) > 0 {
		t.TolerationSeconds = &seconds[0]
	}
	return t
}

func TestOfPod(t *testing.T) {
	execute := taint(resourcev1.DeviceTaintEffectNoExecute)
	at := func(after time.Duration, rules ...types.UID) *Eviction {
		e := &Eviction{At: added.Add(after)}
		if len(rules) > 0 {
			e.Rules = sets.New(rules...)
		}
		return e
	}
	for name, tc := range map[string]struct {
		pod    func(*corev1.Pod)
		claim  *resourcev1.ResourceClaim
		slices []*resourcev1.ResourceSlice
		rules  []*resourcev1.DeviceTaintRule
		want   *Eviction
	}{
		"no taint":         {claim: claim(), slices: []*resourcev1.ResourceSlice{slice("a", 1)}},
		"taint of a slice": {claim: claim(), slices: []*resourcev1.ResourceSlice{slice("a", 1, execute)}, want: at(0)},
		"another effect":   {claim: claim(), slices: []*resourcev1.ResourceSlice{slice("a", 1, taint(resourcev1.DeviceTaintEffectNoSchedule))}},
		"outdated slice":   {claim: claim(), slices: []*resourcev1.ResourceSlice{slice("a", 1, execute), slice("b", 2)}},
		"tolerated":        {claim: claim(tolerates(30), tolerates()), slices: []*resourcev1.ResourceSlice{slice("a", 1, execute)}},
		"tolerated for a while": {
			claim: claim(tolerates(30), tolerates(20)), slices: []*resourcev1.ResourceSlice{slice("a", 1, execute)}, want: at(20 * time.Second),
		},
		"tolerated for less than nothing": {claim: claim(tolerates(-5)), slices: []*resourcev1.ResourceSlice{slice("a", 1, execute)}, want: at(0)},
		"toleration of all effects": {
			claim:  claim(resourcev1.DeviceToleration{Operator: resourcev1.DeviceTolerationOpExists}),
			slices: []*resourcev1.ResourceSlice{slice("a", 1, execute)}, want: at(0),
		},
		"rule": {claim: claim(), rules: []*resourcev1.DeviceTaintRule{rule(resourcev1.DeviceTaintEffectNoExecute)}, want: at(0, "rule")},
		"rule and slice": {
			claim: claim(), slices: []*resourcev1.ResourceSlice{slice("a", 1, execute)},
			rules: []*resourcev1.DeviceTaintRule{rule(resourcev1.DeviceTaintEffectNoExecute)}, want: at(0, "rule"),
		},
		"rule without effect": {claim: claim(), rules: []*resourcev1.DeviceTaintRule{rule(resourcev1.DeviceTaintEffectNone)}},
		"not on a node": {
			pod: func(p *corev1.Pod) { p.Spec.NodeName = "" }, claim: claim(), rules: []*resourcev1.DeviceTaintRule{rule(resourcev1.DeviceTaintEffectNoExecute)},
		},
		"reserved for another": {
			pod: func(p *corev1.Pod) { p.UID = "other" }, claim: claim(), rules: []*resourcev1.DeviceTaintRule{rule(resourcev1.DeviceTaintEffectNoExecute)},
		},
		"no claim": {rules: []*resourcev1.DeviceTaintRule{rule(resourcev1.DeviceTaintEffectNoExecute)}},
	} {
		t.Run(name, func(t *testing.T) {
			p := pod()
			if tc.pod != nil {
				tc.pod(p)
			}
			taints := Taints{Slices: func(Pool) ([]resourcev1.ResourceSlice, error) {
				var list []resourcev1.ResourceSlice
				for _, s := range tc.slices {
					list = append(list, *s)
				}
				return list, nil
			}}
			for _, r := range tc.rules {
				taints.Rules = append(taints.Rules, *r)
			}
			got, err := taints.ofPod(p, func(string) (*resourcev1.ResourceClaim, error) { return tc.claim, nil })
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("eviction (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSelects(t *testing.T) {
	for name, tc := range map[string]struct {
		selector *resourcev1.DeviceTaintSelector
		want     bool
	}{
		"nothing":       {},
		"everything":    {selector: &resourcev1.DeviceTaintSelector{}, want: true},
		"this device":   {selector: &resourcev1.DeviceTaintSelector{Driver: new("d"), Pool: new("p"), Device: new("x")}, want: true},
		"other driver":  {selector: &resourcev1.DeviceTaintSelector{Driver: new("e")}},
		"other pool":    {selector: &resourcev1.DeviceTaintSelector{Pool: new("q")}},
		"other devices": {selector: &resourcev1.DeviceTaintSelector{Device: new("y")}},
	} {
		t.Run(name, func(t *testing.T) {
			r := &resourcev1.DeviceTaintRule{Spec: resourcev1.DeviceTaintRuleSpec{DeviceSelector: tc.selector}}
			if got := Selects(r, "d", "p", "x"); got != tc.want {
				t.Errorf("selects %t, want %t", got, tc.want)
			}
		})
	}
}

func TestDescribe(t *testing.T) {
	for name, tc := range map[string]struct {
		effect resourcev1.DeviceTaintEffect
		counts counts
		want   string
	}{
		"none": {
			effect: resourcev1.DeviceTaintEffectNone, counts: counts{pods: 1, namespaces: 1, published: 2, allocated: 1},
			want: "False NoEffect 2 published devices selected. 1 allocated device selected. 1 pod would be evicted in 1 namespace if the effect was NoExecute. " +
				"This information will not be updated again. Recreate the DeviceTaintRule to trigger an update.",
		},
		"other":       {effect: resourcev1.DeviceTaintEffectNoSchedule, want: "False OtherEffect Eviction only happens for the NoExecute effect."},
		"not started": {effect: resourcev1.DeviceTaintEffectNoExecute, want: "False NotStarted "},
		"in progress": {
			effect: resourcev1.DeviceTaintEffectNoExecute, counts: counts{pods: 2, namespaces: 2, evicted: 1},
			want: "True PodsPendingEviction 2 pods need to be evicted in 2 different namespaces. 1 pod evicted since starting the controller.",
		},
		"completed": {
			effect: resourcev1.DeviceTaintEffectNoExecute, counts: counts{evicted: 3},
			want: "False Completed 3 pods evicted since starting the controller.",
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := describe(rule(tc.effect), tc.counts)
			if got := fmt.Sprintf("%s %s %s", c.Status, c.Reason, c.Message); got != tc.want || c.ObservedGeneration != 1 {
				t.Errorf("condition %+v, want %q", c, tc.want)
			}
		})
	}
}

func everything(c client.Reader) *cluster {
	return &cluster{client: c, slices: func(Pool) client.ListOption { return client.InNamespace("") }}
}

func podReconciler(c client.Client, now time.Time) *PodReconciler {
	return &PodReconciler{
		Client: c, Events: record.NewFakeRecorder(100), Clock: clocktesting.NewFakePassiveClock(now), cluster: everything(c), evicted: &evicted{},
	}
}

func TestPodReconciler(t *testing.T) {
	stays := pod()
	stays.Finalizers = []string{"test/stay"}
	controllertest.Run(t, controllertest.Case{
		Applies: true,
		Objects: []client.Object{stays, claim(), slice("a", 1, taint(resourcev1.DeviceTaintEffectNoExecute))},
		Request: podRequest,
		New:     func(c client.Client) reconcile.Reconciler { return podReconciler(c, added.Add(time.Minute)) },
		Want: func(ctx context.Context, c client.Client) error {
			var p corev1.Pod
			if err := c.Get(ctx, podRequest.NamespacedName, &p); err != nil {
				return err
			}
			if p.DeletionTimestamp == nil || len(p.Status.Conditions) != 1 || p.Status.Conditions[0].Reason != "DeletionByDeviceTaintManager" {
				return fmt.Errorf("pod %+v", p)
			}
			return nil
		},
	})
}

func TestPodReconciler_Cancelled(t *testing.T) {
	c := controllertest.NewClientBuilder().WithObjects(pod(), claim(tolerates(60)), slice("a", 1, taint(resourcev1.DeviceTaintEffectNoExecute))).Build()
	events := record.NewFakeRecorder(2)
	r := podReconciler(c, added.Add(20*time.Second))
	r.Events = events
	if got, err := r.Reconcile(t.Context(), podRequest); err != nil || got.RequeueAfter != 40*time.Second {
		t.Fatalf("%+v, %v", got, err)
	}
	if err := c.Delete(t.Context(), slice("a", 1)); err != nil {
		t.Fatal(err)
	}
	if got, err := r.Reconcile(t.Context(), podRequest); err != nil || got.RequeueAfter != 0 {
		t.Fatalf("%+v, %v", got, err)
	}
	if got := <-events.Events; got != "Normal DeviceTaintManagerEviction Cancelling deletion" {
		t.Errorf("event %q", got)
	}
}

func TestRuleReconciler(t *testing.T) {
	for effect, reason := range map[resourcev1.DeviceTaintEffect]string{
		resourcev1.DeviceTaintEffectNoExecute: "PodsPendingEviction", resourcev1.DeviceTaintEffectNone: "NoEffect",
	} {
		t.Run(string(effect), func(t *testing.T) {
			now := added
			controllertest.Run(t, controllertest.Case{
				Applies: true,
				Objects: []client.Object{pod(), claim(), slice("a", 1), rule(effect)},
				Request: ruleRequest,
				New: func(c client.Client) reconcile.Reconciler {
					now = now.Add(time.Minute)
					return &RuleReconciler{Client: c, Clock: clocktesting.NewFakePassiveClock(now), cluster: everything(c), evicted: &evicted{}}
				},
				Want: func(ctx context.Context, c client.Client) error {
					var r resourcev1.DeviceTaintRule
					if err := c.Get(ctx, ruleRequest.NamespacedName, &r); err != nil {
						return err
					}
					if len(r.Status.Conditions) != 1 || r.Status.Conditions[0].Reason != reason || r.Status.Conditions[0].ObservedGeneration != 1 {
						return fmt.Errorf("conditions %+v", r.Status.Conditions)
					}
					return nil
				},
			})
		})
	}
}

func TestRetainted(t *testing.T) {
	tainted := slice("a", 1, taint(resourcev1.DeviceTaintEffectNoExecute))
	same := slice("a", 1)
	same.Spec.Devices[1].Attributes = map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{"a": {}}
	for name, tc := range map[string]struct {
		after *resourcev1.ResourceSlice
		want  bool
	}{
		"attributes": {after: same}, "taints": {after: tainted, want: true}, "generation": {after: slice("a", 2), want: true},
	} {
		if got := retainted().Update(event.UpdateEvent{ObjectOld: slice("a", 1), ObjectNew: tc.after}); got != tc.want {
			t.Errorf("%s: %t, want %t", name, got, tc.want)
		}
	}
}

func TestUsers(t *testing.T) {
	c := everything(controllertest.NewClientBuilder().WithObjects(claim()).WithStatusSubresource().Build())
	want := []reconcile.Request{podRequest}
	if diff := cmp.Diff(want, c.usersOfSlice(t.Context(), slice("a", 1))); diff != "" {
		t.Errorf("users of a slice (-want +got):\n%s", diff)
	}
	other := slice("a", 1)
	other.Spec.Pool.Name = "other"
	if got := c.usersOfSlice(t.Context(), other); len(got) != 0 {
		t.Errorf("users of another pool: %v", got)
	}
	if diff := cmp.Diff(want, c.usersOfRule(t.Context(), rule(resourcev1.DeviceTaintEffectNone))); diff != "" {
		t.Errorf("users of a rule (-want +got):\n%s", diff)
	}
}
