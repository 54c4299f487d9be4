// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package statefulset_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"

	"minik8s.io/minik8s/pkg/registry"
	"minik8s.io/minik8s/pkg/registry/apps/statefulset"
	"minik8s.io/minik8s/pkg/registry/registrytest"
)

// addToScheme adds the Scale that the subresource speaks.
func addToScheme(scheme *runtime.Scheme) error {
	if err := autoscalingv1.AddToScheme(scheme); err != nil {
		return err
	}
	internal := autoscalingv1.SchemeGroupVersion
	internal.Version = runtime.APIVersionInternal
	scheme.AddKnownTypes(internal, &autoscalingv1.Scale{})
	return appsv1.AddToScheme(scheme)
}

func valid() *appsv1.StatefulSet {
	return &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: "s"},
		Spec: appsv1.StatefulSetSpec{
			ServiceName: "s",
			Selector:    &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": "b"}},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
			},
		},
	}
}

// claim gives the set a claim template whose volume the container mounts.
func claim(s *appsv1.StatefulSet) {
	s.Spec.VolumeClaimTemplates = []corev1.PersistentVolumeClaim{{
		ObjectMeta: metav1.ObjectMeta{Name: "data"},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		},
	}}
	s.Spec.Template.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "data", MountPath: "/data"}}
}

func TestResource(t *testing.T) {
	rolling := func(r appsv1.RollingUpdateStatefulSetStrategy) func(*appsv1.StatefulSet) {
		return func(s *appsv1.StatefulSet) {
			s.Spec.UpdateStrategy = appsv1.StatefulSetUpdateStrategy{Type: appsv1.RollingUpdateStatefulSetStrategyType, RollingUpdate: &r}
		}
	}
	registrytest.Run(t, statefulset.Resource, registrytest.Case[*appsv1.StatefulSet]{
		AddToScheme:  addToScheme,
		Valid:        func() *appsv1.StatefulSet { s := valid(); claim(s); return s },
		Update:       func(s *appsv1.StatefulSet) { s.Spec.Replicas = new(int32(3)) },
		StatusUpdate: func(s *appsv1.StatefulSet) { s.Status.Replicas = 1 },
		Invalid: []registrytest.Invalid[*appsv1.StatefulSet]{
			{Name: "name", Mutate: func(s *appsv1.StatefulSet) { s.Name = "a.b" }, Field: "metadata.name"},
			{Name: "no selector", Mutate: func(s *appsv1.StatefulSet) { s.Spec.Selector = nil }, Field: "spec.selector"},
			{Name: "other labels", Mutate: func(s *appsv1.StatefulSet) { s.Spec.Template.Labels["a"] = "c" }, Field: "spec.template.metadata.labels"},
			{Name: "service", Mutate: func(s *appsv1.StatefulSet) { s.Spec.ServiceName = "A" }, Field: "spec.serviceName"},
			{Name: "management", Mutate: func(s *appsv1.StatefulSet) { s.Spec.PodManagementPolicy = "x" }, Field: "spec.podManagementPolicy"},
			{Name: "strategy", Mutate: func(s *appsv1.StatefulSet) { s.Spec.UpdateStrategy.Type = "Recreate" }, Field: "spec.updateStrategy"},
			{Name: "rolling without rolling", Mutate: func(s *appsv1.StatefulSet) {
				rolling(appsv1.RollingUpdateStatefulSetStrategy{})(s)
				s.Spec.UpdateStrategy.Type = appsv1.OnDeleteStatefulSetStrategyType
			}, Field: "spec.updateStrategy.rollingUpdate"},
			{Name: "partition", Mutate: rolling(appsv1.RollingUpdateStatefulSetStrategy{Partition: new(int32(-1))}), Field: "spec.updateStrategy.rollingUpdate.partition"},
			{Name: "nothing may move", Mutate: rolling(appsv1.RollingUpdateStatefulSetStrategy{MaxUnavailable: new(intstr.FromInt32(0))}), Field: "spec.updateStrategy.rollingUpdate.maxUnavailable"},
			{Name: "more than all", Mutate: rolling(appsv1.RollingUpdateStatefulSetStrategy{MaxUnavailable: new(intstr.FromString("101%"))}), Field: "spec.updateStrategy.rollingUpdate.maxUnavailable"},
			{Name: "retention", Mutate: func(s *appsv1.StatefulSet) {
				s.Spec.PersistentVolumeClaimRetentionPolicy = &appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{WhenScaled: "x"}
			}, Field: "spec.persistentVolumeClaimRetentionPolicy.whenScaled"},
			{Name: "ordinals", Mutate: func(s *appsv1.StatefulSet) { s.Spec.Ordinals = &appsv1.StatefulSetOrdinals{Start: -1} }, Field: "spec.ordinals.start"},
			{Name: "claim", Mutate: func(s *appsv1.StatefulSet) { s.Spec.VolumeClaimTemplates[0].Spec.AccessModes = nil }, Field: "spec.volumeClaimTemplates[0].spec.accessModes"},
			{Name: "mount of no claim", Mutate: func(s *appsv1.StatefulSet) { s.Spec.VolumeClaimTemplates[0].Name = "x" }, Field: "spec.template.spec.containers[0].volumeMounts[0].name"},
			{Name: "restart policy", Mutate: func(s *appsv1.StatefulSet) { s.Spec.Template.Spec.RestartPolicy = "Never" }, Field: "spec.template.spec.restartPolicy"},
		},
		InvalidUpdates: []registrytest.InvalidUpdate[*appsv1.StatefulSet]{
			{Name: "service", Mutate: func(s *appsv1.StatefulSet) { s.Spec.ServiceName = "t" }, Field: "spec.serviceName"},
			{Name: "management", Mutate: func(s *appsv1.StatefulSet) { s.Spec.PodManagementPolicy = appsv1.ParallelPodManagement }, Field: "spec.podManagementPolicy"},
			{Name: "claims", Mutate: func(s *appsv1.StatefulSet) { s.Spec.VolumeClaimTemplates[0].Labels = map[string]string{"x": "y"} }, Field: "spec.volumeClaimTemplates"},
			{Name: "image", Mutate: func(s *appsv1.StatefulSet) { s.Spec.Template.Spec.Containers[0].Image = "" }, Field: "spec.template.spec.containers[0].image"},
		},
		Row: []any{"s", "0/1"},
	})
}

