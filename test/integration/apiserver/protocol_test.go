// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"

	"minik8s.io/minik8s/pkg/apiserver"
	"minik8s.io/minik8s/pkg/etcd"
	"minik8s.io/minik8s/test/integration/framework"
)

// with makes a plain request with header fields of its own.
func with(t *testing.T, path string, header map[string]string) answer {
	t.Helper()
	transport, err := rest.TransportFor(cluster.Admin())
	if err != nil {
		t.Fatal(err)
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, cluster.Admin().Host+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range header {
		request.Header.Set(name, value)
	}
	response, err := transport.RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{code: response.StatusCode, header: response.Header, body: string(body)}
}

// Monitors look for checks by the names that upstream gives them.
func TestHealthChecks(t *testing.T) {
	t.Parallel()
	hooks := []string{
		"start-apiserver-admission-initializer", "generic-apiserver-start-informers", "start-apiextensions-informers",
		"start-apiextensions-controllers", "crd-informer-synced", "bootstrap-controller", "start-system-namespaces-controller",
		"start-service-ip-repair-controllers", "rbac/bootstrap-roles", "scheduling/bootstrap-system-priority-classes",
		"start-cluster-authentication-info-controller", "start-kube-aggregator-informers", "apiservice-registration-controller",
		"apiservice-status-local-available-controller", "apiservice-status-remote-available-controller", "kube-apiserver-autoregistration",
		"apiservice-openapi-controller", "apiservice-openapiv3-controller", "apiservice-discovery-controller", "storage-readiness",
	}
	for path, others := range map[string][]string{
		"/healthz": nil, "/livez": nil, "/readyz": {"etcd-readiness", "informer-sync", "shutdown"},
	} {
		got := with(t, path+"?verbose", nil)
		if got.code != http.StatusOK {
			t.Errorf("%s: status %d: %s", path, got.code, got.body)
		}
		wanted := append([]string{"ping", "log", "etcd", "autoregister-completion"}, others...)
		for _, hook := range hooks {
			wanted = append(wanted, "poststarthook/"+hook)
		}
		for _, check := range wanted {
			if !strings.Contains(got.body, "[+]"+check+" ok\n") {
				t.Errorf("%s has no check %s", path, check)
			}
		}
	}
}

// What a client has already is not sent again.
func TestNotModified(t *testing.T) {
	t.Parallel()
	const aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
	for path, accept := range map[string]string{"/api": aggregated, "/apis": aggregated, "/openapi/v2": jsonType, "/openapi/v3/apis/apps/v1": jsonType} {
		for begin := time.Now(); ; { // until no other test has changed the document between two requests
			first := with(t, path, map[string]string{"Accept": accept})
			tag := first.header.Get("Etag")
			if first.code != http.StatusOK || tag == "" {
				t.Fatalf("%s: %d with the tag %q", path, first.code, tag)
			}
			again := with(t, path, map[string]string{"Accept": accept, "If-None-Match": tag})
			other := with(t, path, map[string]string{"Accept": accept, "If-None-Match": `"0000"`})
			if changed := other.header.Get("Etag"); changed != tag {
				if time.Since(begin) > framework.Timeout {
					t.Fatalf("%s has the tag %q, and then %q, time after time", path, tag, changed)
				}
				continue
			}
			if again.code != http.StatusNotModified || again.body != "" {
				t.Errorf("%s with its own tag: %d and %d bytes", path, again.code, len(again.body))
			}
			if other.code != http.StatusOK || other.body != first.body {
				t.Errorf("%s with another tag: %d", path, other.code)
			}
			break
		}
	}
	// The index names documents by their hash, so that they may be kept for ever.
	var index struct {
		Paths map[string]struct{ ServerRelativeURL string } `json:"paths"`
	}
	if err := json.Unmarshal([]byte(with(t, "/openapi/v3", nil).body), &index); err != nil {
		t.Fatal(err)
	}
	current := index.Paths["api/v1"].ServerRelativeURL
	if got := with(t, current, nil); got.code != http.StatusOK || !strings.Contains(got.header.Get("Cache-Control"), "immutable") {
		t.Errorf("%s: %d, Cache-Control %q", current, got.code, got.header.Get("Cache-Control"))
	}
}

// Discovery in one document says the same as discovery group by group.
func TestDiscovery_BothForms(t *testing.T) {
	t.Parallel()
	_, legacy, err := cluster.Client.Discovery().ServerGroupsAndResources()
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]metav1.APIResourceList{}
	for _, l := range legacy {
		path := "/apis/" + l.GroupVersion
		if l.GroupVersion == "v1" {
			path = "/api/v1"
		}
		var single metav1.APIResourceList
		if err := json.Unmarshal([]byte(send(t, http.MethodGet, path, "", jsonType, "").body), &single); err != nil {
			t.Fatal(err)
		}
		if single.Kind != "APIResourceList" || single.GroupVersion != l.GroupVersion {
			t.Errorf("%s is a %s of %s", path, single.Kind, single.GroupVersion)
		}
		want[l.GroupVersion] = single
		names := func(l metav1.APIResourceList) (names []string) {
			for _, r := range l.APIResources {
				if strings.Contains(r.Name, "/") {
					r.SingularName = "" // the aggregated form has none for subresources, the client takes the resource's
				}
				names = append(names, fmt.Sprint(r.Name, r.SingularName, r.Kind, r.Namespaced, r.Verbs, r.ShortNames, r.Categories))
			}
			slices.Sort(names)
			return names
		}
		if a, b := names(*l), names(single); !slices.Equal(a, b) {
			t.Errorf("%s: aggregated %q, alone %q", l.GroupVersion, a, b)
		}
	}
	if len(want) < 15 {
		t.Errorf("only %d groups", len(want))
	}
}

