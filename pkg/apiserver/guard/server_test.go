// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package guard_test

import (
	"context"
	"fmt"
	"math"
	"net/url"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/storage/feature"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"minik8s.io/minik8s/pkg/etcd"
	"minik8s.io/minik8s/pkg/registry"
	"minik8s.io/minik8s/pkg/registry/core/event"
	"minik8s.io/minik8s/pkg/registry/core/resourcequota"
	"minik8s.io/minik8s/pkg/registry/registrytest"
)

// TestServer writes quantities that are too expensive to read in every way that a server has: each is refused at once.
func TestServer(t *testing.T) {
	const number = "1e-99999999"
	client := kubernetes.NewForConfigOrDie(registrytest.Serve(t, registry.Config{}, registry.Group{
		AddToScheme: corev1.AddToScheme, Versions: []registry.Version{{Name: "v1", Resources: []registry.Descriptor{resourcequota.Resource}}},
	})).CoreV1()
	quotas := client.ResourceQuotas("default")
	start := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "q", Labels: map[string]string{"commit": number}}}
	if _, err := quotas.Create(t.Context(), start, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	hard := fmt.Sprintf(`{"apiVersion":"v1","kind":"ResourceQuota","metadata":{"name":"q"},"spec":{"hard":{"pods":%q}}}`, number)
	patch := func(kind types.PatchType, body string) func(context.Context) error {
		return func(ctx context.Context) error {
			_, err := quotas.Patch(ctx, "q", kind, []byte(body), metav1.PatchOptions{FieldManager: "test"})
			return err
		}
	}
	const nothing = `{"op":"add","path":"/spec/hard","value":{}},`
	for _, tc := range []struct {
		name    string
		write   func(ctx context.Context) error
		allowed bool
	}{
		{"create", func(ctx context.Context) error {
			return client.RESTClient().Post().Namespace("default").Resource("resourcequotas").SetHeader("Content-Type", "application/json").Body([]byte(hard)).Do(ctx).Error()
		}, false},
		{"create in YAML", func(ctx context.Context) error {
			body := "apiVersion: v1\nkind: ResourceQuota\nmetadata: {name: y}\nspec: {hard: {pods: !!binary MWUtOTk5OTk5OTk=}}\n"
			return client.RESTClient().Post().Namespace("default").Resource("resourcequotas").SetHeader("Content-Type", "application/yaml").Body([]byte(body)).Do(ctx).Error()
		}, false},
		{"update", func(ctx context.Context) error {
			return client.RESTClient().Put().Namespace("default").Resource("resourcequotas").Name("q").SetHeader("Content-Type", "application/json").Body([]byte(hard)).Do(ctx).Error()
		}, false},
		{"JSON patch", patch(types.JSONPatchType, fmt.Sprintf(`[%s{"op":"add","path":"/spec/hard/pods","value":%q}]`, nothing, number)), false},
		{"JSON patch that copies", patch(types.JSONPatchType, `[`+nothing+`{"op":"copy","from":"/metadata/labels/commit","path":"/spec/hard/pods"}]`), false},
		{"JSON patch that moves", patch(types.JSONPatchType, `[`+nothing+`{"op":"move","from":"/metadata/labels/commit","path":"/spec/hard/pods"}]`), false},
		{"JSON patch that moves all labels", patch(types.JSONPatchType, `[{"op":"move","from":"/metadata/labels","path":"/spec/hard"}]`), false},
		{"merge patch", patch(types.MergePatchType, hard), false},
		{"strategic merge patch", patch(types.StrategicMergePatchType, hard), false},
		{"apply", patch(types.ApplyPatchType, hard), false},
		{"a label is none", patch(types.MergePatchType, `{"metadata":{"labels":{"other":"4e1234567"}}}`), true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			if err := tc.write(ctx); (err == nil) != tc.allowed || ctx.Err() != nil {
				t.Errorf("error = %v, %v, want allowed: %v", err, ctx.Err(), tc.allowed)
			}
		})
	}
}

// TestRequestsOfTheLibrary pins the beginnings of what is said of other malformed requests: a real server says them, and is
// corrected. An upgrade with other words answers with status 500 and fails here.
func TestRequestsOfTheLibrary(t *testing.T) {
	client := kubernetes.NewForConfigOrDie(registrytest.Serve(t, registry.Config{}, registry.Group{
		AddToScheme: corev1.AddToScheme, Versions: []registry.Version{{Name: "v1", Resources: []registry.Descriptor{resourcequota.Resource}}},
	})).CoreV1().RESTClient()
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "q"}}
	if err := client.Post().Namespace("default").Resource("resourcequotas").Body(quota).Do(t.Context()).Error(); err != nil {
		t.Fatal(err)
	}
	apply := func(spec string) *rest.Request {
		body := `{"apiVersion":"v1","kind":"ResourceQuota","metadata":{"name":"q"},"spec":` + spec + `}`
		return client.Patch(types.ApplyPatchType).Namespace("default").Resource("resourcequotas").Name("q").Param("fieldManager", "test").Body([]byte(body))
	}
	for _, tc := range []struct {
		beginning string
		request   *rest.Request
	}{
		{"failed to create typed patch object", apply(`[]`)},
		{"failed to convert new object", apply(`{"hard":{"pods":"no quantity"}}`)},
		{"resourceVersion: Invalid value", client.Get().Namespace("default").Resource("resourcequotas").Name("q").Param("resourceVersion", "x")},
	} {
		t.Run(tc.beginning, func(t *testing.T) {
			err := tc.request.MaxRetries(0).Do(t.Context()).Error()
			if !apierrors.IsBadRequest(err) || !strings.HasPrefix(err.Error(), tc.beginning) {
				t.Errorf("the server says %v, want a bad request: %q", err, tc.beginning)
			}
		})
	}
}

