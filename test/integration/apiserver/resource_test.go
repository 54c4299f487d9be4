// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"minik8s.io/minik8s/test/integration/framework"
)

func serviceOf(name, kind, ip string, nodePort int32) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceType(kind), ClusterIP: ip, Ports: []corev1.ServicePort{{Port: 80, NodePort: nodePort}}},
	}
}

func TestService_AddressesAndPorts(t *testing.T) {
	t.Parallel()
	ns := cluster.Namespace(t)
	services := cluster.Client.CoreV1().Services(ns)
	create := func(s *corev1.Service) (*corev1.Service, error) {
		return services.Create(t.Context(), s, metav1.CreateOptions{})
	}
	first, err := create(serviceOf("first", "NodePort", "", 0))
	if err != nil {
		t.Fatal(err)
	}
	ip, err := netip.ParseAddr(first.Spec.ClusterIP)
	if err != nil || !netip.MustParsePrefix("10.96.0.0/16").Contains(ip) || first.Spec.ClusterIPs[0] != first.Spec.ClusterIP {
		t.Errorf("cluster IPs are %v, %v", first.Spec.ClusterIPs, err)
	}
	port := first.Spec.Ports[0].NodePort
	if port < 30000 || port > 32767 {
		t.Errorf("node port is %d", port)
	}
	for _, tc := range []struct {
		name    string
		service *corev1.Service
		want    string
	}{
		{"IP in use", serviceOf("x", "ClusterIP", first.Spec.ClusterIP, 0), "provided IP is already allocated"},
		{"IP out of range", serviceOf("x", "ClusterIP", "192.168.0.1", 0), "the provided network does not match the current range"},
		{"port in use", serviceOf("x", "NodePort", "", port), "provided port is already allocated"},
		{"port out of range", serviceOf("x", "NodePort", "", 80), "provided port is not in the valid range"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if _, err := create(tc.service); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("answer is %v, want %q", err, tc.want)
			}
		})
	}
	// A port goes back when the type changes, all goes back with the service.
	if _, err := services.Patch(t.Context(), "first", types.MergePatchType, []byte(`{"spec":{"type":"ClusterIP","ports":[{"port":80}]}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := create(serviceOf("second", "NodePort", "", port)); err != nil {
		t.Errorf("a port that was given back: %v", err)
	}
	if err := services.Delete(t.Context(), "first", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := create(serviceOf("third", "ClusterIP", first.Spec.ClusterIP, 0)); err != nil {
		t.Errorf("an address that was given back: %v", err)
	}
	headless, err := create(serviceOf("headless", "ClusterIP", "None", 0))
	if err != nil || headless.Spec.ClusterIP != "None" {
		t.Errorf("a headless service has the address %q, %v", headless.Spec.ClusterIP, err)
	}
	if _, err := services.Patch(t.Context(), "third", types.MergePatchType, []byte(`{"spec":{"clusterIP":"10.96.77.77","clusterIPs":["10.96.77.77"]}}`), metav1.PatchOptions{}); !apierrors.IsInvalid(err) {
		t.Errorf("changing an address answers %v", err)
	}
	// What fails must not keep what it had taken.
	bad := serviceOf("bad", "NodePort", "10.96.88.88", port)
	if _, err := create(bad); !apierrors.IsInvalid(err) {
		t.Errorf("a service that cannot have its port: %v", err)
	}
	if _, err := create(serviceOf("good", "ClusterIP", "10.96.88.88", 0)); err != nil {
		t.Errorf("the address of a service that was refused: %v", err)
	}
}

func TestPod_Binding(t *testing.T) {
	t.Parallel()
	ns := cluster.Namespace(t)
	pods := cluster.Client.CoreV1().Pods(ns)
	if _, err := pods.Create(t.Context(), framework.Pod("p", "p"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	binding := func(node string) *corev1.Binding {
		return &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Target: corev1.ObjectReference{Kind: "Node", Name: node}}
	}
	if err := pods.Bind(t.Context(), binding("n1"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	p, err := pods.Get(t.Context(), "p", metav1.GetOptions{})
	if err != nil || p.Spec.NodeName != "n1" {
		t.Fatalf("the pod is on %q, %v", p.Spec.NodeName, err)
	}
	if len(p.Status.Conditions) != 1 || p.Status.Conditions[0].Type != corev1.PodScheduled || p.Status.Conditions[0].Status != corev1.ConditionTrue {
		t.Errorf("conditions are %+v", p.Status.Conditions)
	}
	if err := pods.Bind(t.Context(), binding("n2"), metav1.CreateOptions{}); !apierrors.IsConflict(err) {
		t.Errorf("binding a second time answers %v", err)
	}
	if _, err := pods.Patch(t.Context(), "p", types.MergePatchType, []byte(`{"spec":{"nodeName":"n2"}}`), metav1.PatchOptions{}); !apierrors.IsInvalid(err) {
		t.Errorf("moving a pod answers %v", err)
	}
}

func TestPod_EvictionAsksTheBudget(t *testing.T) {
	t.Parallel()
	ns := cluster.Namespace(t)
	pods := cluster.Client.CoreV1().Pods(ns)
	for _, name := range []string{"a", "b"} {
		pod := framework.Pod(name, "web")
		pod.Spec.NodeName = "n1"
		pod, err := pods.Create(t.Context(), pod, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		pod.Status.Phase = corev1.PodRunning
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		if _, err := pods.UpdateStatus(t.Context(), pod, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	budgets := cluster.Client.PolicyV1().PodDisruptionBudgets(ns)
	budget, err := budgets.Create(t.Context(), &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: "budget"},
		Spec:       policyv1.PodDisruptionBudgetSpec{MinAvailable: new(intstr.FromInt32(1)), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	evict := func(name string) error {
		return pods.EvictV1(t.Context(), &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	// Plainly, because a client would wait and try again for minutes.
	path := "/api/v1/namespaces/" + ns + "/pods/a/eviction"
	early := send(t, "POST", path, jsonType, jsonType, `{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":"a"}}`)
	if early.code != 429 || early.header.Get("Retry-After") != "10" || !strings.Contains(early.body, "is still being processed by the server") {
		t.Errorf("evicting before the budget was looked at answers %d %s, Retry-After %q", early.code, early.body, early.header.Get("Retry-After"))
	}
	// This is what the disruption controller would find.
	budget.Status = policyv1.PodDisruptionBudgetStatus{ObservedGeneration: budget.Generation, DisruptionsAllowed: 1, CurrentHealthy: 2, DesiredHealthy: 1, ExpectedPods: 2}
	if _, err := budgets.UpdateStatus(t.Context(), budget, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := evict("a"); err != nil {
		t.Fatalf("evicting within the budget answers %v", err)
	}
	a, err := pods.Get(t.Context(), "a", metav1.GetOptions{})
	if err != nil || a.DeletionTimestamp == nil {
		t.Errorf("the evicted pod is deleted at %v, %v", a.DeletionTimestamp, err)
	}
	err = evict("b")
	if !apierrors.IsTooManyRequests(err) || !apierrors.HasStatusCause(err, policyv1.DisruptionBudgetCause) {
		t.Errorf("evicting beyond the budget answers %v", err)
	}
	if err := evict("nobody"); !apierrors.IsNotFound(err) {
		t.Errorf("evicting nobody answers %v", err)
	}
}

func TestEvents_InBothGroups(t *testing.T) {
	t.Parallel()
	ns := cluster.Namespace(t)
	old, err := cluster.Client.CoreV1().Events(ns).Create(t.Context(), &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Name: "old"},
		InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: ns, Name: "p"},
		Reason:         "Started", Message: "text", Type: corev1.EventTypeNormal, Count: 3, Source: corev1.EventSource{Component: "kubelet", Host: "n1"},
		FirstTimestamp: metav1.Now(), LastTimestamp: metav1.Now(),
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	modern, err := cluster.Client.EventsV1().Events(ns).Get(t.Context(), "old", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if modern.UID != old.UID || modern.Note != "text" || modern.Regarding.Name != "p" || modern.DeprecatedCount != 3 || modern.DeprecatedSource.Component != "kubelet" {
		t.Errorf("in events.k8s.io it is %+v", modern)
	}
	_, err = cluster.Client.EventsV1().Events(ns).Create(t.Context(), &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{Name: "new"}, EventTime: metav1.NowMicro(), ReportingController: "example.com/c", ReportingInstance: "c-0",
		Action: "Acting", Reason: "Because", Regarding: corev1.ObjectReference{Kind: "Pod", Namespace: ns, Name: "p"}, Note: "note", Type: corev1.EventTypeWarning,
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	list, err := cluster.Client.CoreV1().Events(ns).List(t.Context(), metav1.ListOptions{FieldSelector: "involvedObject.name=p"})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, e := range list.Items {
		got[e.Name] = e.Message
	}
	if diff := cmp.Diff(map[string]string{"old": "text", "new": "note"}, got); diff != "" {
		t.Errorf("in the core group (-want +got):\n%s", diff)
	}
}

// TestNamespace_Finalize plays the namespace controller, which does not run here.
func TestNamespace_Finalize(t *testing.T) {
	t.Parallel()
	spaces := cluster.Client.CoreV1().Namespaces()
	ns, err := spaces.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "final-"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]corev1.FinalizerName{corev1.FinalizerKubernetes}, ns.Spec.Finalizers); diff != "" || ns.Status.Phase != corev1.NamespaceActive {
		t.Errorf("a new namespace is %s with the finalizers (-want +got):\n%s", ns.Status.Phase, diff)
	}
	if ns.Labels[corev1.LabelMetadataName] != ns.Name {
		t.Errorf("its labels are %v", ns.Labels)
	}
	if err := spaces.Delete(t.Context(), ns.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if ns, err = spaces.Get(t.Context(), ns.Name, metav1.GetOptions{}); err != nil || ns.Status.Phase != corev1.NamespaceTerminating || ns.DeletionTimestamp == nil {
		t.Fatalf("after deletion it is %+v, %v", ns, err)
	}
	framework.Eventually(t, "nothing new is let in", func() error {
		_, err := cluster.Client.CoreV1().ConfigMaps(ns.Name).Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "m-"}}, metav1.CreateOptions{})
		if apierrors.IsForbidden(err) && apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
			return nil
		}
		return fmt.Errorf("creating answers %w", err)
	})
	ns.Spec.Finalizers = nil
	if _, err := spaces.Finalize(t.Context(), ns, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := spaces.Get(t.Context(), ns.Name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("after its last finalizer get answers %v", err)
	}
	for _, name := range []string{"default", "kube-system", "kube-public"} {
		if err := spaces.Delete(context.Background(), name, metav1.DeleteOptions{}); !apierrors.IsForbidden(err) {
			t.Errorf("deleting %s answers %v", name, err)
		}
	}
}
