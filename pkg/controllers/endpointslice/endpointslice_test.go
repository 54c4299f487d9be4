// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package endpointslice

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"
	clientsetfake "k8s.io/client-go/kubernetes/fake"
	typeddiscoveryv1 "k8s.io/client-go/kubernetes/typed/discovery/v1"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"minik8s.io/minik8s/pkg/controllers/controllertest"
)

// web is a Service with a pod and its node.
func web() (*corev1.Service, *corev1.Pod, *corev1.Node) {
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
	return svc, pod, node
}

func TestReconcile(t *testing.T) {
	svc, pod, node := web()
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

// What passes have come to is counted, and told of where the other controllers tell of theirs.
func TestMetrics(t *testing.T) {
	if err := register(); err != nil {
		t.Fatal(err)
	}
	before := told(t)
	svc, pod, node := web()
	reader := controllertest.NewClientBuilder().WithObjects(svc, pod, node).Build()
	r := New(reader, clientsetfake.NewClientset(), &record.FakeRecorder{})
	request := reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "ns", Name: "web"}}
	if _, err := r.Reconcile(t.Context(), request); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Reconcile(t.Context(), request); err == nil {
		t.Fatal("a cache that misses the last write is trusted")
	}
	after := told(t)
	for name, want := range map[string]float64{
		"endpoints_added_per_sync": 1, "endpoints_removed_per_sync": 1, "changes operation=create": 1, "syncs result=success": 1, "syncs result=stale": 1,
		"endpointslices_changed_per_sync topology=Disabled traffic_distribution=": 1,
	} {
		if got := after[name] - before[name]; got != want {
			t.Errorf("%s has grown by %v, want %v", name, got, want)
		}
	}
	for name, want := range map[string]float64{"endpoints_desired": 1, "num_endpoint_slices": 1, "desired_endpoint_slices": 1} {
		if got := after[name]; got != want {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
}

// told are the controller's metrics by name and labels; of a histogram it is the number of observations.
func told(t *testing.T) map[string]float64 {
	t.Helper()
	families, err := metrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]float64{}
	for _, f := range families {
		name, ours := strings.CutPrefix(f.GetName(), "endpoint_slice_controller_")
		if !ours {
			continue
		}
		for _, m := range f.GetMetric() {
			key := name
			for _, l := range m.GetLabel() {
				key += " " + l.GetName() + "=" + l.GetValue()
			}
			values[key] = m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	return values
}

func TestReconcile_Gone(t *testing.T) {
	r := New(controllertest.NewClientBuilder().Build(), clientsetfake.NewClientset(), &record.FakeRecorder{})
	if _, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "ns", Name: "web"}}); err != nil {
		t.Error(err)
	}
}

// slices is a clientset that writes EndpointSlices by a client.
type slices struct {
	kubernetes.Interface
	typeddiscoveryv1.DiscoveryV1Interface
	typeddiscoveryv1.EndpointSliceInterface
	client    client.Client
	namespace string
}

func (s slices) DiscoveryV1() typeddiscoveryv1.DiscoveryV1Interface { return s }

func (s slices) EndpointSlices(namespace string) typeddiscoveryv1.EndpointSliceInterface {
	s.namespace = namespace
	return s
}

func (s slices) Create(ctx context.Context, slice *discoveryv1.EndpointSlice, _ metav1.CreateOptions) (*discoveryv1.EndpointSlice, error) {
	slice = slice.DeepCopy()
	slice.Namespace = s.namespace
	return slice, s.client.Create(ctx, slice)
}

func (s slices) Update(ctx context.Context, slice *discoveryv1.EndpointSlice, _ metav1.UpdateOptions) (*discoveryv1.EndpointSlice, error) {
	slice = slice.DeepCopy()
	return slice, s.client.Update(ctx, slice)
}

func (s slices) Delete(ctx context.Context, name string, _ metav1.DeleteOptions) error {
	return s.client.Delete(ctx, &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name}})
}

func TestReconciler(t *testing.T) {
	svc, pod, node := web()
	slice := func(name string, addresses ...string) *discoveryv1.EndpointSlice {
		s := &discoveryv1.EndpointSlice{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name), Labels: map[string]string{
				discoveryv1.LabelServiceName: "web", discoveryv1.LabelManagedBy: ManagedBy,
			}},
			AddressType: discoveryv1.AddressTypeIPv4,
		}
		for _, a := range addresses {
			s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{Addresses: []string{a}})
		}
		return s
	}
	for name, present := range map[string][]client.Object{
		"new":         nil,
		"out of date": {slice("web-old", "10.1.0.1")},
		"too many":    {slice("web-a", "10.1.0.1"), slice("web-b", "10.1.0.2"), slice("web-c")},
	} {
		t.Run(name, func(t *testing.T) {
			controllertest.Run(t, controllertest.Case{
				Objects: append([]client.Object{svc, pod, node}, present...),
				Request: reconcile.Request{NamespacedName: client.ObjectKeyFromObject(svc)},
				New: func(c client.Client) reconcile.Reconciler {
					return New(c, slices{client: c}, &record.FakeRecorder{})
				},
				Repeats: true,
				Want: func(ctx context.Context, c client.Client) error {
					var list discoveryv1.EndpointSliceList
					if err := c.List(ctx, &list); err != nil {
						return err
					}
					if len(list.Items) != 1 || len(list.Items[0].Endpoints) != 1 || list.Items[0].Endpoints[0].Addresses[0] != "10.1.0.2" || *list.Items[0].Ports[0].Port != 8080 {
						return fmt.Errorf("slices %v", list.Items)
					}
					return nil
				},
			})
		})
	}
}