// TestExternalStoreOfTheLibrary pins what is said of a resourceVersion that no store can have come to, by a server on an etcd that
// streams lists: the member inside the process does not.
func TestExternalStoreOfTheLibrary(t *testing.T) {
	config := embed.NewConfig()
	config.Dir, config.LogLevel, config.UnsafeNoFsync = t.TempDir(), "fatal", true
	config.ListenPeerUrls, config.ListenClientUrls = nil, []url.URL{{Scheme: "http", Host: "127.0.0.1:0"}}
	store, err := embed.StartEtcd(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Close)
	<-store.Server.ReadyNotify()
	remote, err := etcd.Dial([]string{"http://" + store.Clients[0].Addr().String()}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = remote.Close() })
	feature.DefaultFeatureSupportChecker = feature.NewDefaultFeatureSupportChecker() // which has met no other etcd yet

	client := kubernetes.NewForConfigOrDie(registrytest.ServeFrom(t, remote, registry.Config{}, registry.Group{
		AddToScheme: corev1.AddToScheme, Versions: []registry.Version{{Name: "v1", Resources: []registry.Descriptor{event.Resource}}},
	})).CoreV1().RESTClient()
	const beginning = "etcd returned revision "
	list := client.Get().Namespace("default").Resource("events").Param("resourceVersion", fmt.Sprint(uint64(math.MaxUint64))).Param("resourceVersionMatch", "Exact")
	if err := list.MaxRetries(0).Do(t.Context()).Error(); !apierrors.IsBadRequest(err) || !strings.HasPrefix(err.Error(), beginning) {
		t.Errorf("the server says %v, want a bad request: %q", err, beginning)
	}
}

// TestServer_Times writes times that could not be read again, in the ways that a server has.
func TestServer_Times(t *testing.T) {
	config := registrytest.Serve(t, registry.Config{}, registry.Group{
		AddToScheme: corev1.AddToScheme, Versions: []registry.Version{{Name: "v1", Resources: []registry.Descriptor{event.Resource}}},
	})
	events := kubernetes.NewForConfigOrDie(config).CoreV1().Events("default")
	binary := rest.CopyConfig(config)
	binary.ContentType = "application/vnd.kubernetes.protobuf"
	protobuf := kubernetes.NewForConfigOrDie(binary).CoreV1().Events("default")
	ref := corev1.ObjectReference{Kind: "Pod", Namespace: "default", Name: "p"}
	if _, err := events.Create(t.Context(), &corev1.Event{ObjectMeta: metav1.ObjectMeta{Name: "e"}, InvolvedObject: ref}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	const late = "9999-12-31T23:59:59-01:00" // where it is that late, the year is not over yet
	for name, write := range map[string]func() error{
		"protobuf": func() error {
			e := &corev1.Event{ObjectMeta: metav1.ObjectMeta{Name: "b"}, InvolvedObject: ref, LastTimestamp: metav1.NewTime(time.Unix(1<<40, 0))}
			_, err := protobuf.Create(t.Context(), e, metav1.CreateOptions{})
			return err
		},
		"JSON": func() error {
			body := `{"kind":"Event","apiVersion":"v1","metadata":{"name":"j"},"involvedObject":{"kind":"Pod","namespace":"default","name":"p"},"lastTimestamp":"` + late + `"}`
			return kubernetes.NewForConfigOrDie(config).CoreV1().RESTClient().Post().Namespace("default").Resource("events").Body([]byte(body)).Do(t.Context()).Error()
		},
		"merge patch": func() error {
			_, err := events.Patch(t.Context(), "e", types.MergePatchType, []byte(`{"lastTimestamp":"`+late+`"}`), metav1.PatchOptions{})
			return err
		},
		"strategic merge patch": func() error {
			_, err := events.Patch(t.Context(), "e", types.StrategicMergePatchType, []byte(`{"lastTimestamp":"`+late+`"}`), metav1.PatchOptions{})
			return err
		},
		"apply": func() error {
			body := `{"kind":"Event","apiVersion":"v1","metadata":{"name":"e"},"lastTimestamp":"` + late + `"}`
			_, err := events.Patch(t.Context(), "e", types.ApplyPatchType, []byte(body), metav1.PatchOptions{FieldManager: "m", Force: new(true)})
			return err
		},
	} {
		if err := write(); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "lastTimestamp: Invalid value") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := events.List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Errorf("what is there cannot be read: %v", err)
	}
}
