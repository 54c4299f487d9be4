// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"minik8s.io/minik8s/test/integration/framework"
)

// crdPath is where definitions are.
const crdPath = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"

// widgets defines kind Widget in a group of its own.
func widgets(group string, versions ...map[string]any) map[string]any {
	return map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": map[string]any{"name": "widgets." + group},
		"spec": map[string]any{
			"group": group, "scope": "Namespaced", "versions": versions,
			"names": map[string]any{"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList", "shortNames": []string{"wd"}},
		},
	}
}

// version is a version of widgets with a replica count that has a default, and a rule.
func version(name string, storage bool) map[string]any {
	integer := map[string]any{"type": "integer"}
	return map[string]any{
		"name": name, "served": true, "storage": storage,
		"subresources": map[string]any{
			"status": map[string]any{},
			"scale":  map[string]any{"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"},
		},
		"selectableFields":         []any{map[string]any{"jsonPath": ".spec.color"}},
		"additionalPrinterColumns": []any{map[string]any{"name": "Color", "type": "string", "jsonPath": ".spec.color"}},
		"schema": map[string]any{"openAPIV3Schema": map[string]any{
			"type": "object", "description": "Widget is a thing.",
			"properties": map[string]any{
				"spec": map[string]any{
					"type": "object",
					"properties": map[string]any{
						"replicas": map[string]any{"type": "integer", "default": 2, "maximum": 10},
						"color":    map[string]any{"type": "string", "enum": []string{"red", "blue"}},
					},
					"x-kubernetes-validations": []any{map[string]any{"rule": "self.color != 'red' || self.replicas < 5", "message": "red comes in small numbers"}},
				},
				"status": map[string]any{"type": "object", "properties": map[string]any{"replicas": integer}},
			},
		}},
	}
}

// define creates a definition and waits until the server serves it.
func define(t *testing.T, definition map[string]any) {
	t.Helper()
	body, err := json.Marshal(definition)
	if err != nil {
		t.Fatal(err)
	}
	if got := send(t, "POST", crdPath, jsonType, jsonType, string(body)); got.code != 201 {
		t.Fatalf("creating the definition: %d %s", got.code, got.body)
	}
	path := crdPath + "/" + definition["metadata"].(map[string]any)["name"].(string)
	t.Cleanup(func() {
		err := cluster.Client.Discovery().RESTClient().Delete().AbsPath(path).Do(context.Background()).Error()
		if err != nil && !apierrors.IsNotFound(err) {
			t.Error(err)
		}
	})
	framework.Eventually(t, "the definition is established", func() error {
		var crd apiextensionsv1.CustomResourceDefinition
		if err := json.Unmarshal([]byte(send(t, "GET", path, "", jsonType, "").body), &crd); err != nil {
			return err
		}
		for _, c := range crd.Status.Conditions {
			if c.Type == apiextensionsv1.Established && c.Status == apiextensionsv1.ConditionTrue {
				return nil
			}
		}
		return fmt.Errorf("conditions are %+v", crd.Status.Conditions)
	})
}

func dynamicClient(t *testing.T) dynamic.Interface {
	t.Helper()
	d, err := dynamic.NewForConfig(cluster.Admin())
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func widget(group, version, name string, spec map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": group + "/" + version, "kind": "Widget", "metadata": map[string]any{"name": name}, "spec": spec,
	}}
}

// TestProtobufOfCustomResources: upstream breaks the connection off.
func TestProtobufOfCustomResources(t *testing.T) {
	const group = "protobuf.example.org"
	define(t, widgets(group, version("v1", true)))
	ns := cluster.Namespace(t)
	at := "/apis/" + group + "/v1/namespaces/" + ns + "/widgets"
	if got := send(t, "POST", at, jsonType, jsonType, `{"apiVersion":"`+group+`/v1","kind":"Widget","metadata":{"name":"a"},"spec":{}}`); got.code != http.StatusCreated {
		t.Fatalf("in JSON: %d %s", got.code, got.body)
	}
	for _, test := range []struct{ name, method, path string }{{"create", "POST", at}, {"update", "PUT", at + "/a"}, {"status", "PUT", at + "/a/status"}} {
		t.Run(test.name, func(t *testing.T) {
			if got := send(t, test.method, test.path, "application/vnd.kubernetes.protobuf", jsonType, "k8s\x00"); got.code != http.StatusUnsupportedMediaType {
				t.Errorf("the answer is %d: %s", got.code, got.body)
			}
		})
	}
}