// Answers that are worth it are compressed for clients that can read that.
func TestCompression(t *testing.T) {
	t.Parallel()
	ns := cluster.Namespace(t)
	configMap(t, ns, "large", map[string]string{"text": strings.Repeat("all work and no play ", 10000)})
	path := "/api/v1/namespaces/" + ns + "/configmaps/large" // a list has the resourceVersion of the moment
	plain := with(t, path, map[string]string{"Accept-Encoding": "identity"})
	packed := with(t, path, map[string]string{"Accept-Encoding": "gzip"})
	if plain.header.Get("Content-Encoding") != "" || packed.header.Get("Content-Encoding") != "gzip" {
		t.Fatalf("encodings are %q and %q", plain.header.Get("Content-Encoding"), packed.header.Get("Content-Encoding"))
	}
	reader, err := gzip.NewReader(bytes.NewReader([]byte(packed.body)))
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(reader)
	if err != nil || string(text) != plain.body {
		t.Errorf("unpacked, %d bytes are %d (%v)", len(plain.body), len(text), err)
	}
	if small := with(t, "/api/v1/namespaces/"+ns, map[string]string{"Accept-Encoding": "gzip"}); small.header.Get("Content-Encoding") != "" {
		t.Error("a small answer is compressed")
	}
}

// CBOR is behind a feature gate that is off by default.
func TestWithoutCBOR(t *testing.T) {
	t.Parallel()
	if got := send(t, http.MethodGet, "/api/v1/namespaces", "", "application/cbor", ""); got.code != http.StatusNotAcceptable {
		t.Errorf("asking for CBOR: %d %s", got.code, got.body)
	}
	if got := send(t, http.MethodGet, "/api/v1/namespaces", "", "application/cbor,application/json", ""); got.header.Get("Content-Type") != jsonType {
		t.Errorf("preferring CBOR to JSON: %d %s", got.code, got.header.Get("Content-Type"))
	}
	if got := send(t, http.MethodPost, "/api/v1/namespaces", "application/cbor", jsonType, "\xd9\xd9\xf7\xa0"); got.code != http.StatusUnsupportedMediaType {
		t.Errorf("sending CBOR: %d %s", got.code, got.body)
	}
}

