// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	aggregatorclient "k8s.io/kube-aggregator/pkg/client/clientset_generated/clientset"
	apiregistrationclient "k8s.io/kube-aggregator/pkg/client/clientset_generated/clientset/typed/apiregistration/v1"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"
	metricsclient "k8s.io/metrics/pkg/client/clientset/versioned"

	"minik8s.io/minik8s/pkg/apiserver"
	"minik8s.io/minik8s/test/integration/framework"
)

// measured knows the node "known", and the pods whose names begin with "known" if they are on it.
type measured struct{}

var amount = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("250m"), corev1.ResourceMemory: resource.MustParse("3Mi")}

func (measured) Measure(context.Context) {}

func (measured) Node(name string) (metricsv1beta1.NodeMetrics, bool) {
	return metricsv1beta1.NodeMetrics{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Window: metav1.Duration{Duration: 15 * time.Second}, Usage: amount,
	}, name == "known"
}

func (measured) Pod(node string, name types.NamespacedName) (metricsv1beta1.PodMetrics, bool) {
	return metricsv1beta1.PodMetrics{
		ObjectMeta: metav1.ObjectMeta{Name: name.Name, Namespace: name.Namespace}, Window: metav1.Duration{Duration: 15 * time.Second},
		Containers: []metricsv1beta1.ContainerMetrics{{Name: "c", Usage: amount}, {Name: "d", Usage: amount}},
	}, node == "known" && strings.HasPrefix(name.Name, "known")
}

