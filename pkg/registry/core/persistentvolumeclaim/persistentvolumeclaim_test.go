// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package persistentvolumeclaim

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"minik8s.io/minik8s/pkg/registry/registrytest"
)

func size(s string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(s)}
}

func valid() *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "c"},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes:      []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:        corev1.VolumeResourceRequirements{Requests: size("1Gi")},
			StorageClassName: new("slow"),
		},
	}
}

func bound(c *corev1.PersistentVolumeClaim) {
	c.Spec.VolumeName, c.Status.Phase, c.Status.Capacity = "v", corev1.ClaimBound, size("1Gi")
}

func TestResource(t *testing.T) {
	type refused = registrytest.Invalid[*corev1.PersistentVolumeClaim]
	registrytest.Run(t, Resource, registrytest.Case[*corev1.PersistentVolumeClaim]{
		AddToScheme: corev1.AddToScheme,
		Valid:       valid,
		Update:      func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeName = "v" },
		StatusUpdate: func(c *corev1.PersistentVolumeClaim) {
			c.Status.Phase, c.Status.Capacity = corev1.ClaimBound, size("1Gi")
			c.Status.AllocatedResourceStatuses = map[corev1.ResourceName]corev1.ClaimResourceStatus{corev1.ResourceStorage: corev1.PersistentVolumeClaimNodeResizePending}
		},
		Row: []any{"c", "Pending", "", "", "", "slow", "<unset>"},
		Invalid: []refused{
			{Name: "no mode", Mutate: func(c *corev1.PersistentVolumeClaim) { c.Spec.AccessModes = nil }, Field: "spec.accessModes"},
			{Name: "mode", Mutate: func(c *corev1.PersistentVolumeClaim) { c.Spec.AccessModes[0] = "x" }, Field: "spec.accessModes"},
			{Name: "no size", Mutate: func(c *corev1.PersistentVolumeClaim) { c.Spec.Resources.Requests = nil }, Field: "spec.resources[storage]"},
			{Name: "size", Mutate: func(c *corev1.PersistentVolumeClaim) { c.Spec.Resources.Requests = size("0") }, Field: "spec.resources[storage]"},
			{Name: "class", Mutate: func(c *corev1.PersistentVolumeClaim) { c.Spec.StorageClassName = new("A b") }, Field: "spec.storageClassName"},
			{Name: "attributes class", Mutate: func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeAttributesClassName = new("A b") }, Field: "spec.volumeAttributesClassName"},
			{Name: "volume mode", Mutate: func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeMode = new(corev1.PersistentVolumeMode("x")) }, Field: "spec.volumeMode"},
			{Name: "selector", Mutate: func(c *corev1.PersistentVolumeClaim) {
				c.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"a": "-"}}
			}, Field: "spec.selector.matchLabels"},
			{Name: "source without kind", Mutate: func(c *corev1.PersistentVolumeClaim) { c.Spec.DataSourceRef = &corev1.TypedObjectReference{Name: "s"} }, Field: "spec.dataSourceRef.kind"},
			{Name: "source in the core group", Mutate: func(c *corev1.PersistentVolumeClaim) {
				c.Spec.DataSourceRef = &corev1.TypedObjectReference{Kind: "Pod", Name: "p"}
			}, Field: "spec.dataSourceRef"},
			{Name: "source's group", Mutate: func(c *corev1.PersistentVolumeClaim) {
				c.Spec.DataSourceRef = &corev1.TypedObjectReference{APIGroup: new("A b"), Kind: "K", Name: "n"}
			}, Field: "spec.dataSourceRef.apiGroup"},
			{Name: "two sources", Mutate: func(c *corev1.PersistentVolumeClaim) {
				c.Spec.DataSource = &corev1.TypedLocalObjectReference{Kind: "PersistentVolumeClaim", Name: "a"}
				c.Spec.DataSourceRef = &corev1.TypedObjectReference{Kind: "PersistentVolumeClaim", Name: "b"}
			}, Field: "spec"},
		},
		InvalidUpdates: []registrytest.InvalidUpdate[*corev1.PersistentVolumeClaim]{
			{Name: "size of an unbound claim", Mutate: func(c *corev1.PersistentVolumeClaim) { c.Spec.Resources.Requests = size("2Gi") }, Field: "spec"},
			{Name: "class", Mutate: func(c *corev1.PersistentVolumeClaim) { c.Spec.StorageClassName = new("fast") }, Field: "spec"},
			{
				Name: "volume", From: func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeName = "v" },
				Mutate: func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeName = "w" }, Field: "spec",
			},
			{Name: "volume mode", Mutate: func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeMode = new(corev1.PersistentVolumeBlock) }, Field: "volumeMode"},
			{Name: "class in the annotation", Mutate: func(c *corev1.PersistentVolumeClaim) {
				c.Annotations = map[string]string{corev1.BetaStorageClassAnnotation: "x"}
			}, Field: "metadata.annotations.volume.beta.kubernetes.io/storage-class"},
		},
	})
}

