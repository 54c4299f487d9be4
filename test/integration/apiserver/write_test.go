// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"

	"minik8s.io/minik8s/test/integration/framework"
)

func TestApply_ConflictAndForce(t *testing.T) {
	t.Parallel()
	ns := cluster.Namespace(t)
	apply := func(manager, image string, force bool) (*appsv1.Deployment, error) {
		manifest := fmt.Sprintf(`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web"},"spec":{"selector":{"matchLabels":{"app":"web"}},
			"template":{"metadata":{"labels":{"app":"web"}},"spec":{"containers":[{"name":"main","image":%q}]}}}}`, image)
		return cluster.Client.AppsV1().Deployments(ns).Patch(t.Context(), "web", types.ApplyPatchType, []byte(manifest), metav1.PatchOptions{FieldManager: manager, Force: &force})
	}
	first, err := apply("alice", "v1", false)
	if err != nil {
		t.Fatal(err)
	}
	again, err := apply("alice", "v1", false)
	if err != nil || again.ResourceVersion != first.ResourceVersion {
		t.Errorf("applying the same again changed the object from %s to %s, %v", first.ResourceVersion, again.ResourceVersion, err)
	}
	_, err = apply("bob", "v2", false)
	if !apierrors.IsConflict(err) {
		t.Fatalf("a conflicting apply answers %v", err)
	}
	causes := err.(apierrors.APIStatus).Status().Details.Causes
	if len(causes) != 1 || causes[0].Type != metav1.CauseTypeFieldManagerConflict || causes[0].Field != `.spec.template.spec.containers[name="main"].image` ||
		!strings.HasPrefix(causes[0].Message, `conflict with "alice"`) {
		t.Errorf("the causes are %+v", causes)
	}
	forced, err := apply("bob", "v2", true)
	if err != nil || forced.Spec.Template.Spec.Containers[0].Image != "v2" {
		t.Fatalf("forcing it gives %v", err)
	}
	owners := map[string]string{}
	for _, f := range forced.ManagedFields {
		owners[f.Manager] = f.FieldsV1.GetRawString()
	}
	if strings.Contains(owners["alice"], "f:image") || !strings.Contains(owners["bob"], "f:image") {
		t.Errorf("managed fields after forcing: %v", owners)
	}
	// Values that were defaulted belong to nobody.
	if strings.Contains(owners["bob"], "f:progressDeadlineSeconds") {
		t.Errorf("defaulted fields are owned: %s", owners["bob"])
	}
}

func TestApply_RemovesWhatIsNoLongerApplied(t *testing.T) {
	t.Parallel()
	ns := cluster.Namespace(t)
	apply := func(data string) *corev1.ConfigMap {
		t.Helper()
		m, err := cluster.Client.CoreV1().ConfigMaps(ns).Patch(t.Context(), "m", types.ApplyPatchType,
			[]byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"m"},"data":`+data+`}`), metav1.PatchOptions{FieldManager: "alice"})
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	apply(`{"a":"1","b":"2"}`)
	if _, err := cluster.Client.CoreV1().ConfigMaps(ns).Patch(t.Context(), "m", types.MergePatchType, []byte(`{"data":{"c":"3"}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"a": "1", "c": "3"}, apply(`{"a":"1"}`).Data); diff != "" {
		t.Errorf("data (-want +got):\n%s", diff)
	}
}

