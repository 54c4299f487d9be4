// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package storageversionmigrator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	migrationv1 "k8s.io/api/storagemigration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsfake "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset/fake"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	metadatafake "k8s.io/client-go/metadata/fake"
	clientgotesting "k8s.io/client-go/testing"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"minik8s.io/minik8s/pkg/controllers/controllertest"
)

var (
	created = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	secrets = Resource{
		GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "secrets"},
		Kind:                 "Secret", Namespaced: true, Verbs: []string{"get", "list", "patch", "update"},
	}
)

func migration(name string, age time.Duration, conditions ...string) *migrationv1.StorageVersionMigration {
	m := &migrationv1.StorageVersionMigration{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), CreationTimestamp: metav1.NewTime(created.Add(-age))},
		Spec:       migrationv1.StorageVersionMigrationSpec{Resource: metav1.GroupResource{Resource: "secrets"}},
	}
	for _, c := range conditions {
		m.Status.Conditions = append(m.Status.Conditions, metav1.Condition{Type: c, Status: metav1.ConditionTrue})
	}
	return m
}

// store is what the API server has of the resource; patches lists what is written, refuse tells what it answers.
type store struct {
	versions map[string]string
	refuse   map[string]error
	patched  []string
}

func (s *store) reconciler(c client.Client, resource *Resource, age time.Duration) *Reconciler {
	scheme := metadatafake.NewTestScheme()
	_ = metav1.AddMetaToScheme(scheme)
	objects := metadatafake.NewSimpleMetadataClient(scheme)
	objects.PrependReactor("list", "secrets", func(action clientgotesting.Action) (bool, runtime.Object, error) {
		list := &metav1.List{ListMeta: metav1.ListMeta{ResourceVersion: "10"}}
		for name, version := range s.versions {
			if action.GetNamespace() == "" {
				object := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, ResourceVersion: version}}
				list.Items = append(list.Items, runtime.RawExtension{Object: object})
			}
		}
		return true, list, nil
	})
	objects.PrependReactor("patch", "secrets", func(action clientgotesting.Action) (bool, runtime.Object, error) {
		patch := action.(clientgotesting.PatchAction)
		s.patched = append(s.patched, patch.GetName()+" "+string(patch.GetPatch()))
		return true, &metav1.PartialObjectMetadata{}, s.refuse[patch.GetName()]
	})
	return &Reconciler{
		Client: c, Metadata: objects, Clock: clocktesting.NewFakePassiveClock(created.Add(age)),
		Definitions: apiextensionsfake.NewClientset().ApiextensionsV1().CustomResourceDefinitions(),
		Discover:    func(context.Context, schema.GroupResource) (*Resource, error) { return resource, nil },
	}
}

func TestReconciler(t *testing.T) {
	controllertest.Run(t, controllertest.Case{
		Objects: []client.Object{migration("m", 0), migration("older, but ended", time.Hour, "Failed")},
		Request: reconcile.Request{NamespacedName: types.NamespacedName{Name: "m"}},
		New: func(c client.Client) reconcile.Reconciler {
			return (&store{versions: map[string]string{"a": "5"}}).reconciler(c, &secrets, 0)
		},
		Want: func(ctx context.Context, c client.Client) error {
			var m migrationv1.StorageVersionMigration
			if err := c.Get(ctx, types.NamespacedName{Name: "m"}, &m); err != nil {
				return err
			}
			succeeded := meta.FindStatusCondition(m.Status.Conditions, "Succeeded")
			running := meta.FindStatusCondition(m.Status.Conditions, "Running")
			if succeeded == nil || succeeded.Reason != "StorageVersionMigrationSucceeded" || running == nil || running.Status != metav1.ConditionFalse ||
				running.Reason != "MigrationCompleted" || m.Status.ResourceVersion != "10" {
				return fmt.Errorf("status %+v", m.Status)
			}
			return nil
		},
	})
}

