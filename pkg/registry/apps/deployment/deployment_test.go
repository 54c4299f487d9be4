// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package deployment_test

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"

	"minik8s.io/minik8s/pkg/registry"
	"minik8s.io/minik8s/pkg/registry/apps/deployment"
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

func valid() *appsv1.Deployment {
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "w"},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": "b"}},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
			},
		},
	}
}

func TestResource(t *testing.T) {
	registrytest.Run(t, deployment.Resource, registrytest.Case[*appsv1.Deployment]{
		AddToScheme:  addToScheme,
		Valid:        valid,
		Update:       func(w *appsv1.Deployment) { w.Spec.Replicas = new(int32(3)) },
		StatusUpdate: func(w *appsv1.Deployment) { w.Status.Replicas = 1 },
		Invalid: []registrytest.Invalid[*appsv1.Deployment]{
			{Name: "no selector", Mutate: func(w *appsv1.Deployment) { w.Spec.Selector = nil }, Field: "spec.selector"},
			{Name: "empty selector", Mutate: func(w *appsv1.Deployment) { w.Spec.Selector = &metav1.LabelSelector{} }, Field: "spec.selector"},
			{Name: "other labels", Mutate: func(w *appsv1.Deployment) { w.Spec.Template.Labels["a"] = "c" }, Field: "spec.template.metadata.labels"},
			{Name: "negative replicas", Mutate: func(w *appsv1.Deployment) { w.Spec.Replicas = new(int32(-1)) }, Field: "spec.replicas"},
			{Name: "restart policy", Mutate: func(w *appsv1.Deployment) { w.Spec.Template.Spec.RestartPolicy = "Never" }, Field: "spec.template.spec.restartPolicy"},
			{Name: "deadline of pods", Mutate: func(w *appsv1.Deployment) { w.Spec.Template.Spec.ActiveDeadlineSeconds = new(int64(1)) }, Field: "spec.template.spec.activeDeadlineSeconds"},
			{Name: "no container", Mutate: func(w *appsv1.Deployment) { w.Spec.Template.Spec.Containers = nil }, Field: "spec.template.spec.containers"},
			{Name: "strategy", Mutate: func(w *appsv1.Deployment) { w.Spec.Strategy.Type = "x" }, Field: "spec.strategy"},
			{Name: "nothing may move", Mutate: func(w *appsv1.Deployment) {
				w.Spec.Strategy.RollingUpdate = &appsv1.RollingUpdateDeployment{MaxSurge: new(intstr.FromInt32(0)), MaxUnavailable: new(intstr.FromString("0%"))}
			}, Field: "spec.strategy.rollingUpdate.maxUnavailable"},
			{Name: "deadline", Mutate: func(w *appsv1.Deployment) { w.Spec.MinReadySeconds = 600 }, Field: "spec.progressDeadlineSeconds"},
		},
		InvalidUpdates: []registrytest.InvalidUpdate[*appsv1.Deployment]{
			{Name: "selector", Mutate: func(w *appsv1.Deployment) {
				w.Spec.Selector.MatchLabels["x"] = "y"
				w.Spec.Template.Labels["x"] = "y"
			}, Field: "spec.selector"},
		},
		Row: []any{"w", "0/1", int64(0), int64(0)},
	})
}

func TestRollbackAnnotation(t *testing.T) {
	for value, want := range map[string]string{"": "", "3": "", "-1": "spec.rollback.version", "x": "spec.rollback.version"} {
		w := valid()
		w.Annotations = map[string]string{appsv1.DeprecatedRollbackTo: value}
		deployment.Resource.Default(w)
		var got string
		for _, err := range deployment.Resource.Validate(t.Context(), w) {
			got = err.Field
		}
		if got != want {
			t.Errorf("rollback to %q: error of %q, want %q", value, got, want)
		}
	}
}

func TestScale(t *testing.T) {
	group := registry.Group{
		Name:        appsv1.GroupName,
		AddToScheme: addToScheme,
		Versions:    []registry.Version{{Name: "v1", Resources: []registry.Descriptor{deployment.Resource}}},
	}
	client := kubernetes.NewForConfigOrDie(registrytest.Serve(t, registry.Config{}, group)).AppsV1().Deployments("default")
	ctx := t.Context()
	if _, err := client.Create(ctx, valid(), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	s, err := client.GetScale(ctx, "w", metav1.GetOptions{})
	if err != nil || s.Spec.Replicas != 1 || s.Status.Selector != "a=b" {
		t.Fatalf("scale %+v, %v", s, err)
	}
	stale := s.DeepCopy()
	s.Spec.Replicas = 5
	if s, err = client.UpdateScale(ctx, "w", s, metav1.UpdateOptions{}); err != nil || s.Spec.Replicas != 5 {
		t.Fatalf("scale %+v, %v", s, err)
	}
	if _, err := client.UpdateScale(ctx, "w", stale, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
		t.Errorf("stale scale: %v, want conflict", err)
	}
	s.Spec.Replicas = -1
	if _, err := client.UpdateScale(ctx, "w", s, metav1.UpdateOptions{}); !apierrors.IsInvalid(err) {
		t.Errorf("negative scale: %v, want invalid", err)
	}
	if _, err := client.Patch(ctx, "w", types.MergePatchType, []byte(`{"spec":{"replicas":7}}`), metav1.PatchOptions{}, "scale"); err != nil {
		t.Fatal(err)
	}
	w, err := client.Get(ctx, "w", metav1.GetOptions{})
	if err != nil || *w.Spec.Replicas != 7 || w.Generation != 3 {
		t.Errorf("replicas %d of generation %d, %v; want 7 of 3", *w.Spec.Replicas, w.Generation, err)
	}
}