func TestPatch_AllTypes(t *testing.T) {
	t.Parallel()
	ns := cluster.Namespace(t)
	d := framework.Deployment("web", 1)
	d.Spec.Template.Spec.Containers = append(d.Spec.Template.Spec.Containers, corev1.Container{Name: "side", Image: "s1"})
	if _, err := cluster.Client.AppsV1().Deployments(ns).Create(t.Context(), d, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name       string
		kind       types.PatchType
		patch      string
		want       []string // images
		wantReason metav1.StatusReason
	}{
		{"strategic merge finds containers by name", types.StrategicMergePatchType, `{"spec":{"template":{"spec":{"containers":[{"name":"side","image":"s2"}]}}}}`, []string{"v1", "s2"}, ""},
		{"JSON patch", types.JSONPatchType, `[{"op":"test","path":"/spec/replicas","value":1},{"op":"replace","path":"/spec/template/spec/containers/0/image","value":"v2"}]`, []string{"v2", "s2"}, ""},
		{"JSON patch whose test fails", types.JSONPatchType, `[{"op":"test","path":"/spec/replicas","value":7},{"op":"remove","path":"/spec/replicas"}]`, nil, metav1.StatusReasonInvalid},
		{"strategic merge deletes by directive", types.StrategicMergePatchType, `{"spec":{"template":{"spec":{"containers":[{"name":"side","$patch":"delete"}]}}}}`, []string{"v2"}, ""},
		{"merge patch replaces lists", types.MergePatchType, `{"spec":{"template":{"spec":{"containers":[{"name":"only","image":"v3"}]}}}}`, []string{"v3"}, ""},
		{"merge patch that makes the object invalid", types.MergePatchType, `{"spec":{"template":{"spec":{"containers":[]}}}}`, nil, metav1.StatusReasonInvalid},
		{"no JSON", types.MergePatchType, `{`, nil, metav1.StatusReasonBadRequest},
		{"another version", types.MergePatchType, `{"metadata":{"resourceVersion":"1"}}`, nil, metav1.StatusReasonConflict},
	} {
		// One after the other: each works on the result of the last.
		t.Run(tc.name, func(t *testing.T) {
			got, err := cluster.Client.AppsV1().Deployments(ns).Patch(t.Context(), "web", tc.kind, []byte(tc.patch), metav1.PatchOptions{})
			if reason := apierrors.ReasonForError(err); tc.wantReason != "" {
				if reason != tc.wantReason {
					t.Errorf("answer is %v, want reason %s", err, tc.wantReason)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var images []string
			for _, c := range got.Spec.Template.Spec.Containers {
				images = append(images, c.Image)
			}
			if diff := cmp.Diff(tc.want, images); diff != "" {
				t.Errorf("images (-want +got):\n%s", diff)
			}
		})
	}
	t.Run("unknown type", func(t *testing.T) {
		if got := send(t, "PATCH", "/apis/apps/v1/namespaces/"+ns+"/deployments/web", "application/nonsense", jsonType, "{}"); got.code != 415 {
			t.Errorf("answer is %d %s", got.code, got.body)
		}
	})
}

func TestDryRun_LeavesNothing(t *testing.T) {
	t.Parallel()
	ns := cluster.Namespace(t)
	maps := cluster.Client.CoreV1().ConfigMaps(ns)
	dry := []string{metav1.DryRunAll}
	got, err := maps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "ghost"}}, metav1.CreateOptions{DryRun: dry})
	if err != nil || got.UID == "" {
		t.Errorf("dry create gives %+v, %v", got, err)
	}
	if _, err := maps.Get(t.Context(), "ghost", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("after a dry create get gives %v", err)
	}
	real := configMap(t, ns, "real", map[string]string{"k": "1"})
	patched, err := maps.Patch(t.Context(), "real", types.MergePatchType, []byte(`{"data":{"k":"2"}}`), metav1.PatchOptions{DryRun: dry})
	if err != nil || patched.Data["k"] != "2" {
		t.Errorf("dry patch gives %+v, %v", patched, err)
	}
	if err := maps.Delete(t.Context(), "real", metav1.DeleteOptions{DryRun: dry}); err != nil {
		t.Error(err)
	}
	if err := maps.DeleteCollection(t.Context(), metav1.DeleteOptions{DryRun: dry}, metav1.ListOptions{}); err != nil {
		t.Error(err)
	}
	after, err := maps.Get(t.Context(), "real", metav1.GetOptions{})
	if err != nil || after.ResourceVersion != real.ResourceVersion || after.Data["k"] != "1" {
		t.Errorf("after dry requests the object is %+v, %v", after, err)
	}
}