func TestCustomResource(t *testing.T) {
	t.Parallel()
	const group = "lifecycle.example.com"
	define(t, widgets(group, version("v1", true)))
	ns := cluster.Namespace(t)
	client := dynamicClient(t).Resource(schema.GroupVersionResource{Group: group, Version: "v1", Resource: "widgets"}).Namespace(ns)
	path := "/apis/" + group + "/v1/namespaces/" + ns + "/widgets"
	var made *unstructured.Unstructured
	framework.Eventually(t, "a widget can be made", func() (err error) {
		made, err = client.Create(t.Context(), widget(group, "v1", "one", map[string]any{"color": "blue", "unknown": "x"}), metav1.CreateOptions{})
		return err
	})

	t.Run("defaulting and pruning", func(t *testing.T) {
		if n, _, _ := unstructured.NestedInt64(made.Object, "spec", "replicas"); n != 2 {
			t.Errorf("replicas = %d, want the default 2", n)
		}
		if _, found, _ := unstructured.NestedString(made.Object, "spec", "unknown"); found {
			t.Error("an unknown field was kept")
		}
		if made.GetGeneration() != 1 {
			t.Errorf("generation = %d", made.GetGeneration())
		}
	})
	t.Run("validation", func(t *testing.T) {
		for name, spec := range map[string]map[string]any{
			"rule": {"color": "red", "replicas": int64(7)}, "enum": {"color": "green"}, "maximum": {"color": "blue", "replicas": int64(11)}, "type": {"color": int64(1)},
		} {
			if _, err := client.Create(t.Context(), widget(group, "v1", "bad", spec), metav1.CreateOptions{}); !apierrors.IsInvalid(err) {
				t.Errorf("%s: %v, want Invalid", name, err)
			} else if name == "rule" && !strings.Contains(err.Error(), "red comes in small numbers") {
				t.Errorf("the rule's message is not in %v", err)
			}
		}
	})
	t.Run("strict fields", func(t *testing.T) {
		body := `{"apiVersion":"` + group + `/v1","kind":"Widget","metadata":{"name":"strict"},"spec":{"colour":"blue"}}`
		if got := send(t, "POST", path+"?fieldValidation=Strict", jsonType, jsonType, body); got.code != 400 || !strings.Contains(got.body, "spec.colour") {
			t.Errorf("strict: %d %s", got.code, got.body)
		}
	})
	t.Run("server-side apply", func(t *testing.T) {
		body := `{"apiVersion":"` + group + `/v1","kind":"Widget","metadata":{"name":"applied"},"spec":{"color":"red"}}`
		if got := send(t, "PATCH", path+"/applied?fieldManager=a", applyType, jsonType, body); got.code != 201 {
			t.Fatalf("apply: %d %s", got.code, got.body)
		}
		other := strings.Replace(body, "red", "blue", 1)
		if got := send(t, "PATCH", path+"/applied?fieldManager=b", applyType, jsonType, other); got.code != 409 || !strings.Contains(got.body, ".spec.color") {
			t.Errorf("conflicting apply: %d %s", got.code, got.body)
		}
	})
	t.Run("status", func(t *testing.T) {
		w, err := client.Get(t.Context(), "one", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		w.Object["status"] = map[string]any{"replicas": int64(3)}
		if err := unstructured.SetNestedField(w.Object, "red", "spec", "color"); err != nil {
			t.Fatal(err)
		}
		if w, err = client.UpdateStatus(t.Context(), w, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		color, _, _ := unstructured.NestedString(w.Object, "spec", "color")
		replicas, _, _ := unstructured.NestedInt64(w.Object, "status", "replicas")
		if color != "blue" || replicas != 3 || w.GetGeneration() != 1 {
			t.Errorf("after a status update: color %s, status.replicas %d, generation %d", color, replicas, w.GetGeneration())
		}
	})
	t.Run("scale", func(t *testing.T) {
		if got := send(t, "PATCH", path+"/one/scale", "application/merge-patch+json", jsonType, `{"spec":{"replicas":4}}`); got.code != 200 || !strings.Contains(got.body, `"kind":"Scale"`) {
			t.Fatalf("scaling: %d %s", got.code, got.body)
		}
		w, err := client.Get(t.Context(), "one", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if n, _, _ := unstructured.NestedInt64(w.Object, "spec", "replicas"); n != 4 {
			t.Errorf("replicas = %d after scaling to 4", n)
		}
	})
	t.Run("selectable field", func(t *testing.T) {
		list, err := client.List(t.Context(), metav1.ListOptions{FieldSelector: "spec.color=blue"})
		if err != nil || len(list.Items) != 1 || list.Items[0].GetName() != "one" {
			t.Errorf("blue ones: %v, %v", list, err)
		}
	})
	t.Run("columns", func(t *testing.T) {
		got := send(t, "GET", path+"/one", "", "application/json;as=Table;v=v1;g=meta.k8s.io", "")
		var table metav1.Table
		if err := json.Unmarshal([]byte(got.body), &table); err != nil {
			t.Fatal(err)
		}
		if len(table.ColumnDefinitions) != 2 || table.ColumnDefinitions[1].Name != "Color" || table.Rows[0].Cells[1] != "blue" {
			t.Errorf("table is %s", got.body)
		}
	})
	t.Run("discovery", func(t *testing.T) {
		framework.Eventually(t, "the group is found", func() error {
			for path, want := range map[string]string{
				"/apis":                  group,
				"/apis/" + group + "/v1": `"shortNames":["wd"]`,
				"/apis/" + group:         `"preferredVersion"`,
				"/apis/apiregistration.k8s.io/v1/apiservices/v1." + group: `"type":"Available","status":"True"`,
			} {
				if got := send(t, "GET", path, "", jsonType, ""); got.code != 200 || !strings.Contains(got.body, want) {
					return fmt.Errorf("%s lacks %s: %d %s", path, want, got.code, got.body)
				}
			}
			if got := send(t, "GET", "/apis", "", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList", ""); !strings.Contains(got.body, group) {
				return fmt.Errorf("aggregated discovery lacks %s", group)
			}
			return nil
		})
	})
	t.Run("OpenAPI", func(t *testing.T) {
		if got := send(t, "GET", "/openapi/v2", "", jsonType, ""); !strings.Contains(got.body, `"com.example.lifecycle.v1.Widget"`) || !strings.Contains(got.body, `"io.k8s.api.core.v1.Pod"`) {
			t.Error("OpenAPI v2 does not define Widget beside Pod")
		}
		index := send(t, "GET", "/openapi/v3", "", jsonType, "")
		var list struct {
			Paths map[string]struct{ ServerRelativeURL string }
		}
		if err := json.Unmarshal([]byte(index.body), &list); err != nil {
			t.Fatal(err)
		}
		url := list.Paths["apis/"+group+"/v1"].ServerRelativeURL
		if got := send(t, "GET", url, "", jsonType, ""); got.code != 200 || !strings.Contains(got.body, "Widget is a thing.") || got.header.Get("Cache-Control") != "public, immutable" {
			t.Errorf("OpenAPI v3 at %q: %d", url, got.code)
		}
		if _, ok := list.Paths["apis/apps/v1"]; !ok {
			t.Error("OpenAPI v3 lists no built-in groups")
		}
	})
	t.Run("deletion", func(t *testing.T) {
		if got := send(t, "DELETE", crdPath+"/widgets."+group, "", jsonType, ""); got.code != 200 {
			t.Fatalf("deleting the definition: %d %s", got.code, got.body)
		}
		framework.Eventually(t, "all of it is gone", func() error {
			for _, path := range []string{crdPath + "/widgets." + group, path, "/apis/apiregistration.k8s.io/v1/apiservices/v1." + group, "/openapi/v3/apis/" + group + "/v1"} {
				if got := send(t, "GET", path, "", jsonType, ""); got.code != 404 {
					return fmt.Errorf("%s answers %d", path, got.code)
				}
			}
			if strings.Contains(send(t, "GET", "/openapi/v2", "", jsonType, "").body, "com.example.lifecycle") {
				return fmt.Errorf("OpenAPI v2 still defines Widget")
			}
			return nil
		})
	})
}

func TestCustomResource_Conversion(t *testing.T) {
	t.Parallel()
	// v2 calls the field paint.
	rename := map[string][2]string{"v1": {"paint", "color"}, "v2": {"color", "paint"}}
	hook := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review apiextensionsv1.ConversionReview
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		response := &apiextensionsv1.ConversionResponse{UID: review.Request.UID, Result: metav1.Status{Status: metav1.StatusSuccess}}
		for _, raw := range review.Request.Objects {
			var obj map[string]any
			if err := json.Unmarshal(raw.Raw, &obj); err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
			wanted := review.Request.DesiredAPIVersion
			names := rename[wanted[strings.LastIndex(wanted, "/")+1:]]
			spec := obj["spec"].(map[string]any)
			if v, ok := spec[names[0]]; ok {
				spec[names[1]] = v
				delete(spec, names[0])
			}
			obj["apiVersion"] = wanted
			response.ConvertedObjects = append(response.ConvertedObjects, runtime.RawExtension{Object: &unstructured.Unstructured{Object: obj}})
		}
		review.Request, review.Response = nil, response
		w.Header().Set("Content-Type", jsonType)
		if err := json.NewEncoder(w).Encode(review); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(hook.Close)

	const group = "conversion.example.com"
	v1, v2 := version("v1", true), version("v2", false)
	delete(v2, "selectableFields")
	spec := v2["schema"].(map[string]any)["openAPIV3Schema"].(map[string]any)["properties"].(map[string]any)["spec"].(map[string]any)
	spec["properties"] = map[string]any{"replicas": map[string]any{"type": "integer"}, "paint": map[string]any{"type": "string"}}
	delete(spec, "x-kubernetes-validations")
	d := widgets(group, v1, v2)
	d["spec"].(map[string]any)["conversion"] = map[string]any{"strategy": "Webhook", "webhook": map[string]any{
		"conversionReviewVersions": []string{"v1"},
		"clientConfig": map[string]any{
			"url": hook.URL, "caBundle": pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: hook.Certificate().Raw}),
		},
	}}
	define(t, d)
	ns := cluster.Namespace(t)
	client := func(version string) dynamic.ResourceInterface {
		return dynamicClient(t).Resource(schema.GroupVersionResource{Group: group, Version: version, Resource: "widgets"}).Namespace(ns)
	}
	framework.Eventually(t, "a widget can be made", func() error {
		_, err := client("v1").Create(t.Context(), widget(group, "v1", "one", map[string]any{"color": "blue"}), metav1.CreateOptions{})
		return err
	})
	two, err := client("v2").Get(t.Context(), "one", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if paint, _, _ := unstructured.NestedString(two.Object, "spec", "paint"); paint != "blue" {
		t.Fatalf("as v2: %v", two.Object)
	}
	if err := unstructured.SetNestedField(two.Object, "red", "spec", "paint"); err != nil {
		t.Fatal(err)
	}
	if _, err := client("v2").Update(t.Context(), two, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	one, err := client("v1").Get(t.Context(), "one", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if color, _, _ := unstructured.NestedString(one.Object, "spec", "color"); color != "red" {
		t.Errorf("as v1: %v", one.Object)
	}
}

// TestCustomResource_Quota counts what a group of one's own has.
func TestCustomResource_Quota(t *testing.T) {
	t.Parallel()
	const group = "quota.example.com"
	define(t, widgets(group, version("v1", true)))
	ns := cluster.Namespace(t)
	quota := `{"metadata":{"name":"q"},"spec":{"hard":{"count/widgets.` + group + `":"1"}}}`
	path := "/api/v1/namespaces/" + ns + "/resourcequotas"
	if got := send(t, "POST", path, jsonType, jsonType, quota); got.code != 201 {
		t.Fatalf("creating the quota: %d %s", got.code, got.body)
	}
	// The controller would count; here is none.
	status := `{"status":{"hard":{"count/widgets.` + group + `":"1"},"used":{"count/widgets.` + group + `":"0"}}}`
	if got := send(t, "PATCH", path+"/q/status", "application/merge-patch+json", jsonType, status); got.code != 200 {
		t.Fatalf("writing the quota's status: %d %s", got.code, got.body)
	}
	client := dynamicClient(t).Resource(schema.GroupVersionResource{Group: group, Version: "v1", Resource: "widgets"}).Namespace(ns)
	framework.Eventually(t, "the first widget", func() error {
		_, err := client.Create(t.Context(), widget(group, "v1", "one", map[string]any{}), metav1.CreateOptions{})
		return err
	})
	framework.Eventually(t, "the second is refused", func() error {
		_, err := client.Create(t.Context(), widget(group, "v1", "two", map[string]any{}), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "exceeded quota") {
			return errors.Join(errors.New("it is not"), err)
		}
		return nil
	})
}
