// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// basePod is what pods are that have no template.
func basePod() *corev1.Pod {
	resources := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("500Mi")}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "pod-"},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: "pause", Image: "registry.k8s.io/pause:3.10.2", Ports: []corev1.ContainerPort{{ContainerPort: 80}},
			Resources: corev1.ResourceRequirements{Limits: resources, Requests: resources},
		}}},
	}
}

// pods renders all pods of an operation before the first is created, for that is no part of what is measured.
func (r *run) pods(o operation) ([]*corev1.Pod, error) {
	path := o.PodTemplatePath
	if path == "" {
		path = r.podTemplate
	}
	batch := max(o.SignatureBatchSize, 1)
	out := make([]*corev1.Pod, o.Count)
	for i := range out {
		if path == "" {
			out[i] = basePod()
			continue
		}
		out[i] = &corev1.Pod{}
		if err := r.templates.render(r.path(path), o.TemplateParams, i, o.Count, out[i]); err != nil {
			return nil, err
		}
		// Upstream's harness gives pods of a template this label, whether the workload needs it or not.
		metav1.SetMetaDataLabel(&out[i].ObjectMeta, "signature", fmt.Sprintf("signature-label-%d", i/batch))
	}
	return out, nil
}

func (r *run) createPods(ctx context.Context, index int, o operation) error {
	if o.Namespace == "" {
		o.Namespace = fmt.Sprintf("namespace-%d", index)
	}
	if err := r.namespace(ctx, o.Namespace); err != nil {
		return err
	}
	pods, err := r.pods(o)
	if err != nil {
		return err
	}
	if o.PersistentVolumeClaimTemplatePath != "" {
		if err := r.createVolumes(ctx, o, pods); err != nil {
			return err
		}
	}
	if o.CollectMetrics {
		if err := r.begin(o.Namespace, []string{o.Namespace}, nil); err != nil {
			return err
		}
	}
	if err := r.schedule(ctx, o, pods); err != nil {
		return err
	}
	if o.CollectMetrics {
		return r.end()
	}
	return nil
}

// schedule creates the pods and waits for what the operation says.
func (r *run) schedule(ctx context.Context, o operation, pods []*corev1.Pod) error {
	if o.SteadyState {
		return r.keep(ctx, o, pods)
	}
	before := len(r.progress.list(o.Namespace, nil, isBound))
	r.expected[o.Namespace] += o.Count
	if err := r.create(ctx, o.Namespace, pods); err != nil || o.SkipWaitToCompletion {
		return err
	}
	return r.progress.await(ctx, o.Namespace, nil, before+o.Count, isBound)
}

// create creates pods by many clients.
func (r *run) create(ctx context.Context, namespace string, pods []*corev1.Pod) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(createConnections)
	for _, pod := range pods {
		g.Go(func() error {
			_, err := r.client.CoreV1().Pods(namespace).Create(ctx, pod, metav1.CreateOptions{})
			return err
		})
	}
	return g.Wait()
}

// keep has as many pods wait for the scheduler at any time for as long as the operation says: one that is bound is deleted, and another created.
func (r *run) keep(ctx context.Context, o operation, pods []*corev1.Pod) error {
	ctx, cancel := context.WithTimeout(ctx, o.Duration.Duration)
	defer cancel()
	bound := make(chan string, 2*len(pods))
	r.progress.onBound(func(namespace, name string) {
		if namespace == o.Namespace {
			select {
			case bound <- name:
			case <-ctx.Done():
			}
		}
	})
	defer r.progress.onBound(nil)
	if err := r.create(ctx, o.Namespace, pods); err != nil {
		return err
	}
	for next := 0; ; next++ {
		select {
		case <-ctx.Done():
			if next == 0 {
				return errors.New("no pod was bound")
			}
			return nil
		case name := <-bound:
			err := r.client.CoreV1().Pods(o.Namespace).Delete(ctx, name, *metav1.NewDeleteOptions(0))
			if err == nil {
				_, err = r.client.CoreV1().Pods(o.Namespace).Create(ctx, pods[next%len(pods)], metav1.CreateOptions{})
			}
			if err != nil && ctx.Err() == nil {
				return err
			}
		}
	}
}

func (r *run) createPodSets(ctx context.Context, index int, o operation) error {
	if o.CreatePodsOp == nil {
		return errors.New("no createPodsOp")
	}
	for i := range o.Count {
		pods := *o.CreatePodsOp
		pods.Namespace = fmt.Sprintf("%s-%d", o.NamespacePrefix, i)
		if err := r.createPods(ctx, index, pods); err != nil {
			return err
		}
	}
	return nil
}

func (r *run) deletePods(ctx context.Context, _ int, o operation) error {
	there := r.progress.list(o.Namespace, o.LabelSelector, isThere)
	remove := func() error {
		if o.DeletePodsPerSecond == 0 {
			return r.client.CoreV1().Pods(o.Namespace).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: labels.Set(o.LabelSelector).String()})
		}
		tick := time.NewTicker(time.Second / time.Duration(o.DeletePodsPerSecond))
		defer tick.Stop()
		for _, pod := range there {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return ctx.Err()
			}
			if err := r.client.CoreV1().Pods(o.Namespace).Delete(ctx, pod.name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
				return err
			}
		}
		return nil
	}
	if !o.SkipWaitToCompletion {
		return remove()
	}
	r.beside(ctx, remove)
	return nil
}

// createVolumes gives each pod a claim that is bound to a volume of its own.
func (r *run) createVolumes(ctx context.Context, o operation, pods []*corev1.Pod) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(createConnections)
	for i, pod := range pods {
		claim, volume := &corev1.PersistentVolumeClaim{}, &corev1.PersistentVolume{}
		if err := errors.Join(r.templates.render(r.path(o.PersistentVolumeClaimTemplatePath), nil, i, o.Count, claim),
			r.templates.render(r.path(o.PersistentVolumeTemplatePath), nil, i, o.Count, volume)); err != nil {
			return err
		}
		claim.Name = fmt.Sprintf("pvc-%d", i)
		volume.Name = fmt.Sprintf("%s-vol-%d", o.Namespace, i)
		if s := volume.Spec.CSI; s != nil {
			s.VolumeHandle = volume.Name
		}
		if s := volume.Spec.AWSElasticBlockStore; s != nil {
			s.VolumeID = volume.Name
		}
		claim.Spec.VolumeName = volume.Name
		volume.Spec.ClaimRef = &corev1.ObjectReference{Kind: "PersistentVolumeClaim", APIVersion: "v1", Namespace: o.Namespace, Name: claim.Name}
		pod.Spec.Volumes = []corev1.Volume{{Name: "vol", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim.Name},
		}}}
		g.Go(func() error { return r.createVolume(ctx, o.Namespace, claim, volume) })
	}
	return g.Wait()
}

func (r *run) createVolume(ctx context.Context, namespace string, claim *corev1.PersistentVolumeClaim, volume *corev1.PersistentVolume) error {
	claims, volumes := r.client.CoreV1().PersistentVolumeClaims(namespace), r.client.CoreV1().PersistentVolumes()
	claim, err := claims.Create(ctx, claim, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	claim.Status.Phase = corev1.ClaimBound
	if _, err := claims.UpdateStatus(ctx, claim, metav1.UpdateOptions{}); err != nil {
		return err
	}
	if volume, err = volumes.Create(ctx, volume, metav1.CreateOptions{}); err != nil {
		return err
	}
	volume.Status.Phase = corev1.VolumeBound
	_, err = volumes.UpdateStatus(ctx, volume, metav1.UpdateOptions{})
	return err
}