func TestDelete_CollectionAndPreconditions(t *testing.T) {
	t.Parallel()
	ns := cluster.Namespace(t)
	maps := cluster.Client.CoreV1().ConfigMaps(ns)
	for i := range 5 {
		configMap(t, ns, fmt.Sprintf("m%d", i), nil)
	}
	if err := maps.DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "name in (m0,m1)"}); err != nil {
		t.Fatal(err)
	}
	left, err := maps.List(t.Context(), metav1.ListOptions{})
	if err != nil || len(left.Items) != 3 {
		t.Fatalf("%d are left, %v", len(left.Items), err)
	}
	wrongUID := metav1.NewUIDPreconditions("11111111-2222-3333-4444-555555555555")
	if err := maps.Delete(t.Context(), "m2", metav1.DeleteOptions{Preconditions: wrongUID}); !apierrors.IsConflict(err) {
		t.Errorf("deleting another UID answers %v", err)
	}
	wrongVersion := &metav1.Preconditions{ResourceVersion: new("1")}
	if err := maps.Delete(t.Context(), "m2", metav1.DeleteOptions{Preconditions: wrongVersion}); !apierrors.IsConflict(err) {
		t.Errorf("deleting another version answers %v", err)
	}
	m, err := maps.Get(t.Context(), "m2", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	right := &metav1.Preconditions{UID: &m.UID, ResourceVersion: &m.ResourceVersion}
	if err := maps.Delete(t.Context(), "m2", metav1.DeleteOptions{Preconditions: right}); err != nil {
		t.Errorf("deleting what is meant answers %v", err)
	}
	stale := m.DeepCopy()
	if _, err := maps.Update(t.Context(), stale, metav1.UpdateOptions{}); !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		t.Errorf("updating what is gone answers %v", err)
	}
}