func TestValidateUpdate(t *testing.T) {
	annotated := func(class *string) func(*corev1.PersistentVolumeClaim) {
		return func(c *corev1.PersistentVolumeClaim) {
			c.Annotations, c.Spec.StorageClassName = map[string]string{corev1.BetaStorageClassAnnotation: "x"}, class
		}
	}
	for name, tc := range map[string]struct {
		from, mutate func(*corev1.PersistentVolumeClaim)
		want         []string
	}{
		"a bound claim grows": {bound, func(c *corev1.PersistentVolumeClaim) { c.Spec.Resources.Requests = size("2Gi") }, nil},
		"a bound claim shrinks": {
			bound, func(c *corev1.PersistentVolumeClaim) { c.Spec.Resources.Requests = size("1Mi") },
			[]string{"spec.resources.requests.storage"},
		},
		"a size that could not be reached is taken back": {
			func(c *corev1.PersistentVolumeClaim) { bound(c); c.Spec.Resources.Requests = size("9Gi") },
			func(c *corev1.PersistentVolumeClaim) { c.Spec.Resources.Requests = size("2Gi") }, nil,
		},
		"but not as far as what there is": {
			func(c *corev1.PersistentVolumeClaim) { bound(c); c.Spec.Resources.Requests = size("9Gi") },
			func(c *corev1.PersistentVolumeClaim) { c.Spec.Resources.Requests = size("1Gi") }, []string{"spec.resources.requests.storage"},
		},
		"a limit of a bound claim": {
			bound, func(c *corev1.PersistentVolumeClaim) { c.Spec.Resources.Limits = size("2Gi") }, []string{"spec"},
		},
		"attributes of a bound claim": {bound, func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeAttributesClassName = new("gold") }, nil},
		"attributes that are in effect taken away": {
			func(c *corev1.PersistentVolumeClaim) {
				bound(c)
				c.Spec.VolumeAttributesClassName, c.Status.CurrentVolumeAttributesClassName = new("gold"), new("gold")
			},
			func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeAttributesClassName = nil }, []string{"spec.volumeAttributesClassName"},
		},
		"a class is filled in":         {func(c *corev1.PersistentVolumeClaim) { c.Spec.StorageClassName = nil }, func(c *corev1.PersistentVolumeClaim) { c.Spec.StorageClassName = new("x") }, nil},
		"a class goes to the field":    {annotated(nil), func(c *corev1.PersistentVolumeClaim) { c.Annotations, c.Spec.StorageClassName = nil, new("x") }, nil},
		"another class than annotated": {annotated(nil), func(c *corev1.PersistentVolumeClaim) { c.Spec.StorageClassName = new("y") }, []string{"spec"}},
	} {
		t.Run(name, func(t *testing.T) {
			old := valid()
			tc.from(old)
			now := old.DeepCopy()
			tc.mutate(now)
			var got []string
			for _, e := range validateUpdate(t.Context(), now, old) {
				got = append(got, e.Field)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("fields refused (-want +got):\n%s", diff)
			}
		})
	}
}

func TestValidateStatus(t *testing.T) {
	c := valid()
	c.Status.Capacity = size("-1")
	c.Status.AllocatedResources = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}
	c.Status.AllocatedResourceStatuses = map[corev1.ResourceName]corev1.ClaimResourceStatus{"example.com/x": "strange"}
	c.Status.HealthStatus = &corev1.VolumeHealthStatus{HealthConditions: []corev1.VolumeHealthCondition{{Reason: "a b"}}}
	var got []string
	for _, e := range validateStatus(t.Context(), c, c) {
		got = append(got, e.Field)
	}
	want := []string{"status.capacity[storage]", "status.healthStatus.healthConditions[0].reason", "status.allocatedResourceStatuses", "status.allocatedResources"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("fields refused (-want +got):\n%s", diff)
	}
}

func TestPrepareSpec(t *testing.T) {
	snapshots, other := new("snapshot.storage.k8s.io"), new("example.com")
	source := func(group *string, kind string) *corev1.TypedLocalObjectReference {
		return &corev1.TypedLocalObjectReference{APIGroup: group, Kind: kind, Name: "n"}
	}
	ref := func(group *string, kind string) *corev1.TypedObjectReference {
		return &corev1.TypedObjectReference{APIGroup: group, Kind: kind, Name: "n"}
	}
	elsewhere := ref(other, "Kind")
	elsewhere.Namespace = new("ns")
	type spec = corev1.PersistentVolumeClaimSpec
	for name, tc := range map[string]struct {
		in, want spec
		old      *spec
	}{
		"none":                         {},
		"claim":                        {in: spec{DataSource: source(nil, "PersistentVolumeClaim")}, want: spec{DataSource: source(nil, "PersistentVolumeClaim"), DataSourceRef: ref(nil, "PersistentVolumeClaim")}},
		"snapshot":                     {in: spec{DataSource: source(snapshots, "VolumeSnapshot")}, want: spec{DataSource: source(snapshots, "VolumeSnapshot"), DataSourceRef: ref(snapshots, "VolumeSnapshot")}},
		"another kind as dataSource":   {in: spec{DataSource: source(other, "Kind")}},
		"another kind by reference":    {in: spec{DataSourceRef: ref(other, "Kind")}, want: spec{DataSource: source(other, "Kind"), DataSourceRef: ref(other, "Kind")}},
		"another kind that was there":  {in: spec{DataSource: source(other, "Kind")}, old: &spec{DataSourceRef: ref(other, "Kind")}, want: spec{DataSource: source(other, "Kind"), DataSourceRef: ref(other, "Kind")}},
		"another namespace":            {in: spec{DataSourceRef: elsewhere}},
		"another namespace, was there": {in: spec{DataSourceRef: elsewhere}, old: &spec{DataSourceRef: elsewhere}, want: spec{DataSourceRef: elsewhere}},
	} {
		t.Run(name, func(t *testing.T) {
			prepareSpec(&tc.in, tc.old)
			if diff := cmp.Diff(tc.want, tc.in); diff != "" {
				t.Errorf("spec (-want +got):\n%s", diff)
			}
		})
	}
}
