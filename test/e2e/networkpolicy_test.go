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
)

// policyPods are a server, called by its Service, and two who may call it.
const policyPods = `
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: server}, ports: [{port: 80, targetPort: http}]}
---
apiVersion: v1
kind: Pod
metadata: {name: server, labels: {app: server}}
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
kind: Pod
metadata: {name: friend, labels: {app: friend}}
spec: {terminationGracePeriodSeconds: 1, containers: [{name: c, image: "minik8s.io/guestbook-frontend:1", args: [static, /]}]}
---
apiVersion: v1
kind: Pod
metadata: {name: stranger, labels: {app: stranger}}
spec: {terminationGracePeriodSeconds: 1, containers: [{name: c, image: "minik8s.io/guestbook-frontend:1", args: [static, /]}]}
`

const (
	denyIngress = `
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: deny}
spec: {podSelector: {}, policyTypes: [Ingress]}
`
	allowFriend = `
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: friend}
spec:
  podSelector: {matchLabels: {app: server}}
  ingress: [{from: [{podSelector: {matchLabels: {app: friend}}}], ports: [{port: http}]}]
`
	denyCaller = `
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: caller}
spec: {podSelector: {matchLabels: {app: caller}}, policyTypes: [Egress]}
`
	// caller does nothing but call the server, from its first instant, and ends.
	caller = `
apiVersion: v1
kind: Pod
metadata: {name: caller-%d, labels: {app: caller}}
spec:
  restartPolicy: Never
  containers: [{name: c, image: "minik8s.io/guestbook-frontend:1", args: [get, "http://%s:8080/"]}]
---
`
)

func TestNetworkPolicy(t *testing.T) {
	k := up(t, newCluster(t, "netpol"))
	const ns = "default"
	dir := t.TempDir()
	apply := func(manifest string) {
		t.Helper()
		file := filepath.Join(dir, "manifest.yaml")
		if err := os.WriteFile(file, []byte(manifest), 0o600); err != nil {
			t.Fatal(err)
		}
		k.kubectl(t, "-n", ns, "apply", "-f", file)
	}
	apply(policyPods)
	k.kubectl(t, "-n", ns, "wait", "--for=condition=Ready", "pod", "--all", "--timeout=60s")
	ip := strings.TrimSpace(k.kubectl(t, "-n", ns, "get", "pod", "server", "-o", "jsonpath={.status.podIP}"))
	reach := func(from string, want bool) {
		t.Helper()
		for _, url := range []string{"http://web/", "http://" + ip + ":8080/"} {
			eventually(t, 30*time.Second, fmt.Sprintf("%s reaches %s: %t", from, url, want), func(ctx context.Context) error {
				r, err := k.run(ctx, "-n", ns, "exec", from, "--", "/guestbook", "get", url)
				if err == nil && (r.Code == 0) != want {
					err = fmt.Errorf("got %s", r)
				}
				return err
			})
		}
	}
	reach("friend", true)
	reach("stranger", true)
	apply(denyIngress)
	reach("friend", false)
	reach("stranger", false)
	apply(allowFriend)
	reach("friend", true)
	reach("stranger", false)
	// Its node reaches a pod always; the kubelet's probes are from there.
	k.kubectl(t, "-n", ns, "wait", "--for=condition=Ready", "pod", "server", "--timeout=10s")
	k.kubectl(t, "-n", ns, "delete", "networkpolicy", "--all")
	reach("stranger", true)

	// A policy that is there before a pod holds from the pod's first instant.
	apply(denyCaller)
	var callers strings.Builder
	const count = 5
	for i := range count {
		fmt.Fprintf(&callers, caller, i, ip)
	}
	apply(callers.String())
	k.kubectl(t, "-n", ns, "wait", "--for=jsonpath={.status.phase}=Failed", "pod", "-l", "app=caller", "--timeout=60s")
}
