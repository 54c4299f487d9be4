// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package componentstatus

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"minik8s.io/minik8s/pkg/registry"
	"minik8s.io/minik8s/pkg/registry/registrytest"
)

func TestResource(t *testing.T) {
	well := func(context.Context) error { return nil }
	ill := func(context.Context) error { return errors.New("no answer") }
	group := registry.Group{AddToScheme: corev1.AddToScheme, Versions: []registry.Version{{Name: "v1", Resources: []registry.Descriptor{Resource}}}}
	config := registrytest.Serve(t, registry.Config{Components: map[string]registry.Check{"scheduler": ill, "etcd-0": well}}, group)
	components := kubernetes.NewForConfigOrDie(config).CoreV1().ComponentStatuses()

	list, err := components.List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	condition := func(status corev1.ConditionStatus, message string) []corev1.ComponentCondition {
		return []corev1.ComponentCondition{{Type: corev1.ComponentHealthy, Status: status, Message: message}}
	}
	want := []corev1.ComponentStatus{
		{ObjectMeta: metav1.ObjectMeta{Name: "etcd-0"}, Conditions: condition(corev1.ConditionTrue, "ok")},
		{ObjectMeta: metav1.ObjectMeta{Name: "scheduler"}, Conditions: condition(corev1.ConditionFalse, "no answer")},
	}
	if diff := cmp.Diff(want, list.Items); diff != "" {
		t.Errorf("list (-want +got):\n%s", diff)
	}
	one, err := components.Get(t.Context(), "scheduler", metav1.GetOptions{})
	if err != nil || cmp.Diff(want[1].Conditions, one.Conditions) != "" {
		t.Errorf("got %v, %v", one, err)
	}
	if _, err := components.Get(t.Context(), "proxy", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("another: %v", err)
	}
	for selector, count := range map[metav1.ListOptions]int{
		{FieldSelector: "metadata.name=etcd-0"}: 1, {FieldSelector: "metadata.name!=etcd-0"}: 1, {LabelSelector: "a"}: 0, {LabelSelector: "!a"}: 2,
	} {
		if list, err := components.List(t.Context(), selector); err != nil || len(list.Items) != count {
			t.Errorf("%v: %d, %v, want %d", selector, len(list.Items), err, count)
		}
	}
}

func TestListening(t *testing.T) {
	code := http.StatusOK
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/healthz" {
			t.Errorf("asks for %s", r.URL.Path)
		}
		http.Error(w, "so", code)
	}))
	check := Listening(server.Listener.Addr().(*net.TCPAddr).Port)
	if err := check(t.Context()); err != nil {
		t.Errorf("well: %v", err)
	}
	code = http.StatusInternalServerError
	if err := check(t.Context()); err == nil || !strings.Contains(err.Error(), "500 so") {
		t.Errorf("ill: %v", err)
	}
	server.Close()
	if err := check(t.Context()); err == nil || !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("gone: %v", err)
	}
}
