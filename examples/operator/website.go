// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

const (
	// websiteLabel marks the ConfigMaps that are web sites: each key is a page.
	websiteLabel = "example.minik8s.io/website"
	// replicasAnnotation says how many pods serve it; default 1.
	replicasAnnotation = "example.minik8s.io/replicas"
	// availableAnnotation is where the operator tells how many do.
	availableAnnotation = "example.minik8s.io/available"
	// contentAnnotation, on the pod template, rolls out new content.
	contentAnnotation = "example.minik8s.io/content"
)

// Reconciler makes a web site of a ConfigMap.
type Reconciler struct {
	Client   client.Client
	Recorder events.EventRecorder
	// Image has a web server.
	Image string
}

// Reconcile implements reconcile.Reconciler.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var site corev1.ConfigMap
	if err := r.Client.Get(ctx, request.NamespacedName, &site); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err) // what it owned is the garbage collector's
	}
	if site.DeletionTimestamp != nil || site.Labels[websiteLabel] != "true" {
		return ctrl.Result{}, nil
	}
	replicas, err := replicasOf(&site)
	if err != nil {
		r.Recorder.Eventf(&site, nil, corev1.EventTypeWarning, "InvalidReplicas", "Reconcile", "%v", err)
		return ctrl.Result{}, nil // trying again does not help, a change of the ConfigMap does
	}
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: site.Name, Namespace: site.Namespace}}
	done, err := controllerutil.CreateOrUpdate(ctx, r.Client, deployment, func() error {
		shapeDeployment(deployment, &site, replicas, r.Image)
		return controllerutil.SetControllerReference(&site, deployment, r.Client.Scheme())
	})
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("making the deployment: %w", err)
	}
	if done == controllerutil.OperationResultCreated {
		r.Recorder.Eventf(&site, deployment, corev1.EventTypeNormal, "Published", "Create", "Created deployment %s", deployment.Name)
	}
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: site.Name, Namespace: site.Namespace}}
	if _, err := controllerutil.CreateOrUpdate(ctx, r.Client, service, func() error {
		shapeService(service, &site)
		return controllerutil.SetControllerReference(&site, service, r.Client.Scheme())
	}); err != nil {
		return ctrl.Result{}, fmt.Errorf("making the service: %w", err)
	}
	return ctrl.Result{}, r.tell(ctx, &site, deployment.Status.AvailableReplicas)
}

// tell writes how many pods serve the site, if that has changed.
func (r *Reconciler) tell(ctx context.Context, site *corev1.ConfigMap, available int32) error {
	value := strconv.Itoa(int(available))
	if site.Annotations[availableAnnotation] == value {
		return nil
	}
	before := site.DeepCopy()
	if site.Annotations == nil {
		site.Annotations = map[string]string{}
	}
	site.Annotations[availableAnnotation] = value
	return client.IgnoreNotFound(r.Client.Patch(ctx, site, client.MergeFrom(before)))
}

func replicasOf(site *corev1.ConfigMap) (int32, error) {
	value, given := site.Annotations[replicasAnnotation]
	if !given {
		return 1, nil
	}
	n, err := strconv.ParseInt(value, 10, 32)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("annotation %s must be a number from 0 on, is %q", replicasAnnotation, value)
	}
	return int32(n), nil
}

func selector(site *corev1.ConfigMap) map[string]string {
	return map[string]string{"example.minik8s.io/site": site.Name}
}

// shapeDeployment sets what the operator wants and leaves alone what others, the API server's defaults among them, set.
func shapeDeployment(d *appsv1.Deployment, site *corev1.ConfigMap, replicas int32, image string) {
	d.Spec.Replicas = &replicas
	d.Spec.Selector = &metav1.LabelSelector{MatchLabels: selector(site)}
	d.Spec.Template.Labels = selector(site)
	d.Spec.Template.Annotations = map[string]string{contentAnnotation: digest(site.Data)}
	if len(d.Spec.Template.Spec.Containers) != 1 {
		d.Spec.Template.Spec.Containers = make([]corev1.Container, 1)
	}
	c := &d.Spec.Template.Spec.Containers[0]
	c.Name, c.Image, c.Args = "web", image, []string{"static", "/site"}
	c.VolumeMounts = []corev1.VolumeMount{{Name: "site", MountPath: "/site", ReadOnly: true}}
	if len(c.Ports) != 1 {
		c.Ports = make([]corev1.ContainerPort, 1)
	}
	c.Ports[0].Name, c.Ports[0].ContainerPort = "http", 8080
	if c.ReadinessProbe == nil {
		c.ReadinessProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromString("http")}}, PeriodSeconds: 1}
	}
	if len(d.Spec.Template.Spec.Volumes) != 1 || d.Spec.Template.Spec.Volumes[0].ConfigMap == nil {
		d.Spec.Template.Spec.Volumes = []corev1.Volume{{VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{}}}}
	}
	v := &d.Spec.Template.Spec.Volumes[0]
	v.Name, v.ConfigMap.Name = "site", site.Name
}

func shapeService(s *corev1.Service, site *corev1.ConfigMap) {
	s.Spec.Selector = selector(site)
	if len(s.Spec.Ports) != 1 {
		s.Spec.Ports = make([]corev1.ServicePort, 1)
	}
	s.Spec.Ports[0].Name, s.Spec.Ports[0].Port, s.Spec.Ports[0].TargetPort = "http", 80, intstr.FromString("http")
}

// digest changes whenever a page does.
func digest(pages map[string]string) string {
	h := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(pages)) {
		_, _ = fmt.Fprintf(h, "%d %s %d %s", len(name), name, len(pages[name]), pages[name])
	}
	return hex.EncodeToString(h.Sum(nil))[:16]
}