func TestMigrate(t *testing.T) {
	gr := schema.GroupResource{Resource: "secrets"}
	tests := []struct {
		name     string
		store    store
		patched  int
		want     map[string]string
		wantErr  bool
		resource *Resource
		version  string
		age      time.Duration
	}{
		{
			name: "what is newer stays", store: store{versions: map[string]string{"old": "5", "same": "10", "new": "11"}}, patched: 2,
			want: map[string]string{"Running": "The migration is running, 3 objects verified migrated", "Succeeded": "Migration completed"},
		},
		{
			name: "changed or deleted meanwhile",
			store: store{versions: map[string]string{"a": "5", "b": "5"}, refuse: map[string]error{
				"a": apierrors.NewConflict(gr, "a", errors.New("changed")), "b": apierrors.NewNotFound(gr, "b"),
			}},
			patched: 2,
			want:    map[string]string{"Running": "The migration is running, 2 objects verified migrated", "Succeeded": "Migration completed"},
		},
		{
			name:    "busy",
			store:   store{versions: map[string]string{"a": "5"}, refuse: map[string]error{"a": apierrors.NewTooManyRequests("busy", 1)}},
			patched: 1, wantErr: true,
			want: map[string]string{"Running": "The migration is running, 1/1 objects not yet migrated; transient error: busy"},
		},
		{
			name:    "refused",
			store:   store{versions: map[string]string{"a": "5"}, refuse: map[string]error{"a": errors.New("no")}},
			patched: 1,
			want: map[string]string{
				"Running": "The migration is running, 1/1 objects not yet migrated",
				"Failed":  "1/1 not yet migrated. migration encountered unhandled error: no",
			},
		},
		{name: "not served yet", resource: &Resource{}, want: map[string]string{"Running": ""}},
		{name: "not served", resource: &Resource{}, age: 2 * time.Minute, want: map[string]string{"Running": "", "Failed": "resource does not exist in discovery"}},
		{
			name: "cannot be patched", version: "none", resource: &Resource{GroupVersionResource: secrets.GroupVersionResource, Verbs: []string{"list"}},
			want: map[string]string{"Running": "", "Failed": `resource "/v1, Resource=secrets" does not support discovery operations: [update patch list]`},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := migration("m", 0, "Running")
			if m.Status.ResourceVersion = "10"; tt.version == "none" {
				m.Status.ResourceVersion = ""
			}
			resource := tt.resource
			switch {
			case resource == nil:
				resource = &secrets
			case resource.Resource == "":
				resource = nil
			}
			c := fake.NewClientBuilder().WithObjects(m).WithStatusSubresource(m).Build()
			r := tt.store.reconciler(c, resource, tt.age)
			_, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Name: "m"}})
			if (err != nil) != tt.wantErr {
				t.Errorf("error %v", err)
			}
			if len(tt.store.patched) != tt.patched {
				t.Errorf("patched %v", tt.store.patched)
			}
			for _, p := range tt.store.patched {
				if !strings.Contains(p, `"apiVersion":"v1","kind":"Secret","metadata":{"resourceVersion":"`) {
					t.Errorf("patch %s", p)
				}
			}
			var after migrationv1.StorageVersionMigration
			if err := c.Get(t.Context(), types.NamespacedName{Name: "m"}, &after); err != nil {
				t.Fatal(err)
			}
			got := map[string]string{}
			for _, c := range after.Status.Conditions {
				got[c.Type] = c.Message
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("conditions (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTurn(t *testing.T) {
	for name, tc := range map[string]struct {
		same []*migrationv1.StorageVersionMigration
		want string
	}{
		"none":              {},
		"the oldest":        {same: []*migrationv1.StorageVersionMigration{migration("a", 0), migration("b", time.Hour)}, want: "b"},
		"by name":           {same: []*migrationv1.StorageVersionMigration{migration("b", 0), migration("a", 0)}, want: "a"},
		"another runs":      {same: []*migrationv1.StorageVersionMigration{migration("a", time.Hour), migration("b", 0, "Running")}},
		"the other has run": {same: []*migrationv1.StorageVersionMigration{migration("a", 0), migration("b", time.Hour, "Succeeded")}, want: "a"},
		"the other has not been completed": {same: []*migrationv1.StorageVersionMigration{
			migration("a", 0), migration("b", time.Hour, "Running", "Succeeded"),
		}},
	} {
		t.Run(name, func(t *testing.T) {
			var same []migrationv1.StorageVersionMigration
			for _, m := range tc.same {
				same = append(same, *m)
			}
			got := ""
			if next := turn(same); next != nil {
				got = next.Name
			}
			if got != tc.want {
				t.Errorf("turn of %q, want %q", got, tc.want)
			}
		})
	}
}

func TestEnding(t *testing.T) {
	for name, tc := range map[string]struct {
		d         definition
		succeeded bool
		want      condition
	}{
		"succeeded": {
			d: definition{generation: 3, begun: 3, storage: "v2"}, succeeded: true,
			want: condition{status: "False", reason: "MigrationSucceeded", message: "The migration has succeeded and the stored versions have been updated", stored: "v2"},
		},
		"changed meanwhile": {
			d: definition{generation: 4, begun: 3, storage: "v2"}, succeeded: true,
			want: condition{
				status: "False", reason: "MigrationSucceeded",
				message: "The migration has succeeded but the stored versions have not been updated due to a generation mismatch",
			},
		},
		"failed": {
			d:    definition{generation: 3, begun: 3, storage: "v2"},
			want: condition{status: "False", reason: "MigrationFailed", message: "The migration has failed"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := ending(tc.d, tc.succeeded); got != tc.want {
				t.Errorf("%+v, want %+v", got, tc.want)
			}
		})
	}
}

func TestApplied(t *testing.T) {
	d := read(&apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Generation: 3},
		Spec:       apiextensionsv1.CustomResourceDefinitionSpec{Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v1"}, {Name: "v2", Storage: true}}},
		Status: apiextensionsv1.CustomResourceDefinitionStatus{
			Conditions: []apiextensionsv1.CustomResourceDefinitionCondition{{Type: apiextensionsv1.StorageMigrating, ObservedGeneration: 2}},
		},
	})
	if d != (definition{generation: 3, begun: 2, storage: "v2"}) {
		t.Fatalf("definition %+v", d)
	}
	data, err := json.Marshal(applied("things.example.com", "7", d, condition{status: "False", reason: "R", message: "M", stored: "v2"}, created))
	if err != nil {
		t.Fatal(err)
	}
	want := `{"kind":"CustomResourceDefinition","apiVersion":"apiextensions.k8s.io/v1","metadata":{"name":"things.example.com","resourceVersion":"7"},` +
		`"status":{"conditions":[{"type":"StorageMigrating","status":"False","lastTransitionTime":"2026-05-01T12:00:00Z","reason":"R","message":"M",` +
		`"observedGeneration":3}],"storedVersions":["v2"]}}`
	if diff := cmp.Diff(want, string(data)); diff != "" {
		t.Errorf("applied (-want +got):\n%s", diff)
	}
}

