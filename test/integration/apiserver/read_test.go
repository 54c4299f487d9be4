// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"minik8s.io/minik8s/test/integration/framework"
)

func TestWatch_ResumesWithoutGapsOrDuplicates(t *testing.T) {
	t.Parallel()
	ns := cluster.Namespace(t)
	maps := cluster.Client.CoreV1().ConfigMaps(ns)
	m := configMap(t, ns, "m", map[string]string{"n": "0"})
	from := m.ResourceVersion
	for i := 1; i <= 20; i++ {
		if _, err := maps.Patch(t.Context(), "m", types.MergePatchType, fmt.Appendf(nil, `{"data":{"n":"%d"}}`, i), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	// Each watch is broken after three events and resumed where it ended.
	var seen []string
	for len(seen) < 20 {
		w, err := maps.Watch(t.Context(), metav1.ListOptions{ResourceVersion: from, FieldSelector: "metadata.name=m"})
		if err != nil {
			t.Fatal(err)
		}
		left := 3
		framework.Await(t, w, "the next changes", func(e watch.EventType, m *corev1.ConfigMap) bool {
			if e != watch.Modified {
				t.Errorf("saw %s %s", e, m.ResourceVersion)
			}
			seen, from = append(seen, m.Data["n"]), m.ResourceVersion
			left--
			return left == 0 || len(seen) == 20
		})
	}
	want := make([]string, 20)
	for i := range want {
		want[i] = strconv.Itoa(i + 1)
	}
	if diff := cmp.Diff(want, seen); diff != "" {
		t.Errorf("values (-want +got):\n%s", diff)
	}
}

func TestWatch_InitialEventsEndWithBookmark(t *testing.T) {
	t.Parallel()
	ns := cluster.Namespace(t)
	for i := range 3 {
		configMap(t, ns, fmt.Sprintf("m%d", i), nil)
	}
	w, err := cluster.Client.CoreV1().ConfigMaps(ns).Watch(t.Context(), metav1.ListOptions{
		SendInitialEvents: new(true), AllowWatchBookmarks: true, ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
	})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	bookmark := framework.Await(t, w, "the bookmark", func(e watch.EventType, m *corev1.ConfigMap) bool {
		if e == watch.Added {
			names = append(names, m.Name)
		}
		return e == watch.Bookmark
	})
	slices.Sort(names)
	if diff := cmp.Diff([]string{"m0", "m1", "m2"}, names); diff != "" {
		t.Errorf("initial events (-want +got):\n%s", diff)
	}
	if bookmark.Annotations[metav1.InitialEventsAnnotationKey] != "true" || bookmark.ResourceVersion == "" {
		t.Errorf("the bookmark is %+v", bookmark.ObjectMeta)
	}
	// From the bookmark on only news come.
	w, err = cluster.Client.CoreV1().ConfigMaps(ns).Watch(t.Context(), metav1.ListOptions{ResourceVersion: bookmark.ResourceVersion})
	if err != nil {
		t.Fatal(err)
	}
	configMap(t, ns, "late", nil)
	framework.Await(t, w, "what came later", func(e watch.EventType, m *corev1.ConfigMap) bool {
		if m.Name != "late" {
			t.Errorf("saw %s %s", e, m.Name)
		}
		return m.Name == "late"
	})
}

// TestWatch_WithoutVersion is what kubectl wait and simple scripts do.
func TestWatch_WithoutVersion(t *testing.T) {
	t.Parallel()
	ns := cluster.Namespace(t)
	// Some other resource moves the version on, so that this one's cache has to learn that it is not behind.
	configMap(t, ns, "other", nil)
	w, err := cluster.Client.CoreV1().Secrets(ns).Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := cluster.Client.CoreV1().Secrets(ns).Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	framework.Await(t, w, "the secret", func(e watch.EventType, s *corev1.Secret) bool { return e == watch.Added && s.Name == "s" })
}

func TestWatch_LabelsEnterAndLeave(t *testing.T) {
	t.Parallel()
	ns := cluster.Namespace(t)
	maps := cluster.Client.CoreV1().ConfigMaps(ns)
	m := configMap(t, ns, "m", nil)
	w, err := maps.Watch(t.Context(), metav1.ListOptions{LabelSelector: "chosen=yes", ResourceVersion: m.ResourceVersion})
	if err != nil {
		t.Fatal(err)
	}
	for _, label := range []string{`"yes"`, `"no"`} {
		if _, err := maps.Patch(t.Context(), "m", types.MergePatchType, []byte(`{"metadata":{"labels":{"chosen":`+label+`}}}`), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	var events []watch.EventType
	framework.Await(t, w, "both events", func(e watch.EventType, _ *corev1.ConfigMap) bool {
		events = append(events, e)
		return len(events) == 2
	})
	if diff := cmp.Diff([]watch.EventType{watch.Added, watch.Deleted}, events); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

func TestList_Chunks(t *testing.T) {
	t.Parallel()
	ns := cluster.Namespace(t)
	maps := cluster.Client.CoreV1().ConfigMaps(ns)
	const total = 23
	for i := range total {
		configMap(t, ns, fmt.Sprintf("m%02d", i), nil)
	}
	var names []string
	version := ""
	options := metav1.ListOptions{Limit: 5}
	for {
		page, err := maps.List(t.Context(), options)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range page.Items {
			names = append(names, m.Name)
		}
		if version == "" {
			version = page.ResourceVersion
			if page.RemainingItemCount == nil || *page.RemainingItemCount != total-5 {
				t.Errorf("remaining items of the first page: %v", page.RemainingItemCount)
			}
			// Later pages show the state of the first one.
			configMap(t, ns, "m99-late", nil)
		} else if page.ResourceVersion != version {
			t.Errorf("a later page is of version %s, the first of %s", page.ResourceVersion, version)
		}
		if options.Continue = page.Continue; options.Continue == "" {
			break
		}
	}
	if len(names) != total || !slices.IsSorted(names) {
		t.Errorf("got %d names: %v", len(names), names)
	}
	if _, err := maps.List(t.Context(), metav1.ListOptions{Limit: 5, Continue: "nonsense"}); !apierrors.IsBadRequest(err) {
		t.Errorf("a false continue token answers %v", err)
	}
}

func TestList_FieldSelectors(t *testing.T) {
	t.Parallel()
	ns := cluster.Namespace(t)
	for name, node := range map[string]string{"a": "n1", "b": "n1", "c": "n2"} {
		pod := framework.Pod(name, name)
		pod.Spec.NodeName = node
		if _, err := cluster.Client.CoreV1().Pods(ns).Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for _, tc := range []struct {
		selector string
		want     []string
	}{
		{"spec.nodeName=n1", []string{"a", "b"}},
		{"spec.nodeName!=n1", []string{"c"}},
		{"spec.nodeName=n1,metadata.name=b", []string{"b"}},
		{"status.phase=Pending", []string{"a", "b", "c"}},
		{"status.phase=Running", nil},
		{"metadata.namespace=" + ns + ",metadata.name=a", []string{"a"}},
	} {
		t.Run(tc.selector, func(t *testing.T) {
			list, err := cluster.Client.CoreV1().Pods(ns).List(t.Context(), metav1.ListOptions{FieldSelector: tc.selector})
			if err != nil {
				t.Fatal(err)
			}
			var names []string
			for _, p := range list.Items {
				names = append(names, p.Name)
			}
			if diff := cmp.Diff(tc.want, names); diff != "" {
				t.Errorf("names (-want +got):\n%s", diff)
			}
		})
	}
	_, err := cluster.Client.CoreV1().Pods(ns).List(t.Context(), metav1.ListOptions{FieldSelector: "spec.hostname=x"})
	if !apierrors.IsBadRequest(err) || !strings.Contains(err.Error(), `field label not supported: spec.hostname`) {
		t.Errorf("an unsupported field answers %v", err)
	}
}

func TestTable(t *testing.T) {
	t.Parallel()
	ns := cluster.Namespace(t)
	if _, err := cluster.Client.CoreV1().Pods(ns).Create(t.Context(), framework.Pod("p", "p"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	got := send(t, "GET", "/api/v1/namespaces/"+ns+"/pods", "", "application/json;as=Table;v=v1;g=meta.k8s.io", "")
	var table metav1.Table
	if err := json.Unmarshal([]byte(got.body), &table); err != nil {
		t.Fatal(err)
	}
	var columns []string
	for _, c := range table.ColumnDefinitions {
		if c.Priority == 0 {
			columns = append(columns, c.Name)
		}
	}
	if diff := cmp.Diff([]string{"Name", "Ready", "Status", "Restarts", "Age"}, columns); diff != "" || table.Kind != "Table" {
		t.Errorf("%s has the columns (-want +got):\n%s", table.Kind, diff)
	}
	if len(table.Rows) != 1 || table.Rows[0].Cells[0] != "p" || table.Rows[0].Cells[1] != "0/1" || table.Rows[0].Cells[2] != "Pending" {
		t.Errorf("rows are %+v", table.Rows)
	}
}

func TestContentTypes(t *testing.T) {
	t.Parallel()
	ns := cluster.Namespace(t)
	configMap(t, ns, "m", nil)
	path := "/api/v1/namespaces/" + ns + "/configmaps/m"
	for accept, want := range map[string]string{
		"application/vnd.kubernetes.protobuf": "application/vnd.kubernetes.protobuf",
		"application/yaml":                    "application/yaml",
		"*/*":                                 "application/json",
		"application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json": "application/vnd.kubernetes.protobuf",
	} {
		got := send(t, "GET", path, "", accept, "")
		if have := got.header.Get("Content-Type"); got.code != 200 || have != want {
			t.Errorf("accepting %s: %d, %s", accept, got.code, have)
		}
		if strings.HasPrefix(want, "application/vnd.kubernetes.protobuf") && !strings.HasPrefix(got.body, "k8s\x00") {
			t.Errorf("accepting %s: the answer does not begin with the magic number", accept)
		}
	}
	if got := send(t, "GET", path, "", "text/nonsense", ""); got.code != 406 {
		t.Errorf("accepting nonsense: %d %s", got.code, got.body)
	}
}

func TestDiscoveryAndOpenAPI(t *testing.T) {
	t.Parallel()
	const aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
	for path, want := range map[string][]string{"/api": {"pods", "services", "namespaces"}, "/apis": {"deployments", "replicasets", "endpointslices", "leases", "clusterroles"}} {
		got := send(t, "GET", path, "", aggregated, "")
		if !strings.Contains(got.header.Get("Content-Type"), "as=APIGroupDiscoveryList") {
			t.Errorf("%s is answered as %s", path, got.header.Get("Content-Type"))
		}
		for _, resource := range want {
			if !strings.Contains(got.body, `"resource":"`+resource+`"`) {
				t.Errorf("%s lacks %s", path, resource)
			}
		}
		if again := send(t, "GET", path, "", aggregated, ""); again.header.Get("Etag") == "" || again.header.Get("Etag") != got.header.Get("Etag") {
			t.Errorf("%s has the etags %q and %q", path, got.header.Get("Etag"), again.header.Get("Etag"))
		}
	}
	v2 := send(t, "GET", "/openapi/v2", "", "application/json", "")
	var document struct {
		Swagger     string                     `json:"swagger"`
		Definitions map[string]json.RawMessage `json:"definitions"`
		Paths       map[string]json.RawMessage `json:"paths"`
	}
	if err := json.Unmarshal([]byte(v2.body), &document); err != nil || document.Swagger != "2.0" {
		t.Fatalf("OpenAPI v2: %d, %v", v2.code, err)
	}
	for _, name := range []string{"io.k8s.api.core.v1.Pod", "io.k8s.api.apps.v1.Deployment"} {
		if _, ok := document.Definitions[name]; !ok {
			t.Errorf("OpenAPI v2 does not define %s", name)
		}
	}
	if _, ok := document.Paths["/apis/apps/v1/namespaces/{namespace}/deployments/{name}/scale"]; !ok {
		t.Error("OpenAPI v2 lacks the path of the scale of deployments")
	}
	index := send(t, "GET", "/openapi/v3", "", jsonType, "")
	var v3 struct {
		Paths map[string]struct {
			ServerRelativeURL string `json:"serverRelativeURL"`
		} `json:"paths"`
	}
	if err := json.Unmarshal([]byte(index.body), &v3); err != nil {
		t.Fatal(err)
	}
	for _, group := range []string{"api/v1", "apis/apps/v1"} {
		doc := send(t, "GET", v3.Paths[group].ServerRelativeURL, "", jsonType, "")
		if doc.code != 200 || !strings.Contains(doc.body, `"openapi":"3.0.0"`) || !strings.Contains(doc.body, "x-kubernetes-group-version-kind") {
			t.Errorf("OpenAPI v3 of %s: %d, %d bytes", group, doc.code, len(doc.body))
		}
	}
}
