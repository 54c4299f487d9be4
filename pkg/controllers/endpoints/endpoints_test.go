// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package endpoints

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"minik8s.io/minik8s/pkg/controllers/controllertest"
)

var request = reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "ns", Name: "web"}}

func service(change ...func(*corev1.Service)) *corev1.Service {
	svc := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web", Labels: map[string]string{"l": "v"}},
		Spec: corev1.ServiceSpec{
			ClusterIP: "10.0.0.1",
			Selector:  map[string]string{"app": "web"},
			Ports:     []corev1.ServicePort{{Name: "http", Protocol: corev1.ProtocolTCP, Port: 80, TargetPort: intstr.FromString("http")}},
		},
	}
	for _, c := range change {
		c(svc)
	}
	return svc
}

func pod(name, ip string, port int32, ready bool) *corev1.Pod {
	status := corev1.ConditionFalse
	if ready {
		status = corev1.ConditionTrue
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name), Labels: map[string]string{"app": "web"}},
		Spec: corev1.PodSpec{NodeName: "n", Containers: []corev1.Container{{
			Name: "c", Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: port, Protocol: corev1.ProtocolTCP}},
		}}},
		Status: corev1.PodStatus{PodIP: ip, PodIPs: []corev1.PodIP{{IP: ip}}, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: status}}},
	}
}

func withAdmin(p *corev1.Pod) *corev1.Pod {
	p.Spec.Containers[0].Ports = append(p.Spec.Containers[0].Ports, corev1.ContainerPort{Name: "admin", ContainerPort: 90, Protocol: corev1.ProtocolTCP})
	return p
}

// render shows subsets as "ready|not ready:ports".
func render(subsets []corev1.EndpointSubset) []string {
	ips := func(addresses []corev1.EndpointAddress) (s string) {
		for _, a := range addresses {
			s += a.IP + " "
		}
		return s
	}
	var got []string
	for _, s := range subsets {
		line := ips(s.Addresses) + "| " + ips(s.NotReadyAddresses) + ":"
		for _, p := range s.Ports {
			line += fmt.Sprintf(" %s/%d", p.Name, p.Port)
		}
		got = append(got, line)
	}
	return got
}

