// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// nodesPods are a server on every node, and a pod with the network of its node.
const nodesPods = `
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: web}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
        - name: c
          image: minik8s.io/guestbook-frontend:1
          args: [static, /]
          ports: [{name: http, containerPort: 8080}]
          readinessProbe: {httpGet: {path: /, port: http}, periodSeconds: 1}
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {type: NodePort, selector: {app: web}, ports: [{port: 80, targetPort: http}]}
---
apiVersion: v1
kind: Pod
metadata: {name: host}
spec:
  nodeName: %s
  hostNetwork: true
  terminationGracePeriodSeconds: 1
  containers: [{name: c, image: "minik8s.io/guestbook-frontend:1", args: [static, /], ports: [{name: http, containerPort: 8080}], readinessProbe: {httpGet: {path: /, port: http}}}]
`

// Several nodes on one machine: they are reached, come and go, survive the end of the process, and leave nothing.
func TestNodes(t *testing.T) {
	c := newCluster(t, "nodes")
	before, err := takeSnapshot(c.Name)
	if err != nil {
		t.Fatal(err)
	}
	k := up(t, c, "--nodes", "3")
	second, third := c.Name+"-2", c.Name+"-3"
	manifest := filepath.Join(t.TempDir(), "nodes.yaml")
	if err := os.WriteFile(manifest, fmt.Appendf(nil, nodesPods, second), 0o600); err != nil {
		t.Fatal(err)
	}
	k.kubectl(t, "apply", "-f", manifest)
	eventually(t, time.Minute, "a pod on each node", k.ready("default", "app=web", 3))
	k.kubectl(t, "wait", "--for=condition=Ready", "pod/host", "--timeout=60s")
	k.reachesAll(t, 3)

	host, err := k.client.CoreV1().Pods("default").Get(t.Context(), "host", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := host.Status.PodIP, k.addressOf(t, second); got != want {
		t.Errorf("a pod with the network of its node has address %s, want %s", got, want)
	}
	contains(t, k.kubectl(t, "exec", "host", "--", "/guestbook", "get", "http://127.0.0.1:8080/etc/hostname"), second)
	contains(t, k.kubectl(t, "logs", "host"), "listening on")

	must(t, c, "node", "add", "small", "--cpus", "500m", "--memory", "256Mi", "--pods", "5")
	eventually(t, time.Minute, "a pod on the node that was added", k.ready("default", "app=web", 4))
	n, err := k.client.CoreV1().Nodes().Get(t.Context(), "small", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if c := n.Status.Capacity; c.Cpu().String() != "500m" || c.Memory().String() != "256Mi" || c.Pods().Value() != 5 {
		t.Errorf("the capacity is %v", c)
	}

	must(t, c, "node", "stop", third)
	address := k.addressOf(t, third)
	must(t, c, "node", "start", third)
	if got := k.addressOf(t, third); got != address {
		t.Errorf("a node that was stopped has address %s, had %s", got, address)
	}
	eventually(t, time.Minute, "the pod of the node that was stopped", k.ready("default", "app=web", 4))
	k.reachesAll(t, 4)

	kill(t, k)
	k = up(t, c)
	k.reachesAll(t, 4)
	if err := k.Down(t.Context()); err != nil {
		t.Fatal(err)
	}
	k = up(t, c)
	eventually(t, time.Minute, "a pod on each node again", k.ready("default", "app=web", 4))
	k.reachesAll(t, 4)

	r, err := c.Run(t.Context(), "node", "remove", second)
	if err != nil || r.Code == 0 || !strings.Contains(r.Stderr, "default/host") {
		t.Errorf("removing a node with a pod: %v %s", err, r)
	}
	must(t, c, "node", "remove", second, "--force")
	must(t, c, "node", "remove", "small")
	// A pod that was bound as its node went is collected a minute later, as upstream's is.
	eventually(t, 2*time.Minute, "the pods that are left", k.ready("default", "app=web", 2))
	k.reachesAll(t, 2)

	if err := k.Down(t.Context(), "--purge"); err != nil {
		t.Fatal(err)
	}
	eventually(t, 10*time.Second, "the machine as it was", func(context.Context) error {
		after, err := takeSnapshot(c.Name)
		if diff := difference(before, after); err == nil && len(diff) > 0 {
			err = fmt.Errorf("- before, + after:\n%s", strings.Join(diff, "\n"))
		}
		return err
	})
}

// addressOf is the address of a node.
func (k *kube) addressOf(t *testing.T, node string) string {
	t.Helper()
	n, err := k.client.CoreV1().Nodes().Get(t.Context(), node, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range n.Status.Addresses {
		if a.Type == corev1.NodeInternalIP {
			return a.Address
		}
	}
	t.Fatalf("node %s has no address: %v", node, n.Status.Addresses)
	return ""
}

// reachesAll sees that each pod of the DaemonSet reaches each other one by its address, and the Service by its name, and that the NodePort
// is answered at the address of each node. A node that has just come back tells the new addresses of its pods a moment later.
func (k *kube) reachesAll(t *testing.T, want int) {
	t.Helper()
	eventually(t, 2*time.Minute, "all pods reached", func(ctx context.Context) error {
		pods, err := k.client.CoreV1().Pods("default").List(ctx, metav1.ListOptions{LabelSelector: "app=web"})
		if err != nil {
			return err
		}
		service, err := k.client.CoreV1().Services("default").Get(ctx, "web", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if len(pods.Items) != want {
			return fmt.Errorf("there are %d pods, want %d", len(pods.Items), want)
		}
		for i := range pods.Items {
			from := &pods.Items[i]
			if err := k.asks(ctx, from.Name, "http://web/etc/hostname", "web-"); err != nil {
				return err
			}
			for j := range pods.Items {
				if err := k.asks(ctx, from.Name, "http://"+pods.Items[j].Status.PodIP+":8080/etc/hostname", pods.Items[j].Name); err != nil {
					return err
				}
			}
			if _, err := fetch(ctx, "GET", fmt.Sprintf("http://%s:%d/etc/hostname", from.Status.HostIP, service.Spec.Ports[0].NodePort), ""); err != nil {
				return err
			}
		}
		return nil
	})
}

// asks has a pod fetch a page, in which a text must be.
func (k *kube) asks(ctx context.Context, pod, url, want string) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	r, err := k.run(ctx, "exec", pod, "--", "/guestbook", "get", url)
	if err == nil && (r.Code != 0 || !strings.Contains(r.Stdout, want)) {
		err = fmt.Errorf("got %s, want %s", r, want)
	}
	if err != nil {
		return fmt.Errorf("%s asks %s: %w", pod, url, err)
	}
	return nil
}
