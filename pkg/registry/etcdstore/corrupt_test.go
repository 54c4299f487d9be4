// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package etcdstore

import (
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage"

	"minik8s.io/minik8s/pkg/etcd"
)

// TestRaw_Corrupt: of objects that cannot be read, errors tell which they are, and they can be deleted all the same.
func TestRaw_Corrupt(t *testing.T) {
	t.Parallel()
	member, err := etcd.Start(t.Context(), etcd.Config{Dir: t.TempDir(), UnsafeNoFsync: true})
	if err != nil {
		t.Fatal(err)
	}
	factory := NewFactory(Config{Backend: member, Scheme: runtime.NewScheme()})
	options, err := factory.CustomResources().GetRESTOptions(schema.GroupResource{Group: "example.com", Resource: "things"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	s, destroy, err := factory.Raw(options.StorageConfig, "/"+options.ResourcePrefix, func() runtime.Object { return thing("") }, func() runtime.Object { return &unstructured.UnstructuredList{} })
	if err != nil {
		t.Fatal(err)
	}
	client := member.NewClient()
	t.Cleanup(func() {
		destroy()
		factory.Stop()
		_ = client.Close() // its context has ended with the test's
		if err := member.Close(); err != nil {
			t.Error(err)
		}
	})
	const key = "/example.com/things/default/bad"
	ctx := genericapirequest.WithLatencyTrackers(t.Context())
	if err := s.Create(ctx, "/example.com/things/default/good", thing("good"), thing(""), 0); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Put(ctx, Prefix+key, "bad"); err != nil {
		t.Fatal(err)
	}

	if err := s.Get(ctx, key, storage.GetOptions{}, thing("")); !storage.IsCorruptObject(err) {
		t.Errorf("getting it: %v, want an error that says that it is corrupt", err)
	}
	err = s.GetList(ctx, "/example.com/things/", storage.ListOptions{Recursive: true, Predicate: storage.Everything}, &unstructured.UnstructuredList{})
	if apierrors.ReasonForError(err) != metav1.StatusReasonStoreReadError {
		t.Fatalf("listing it: %v, want the reason %s", err, metav1.StatusReasonStoreReadError)
	}
	causes := err.(apierrors.APIStatus).Status().Details.Causes
	if len(causes) != 1 || !strings.HasSuffix(causes[0].Field, key) {
		t.Errorf("causes are %+v, want the key", causes)
	}
	if tracked, ok := genericapirequest.LatencyTrackersFrom(ctx); !ok || tracked.StorageTracker.GetLatency() == 0 {
		t.Error("nobody knows that the request has waited for etcd")
	}

	remove := func(key string) error {
		return s.Delete(ctx, key, thing(""), nil, rest.ValidateAllObjectFunc, nil, storage.DeleteOptions{ExpectTransformOrDecodeError: true})
	}
	if err := remove("/example.com/things/default/good"); err == nil {
		t.Error("one that can be read was deleted as unreadable")
	}
	if err := remove(key); err != nil {
		t.Errorf("deleting it: %v", err)
	}
	if err := s.GetList(ctx, "/example.com/things/", storage.ListOptions{Recursive: true, Predicate: storage.Everything}, &unstructured.UnstructuredList{}); err != nil {
		t.Errorf("listing what is left: %v", err)
	}
}