// Whatever can be listed can be listed as a table and as metadata.
func TestTableAndMetadataOfEveryKind(t *testing.T) {
	t.Parallel()
	lists, err := cluster.Client.Discovery().ServerPreferredResources()
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, l := range lists {
		gv, err := schema.ParseGroupVersion(l.GroupVersion)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range l.APIResources {
			if !slices.Contains(r.Verbs, "list") {
				continue
			}
			seen++
			path := "/apis/" + gv.String() + "/" + r.Name
			if gv.Group == "" {
				path = "/api/v1/" + r.Name
			}
			var table metav1.Table
			got := send(t, http.MethodGet, path, "", "application/json;as=Table;v=v1;g=meta.k8s.io", "")
			if err := json.Unmarshal([]byte(got.body), &table); err != nil || got.code != http.StatusOK || table.Kind != "Table" || len(table.ColumnDefinitions) < 2 {
				t.Errorf("%s as a table: %d, %s with %d columns (%v)", path, got.code, table.Kind, len(table.ColumnDefinitions), err)
			}
			for _, row := range table.Rows {
				var object metav1.PartialObjectMetadata
				if err := json.Unmarshal(row.Object.Raw, &object); err != nil || object.Kind != "PartialObjectMetadata" || object.Name == "" || len(row.Cells) != len(table.ColumnDefinitions) && r.Name != "ipaddresses" { // these have a cell without a column, as upstream's
					t.Errorf("%s: %d cells, object %s (%v)", path, len(row.Cells), row.Object.Raw, err)
				}
			}
			var metadata metav1.PartialObjectMetadataList
			at := path
			if table.ResourceVersion != "" { // what is not stored has none
				at += "?resourceVersionMatch=Exact&resourceVersion=" + table.ResourceVersion // other tests write meanwhile
			}
			got = send(t, http.MethodGet, at, "", "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io", "")
			if err := json.Unmarshal([]byte(got.body), &metadata); err != nil || got.code != http.StatusOK || metadata.Kind != "PartialObjectMetadataList" || len(metadata.Items) != len(table.Rows) {
				t.Errorf("%s as metadata: %d, %s with %d items, %d rows (%v)", path, got.code, metadata.Kind, len(metadata.Items), len(table.Rows), err)
			}
		}
	}
	if seen < 50 {
		t.Errorf("only %d kinds", seen)
	}
}

// After a compaction, what was begun before cannot go on as it was, once nobody remembers: the server has started again. The
// answer says how it can.
func TestCompaction(t *testing.T) {
	dir := t.TempDir()
	var backend etcd.Backend
	first := framework.Start(t, framework.Options{Dir: dir, APIServer: func(c *apiserver.Config) { backend = c.Backend }})
	var version string
	for _, name := range []string{"a", "b", "c"} {
		version = makeConfigMap(t, first, name)
	}
	page, err := first.Client.CoreV1().ConfigMaps("default").List(t.Context(), metav1.ListOptions{Limit: 1})
	if err != nil || page.Continue == "" {
		t.Fatalf("%v %v", page, err)
	}
	makeConfigMap(t, first, "b2")
	compact(t, backend)
	if err := first.Stop(); err != nil {
		t.Fatal(err)
	}

	second := framework.Start(t, framework.Options{Dir: dir})
	maps := second.Client.CoreV1().ConfigMaps("default")
	_, err = maps.List(t.Context(), metav1.ListOptions{Limit: 1, Continue: page.Continue})
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Reason != metav1.StatusReasonExpired || status.Status().Code != http.StatusGone {
		t.Fatalf("going on after the compaction answers %v", err)
	}
	// The error has a token by which the list goes on, from where it was, with what is there now.
	rest, err := maps.List(t.Context(), metav1.ListOptions{Continue: status.Status().Continue})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, m := range rest.Items {
		names = append(names, m.Name)
	}
	if diff := cmp.Diff([]string{"b", "b2", "c"}, names); diff != "" {
		t.Errorf("the list goes on with (-want +got):\n%s", diff)
	}
	exact := metav1.ListOptions{ResourceVersion: version, ResourceVersionMatch: metav1.ResourceVersionMatchExact}
	if _, err := maps.List(t.Context(), exact); !apierrors.IsResourceExpired(err) {
		t.Errorf("listing exactly what is compacted answers %v", err)
	}
	// A watch from before what the cache remembers has to begin with a list.
	w, err := maps.Watch(t.Context(), metav1.ListOptions{ResourceVersion: version})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	if e := <-w.ResultChan(); e.Type != watch.Error || !apierrors.IsResourceExpired(apierrors.FromObject(e.Object)) {
		t.Errorf("watching from before the compaction: %s %v", e.Type, e.Object)
	}
}

// makeConfigMap returns the version of what it makes.
func makeConfigMap(t *testing.T, c *framework.Cluster, name string) string {
	t.Helper()
	m, err := c.Client.CoreV1().ConfigMaps("default").Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return m.ResourceVersion
}

// compact forgets all but the present state.
func compact(t *testing.T, backend etcd.Backend) {
	t.Helper()
	client := backend.NewClient()
	defer client.Close()
	got, err := client.Get(t.Context(), "/registry", clientv3.WithCountOnly())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Compact(t.Context(), got.Header.Revision, clientv3.WithCompactPhysical()); err != nil {
		t.Fatal(err)
	}
}
