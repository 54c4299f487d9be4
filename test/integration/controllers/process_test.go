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

// TestManager_KilledInMidRollout kills the process of the controllers at each of the first writes that it makes in a rollout, before
// or after the write is done, and starts it anew.
func TestManager_KilledInMidRollout(t *testing.T) {
	c := framework.Start(t, framework.Options{Scheduler: true, Controllers: []string{"nodelifecycle"}})
	nodesFor(t, c, 1)
	ns := c.Namespace(t)
	d := newDoor(t, c)
	d.start(t, 0, false)
	if _, err := c.Client.AppsV1().Deployments(ns).Create(t.Context(), framework.Deployment("web", 6), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	rolledOut(t, c.Client, ns, "web")
	last := ""
	for n := 1; n <= 6; n++ {
		last = fmt.Sprintf("v%d", n+1)
		for _, written := range []bool{false, true} {
			d.kill()
			apply(t, c.Client, ns, "web", image(fmt.Sprintf("%s-%t", last, written)))
			victim := d.start(t, n, written)
			framework.Eventually(t, "the process is killed", func() error {
				select {
				case <-victim.ended:
					return nil
				default:
					return errors.New("it lives")
				}
			})
		}
		last += "-true"
		d.start(t, 0, false)
		rolledOut(t, c.Client, ns, "web")
		framework.Eventually(t, "only the new pods are left", func() error { return allAre(c.Client, ns, 6, last) })
	}
	have, err := sizes(c.Client, ns)
	if err != nil || have[last] != 6 {
		t.Errorf("replica sets have the sizes %v, %v", have, err)
	}
	for image, n := range have {
		if image != last && n != 0 {
			t.Errorf("the replica set of %s still wants %d pods", image, n)
		}
	}
}
