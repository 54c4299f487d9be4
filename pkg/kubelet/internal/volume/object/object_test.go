// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package object

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"minik8s.io/minik8s/pkg/kubelet/internal/volume/plugin"
)

func podOf(uid, secret string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", UID: types.UID(uid)},
		Spec:       corev1.PodSpec{ImagePullSecrets: []corev1.LocalObjectReference{{Name: secret}}},
	}
}

func TestCache(t *testing.T) {
	ctx := context.Background()
	client := fake.NewSimpleClientset(
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "s", ResourceVersion: "1"}},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "fixed", ResourceVersion: "1"}, Immutable: new(true)},
	)
	changed := make(chan types.UID, 10)
	c := New(client, clock.RealClock{}, func(uid types.UID) { changed <- uid })
	defer c.Stop()

	if _, err := c.Secret(ctx, "ns", "s"); err == nil {
		t.Error("a secret that no pod refers to was returned")
	}
	c.Register(podOf("a", "s"))
	c.Register(podOf("b", "s"))
	if s, err := c.Secret(ctx, "ns", "s"); err != nil || s.Name != "s" {
		t.Errorf("got %v, %v", s, err)
	}
	c.Register(podOf("b", "no"))
	if _, err := c.Secret(ctx, "ns", "no"); !apierrors.IsNotFound(err) || err.Error() != `secret "no" not found` {
		t.Errorf("unexpected error %v", err)
	}
	update := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "s", ResourceVersion: "2"}}
	if _, err := client.CoreV1().Secrets("ns").Update(ctx, update, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	select {
	case uid := <-changed:
		if uid != "a" {
			t.Errorf("pod %s was told, which refers to it no longer", uid)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("no pod was told")
	}

	c.Register(podOf("c", "fixed"))
	if _, err := c.Secret(ctx, "ns", "fixed"); err != nil {
		t.Error(err)
	}
	c.Unregister("a")
	c.Unregister("b")
	c.Unregister("c")
	if len(c.items) != 0 || len(c.pods) != 0 {
		t.Errorf("%d objects and %d pods remain", len(c.items), len(c.pods))
	}
	// All watches have ended although the cache has not been stopped: a leak would block here.
	c.running.Wait()
}

func TestImmutableIsNotWatched(t *testing.T) {
	client := fake.NewSimpleClientset(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "fixed"}, Immutable: new(true)})
	c := New(client, clock.RealClock{}, func(types.UID) {})
	defer c.Stop()
	c.Register(podOf("a", "fixed"))
	if _, err := c.Secret(context.Background(), "ns", "fixed"); err != nil {
		t.Error(err)
	}
	c.running.Wait()
	if _, err := c.Secret(context.Background(), "ns", "fixed"); err != nil {
		t.Errorf("the object is lost with its watch: %v", err)
	}
}

func TestUnavailable(t *testing.T) {
	client := fake.NewSimpleClientset()
	client.PrependReactor("*", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, errors.New("connection refused")
	})
	fakeClock := clocktesting.NewFakeClock(time.Unix(1e9, 0))
	c := New(client, fakeClock, func(types.UID) {})
	defer c.Stop()
	c.Register(podOf("a", "s"))
	done := make(chan error)
	go func() {
		_, err := c.Secret(context.Background(), "ns", "s")
		done <- err
	}()
	for !fakeClock.HasWaiters() {
		select {
		case err := <-done:
			t.Fatalf("did not wait: %v", err)
		default:
		}
	}
	fakeClock.Step(syncTimeout)
	if err := <-done; !errors.Is(err, plugin.ErrUnavailable) {
		t.Errorf("unexpected error %v", err)
	}
}

func TestRefs(t *testing.T) {
	local := func(name string) corev1.LocalObjectReference { return corev1.LocalObjectReference{Name: name} }
	pod := podOf("a", "pull")
	pod.Spec.Volumes = []corev1.Volume{
		{VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: local("v1")}}},
		{VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "v2"}}},
		{VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
			{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: local("v3")}}, {Secret: &corev1.SecretProjection{LocalObjectReference: local("v4")}}}}}},
	}
	pod.Spec.InitContainers = []corev1.Container{{EnvFrom: []corev1.EnvFromSource{
		{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: local("e1")}}, {SecretRef: &corev1.SecretEnvSource{LocalObjectReference: local("e2")}}}}}
	pod.Spec.Containers = []corev1.Container{{Env: []corev1.EnvVar{{Name: "X", Value: "y"},
		{ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: local("e3")}}}}}}
	pod.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Env: []corev1.EnvVar{
		{ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: local("e4")}}}}}}}
	want := map[Ref]bool{{Secret, "ns", "pull"}: true}
	for name, kind := range map[string]Kind{"v1": ConfigMap, "v2": Secret, "v3": ConfigMap, "v4": Secret, "e1": ConfigMap, "e2": Secret, "e3": ConfigMap, "e4": Secret} {
		want[Ref{kind, "ns", name}] = true
	}
	if diff := cmp.Diff(want, Refs(pod)); diff != "" {
		t.Errorf("unexpected references (-want +got):\n%s", diff)
	}
}
