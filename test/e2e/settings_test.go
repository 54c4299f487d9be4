// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const impatience = `
apiVersion: minik8s.io/v1alpha1
kind: Cluster
apiServer: {defaultNotReadyTolerationSeconds: 5, defaultUnreachableTolerationSeconds: 5}
controllerManager: {nodeMonitorGracePeriod: 15s, nodeEvictionRate: 1}
`

const restless = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: restless}
spec:
  selector: {matchLabels: {app: restless}}
  template:
    metadata: {labels: {app: restless}}
    spec:
      terminationGracePeriodSeconds: 1
      affinity:
        nodeAffinity:
          preferredDuringSchedulingIgnoredDuringExecution:
          - {weight: 100, preference: {matchExpressions: [{key: kubernetes.io/hostname, operator: In, values: [%s]}]}}
      containers: [{name: c, image: "minik8s.io/guestbook-frontend:1", args: [static, /], readinessProbe: {httpGet: {path: /, port: 8080}}}]
`

// The settings of docs/configuration.md, "controllerManager", are those that count: with upstream's defaults a pod is replaced six
// minutes after its node has died.
func TestImpatience(t *testing.T) {
	c := newCluster(t, "impatience")
	dir := t.TempDir()
	config, manifest := filepath.Join(dir, "cluster.yaml"), filepath.Join(dir, "pods.yaml")
	second := c.Name + "-2"
	for path, text := range map[string]string{config: impatience, manifest: fmt.Sprintf(restless, second)} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	k := up(t, c, "--config", config, "--nodes", "2")
	k.kubectl(t, "apply", "-f", manifest)
	eventually(t, time.Minute, "the pod", k.ready("default", "app=restless", 1))
	ready := func(wanted func(node string) bool) func(context.Context) error {
		return func(ctx context.Context) error {
			pods, err := k.client.CoreV1().Pods("default").List(ctx, metav1.ListOptions{LabelSelector: "app=restless"})
			if err != nil {
				return err
			}
			if !slices.ContainsFunc(pods.Items, func(p corev1.Pod) bool { return wanted(p.Spec.NodeName) && isReady(&p) && p.DeletionTimestamp == nil }) {
				return fmt.Errorf("no pod of %d is Ready there", len(pods.Items))
			}
			return nil
		}
	}
	if err := ready(func(node string) bool { return node == second })(t.Context()); err != nil {
		t.Fatal(err)
	}
	must(t, c, "node", "stop", second)
	begin := time.Now()
	eventually(t, time.Minute, "a pod on the other node", ready(func(node string) bool { return node != second }))
	t.Logf("the pod was replaced after %.0f s", time.Since(begin).Seconds())
}