// TestMetrics is metrics.k8s.io as metrics-server has it, without one.
func TestMetrics(t *testing.T) {
	s := framework.Start(t, framework.Options{APIServer: func(c *apiserver.Config) { c.Usage = measured{} }})
	ctx := t.Context()
	for _, name := range []string{"known", "unknown"} {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"l": name}}}
		if _, err := s.Client.CoreV1().Nodes().Create(ctx, n, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for _, namespace := range []string{"default", "kube-system"} {
		account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
		if _, err := s.Client.CoreV1().ServiceAccounts(namespace).Create(ctx, account, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for _, p := range []struct{ namespace, name, node, phase string }{
		{"default", "known-a", "known", "Running"}, {"default", "known-ended", "known", "Succeeded"}, {"default", "new", "known", "Running"},
		{"default", "known-elsewhere", "unknown", "Running"}, {"kube-system", "known-b", "known", "Running"},
	} {
		pods := s.Client.CoreV1().Pods(p.namespace)
		pod, err := pods.Create(ctx, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: p.name, Labels: map[string]string{"l": p.name}},
			Spec:       corev1.PodSpec{NodeName: p.node, Containers: []corev1.Container{{Name: "c", Image: "i"}}},
		}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		pod.Status.Phase = corev1.PodPhase(p.phase)
		if _, err := pods.UpdateStatus(ctx, pod, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	client, err := metricsclient.NewForConfig(s.Admin())
	if err != nil {
		t.Fatal(err)
	}
	services := apiServices(t, s)
	framework.Eventually(t, "metrics.k8s.io", func() error { return available(ctx, services, "Local") })
	framework.Eventually(t, "all pods in the watch cache", func() error {
		list, err := client.MetricsV1beta1().PodMetricses("").List(ctx, metav1.ListOptions{})
		if err == nil && len(list.Items) != 2 {
			err = fmt.Errorf("there are %v", list.Items)
		}
		return err
	})
	t.Run("lists", func(t *testing.T) { testMetricsLists(t, client) })
	t.Run("single ones", func(t *testing.T) { testMetricsOfOne(t, client) })
	t.Run("documents", func(t *testing.T) { testMetricsDocuments(t, s) })
	t.Run("rights", func(t *testing.T) { testMetricsRights(t, s) })
	t.Run("another server", func(t *testing.T) { testMetricsReplaced(t, s, client) })
}

func testMetricsLists(t *testing.T, client metricsclient.Interface) {
	t.Helper()
	for _, test := range []struct {
		name, namespace string
		options         metav1.ListOptions
		want            []string
	}{
		{"of a namespace", "default", metav1.ListOptions{}, []string{"default/known-a"}},
		{"of all", "", metav1.ListOptions{}, []string{"default/known-a", "kube-system/known-b"}},
		{"of none", "kube-public", metav1.ListOptions{}, nil},
		{"by labels", "", metav1.ListOptions{LabelSelector: "l=known-b"}, []string{"kube-system/known-b"}},
		{"by name", "", metav1.ListOptions{FieldSelector: "metadata.name=known-b"}, []string{"kube-system/known-b"}},
		{"by namespace", "", metav1.ListOptions{FieldSelector: "metadata.namespace!=default"}, []string{"kube-system/known-b"}},
	} {
		list, err := client.MetricsV1beta1().PodMetricses(test.namespace).List(t.Context(), test.options)
		if err != nil {
			t.Errorf("%s: %v", test.name, err)
			continue
		}
		var got []string
		for _, p := range list.Items {
			got = append(got, p.Namespace+"/"+p.Name)
			if p.Labels["l"] != p.Name || p.CreationTimestamp.IsZero() || len(p.Containers) != 2 {
				t.Errorf("%s: %+v", test.name, p)
			}
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%s: %v, want %v", test.name, got, test.want)
		}
	}
	for options, want := range map[metav1.ListOptions]int{
		{}: 1, {LabelSelector: "l=known"}: 1, {LabelSelector: "l=unknown"}: 0, {FieldSelector: "metadata.name!=known"}: 0,
	} {
		list, err := client.MetricsV1beta1().NodeMetricses().List(t.Context(), options)
		if err != nil || len(list.Items) != want {
			t.Errorf("nodes by %v: %v, %v", options, list, err)
		}
	}
	if _, err := client.MetricsV1beta1().PodMetricses("").List(t.Context(), metav1.ListOptions{FieldSelector: "spec.nodeName=known"}); !apierrors.IsBadRequest(err) {
		t.Errorf("by a field that these objects have not: %v", err)
	}
	if _, err := client.MetricsV1beta1().NodeMetricses().Watch(t.Context(), metav1.ListOptions{}); !apierrors.IsMethodNotSupported(err) {
		t.Errorf("a watch: %v", err)
	}
}

func testMetricsOfOne(t *testing.T, client metricsclient.Interface) {
	t.Helper()
	n, err := client.MetricsV1beta1().NodeMetricses().Get(t.Context(), "known", metav1.GetOptions{})
	if err != nil || n.Labels["l"] != "known" || n.Usage.Cpu().MilliValue() != 250 {
		t.Errorf("node: %+v, %v", n, err)
	}
	for name, want := range map[string]string{
		"unknown": `nodemetrics.metrics.k8s.io "unknown" not found`, "none": `nodes "none" not found`,
	} {
		if _, err := client.MetricsV1beta1().NodeMetricses().Get(t.Context(), name, metav1.GetOptions{}); !apierrors.IsNotFound(err) || err.Error() != want {
			t.Errorf("node %s: %v, want %s", name, err, want)
		}
	}
	p, err := client.MetricsV1beta1().PodMetricses("default").Get(t.Context(), "known-a", metav1.GetOptions{})
	if err != nil || p.Labels["l"] != "known-a" || p.Window.Duration != 15*time.Second {
		t.Errorf("pod: %+v, %v", p, err)
	}
	for name, want := range map[string]string{
		"new": `podmetrics.metrics.k8s.io "default/new" not found`, "known-elsewhere": `podmetrics.metrics.k8s.io "default/known-elsewhere" not found`,
		"known-ended": `pods "known-ended" not found`, "known-b": `pods "known-b" not found`,
	} {
		if _, err := client.MetricsV1beta1().PodMetricses("default").Get(t.Context(), name, metav1.GetOptions{}); !apierrors.IsNotFound(err) || err.Error() != want {
			t.Errorf("pod %s: %v, want %s", name, err, want)
		}
	}
}

func testMetricsDocuments(t *testing.T, s *framework.Cluster) {
	t.Helper()
	const path = "/apis/metrics.k8s.io/v1beta1"
	for _, doc := range []struct {
		path, accept string
		want         []string
	}{
		{path, jsonType, []string{`{"name":"nodes","singularName":"","namespaced":false,"kind":"NodeMetrics","verbs":["get","list"]}`, `{"name":"pods","singularName":"","namespaced":true,"kind":"PodMetrics","verbs":["get","list"]}`}},
		{"/openapi/v2", jsonType, []string{path + "/namespaces/{namespace}/pods/{name}", "io.k8s.metrics.pkg.apis.metrics.v1beta1.PodMetricsList"}},
		{"/openapi/v3" + path, jsonType, []string{path + "/nodes/{name}", "sets resource usage metrics of a pod."}},
		{path + "/namespaces/default/pods", "application/json;as=Table;g=meta.k8s.io;v=v1", []string{`"name":"cpu","type":"string","format":"quantity"`, `"cells":["known-a","500m","6Mi","15s"]`}},
		{path + "/nodes/known", "application/json;as=Table;g=meta.k8s.io;v=v1", []string{`"name":"Window","type":"string","format":"duration"`, `"cells":["known","250m","3Mi","15s"]`}},
	} {
		got, err := s.Client.Discovery().RESTClient().Get().AbsPath(doc.path).SetHeader("Accept", doc.accept).DoRaw(t.Context())
		if err != nil {
			t.Errorf("%s: %v", doc.path, err)
		}
		for _, want := range doc.want {
			if !strings.Contains(string(got), want) {
				t.Errorf("%s has no %s: %.2000s", doc.path, want, got)
			}
		}
	}
}

func testMetricsRights(t *testing.T, s *framework.Cluster) {
	t.Helper()
	client, err := metricsclient.NewForConfig(s.User("viewer"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.MetricsV1beta1().PodMetricses("default").List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("nobody sees what pods use: %v", err)
	}
	role, err := s.Client.RbacV1().ClusterRoles().Get(t.Context(), "system:minik8s:metrics-reader", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if role.Labels["rbac.authorization.k8s.io/aggregate-to-view"] != "true" {
		t.Errorf("the role is no part of view: %v", role.Labels)
	}
	if _, err := s.Client.RbacV1().RoleBindings("default").Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "viewer"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: "viewer"}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	framework.Eventually(t, "a reader sees what pods use", func() error {
		_, err := client.MetricsV1beta1().PodMetricses("default").List(t.Context(), metav1.ListOptions{})
		return err
	})
	if _, err := client.MetricsV1beta1().NodeMetricses().List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("a reader of one namespace sees what nodes use: %v", err)
	}
}

const metricsService = "v1beta1.metrics.k8s.io"

func apiServices(t *testing.T, s *framework.Cluster) apiregistrationclient.APIServiceInterface {
	t.Helper()
	client, err := aggregatorclient.NewForConfig(s.Admin())
	if err != nil {
		t.Fatal(err)
	}
	return client.ApiregistrationV1().APIServices()
}

// available says whether metrics.k8s.io is, for a reason.
func available(ctx context.Context, services apiregistrationclient.APIServiceInterface, reason string) error {
	a, err := services.Get(ctx, metricsService, metav1.GetOptions{})
	if err != nil {
		return err
	}
	for _, c := range a.Status.Conditions {
		if c.Type == apiregistrationv1.Available && c.Status == apiregistrationv1.ConditionTrue && c.Reason == reason {
			return nil
		}
	}
	return fmt.Errorf("conditions are %+v", a.Status.Conditions)
}

// A server that a user installs is asked from then on, and until the user takes its APIService away.
func testMetricsReplaced(t *testing.T, s *framework.Cluster, client metricsclient.Interface) {
	t.Helper()
	ctx := t.Context()
	theirs := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", jsonType)
		switch r.URL.Path {
		case "/apis/metrics.k8s.io/v1beta1":
			io.WriteString(w, `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"metrics.k8s.io/v1beta1","resources":[{"name":"nodes","singularName":"","namespaced":false,"kind":"NodeMetrics","verbs":["get","list"]}]}`)
		case "/apis/metrics.k8s.io/v1beta1/nodes/theirs":
			io.WriteString(w, `{"kind":"NodeMetrics","apiVersion":"metrics.k8s.io/v1beta1","metadata":{"name":"theirs"}}`)
		default:
			http.NotFound(w, r)
		}
	}))
	defer theirs.Close()
	port := int32(theirs.Listener.Addr().(*net.TCPAddr).Port)
	if _, err := s.Client.CoreV1().Services("kube-system").Create(ctx, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "metrics-server"}, Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "localhost"},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	services := apiServices(t, s)
	ask := func(name string) error {
		_, err := client.MetricsV1beta1().NodeMetricses().Get(ctx, name, metav1.GetOptions{})
		return err
	}
	patch := fmt.Sprintf(`{"spec":{"service":{"namespace":"kube-system","name":"metrics-server","port":%d},"insecureSkipTLSVerify":true}}`, port)
	for range 2 {
		if _, err := services.Patch(ctx, metricsService, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
		framework.Eventually(t, "their server is available", func() error { return available(ctx, services, "Passed") })
		framework.Eventually(t, "their server answers", func() error { return ask("theirs") })
		if err := ask("known"); !apierrors.IsNotFound(err) {
			t.Errorf("the server of before is asked: %v", err)
		}
		if err := services.Delete(ctx, metricsService, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		framework.Eventually(t, "the server of before is back", func() error { return available(ctx, services, "Local") })
		framework.Eventually(t, "the server of before answers", func() error { return ask("known") })
	}
	framework.Eventually(t, "pods are found again", func() error {
		list, err := s.Client.Discovery().ServerResourcesForGroupVersion("metrics.k8s.io/v1beta1")
		if err == nil && len(list.APIResources) != 2 {
			err = fmt.Errorf("resources are %v", list.APIResources)
		}
		return err
	})
}
