// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"minik8s.io/minik8s/pkg/controllers/controllertest"
)

func service(name string, selector map[string]string) *corev1.Service {
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}, Spec: corev1.ServiceSpec{Selector: selector}}
}

func TestRequests(t *testing.T) {
	external := service("external", map[string]string{"app": "web"})
	external.Spec.Type = corev1.ServiceTypeExternalName
	builder := controllertest.NewClientBuilder().WithObjects(external,
		service("web", map[string]string{"app": "web"}), service("front", map[string]string{"app": "web", "tier": "front"}),
		service("back", map[string]string{"app": "web", "tier": "back"}), service("headless", nil))
	for i := range 20 {
		builder = builder.WithObjects(service(fmt.Sprintf("bystander-%d", i), map[string]string{"app": fmt.Sprintf("other-%d", i)}))
	}
	listed := 0
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", Labels: map[string]string{"app": "web", "tier": "front"}}}
	var names []string
	for _, r := range Requests(controllertest.Counting(builder.Build(), &listed))(t.Context(), pod) {
		names = append(names, r.Name)
	}
	slices.Sort(names)
	if diff := cmp.Diff([]string{"front", "web"}, names); diff != "" {
		t.Errorf("services (-want +got):\n%s", diff)
	}
	if listed > 4 {
		t.Errorf("looked at %d services", listed)
	}
}

func TestSlices(t *testing.T) {
	slice := func(name, service, manager string) *discoveryv1.EndpointSlice {
		return &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: name, Labels: map[string]string{discoveryv1.LabelServiceName: service, discoveryv1.LabelManagedBy: manager},
		}}
	}
	going := slice("going", "web", "us")
	going.Finalizers, going.DeletionTimestamp = []string{"test/stay"}, &metav1.Time{Time: metav1.Now().Time}
	listed := 0
	c := controllertest.Counting(controllertest.NewClientBuilder().WithObjects(slice("ours", "web", "us"), slice("theirs", "web", "them"),
		slice("other", "db", "us"), going).Build(), &listed)
	found, err := Slices(t.Context(), c, types.NamespacedName{Namespace: "ns", Name: "web"}, "us")
	if err != nil {
		t.Fatal(err)
	}
	if len(found) != 1 || found[0].Name != "ours" || listed != 3 {
		t.Errorf("found %v among %d", found, listed)
	}
}
