// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package endpointslice

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	clientsetfake "k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"minik8s.io/minik8s/pkg/controllers/controllertest"
)

func TestReconcile(t *testing.T) {
	svc := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web", UID: "svc"},
		Spec: corev1.ServiceSpec{
			ClusterIP: "10.0.0.1", ClusterIPs: []string{"10.0.0.1"}, IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol},
			Selector: map[string]string{"app": "web"},
			Ports:    []corev1.ServicePort{{Name: "http", Protocol: corev1.ProtocolTCP, Port: 80, TargetPort: intstr.FromInt32(8080)}},
		},
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a", UID: "a", Labels: map[string]string{"app": "web"}},
		Spec:       corev1.PodSpec{NodeName: "n"},
		Status: corev1.PodStatus{
			PodIP: "10.1.0.2", PodIPs: []corev1.PodIP{{IP: "10.1.0.2"}},
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
		},
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{corev1.LabelTopologyZone: "z1"}}}
	reader := controllertest.NewClientBuilder().WithObjects(svc, pod, node).Build()
	clientset := clientsetfake.NewClientset()
	r := New(reader, clientset, &record.FakeRecorder{})
	request := reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "ns", Name: "web"}}
	if _, err := r.Reconcile(t.Context(), request); err != nil {
		t.Fatal(err)
	}
	list, err := clientset.DiscoveryV1().EndpointSlices("ns").List(t.Context(), metav1.ListOptions{})
	if err != nil || len(list.Items) != 1 {
		t.Fatalf("slices %v, error %v", list.Items, err)
	}
	slice := &list.Items[0]
	if len(slice.Endpoints) != 1 || slice.Endpoints[0].Addresses[0] != "10.1.0.2" || *slice.Endpoints[0].Zone != "z1" || *slice.Ports[0].Port != 8080 {
		t.Errorf("slice %+v", slice)
	}
	if slice.Labels[discoveryv1.LabelManagedBy] != ManagedBy || slice.Labels[discoveryv1.LabelServiceName] != "web" {
		t.Errorf("labels %v", slice.Labels)
	}

	changed := r.foreignChange()
	if changed.Create(event.CreateEvent{Object: slice}) {
		t.Error("the slice just written counts as a foreign change")
	}
	if !changed.Delete(event.DeleteEvent{Object: slice}) {
		t.Error("a deletion that nobody here asked for is not noticed")
	}

	// The cache does not have the slice: a second one must not come into being.
	if _, err := r.Reconcile(t.Context(), request); err == nil {
		t.Error("a cache that misses the last write is trusted")
	}
	if list, err := clientset.DiscoveryV1().EndpointSlices("ns").List(t.Context(), metav1.ListOptions{}); err != nil || len(list.Items) != 1 {
		t.Errorf("slices %v, error %v", list.Items, err)
	}
}

func TestReconcile_Gone(t *testing.T) {
	r := New(controllertest.NewClientBuilder().Build(), clientsetfake.NewClientset(), &record.FakeRecorder{})
	if _, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "ns", Name: "web"}}); err != nil {
		t.Error(err)
	}
}
