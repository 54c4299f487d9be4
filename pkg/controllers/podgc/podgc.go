// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package podgc removes pods that nobody else removes: those of nodes that are gone or declared out of service, those that
// were deleted before they had a node, and the oldest of very many that have ended. Touch it when such pods pile up.
package podgc

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"minik8s.io/minik8s/pkg/controllers/internal/pods"
	"minik8s.io/minik8s/pkg/controllers/ownwrites"
	"minik8s.io/minik8s/pkg/controllers/setup"
)

const (
	// period is the time between two passes over all pods.
	period = 20 * time.Second
	// quarantine is how long a node has to be missing before its pods go.
	quarantine = 40 * time.Second
)

// Collector looks at all pods from time to time.
type Collector struct {
	Client client.Client
	// Live tells whether a node that the cache misses is missing indeed.
	Live  client.Reader
	Clock clock.WithTicker
	// Threshold is the number of ended pods that are kept; 0 keeps all of them.
	Threshold int

	// missing holds since when nodes are missing that pods still name. Only one pass runs at a time.
	missing map[string]time.Time
}

// Setup adds the collector to the manager.
func Setup(env setup.Env) error {
	// Watches that a pass needs are started here, so that the cache is complete before the first one.
	for _, obj := range []client.Object{&corev1.Pod{}, &corev1.Node{}} {
		if _, err := env.Manager.GetCache().GetInformer(context.Background(), obj); err != nil {
			return fmt.Errorf("watching %T: %w", obj, err)
		}
	}
	return env.Manager.Add(&Collector{Client: env.Client, Live: env.Live, Clock: env.Clock, Threshold: int(max(*env.Settings.TerminatedPodGCThreshold, 0))})
}

// Start makes a pass every 20 s until ctx ends.
func (c *Collector) Start(ctx context.Context) error {
	logger := klog.FromContext(ctx).WithName("podgc")
	ticker := c.Clock.NewTicker(period)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C():
			if err := c.Collect(ctx); err != nil && ctx.Err() == nil {
				logger.Error(err, "Collecting pods")
			}
		}
	}
}

// Collect makes one pass over all pods.
func (c *Collector) Collect(ctx context.Context) error {
	all, err := ownwrites.Peek[*corev1.Pod](ctx, c.Client, &corev1.PodList{})
	if err != nil {
		return fmt.Errorf("listing pods: %w", err)
	}
	nodeList, err := ownwrites.Peek[*corev1.Node](ctx, c.Client, &corev1.NodeList{})
	if err != nil {
		return fmt.Errorf("listing nodes: %w", err)
	}
	nodes := map[string]*corev1.Node{}
	for _, node := range nodeList {
		nodes[node.Name] = node
	}
	now := c.Clock.Now()
	c.missing = missingNodes(all, nodes, c.missing, now)
	gone, err := c.confirmGone(ctx, now)
	// There may be ten thousand on lost nodes, and others should not wait for minutes.
	victims := Victims(all, nodes, gone, c.Threshold)
	errs := pods.Each(len(victims), func(i int) error { return c.remove(ctx, victims[i], now) })
	return errors.Join(append(errs, err)...)
}

// confirmGone returns the missing nodes that have sat out the quarantine and that the API server does not know either.
func (c *Collector) confirmGone(ctx context.Context, now time.Time) (map[string]bool, error) {
	gone := map[string]bool{}
	var errs []error
	for name, since := range c.missing {
		if now.Sub(since) < quarantine {
			continue
		}
		err := c.Live.Get(ctx, types.NamespacedName{Name: name}, &corev1.Node{})
		switch {
		case apierrors.IsNotFound(err):
			gone[name] = true
		case err != nil:
			errs = append(errs, fmt.Errorf("reading node %q: %w", name, err))
		}
	}
	return gone, errors.Join(errs...)
}

// remove marks a pod that has not ended as failed and deletes it without grace: there is no kubelet to wait for. It is a while ago that
// the pod was found: another one may have its name by now.
func (c *Collector) remove(ctx context.Context, victim Victim, now time.Time) error {
	pod := &corev1.Pod{}
	if err := c.Client.Get(ctx, client.ObjectKeyFromObject(victim.Pod), pod); err != nil || pod.UID != victim.Pod.UID {
		return client.IgnoreNotFound(err)
	}
	if !pods.IsTerminal(pod) {
		before := pod.DeepCopy()
		pod.Status.Phase, pod.Status.ObservedGeneration = corev1.PodFailed, pod.Generation
		if victim.Orphaned {
			pods.SetCondition(&pod.Status, corev1.PodCondition{
				Type:               corev1.DisruptionTarget,
				Status:             corev1.ConditionTrue,
				ObservedGeneration: pod.Generation,
				LastTransitionTime: metav1.NewTime(now),
				Reason:             "DeletionByPodGC",
				Message:            "PodGC: node no longer exists",
			})
		}
		if gone, err := pods.PatchStatus(ctx, c.Client, pod, before); gone || err != nil {
			return err
		}
	}
	err := c.Client.Delete(ctx, pod, client.GracePeriodSeconds(0), client.Preconditions{UID: &pod.UID})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting pod %q: %w", pod.Name, err)
	}
	return nil
}