func TestDefaults(t *testing.T) {
	s := valid()
	claim(s)
	statefulset.Resource.Default(s)
	want := appsv1.StatefulSetUpdateStrategy{
		Type:          appsv1.RollingUpdateStatefulSetStrategyType,
		RollingUpdate: &appsv1.RollingUpdateStatefulSetStrategy{Partition: new(int32(0)), MaxUnavailable: new(intstr.FromInt32(1))},
	}
	if diff := cmp.Diff(want, s.Spec.UpdateStrategy); diff != "" {
		t.Errorf("strategy (-want +got):\n%s", diff)
	}
	c := s.Spec.VolumeClaimTemplates[0]
	if c.Kind != "PersistentVolumeClaim" || c.Status.Phase != corev1.ClaimPending || *c.Spec.VolumeMode != corev1.PersistentVolumeFilesystem {
		t.Errorf("claim is %+v", c)
	}
	s = valid()
	s.Spec.UpdateStrategy.Type = appsv1.RollingUpdateStatefulSetStrategyType
	if statefulset.Resource.Default(s); s.Spec.UpdateStrategy.RollingUpdate != nil {
		t.Errorf("a strategy with a type only becomes %+v, which upstream leaves alone", s.Spec.UpdateStrategy.RollingUpdate)
	}
}

// TestOldTemplate scales a set whose template today's rules refuse.
func TestOldTemplate(t *testing.T) {
	old := valid()
	old.Spec.Template.Spec.Containers[0].Image = ""
	statefulset.Resource.Default(old)
	s := old.DeepCopy()
	s.Spec.Replicas = new(int32(0))
	if errs := statefulset.Resource.ValidateUpdate(t.Context(), s, old); len(errs) > 0 {
		t.Errorf("scaling is refused: %v", errs)
	}
	s.Spec.Template.Annotations = map[string]string{"a b": ""}
	if errs := statefulset.Resource.ValidateUpdate(t.Context(), s, old); len(errs) != 1 || errs[0].Field != "spec.template.annotations" {
		t.Errorf("errors are %v, want one of the annotation", errs)
	}
}

func TestStatus(t *testing.T) {
	old := valid()
	old.Status.CollisionCount = new(int32(0))
	s := valid()
	s.Status = appsv1.StatefulSetStatus{Replicas: 1, ReadyReplicas: 1, AvailableReplicas: 2, ObservedGeneration: -1}
	var got []string
	for _, err := range statefulset.Resource.Status.Validate(t.Context(), s, old) {
		got = append(got, err.Field)
	}
	want := []string{"status.observedGeneration", "status.availableReplicas", "status.availableReplicas", "status.collisionCount"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("errors (-want +got):\n%s", diff)
	}
}

func TestScale(t *testing.T) {
	group := registry.Group{
		Name:        appsv1.GroupName,
		AddToScheme: addToScheme,
		Versions:    []registry.Version{{Name: "v1", Resources: []registry.Descriptor{statefulset.Resource}}},
	}
	client := kubernetes.NewForConfigOrDie(registrytest.Serve(t, registry.Config{}, group)).AppsV1().StatefulSets("default")
	ctx := t.Context()
	if _, err := client.Create(ctx, valid(), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	scale, err := client.GetScale(ctx, "s", metav1.GetOptions{})
	if err != nil || scale.Spec.Replicas != 1 || scale.Status.Selector != "a=b" {
		t.Fatalf("scale %+v, %v", scale, err)
	}
	scale.Spec.Replicas = 5
	if _, err = client.UpdateScale(ctx, "s", scale, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	s, err := client.Get(ctx, "s", metav1.GetOptions{})
	if err != nil || *s.Spec.Replicas != 5 || s.Generation != 2 {
		t.Errorf("replicas %d of generation %d, %v; want 5 of 2", *s.Spec.Replicas, s.Generation, err)
	}
}
