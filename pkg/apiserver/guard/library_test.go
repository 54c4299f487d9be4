// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apiserver/pkg/endpoints/handlers"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
)

// kind has what kinds may have for fields, some of it in ways that no kind has at the moment.
type kind struct {
	NoKey     []map[string]string `json:"noKey" patchStrategy:"merge"`
	OfLists   [][]string          `json:"ofLists" patchStrategy:"merge" patchMergeKey:"x"`
	Text      string              `json:"text"`
	Texts     []string            `json:"texts" patchStrategy:"merge"`
	Keyed     []corev1.Container  `json:"keyed" patchStrategy:"merge" patchMergeKey:"name"`
	Struct    corev1.PodSpec      `json:"struct"`
	Strategic corev1.PodSpec      `json:"strategic" patchStrategy:"merge,replace,other"`
}

// TestPatchesOfTheLibrary pins the beginnings of what is said of malformed patches: the library that the server calls says them.
// An upgrade with other words fails here.
func TestPatchesOfTheLibrary(t *testing.T) {
	t.Parallel()
	said := map[string]bool{}
	for _, tc := range []struct{ beginning, object, patch string }{
		{"unknown patch type", `{"struct":{}}`, `{"struct":{"$patch":"x"}}`},
		{"unknown patch type", `{"keyed":[{"name":"a"}]}`, `{"keyed":[{"$patch":"x","name":"a"}]}`},
		{"unable to find api field", `{"struct":{"none":{"a":1}}}`, `{"struct":{"none":{"b":1}}}`},
		{"cannot merge lists", `{"noKey":[{"a":"1"}]}`, `{"noKey":[{"a":"2"}]}`},
		{"list element types are not identical", `{"texts":["a"]}`, `{"texts":[{"a":1}]}`},
		{"expected a ", `{"texts":["a"]}`, `{"$setElementOrder/texts":1}`},
		{"expected a ", `{"keyed":["a"]}`, `{"keyed":["b"]}`},
		{"expected slice or array", `{"text":[1]}`, `{"text":[2]}`},
		{"map: ", `{"keyed":[{"name":"a"}]}`, `{"keyed":[{"x":"b"}]}`},
		{"merging an object in json", `{"text":{"a":{"b":1}}}`, `{"text":{"a":{"b":2}}}`},
		{"merging lists", `{"keyed":[{"name":"a"}]}`, `{"keyed":[{"$patch":"merge","name":"a"}]}`},
		{"The order in patch list", `{"texts":["a"]}`, `{"$setElementOrder/texts":["x"],"texts":["b"]}`},
		{"unexpected patch strategy", `{"strategic":{}}`, `{"strategic":{"a":1}}`},
		{"unexpected slice of slice", `{"ofLists":[[1]]}`, `{"ofLists":[[2]]}`},
	} {
		var object, patch map[string]any
		if err := errors.Join(json.Unmarshal([]byte(tc.object), &object), json.Unmarshal([]byte(tc.patch), &patch)); err != nil {
			t.Fatal(err)
		}
		_, err := strategicpatch.StrategicMergeMapPatch(object, patch, kind{})
		if err == nil || !strings.HasPrefix(err.Error(), tc.beginning) {
			t.Errorf("%s on %s: the library says %v, want %q", tc.patch, tc.object, err, tc.beginning)
		}
		said[tc.beginning] = true
	}
	said[existing] = true // TestApplyOfTheLibrary
	for _, beginning := range ofPatches {
		if !said[beginning] {
			t.Errorf("nothing makes the library say %q", beginning)
		}
	}
	if len(said) != len(ofPatches) {
		t.Errorf("%d beginnings are said, %d are in the list", len(said), len(ofPatches))
	}
}

const existing = "failed to create manager for existing fields"

// untyped cannot read any object, as a real one cannot read a few.
type untyped struct{}

func (untyped) ObjectToTyped(runtime.Object, ...typed.ValidationOptions) (*typed.TypedValue, error) {
	return nil, errors.New("not of the type")
}

func (untyped) TypedToObject(*typed.TypedValue) (runtime.Object, error) {
	return nil, errors.New("not of the type")
}

func TestApplyOfTheLibrary(t *testing.T) {
	t.Parallel()
	gvk := corev1.SchemeGroupVersion.WithKind("ConfigMap")
	manager, err := managedfields.NewDefaultFieldManager(untyped{}, clientgoscheme.Scheme, clientgoscheme.Scheme, clientgoscheme.Scheme, gvk, gvk.GroupVersion(), "", nil)
	if err != nil {
		t.Fatal(err)
	}
	object := func() *corev1.ConfigMap {
		return &corev1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, ObjectMeta: metav1.ObjectMeta{Name: "a"}}
	}
	if _, err := manager.Apply(object(), object(), "test", false); err == nil || !strings.HasPrefix(err.Error(), existing) || !slices.Contains(ofPatches, existing) {
		t.Errorf("the library says %v, want %q", err, existing)
	}
}

// plain deletes, and cannot delete what cannot be read.
type plain struct{}

func (plain) Delete(context.Context, string, rest.ValidateObjectFunc, *metav1.DeleteOptions) (runtime.Object, bool, error) {
	return nil, false, errors.New("deleted")
}

func TestDeletionOfTheLibrary(t *testing.T) {
	t.Parallel()
	const beginning = "Internal error occurred: no unsafe deleter provided"
	scope := &handlers.RequestScope{
		Namer: handlers.ContextBasedNaming{Namer: meta.NewAccessor(), ClusterScoped: true}, Serializer: codecs,
		Kind: corev1.SchemeGroupVersion.WithKind("Namespace"), Resource: corev1.SchemeGroupVersion.WithResource("namespaces"),
		MetaGroupVersion: metav1.SchemeGroupVersion,
	}
	r := httptest.NewRequest(http.MethodDelete, "/api/v1/namespaces/a?ignoreStoreReadErrorWithClusterBreakingPotential=true", nil)
	info := &apirequest.RequestInfo{IsResourceRequest: true, Verb: "delete", Resource: "namespaces", Name: "a"}
	w := httptest.NewRecorder()
	New(handlers.DeleteResource(plain{}, true, scope, nil)).ServeHTTP(w, r.WithContext(apirequest.WithRequestInfo(r.Context(), info)))
	if w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), beginning) || !slices.Contains(ofRequests, beginning) {
		t.Errorf("the library says %d: %s, want %q", w.Code, w.Body, beginning)
	}
}