// TestConcurrentWriters lets 50 clients count one number up; optimistic concurrency must not lose any.
func TestConcurrentWriters(t *testing.T) {
	t.Parallel()
	ns := cluster.Namespace(t)
	configMap(t, ns, "counter", map[string]string{"n": "0"})
	const writers = 50
	var wg sync.WaitGroup
	for i := range writers {
		wg.Go(func() {
			client := framework.ClientFor(t, cluster.User(fmt.Sprintf("writer-%d", i), "system:masters"))
			always := retry.DefaultRetry
			always.Steps = 10000
			err := retry.RetryOnConflict(always, func() error {
				m, err := client.CoreV1().ConfigMaps(ns).Get(t.Context(), "counter", metav1.GetOptions{})
				if err != nil {
					return err
				}
				var n int
				if _, err := fmt.Sscan(m.Data["n"], &n); err != nil {
					return err
				}
				m.Data["n"] = fmt.Sprint(n + 1)
				m.Data[fmt.Sprintf("writer-%d", i)] = "was here"
				_, err = client.CoreV1().ConfigMaps(ns).Update(t.Context(), m, metav1.UpdateOptions{})
				return err
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	m, err := cluster.Client.CoreV1().ConfigMaps(ns).Get(t.Context(), "counter", metav1.GetOptions{})
	if err != nil || m.Data["n"] != fmt.Sprint(writers) || len(m.Data) != writers+1 {
		t.Errorf("the counter is %s with %d traces, %v", m.Data["n"], len(m.Data)-1, err)
	}
}

func TestFieldValidation(t *testing.T) {
	t.Parallel()
	ns := cluster.Namespace(t)
	path := "/api/v1/namespaces/" + ns + "/configmaps"
	const body = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"%s","nonsense":1},"data":{"k":"1","k":"2"},"surplus":true}`
	for _, tc := range []struct {
		name, query string
		wantCode    int
		wantBody    []string
		wantWarn    []string
	}{
		{"strict", "?fieldValidation=Strict", 400, []string{`strict decoding error: `, `unknown field \"metadata.nonsense\"`, `unknown field \"surplus\"`, `duplicate field \"data.k\"`}, nil},
		{"warn", "?fieldValidation=Warn", 201, nil, []string{`299 - "unknown field \"metadata.nonsense\""`, `299 - "unknown field \"surplus\""`, `299 - "duplicate field \"data.k\""`}},
		{"default", "", 201, nil, []string{`299 - "unknown field \"surplus\""`}},
		{"ignore", "?fieldValidation=Ignore", 201, nil, nil},
		{"unknown", "?fieldValidation=Perhaps", 422, []string{"fieldValidation"}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := send(t, "POST", path+tc.query, jsonType, jsonType, fmt.Sprintf(body, tc.name))
			if got.code != tc.wantCode {
				t.Errorf("answer is %d %s", got.code, got.body)
			}
			for _, want := range tc.wantBody {
				if !strings.Contains(got.body, want) {
					t.Errorf("answer %s lacks %s", got.body, want)
				}
			}
			for _, want := range tc.wantWarn {
				if !strings.Contains(strings.Join(got.warnings, "\n"), want) {
					t.Errorf("warnings %q lack %s", got.warnings, want)
				}
			}
			if tc.wantWarn == nil && len(got.warnings) > 0 {
				t.Errorf("unwanted warnings %q", got.warnings)
			}
		})
	}
}

func TestInvalidManifests(t *testing.T) {
	t.Parallel()
	ns := cluster.Namespace(t)
	core, apps := "/api/v1/namespaces/"+ns, "/apis/apps/v1/namespaces/"+ns
	for _, tc := range []struct {
		name, path, body string
		wantCode         int
		want             string
	}{
		{"no JSON", core + "/pods", `{`, 400, `"reason":"BadRequest"`},
		{"wrong type", core + "/pods", `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},"spec":{"containers":"none"}}`, 400, "spec.containers"},
		{"wrong kind", core + "/pods", `{"apiVersion":"v1","kind":"Service","metadata":{"name":"p"}}`, 400, `"reason":"BadRequest"`},
		{"no name", core + "/configmaps", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{}}`, 422, "name or generateName is required"},
		{"bad name", core + "/configmaps", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"Not_A_Name"}}`, 422, `"field":"metadata.name"`},
		{"bad label", core + "/configmaps", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"m","labels":{"a b":"c"}}}`, 422, `"field":"metadata.labels"`},
		{"other namespace", core + "/configmaps", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"m","namespace":"other"}}`, 400, "the namespace of the provided object does not match the namespace sent on the request"},
		{"pod without containers", core + "/pods", `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},"spec":{"containers":[]}}`, 422, `"field":"spec.containers"`},
		{"pod without image", core + "/pods", `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},"spec":{"containers":[{"name":"c"}]}}`, 422, `"field":"spec.containers[0].image"`},
		{"two containers of one name", core + "/pods", `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":"i"},{"name":"c","image":"i"}]}}`, 422, `"field":"spec.containers[1].name"`},
		{"mount without volume", core + "/pods", `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":"i","volumeMounts":[{"name":"v","mountPath":"/v"}]}]}}`, 422, `"field":"spec.containers[0].volumeMounts[0].name"`},
		{"request above limit", core + "/pods", `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":"i","resources":{"requests":{"cpu":"2"},"limits":{"cpu":"1"}}}]}}`, 422, `"field":"spec.containers[0].resources.requests"`},
		{"selector without labels", apps + "/deployments", `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"d"},"spec":{"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"c"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}`, 422, `"field":"spec.template.metadata.labels"`},
		{"service without ports", core + "/services", `{"apiVersion":"v1","kind":"Service","metadata":{"name":"s"},"spec":{}}`, 422, `"field":"spec.ports"`},
		{"service port out of range", core + "/services", `{"apiVersion":"v1","kind":"Service","metadata":{"name":"s"},"spec":{"ports":[{"port":70000}]}}`, 422, `"field":"spec.ports[0].port"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := send(t, "POST", tc.path, jsonType, jsonType, tc.body)
			if got.code != tc.wantCode || !strings.Contains(got.body, tc.want) {
				t.Errorf("answer is %d %s, want %d with %s", got.code, got.body, tc.wantCode, tc.want)
			}
		})
	}
	t.Run("YAML", func(t *testing.T) {
		got := send(t, "POST", core+"/configmaps", yamlType, yamlType, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: from-yaml}\n")
		if got.code != 201 || !strings.Contains(got.body, "name: from-yaml") {
			t.Errorf("answer is %d %s", got.code, got.body)
		}
	})
}