func TestFind(t *testing.T) {
	groups := []*metav1.APIGroup{{
		Name: "apps", PreferredVersion: metav1.GroupVersionForDiscovery{GroupVersion: "apps/v1", Version: "v1"},
		Versions: []metav1.GroupVersionForDiscovery{{GroupVersion: "apps/v1", Version: "v1"}, {GroupVersion: "apps/v1beta1", Version: "v1beta1"}},
	}}
	lists := []*metav1.APIResourceList{
		{GroupVersion: "apps/v1beta1", APIResources: []metav1.APIResource{{Name: "deployments", Kind: "Deployment"}, {Name: "olds", Kind: "Old"}}},
		{GroupVersion: "apps/v1", APIResources: []metav1.APIResource{{Name: "deployments", Kind: "Deployment", Namespaced: true}}},
	}
	for resource, want := range map[string]string{"deployments": "v1", "olds": "v1beta1", "nothing": ""} {
		got := ""
		if found := find(groups, lists, schema.GroupResource{Group: "apps", Resource: resource}); found != nil {
			got = found.Version
		}
		if got != want {
			t.Errorf("%s found in %q, want %q", resource, got, want)
		}
	}
	if find(groups, lists, schema.GroupResource{Group: "batch", Resource: "jobs"}) != nil {
		t.Error("found a group that is not served")
	}
}
