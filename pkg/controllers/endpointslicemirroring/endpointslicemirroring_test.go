// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package endpointslicemirroring

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"minik8s.io/minik8s/pkg/controllers/controllertest"
)

func addresses(ips ...string) []corev1.EndpointAddress {
	var all []corev1.EndpointAddress
	for _, ip := range ips {
		all = append(all, corev1.EndpointAddress{IP: ip})
	}
	return all
}

func ports(numbers ...int32) []corev1.EndpointPort {
	var all []corev1.EndpointPort
	for _, n := range numbers {
		all = append(all, corev1.EndpointPort{Name: fmt.Sprintf("p%d", n), Port: n, Protocol: corev1.ProtocolTCP})
	}
	return all
}

func endpoints(subsets ...corev1.EndpointSubset) *corev1.Endpoints {
	return &corev1.Endpoints{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: "db", UID: "e", Labels: map[string]string{"tier": "data"},
			Annotations: map[string]string{"note": "n", corev1.LastAppliedConfigAnnotation: "{}", corev1.EndpointsLastChangeTriggerTime: "now"},
		},
		Subsets: subsets,
	}
}

// show writes a slice as "family ports ready|notReady".
func show(s *discoveryv1.EndpointSlice) string {
	var numbers []string
	for _, p := range s.Ports {
		numbers = append(numbers, fmt.Sprint(*p.Port))
	}
	slices.Sort(numbers)
	var ready, notReady []string
	for _, e := range s.Endpoints {
		if *e.Conditions.Ready {
			ready = append(ready, e.Addresses...)
		} else {
			notReady = append(notReady, e.Addresses...)
		}
	}
	return fmt.Sprintf("%s %s %s|%s", s.AddressType, strings.Join(numbers, ","), strings.Join(ready, ","), strings.Join(notReady, ","))
}

func shown(list []*discoveryv1.EndpointSlice) []string {
	var all []string
	for _, s := range list {
		all = append(all, show(s))
	}
	slices.Sort(all)
	return all
}

func TestMirror_New(t *testing.T) {
	for _, tt := range []struct {
		name             string
		subsets          []corev1.EndpointSubset
		want             []string
		invalid, skipped int
	}{
		{name: "nothing"},
		{
			name:    "families are separate",
			subsets: []corev1.EndpointSubset{{Addresses: addresses("10.0.0.2", "fd00::1"), NotReadyAddresses: addresses("10.0.0.1"), Ports: ports(80)}},
			want:    []string{"IPv4 80 10.0.0.2|10.0.0.1", "IPv6 80 fd00::1|"},
		},
		{
			name: "the same addresses under several ports are joined",
			subsets: []corev1.EndpointSubset{
				{Addresses: addresses("10.0.0.1"), Ports: ports(80)}, {Addresses: addresses("10.0.0.1"), Ports: ports(443)},
			},
			want: []string{"IPv4 443,80 10.0.0.1|"},
		},
		{
			name: "subsets of the same ports are joined",
			subsets: []corev1.EndpointSubset{
				{Addresses: addresses("10.0.0.1"), Ports: ports(80)}, {Addresses: addresses("10.0.0.2"), Ports: ports(80)},
			},
			want: []string{"IPv4 80 10.0.0.1,10.0.0.2|"},
		},
		{
			name:    "not ready wins",
			subsets: []corev1.EndpointSubset{{Addresses: addresses("10.0.0.1"), NotReadyAddresses: addresses("10.0.0.1"), Ports: ports(80)}},
			want:    []string{"IPv4 80 |10.0.0.1"},
		},
		{
			name:    "without ports",
			subsets: []corev1.EndpointSubset{{Addresses: addresses("10.0.0.1")}},
			want:    []string{"IPv4  10.0.0.1|"},
		},
		{
			name:    "addresses that are none",
			subsets: []corev1.EndpointSubset{{Addresses: addresses("10.0.0.01", "nonsense"), Ports: ports(80)}},
			want:    []string{"IPv4 80 10.0.0.1|"}, invalid: 1, skipped: 1,
		},
		{
			name:    "too many, ready ones first",
			subsets: []corev1.EndpointSubset{{Addresses: addresses("10.0.0.9", "10.0.0.1"), NotReadyAddresses: addresses("10.0.0.2", "10.0.0.3"), Ports: ports(80)}},
			want:    []string{"IPv4 80 10.0.0.1,10.0.0.9|10.0.0.2"}, skipped: 1,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			plan := Mirror(endpoints(tt.subsets...), nil, 3)
			if diff := cmp.Diff(tt.want, shown(plan.Create)); diff != "" {
				t.Errorf("created (-want +got):\n%s", diff)
			}
			if plan.Invalid != tt.invalid || plan.Skipped != tt.skipped || len(plan.Update)+len(plan.Delete) > 0 {
				t.Errorf("plan is %+v", plan)
			}
		})
	}
}

