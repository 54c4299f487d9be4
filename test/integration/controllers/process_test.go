// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	"minik8s.io/minik8s/test/integration/framework"
)

// TestNode_Silent follows a node that falls silent, with a clock of its own since that takes minutes.
func TestNode_Silent(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Now())
	c := framework.Start(t, framework.Options{Controllers: []string{"nodelifecycle", "tainteviction", "podgc"}, Clock: clock})
	var silent *framework.Node
	for _, name := range []string{"alive-a", "alive-b", "silent"} {
		spec := node(name)
		spec.Heartbeat = 50 * time.Millisecond
		n := c.AddNode(t, spec)
		if name == "silent" {
			silent = n
		}
	}
	ns := c.Namespace(t)
	pods := c.Client.CoreV1().Pods(ns)
	for name, seconds := range map[string]*int64{"goes": ptr.To[int64](0), "stays": nil} {
		pod := framework.Pod(name, name)
		pod.Spec.NodeName = "silent"
		for _, key := range []string{corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable} {
			pod.Spec.Tolerations = append(pod.Spec.Tolerations, corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: seconds})
		}
		if _, err := pods.Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	framework.Eventually(t, "the pods are ready", func() error {
		for _, name := range []string{"goes", "stays"} {
			p, err := pods.Get(t.Context(), name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			if !isReady(p) {
				return fmt.Errorf("%s is not", name)
			}
		}
		return nil
	})

	if err := silent.Stop(); err != nil {
		t.Fatal(err)
	}
	touched := 0
	framework.Eventually(t, "the node is unreachable and tainted", func() error {
		clock.Step(10 * time.Second)
		// The controller sleeps by the real clock; a change of the node wakes it.
		touched++
		patch := fmt.Sprintf(`{"metadata":{"annotations":{"example.com/touched":"%d"}}}`, touched)
		n, err := c.Client.CoreV1().Nodes().Patch(t.Context(), "silent", types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		if err != nil {
			return err
		}
		ready := nodeCondition(n, corev1.NodeReady)
		if ready.Status != corev1.ConditionUnknown || ready.Reason != "NodeStatusUnknown" || ready.Message != "Kubelet stopped posting node status." {
			return fmt.Errorf("Ready is %+v", ready)
		}
		for _, effect := range []corev1.TaintEffect{corev1.TaintEffectNoSchedule, corev1.TaintEffectNoExecute} {
			has := func(t corev1.Taint) bool { return t.Key == corev1.TaintNodeUnreachable && t.Effect == effect }
			if !slices.ContainsFunc(n.Spec.Taints, has) {
				return fmt.Errorf("taints are %+v", n.Spec.Taints)
			}
		}
		return nil
	})
	framework.Eventually(t, "one pod is evicted, the other out of service", func() error {
		p, err := pods.Get(t.Context(), "goes", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if p.DeletionTimestamp == nil {
			return errors.New("it is not evicted")
		}
		if c := podCondition(p, corev1.DisruptionTarget); c.Status != corev1.ConditionTrue || c.Reason != "DeletionByTaintManager" {
			return fmt.Errorf("DisruptionTarget is %+v", c)
		}
		if p, err = pods.Get(t.Context(), "stays", metav1.GetOptions{}); err != nil {
			return err
		}
		if p.DeletionTimestamp != nil || isReady(p) {
			return fmt.Errorf("the tolerant pod is deleted at %v, ready %t", p.DeletionTimestamp, isReady(p))
		}
		return nil
	})
	for _, name := range []string{"alive-a", "alive-b"} {
		n, err := c.Client.CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{})
		if err != nil || nodeCondition(n, corev1.NodeReady).Status != corev1.ConditionTrue || len(n.Spec.Taints) > 0 {
			t.Errorf("%s suffers too: %+v, %v", name, n, err)
		}
	}

	spec := node("silent")
	spec.Heartbeat = 50 * time.Millisecond
	back, err := c.StartNode(spec)
	if err != nil {
		t.Fatal(err)
	}
	framework.Eventually(t, "the node is back", func() error {
		n, err := c.Client.CoreV1().Nodes().Get(t.Context(), "silent", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if nodeCondition(n, corev1.NodeReady).Status != corev1.ConditionTrue || len(n.Spec.Taints) > 0 {
			return fmt.Errorf("it has the taints %+v", n.Spec.Taints)
		}
		p, err := pods.Get(t.Context(), "stays", metav1.GetOptions{})
		if err == nil && !isReady(p) {
			return errors.New("its pod is not ready")
		}
		return err
	})

	if err := back.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := c.Client.CoreV1().Nodes().Delete(t.Context(), "silent", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	gone(t, "the pod of a node that was removed", func() error {
		clock.Step(20 * time.Second)
		_, err := pods.Get(t.Context(), "stays", metav1.GetOptions{})
		return err
	})
}

func nodeCondition(n *corev1.Node, t corev1.NodeConditionType) corev1.NodeCondition {
	for _, c := range n.Status.Conditions {
		if c.Type == t {
			return c
		}
	}
	return corev1.NodeCondition{}
}

func podCondition(p *corev1.Pod, t corev1.PodConditionType) corev1.PodCondition {
	for _, c := range p.Status.Conditions {
		if c.Type == t {
			return c
		}
	}
	return corev1.PodCondition{}
}

// TestManager_KilledInMidRollout ends all controllers at several points of a rollout and starts them anew.
func TestManager_KilledInMidRollout(t *testing.T) {
	c := framework.Start(t, framework.Options{Scheduler: true})
	c.AddNode(t, node("node"))
	ns := c.Namespace(t)
	stop, err := c.StartControllers("*")
	if err != nil {
		t.Fatal(err)
	}
	d := framework.Deployment("web", 6)
	if _, err := c.Client.AppsV1().Deployments(ns).Create(t.Context(), d, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	rolledOut(t, c.Client, ns, "web")
	apply(t, c.Client, ns, "web", image("v2"))
	for _, updated := range []int{1, 3, 5} {
		framework.Eventually(t, fmt.Sprintf("%d pods are updated", updated), func() error {
			have, err := activePods(c.Client, ns)
			if err != nil {
				return err
			}
			n := 0
			for _, p := range have {
				if p.Spec.Containers[0].Image == "v2" {
					n++
				}
			}
			if n < updated {
				return fmt.Errorf("%d are", n)
			}
			return nil
		})
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		if stop, err = c.StartControllers("*"); err != nil {
			t.Fatal(err)
		}
	}
	rolledOut(t, c.Client, ns, "web")
	have, err := sizes(c.Client, ns)
	if err != nil || len(have) != 2 || have["v1"] != 0 || have["v2"] != 6 {
		t.Errorf("replica sets have the sizes %v, %v", have, err)
	}
	pods, err := activePods(c.Client, ns)
	if err != nil || len(pods) != 6 {
		t.Errorf("%d pods, %v, want 6", len(pods), err)
	}
}
