// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestGang runs examples/gang: of two gangs for which there is not room together one runs, and the other one when it has gone. What is
// killed meanwhile counts who runs already.
func TestGang(t *testing.T) {
	c := newCluster(t, "gang")
	example := filepath.Join(suite.root, "examples", "gang")
	k := up(t, c, "--config", filepath.Join(example, "cluster.yaml"))
	node := k.nodeNames(t)[0]
	k.kubectl(t, "patch", "node", node, "--subresource=status", "-p", `{"status":{"capacity":{"example.com/seat":"3"}}}`)
	k.kubectl(t, "apply", "-f", filepath.Join(example, "gangs.yaml"))
	var first, second string
	eventually(t, time.Minute, "one gang runs", func(ctx context.Context) error {
		red, blue, err := k.running(ctx, "red"), k.running(ctx, "blue"), error(nil)
		switch {
		case red == 2 && blue == 0:
			first, second = "red", "blue"
		case red == 0 && blue == 2:
			first, second = "blue", "red"
		default:
			err = fmt.Errorf("%d pods of red and %d of blue run", red, blue)
		}
		return err
	})
	k.kubectl(t, "wait", "--for=condition=PodGroupInitiallyScheduled", "podgroup/"+first, "--timeout=30s")
	k.kubectl(t, "wait", "--for=condition=PodGroupInitiallyScheduled=false", "podgroup/"+second, "--timeout=30s")
	contains(t, k.kubectl(t, "get", "podgroup", second, "-o", "jsonpath={.status.conditions[0].message}"), "minCount (2) cannot be satisfied: 1 scheduled, 0 remaining")

	kill(t, k)
	k = up(t, c)
	k.kubectl(t, "delete", "job", first, "--cascade=foreground", "--timeout=60s")
	k.kubectl(t, "wait", "--for=condition=PodGroupInitiallyScheduled", "podgroup/"+second, "--timeout=60s")
	eventually(t, time.Minute, "the other gang runs", func(ctx context.Context) error {
		if n := k.running(ctx, second); n != 2 {
			return fmt.Errorf("%d pods run", n)
		}
		return nil
	})
	// A group goes when no pod needs it any more.
	k.kubectl(t, "delete", "podgroup", second, "--wait=false")
	g, err := k.client.SchedulingV1beta1().PodGroups("default").Get(t.Context(), second, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if !meta.IsStatusConditionTrue(g.Status.Conditions, "PodGroupInitiallyScheduled") || g.DeletionTimestamp == nil {
		t.Errorf("a group whose pods run is %+v", g)
	}
	k.kubectl(t, "delete", "job", second, "--cascade=foreground", "--timeout=60s")
	k.kubectl(t, "wait", "--for=delete", "podgroup/"+second, "--timeout=60s")
}

// running counts the pods of a Job that run; -1 if nobody knows.
func (k *kube) running(ctx context.Context, job string) (n int) {
	pods, err := k.client.CoreV1().Pods("default").List(ctx, metav1.ListOptions{LabelSelector: "job-name=" + job})
	if err != nil {
		return -1
	}
	for i := range pods.Items {
		if pods.Items[i].Status.Phase == corev1.PodRunning {
			n++
		}
	}
	return n
}
