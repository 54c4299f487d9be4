// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package storageversionmigration

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	storagemigrationv1 "k8s.io/api/storagemigration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"minik8s.io/minik8s/pkg/registry/registrytest"
)

type migration = storagemigrationv1.StorageVersionMigration

func condition(kind string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: "R", LastTransitionTime: metav1.Now()}
}

func TestResource(t *testing.T) {
	registrytest.Run(t, Resource, registrytest.Case[*migration]{
		AddToScheme: storagemigrationv1.AddToScheme,
		Valid: func() *migration {
			return &migration{
				ObjectMeta: metav1.ObjectMeta{Name: "m"},
				Spec:       storagemigrationv1.StorageVersionMigrationSpec{Resource: metav1.GroupResource{Group: "apps", Resource: "deployments"}},
			}
		},
		Update: func(m *migration) { m.Labels = map[string]string{"a": "b"} },
		StatusUpdate: func(m *migration) {
			m.Status.ResourceVersion, m.Status.Conditions = "5", []metav1.Condition{condition(running)}
		},
		Row: []any{"m", "deployments.apps", "Unknown"},
		Invalid: []registrytest.Invalid[*migration]{
			{Name: "no resource", Mutate: func(m *migration) { m.Spec.Resource.Resource = "" }, Field: "spec.resource.resource"},
			{Name: "resource", Mutate: func(m *migration) { m.Spec.Resource.Resource = "a.b" }, Field: "spec.resource.resource"},
			{Name: "group", Mutate: func(m *migration) { m.Spec.Resource.Group = "a b" }, Field: "spec.resource.group"},
		},
		InvalidUpdates: []registrytest.InvalidUpdate[*migration]{
			{Name: "spec", Mutate: func(m *migration) { m.Spec.Resource.Resource = "daemonsets" }, Field: "spec"},
		},
	})
}

func TestValidateStatus(t *testing.T) {
	status := func(version string, conditions ...string) *migration {
		m := &migration{Status: storagemigrationv1.StorageVersionMigrationStatus{ResourceVersion: version}}
		for _, c := range conditions {
			m.Status.Conditions = append(m.Status.Conditions, condition(c))
		}
		return m
	}
	const version, conditions = "status.resourceVersion", "status.conditions"
	for name, tc := range map[string]struct {
		now, before *migration
		want        []string
	}{
		"begins":                {status("5", running), status(""), nil},
		"ends":                  {status("5", succeeded), status("5", running), nil},
		"no version":            {status("x"), status(""), []string{version}},
		"another version":       {status("6"), status("5"), []string{version}},
		"both":                  {status("5", succeeded, failed), status("5"), []string{conditions}},
		"success is taken back": {status("5"), status("5", succeeded), []string{conditions}},
		"failure is taken back": {status("5"), status("5", failed), []string{conditions}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, e := range validateStatus(t.Context(), tc.now, tc.before) {
				got = append(got, e.Field)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("fields refused (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRow(t *testing.T) {
	m := &migration{Status: storagemigrationv1.StorageVersionMigrationStatus{Conditions: []metav1.Condition{
		{Type: running, Status: metav1.ConditionFalse}, {Type: succeeded, Status: metav1.ConditionTrue}, {Type: "Other", Status: metav1.ConditionTrue},
	}}}
	if got := row(m)[2]; got != succeeded {
		t.Errorf("status is %v", got)
	}
}