func TestSubsets(t *testing.T) {
	headless := func(svc *corev1.Service) { svc.Spec.ClusterIP, svc.Spec.Ports = corev1.ClusterIPNone, nil }
	tests := []struct {
		name string
		svc  *corev1.Service
		pods []*corev1.Pod
		want []string
	}{
		{name: "none", svc: service()},
		{name: "ready and not, sorted", svc: service(), pods: []*corev1.Pod{pod("b", "10.1.0.3", 80, true), pod("a", "10.1.0.2", 80, true), pod("c", "10.1.0.4", 80, false)}, want: []string{"10.1.0.2 10.1.0.3 | 10.1.0.4 : http/80"}},
		{name: "one name, two numbers", svc: service(), pods: []*corev1.Pod{pod("a", "10.1.0.2", 80, true), pod("b", "10.1.0.3", 8080, true)}, want: []string{"10.1.0.2 | : http/80", "10.1.0.3 | : http/8080"}},
		{
			name: "a pod without one of the ports",
			svc: service(func(s *corev1.Service) {
				s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Name: "admin", Protocol: corev1.ProtocolTCP, Port: 90, TargetPort: intstr.FromString("admin")})
			}),
			pods: []*corev1.Pod{pod("a", "10.1.0.2", 80, true), withAdmin(pod("b", "10.1.0.3", 80, true)), withAdmin(pod("c", "10.1.0.4", 80, false))},
			want: []string{"10.1.0.3 | 10.1.0.4 : admin/90", "10.1.0.2 10.1.0.3 | 10.1.0.4 : http/80"},
		},
		{name: "publish not ready", svc: service(func(s *corev1.Service) { s.Spec.PublishNotReadyAddresses = true }), pods: []*corev1.Pod{pod("a", "10.1.0.2", 80, false)}, want: []string{"10.1.0.2 | : http/80"}},
		{name: "headless without ports", svc: service(headless), pods: []*corev1.Pod{pod("a", "10.1.0.2", 80, true)}, want: []string{"10.1.0.2 | :"}},
		{name: "no address yet", svc: service(), pods: []*corev1.Pod{pod("a", "", 80, true)}},
		{name: "other family", svc: service(func(s *corev1.Service) { s.Spec.IPFamilies = []corev1.IPFamily{corev1.IPv6Protocol} }), pods: []*corev1.Pod{pod("a", "10.1.0.2", 80, true)}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, p := range tt.pods {
				if p.Status.PodIP == "" {
					p.Status.PodIPs = nil
				}
			}
			if diff := cmp.Diff(tt.want, render(Subsets(tt.svc, tt.pods))); diff != "" {
				t.Errorf("subsets (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTruncate(t *testing.T) {
	// subset has so many addresses that are ready, and not.
	subset := func(ready, notReady int) corev1.EndpointSubset {
		return corev1.EndpointSubset{Addresses: make([]corev1.EndpointAddress, ready), NotReadyAddresses: make([]corev1.EndpointAddress, notReady)}
	}
	tests := []struct {
		name  string
		given [][2]int
		want  [][2]int
		cut   bool
	}{
		{name: "few", given: [][2]int{{4, 3}, {2, 1}}, want: [][2]int{{4, 3}, {2, 1}}},
		{name: "some not ready", given: [][2]int{{4, 6}, {2, 2}}, want: [][2]int{{4, 3}, {2, 1}}, cut: true},
		{name: "all ready, no more", given: [][2]int{{6, 1}, {4, 1}}, want: [][2]int{{6, 0}, {4, 0}}, cut: true},
		{name: "too many ready", given: [][2]int{{10, 5}, {10, 0}}, want: [][2]int{{5, 0}, {5, 0}}, cut: true},
		{name: "in proportion, rounded up until there is no room", given: [][2]int{{7, 0}, {7, 0}, {1, 0}}, want: [][2]int{{5, 0}, {5, 0}}, cut: true},
		{name: "none left of a subset", given: [][2]int{{12, 0}, {0, 3}}, want: [][2]int{{10, 0}}, cut: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var subsets []corev1.EndpointSubset
			for _, n := range tt.given {
				subsets = append(subsets, subset(n[0], n[1]))
			}
			kept, cut := truncate(subsets, 10)
			var got [][2]int
			for _, s := range kept {
				got = append(got, [2]int{len(s.Addresses), len(s.NotReadyAddresses)})
			}
			if diff := cmp.Diff(tt.want, got); diff != "" || cut != tt.cut {
				t.Errorf("cut %v (-want +got):\n%s", cut, diff)
			}
		})
	}
}

// The order of what is there already is not worth a write: another version may have had another one.
func TestReconcile_OrderStays(t *testing.T) {
	svc := service()
	pods := []*corev1.Pod{pod("a", "10.1.0.2", 80, true), pod("b", "10.1.0.3", 8080, true), pod("c", "10.1.0.4", 8081, true)}
	current := build(svc, pods, &corev1.Endpoints{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web"}}, time.Time{})
	slices.Reverse(current.Subsets)
	c := fake.NewClientBuilder().WithObjects(svc, current, pods[0], pods[1], pods[2]).Build()
	before := &corev1.Endpoints{}
	if err := c.Get(t.Context(), request.NamespacedName, before); err != nil {
		t.Fatal(err)
	}
	if _, err := New(c, &record.FakeRecorder{}).Reconcile(t.Context(), request); err != nil {
		t.Fatal(err)
	}
	after := &corev1.Endpoints{}
	if err := c.Get(t.Context(), request.NamespacedName, after); err != nil || after.ResourceVersion != before.ResourceVersion {
		t.Errorf("it was written, error %v", err)
	}
}

func TestReconciler(t *testing.T) {
	controllertest.Run(t, controllertest.Case{
		Objects: []client.Object{service(func(s *corev1.Service) { s.Spec.ClusterIP = corev1.ClusterIPNone }), pod("a", "10.1.0.2", 80, true)},
		Request: request,
		New:     func(c client.Client) reconcile.Reconciler { return New(c, &record.FakeRecorder{}) },
		Want: func(ctx context.Context, c client.Client) error {
			var ep corev1.Endpoints
			if err := c.Get(ctx, request.NamespacedName, &ep); err != nil {
				return err
			}
			want := map[string]string{"l": "v", LabelManagedBy: managedBy, corev1.IsHeadlessService: ""}
			if diff := cmp.Diff(want, ep.Labels); diff != "" || len(ep.Subsets) != 1 {
				return fmt.Errorf("subsets %v, labels (-want +got):\n%s", ep.Subsets, diff)
			}
			return nil
		},
	})
}

func TestReconcile_ServiceGone(t *testing.T) {
	c := fake.NewClientBuilder().WithObjects(&corev1.Endpoints{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web"}}).Build()
	if _, err := New(c, &record.FakeRecorder{}).Reconcile(t.Context(), request); err != nil {
		t.Fatal(err)
	}
	if err := c.Get(t.Context(), request.NamespacedName, &corev1.Endpoints{}); !apierrors.IsNotFound(err) {
		t.Errorf("the endpoints are still there: %v", err)
	}
}