func TestMirror_Metadata(t *testing.T) {
	e := endpoints(corev1.EndpointSubset{
		Addresses: []corev1.EndpointAddress{{IP: "10.0.0.1", Hostname: "h", NodeName: new("n"), TargetRef: &corev1.ObjectReference{Kind: "Pod", UID: "u"}}},
		Ports:     []corev1.EndpointPort{{Name: "web", Port: 80, Protocol: corev1.ProtocolTCP, AppProtocol: new("http")}},
	})
	want := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", GenerateName: "db-",
			Labels:          map[string]string{"tier": "data", discoveryv1.LabelServiceName: "db", discoveryv1.LabelManagedBy: ManagedBy},
			Annotations:     map[string]string{"note": "n"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Endpoints", Name: "db", UID: "e", Controller: new(true), BlockOwnerDeletion: new(true)}},
		},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: new("web"), Port: ptr.To[int32](80), Protocol: new(corev1.ProtocolTCP), AppProtocol: new("http")}},
		Endpoints: []discoveryv1.Endpoint{{
			Addresses: []string{"10.0.0.1"}, Conditions: discoveryv1.EndpointConditions{Ready: new(true)},
			Hostname: new("h"), NodeName: new("n"), TargetRef: &corev1.ObjectReference{Kind: "Pod", UID: "u"},
		}},
	}
	plan := Mirror(e, nil, 10)
	if diff := cmp.Diff([]*discoveryv1.EndpointSlice{want}, plan.Create); diff != "" {
		t.Errorf("slices (-want +got):\n%s", diff)
	}
}

func TestMirror_Existing(t *testing.T) {
	named := func(name string, s ...corev1.EndpointSubset) *discoveryv1.EndpointSlice {
		slice := Mirror(endpoints(s...), nil, 10).Create[0]
		slice.Name = name
		return slice
	}
	one := corev1.EndpointSubset{Addresses: addresses("10.0.0.1"), Ports: ports(80)}
	two := corev1.EndpointSubset{Addresses: addresses("10.0.0.1"), Ports: ports(443)}
	six := corev1.EndpointSubset{Addresses: addresses("fd00::1"), Ports: ports(80)}
	replaced := named("a", one)
	replaced.OwnerReferences[0].UID = "former"
	relabelled := named("a", one)
	relabelled.Labels["tier"] = "old"
	for _, tt := range []struct {
		name                 string
		have                 []*discoveryv1.EndpointSlice
		now                  []corev1.EndpointSubset
		create, update, gone []string // names; new ones have none
	}{
		{name: "as it is", have: []*discoveryv1.EndpointSlice{named("a", one)}, now: []corev1.EndpointSubset{one}},
		{name: "one slice is enough", have: []*discoveryv1.EndpointSlice{named("a", one), named("b", one)}, now: []corev1.EndpointSubset{one}, gone: []string{"b"}},
		{name: "other ports take over the name", have: []*discoveryv1.EndpointSlice{named("a", one)}, now: []corev1.EndpointSubset{two}, update: []string{"a"}},
		{name: "another family does not", have: []*discoveryv1.EndpointSlice{named("a", one)}, now: []corev1.EndpointSubset{six}, create: []string{""}, gone: []string{"a"}},
		{name: "no addresses", have: []*discoveryv1.EndpointSlice{named("a", one)}, gone: []string{"a"}},
		{name: "labels", have: []*discoveryv1.EndpointSlice{relabelled}, now: []corev1.EndpointSubset{one}, update: []string{"a"}},
		{name: "Endpoints made anew", have: []*discoveryv1.EndpointSlice{replaced}, now: []corev1.EndpointSubset{one}, update: []string{"a"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			names := func(list []*discoveryv1.EndpointSlice) (all []string) {
				for _, s := range list {
					all = append(all, s.Name)
				}
				return all
			}
			plan := Mirror(endpoints(tt.now...), tt.have, 10)
			got := [][]string{names(plan.Create), names(plan.Update), names(plan.Delete)}
			if diff := cmp.Diff([][]string{tt.create, tt.update, tt.gone}, got); diff != "" {
				t.Errorf("create, update, delete (-want +got):\n%s", diff)
			}
		})
	}
}

