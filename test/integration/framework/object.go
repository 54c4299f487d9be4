// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Namespace makes a namespace of a new name that pods can be created in at once, and deletes it with all its pods when the
// test ends.
func (c *Cluster) Namespace(tb testing.TB) string {
	tb.Helper()
	ctx := context.Background()
	ns, err := c.Client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}, metav1.CreateOptions{})
	if err != nil {
		tb.Fatal(err)
	}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
	if _, err := c.Client.CoreV1().ServiceAccounts(ns.Name).Create(ctx, account, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := c.Client.CoreV1().Namespaces().Delete(ctx, ns.Name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			tb.Error(err)
		}
		now := metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}
		if err := c.Client.CoreV1().Pods(ns.Name).DeleteCollection(ctx, now, metav1.ListOptions{}); err != nil {
			tb.Error(err)
		}
	})
	return ns.Name
}

// Pod is a valid pod with the label app.
func Pod(name, app string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": app}},
		Spec:       PodSpec(app),
	}
}

// PodSpec has one container, with an image of the given name.
func PodSpec(image string) corev1.PodSpec {
	return corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: image}}}
}

// Deployment is a valid Deployment of pods with the label app.
func Deployment(app string, replicas int32) *appsv1.Deployment {
	labels := map[string]string{"app": app}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: app, Labels: labels},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: PodSpec("v1")},
		},
	}
}

// ReplicaSet is a valid ReplicaSet of pods with the label app.
func ReplicaSet(app string, replicas int32) *appsv1.ReplicaSet {
	labels := map[string]string{"app": app}
	return &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Name: app, Labels: labels},
		Spec: appsv1.ReplicaSetSpec{
			Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: PodSpec("v1")},
		},
	}
}
