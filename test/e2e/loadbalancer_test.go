// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const loadBalancerManifest = `
apiVersion: v1
kind: Service
metadata: {name: balanced}
spec:
  type: LoadBalancer
  selector: {app: balanced}
  ports: [{name: a, port: 80, targetPort: 8080}, {name: b, port: 8000, targetPort: 8080}]
---
apiVersion: v1
kind: Pod
metadata: {name: balanced, labels: {app: balanced}}
spec:
  terminationGracePeriodSeconds: 1
  containers:
    - name: c
      image: minik8s.io/guestbook-frontend:1
      args: [static, /]
      ports: [{containerPort: 8080}]
      readinessProbe: {httpGet: {path: /, port: 8080}, periodSeconds: 1}
`

// A Service of type LoadBalancer answers at an address of its own, on its ports and no others, until
// it is deleted.
func TestLoadBalancer(t *testing.T) {
	c := newCluster(t, "loadbalancer")
	k := up(t, c)
	const ns = "default"
	file := filepath.Join(t.TempDir(), "manifest.yaml")
	if err := os.WriteFile(file, []byte(loadBalancerManifest), 0o600); err != nil {
		t.Fatal(err)
	}
	k.kubectl(t, "-n", ns, "apply", "-f", file)
	k.kubectl(t, "-n", ns, "wait", "--for=jsonpath={.status.loadBalancer.ingress[0].ip}", "service/balanced", "--timeout=20s")
	k.kubectl(t, "-n", ns, "wait", "--for=condition=Ready", "pod/balanced", "--timeout=60s")
	service := func(ctx context.Context) string {
		t.Helper()
		s, err := k.client.CoreV1().Services(ns).Get(ctx, "balanced", metav1.GetOptions{})
		if err != nil || len(s.Status.LoadBalancer.Ingress) != 1 {
			t.Fatalf("service is %v, %v", s, err)
		}
		return s.Status.LoadBalancer.Ingress[0].IP
	}
	ip := service(t.Context())
	contains(t, k.kubectl(t, "-n", ns, "get", "service", "balanced"), "EXTERNAL-IP", ip)
	contains(t, k.kubectl(t, "-n", ns, "get", "events"), "EnsuringLoadBalancer", "EnsuredLoadBalancer")

	fromHost := func(port int, want bool) {
		t.Helper()
		eventually(t, 20*time.Second, fmt.Sprintf("the host reaches port %d: %t", port, want), func(ctx context.Context) error {
			_, err := fetch(ctx, "GET", fmt.Sprintf("http://%s:%d/", ip, port), "")
			if !want && errors.Is(err, syscall.ECONNREFUSED) {
				return nil
			}
			if !want {
				return fmt.Errorf("it is not refused: %w", err)
			}
			return err
		})
	}
	fromPod := func(port int) {
		t.Helper()
		eventually(t, 20*time.Second, fmt.Sprintf("a pod reaches port %d", port), func(ctx context.Context) error {
			r, err := k.run(ctx, "-n", ns, "exec", "balanced", "--", "/guestbook", "get", fmt.Sprintf("http://%s:%d/", ip, port))
			if err == nil && r.Code != 0 {
				err = fmt.Errorf("got %s", r)
			}
			return err
		})
	}
	for _, port := range []int{80, 8000} {
		fromHost(port, true)
		fromPod(port)
	}
	fromHost(81, false)
	k.kubectl(t, "-n", ns, "patch", "service", "balanced", "--type=json", "-p",
		`[{"op": "add", "path": "/spec/ports/-", "value": {"name": "c", "port": 81, "targetPort": 8080}}]`)
	fromHost(81, true)
	fromPod(81)

	k.kubectl(t, "-n", ns, "delete", "service", "balanced", "--timeout=20s")
	eventually(t, 10*time.Second, "the machine has the address no more", func(ctx context.Context) error {
		out, err := exec.CommandContext(ctx, "ip", "-o", "address", "show", "dev", "lo").Output()
		if err == nil && strings.Contains(string(out), " "+ip+"/") {
			err = fmt.Errorf("it has: %s", out)
		}
		return err
	})
}