func TestReconcile(t *testing.T) {
	one := corev1.EndpointSubset{Addresses: addresses("10.0.0.1"), Ports: ports(80)}
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "db"}}
	selecting := service.DeepCopy()
	selecting.Spec.Selector = map[string]string{"app": "db"}
	skipped := endpoints(one)
	skipped.Labels[discoveryv1.LabelSkipMirror] = "true"
	lock := endpoints(one)
	lock.Annotations["control-plane.alpha.kubernetes.io/leader"] = "{}"
	old := Mirror(endpoints(corev1.EndpointSubset{Addresses: addresses("10.0.0.9"), Ports: ports(80)}), nil, 10).Create[0]
	old.Name, old.UID = "db-old", "s"
	spare := old.DeepCopy()
	spare.Name, spare.UID = "db-spare", "s2"
	for _, tt := range []struct {
		name    string
		objects []client.Object
		want    []string
	}{
		{"new", []client.Object{service, endpoints(one)}, []string{"IPv4 80 10.0.0.1|"}},
		{"changed", []client.Object{service, endpoints(one), old, spare}, []string{"IPv4 80 10.0.0.1|"}},
		{"with selector", []client.Object{selecting, endpoints(one), old}, nil},
		{"without service", []client.Object{endpoints(one), old}, nil},
		{"without endpoints", []client.Object{service, old}, nil},
		{"not wanted", []client.Object{service, skipped, old}, nil},
		{"lock of a leader", []client.Object{service, lock, old}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			controllertest.Run(t, controllertest.Case{
				Objects: tt.objects,
				Request: reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "ns", Name: "db"}},
				New: func(c client.Client) reconcile.Reconciler {
					return &Reconciler{Client: c, Events: &record.FakeRecorder{}}
				},
				Want: func(ctx context.Context, c client.Client) error {
					var list discoveryv1.EndpointSliceList
					if err := c.List(ctx, &list); err != nil {
						return err
					}
					var got []string
					for i := range list.Items {
						got = append(got, show(&list.Items[i]))
					}
					if diff := cmp.Diff(tt.want, got); diff != "" {
						return fmt.Errorf("slices (-want +got):\n%s", diff)
					}
					return nil
				},
			})
		})
	}
}

func TestReconcile_Events(t *testing.T) {
	many := make([]string, 0, maxPerSubset+2)
	for i := range maxPerSubset + 2 {
		many = append(many, fmt.Sprintf("10.0.%d.%d", i/250, i%250+1))
	}
	many[0] = "nonsense"
	e := endpoints(corev1.EndpointSubset{Addresses: addresses(many...), Ports: ports(80)})
	c := controllertest.NewClientBuilder().WithObjects(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "db"}}, e).Build()
	events := record.NewFakeRecorder(10)
	r := &Reconciler{Client: c, Events: events}
	if _, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(e)}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"Warning TooManyAddressesToMirror A max of 1000 addresses can be mirrored to EndpointSlices per Endpoints subset. 2 addresses were skipped",
	} {
		if got := <-events.Events; got != want {
			t.Errorf("event %q, want %q", got, want)
		}
	}
}

func TestPredicates(t *testing.T) {
	plain, skipped := endpoints(), endpoints()
	skipped.Labels[discoveryv1.LabelSkipMirror] = "true"
	p := either(mirrored)
	if !p.Update(event.UpdateEvent{ObjectOld: plain, ObjectNew: skipped}) || p.Update(event.UpdateEvent{ObjectOld: skipped, ObjectNew: skipped}) {
		t.Error("changes of Endpoints are let through by what they are not")
	}
	with := &corev1.Service{Spec: corev1.ServiceSpec{Selector: map[string]string{"a": "b"}}}
	s := selectorChange()
	if s.Create(event.CreateEvent{Object: with}) || !s.Update(event.UpdateEvent{ObjectOld: with, ObjectNew: &corev1.Service{}}) {
		t.Error("changes of Services are let through by what they are not")
	}
}
