// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"minik8s.io/minik8s/pkg/machinetest"
	"minik8s.io/minik8s/test/e2e/cluster"
)

// secondMachine is a network namespace that stands for another machine: links, routes and iptables of its own, in one
// network segment with this one. It shares the Docker of this machine.
type secondMachine struct {
	name, here, there string
}

func newSecondMachine(t *testing.T) secondMachine {
	t.Helper()
	machinetest.Root(t, "for a network namespace")
	m := secondMachine{name: "minik8s-e2e", here: "192.168.199.1", there: "192.168.199.2"}
	ip := func(args string) {
		t.Helper()
		if out, err := exec.Command("ip", strings.Fields(args)...).CombinedOutput(); err != nil {
			t.Fatalf("ip %s: %v: %s", args, err, out)
		}
	}
	ip("netns add " + m.name)
	t.Cleanup(func() {
		if out, err := exec.Command("ip", "netns", "delete", m.name).CombinedOutput(); err != nil {
			t.Errorf("ip netns delete: %v: %s", err, out)
		}
	})
	ip("link add mk8s-e2e type veth peer name eth0 netns " + m.name)
	t.Cleanup(func() { // sockets that linger keep the namespace, and would keep the link
		if out, err := exec.Command("ip", "link", "delete", "mk8s-e2e").CombinedOutput(); err != nil {
			t.Errorf("ip link delete: %v: %s", err, out)
		}
	})
	ip("address add " + m.here + "/24 dev mk8s-e2e")
	ip("link set mk8s-e2e up")
	ip("-n " + m.name + " address add " + m.there + "/24 dev eth0")
	ip("-n " + m.name + " link set lo up")
	ip("-n " + m.name + " link set eth0 up")
	ip("-n " + m.name + " route add default via " + m.here)
	return m
}

// on makes a command run on that machine.
func (m secondMachine) on(ctx context.Context, cmd *exec.Cmd) *exec.Cmd {
	there := exec.CommandContext(ctx, "nsenter", append([]string{"--net=/run/netns/" + m.name}, cmd.Args...)...)
	there.Env = cmd.Env
	return there
}

// purged has nothing left of a node of the machine when the test ends.
func (m secondMachine) purged(t *testing.T, node cluster.Cluster) {
	t.Helper()
	t.Cleanup(func() {
		r, err := cluster.Run(m.on(context.Background(), node.Command(context.Background(), "down", "--purge")))
		if err != nil || r.Code != 0 {
			t.Errorf("removing the node: %v %s", err, r)
		}
	})
}

// join makes the machine node two of a cluster, with a data directory of that name, and waits until it is Ready.
func (m secondMachine) join(t *testing.T, k *kube, dataDir string, args ...string) {
	t.Helper()
	joined := filepath.Join(t.TempDir(), "two.kubeconfig")
	r := must(t, k.Cluster, "kubeconfig", "--node", "two", "--node-ip", m.there)
	if err := os.WriteFile(joined, []byte(r.Stdout), 0o600); err != nil {
		t.Fatal(err)
	}
	node := cluster.Cluster{Binary: k.Binary, Name: k.Name + "-two"}
	m.purged(t, node)
	agent := background(t, m.on(t.Context(), node.Command(t.Context(), "agent", append([]string{"--kubeconfig", joined, "--data-dir", dataDir}, args...)...)))
	eventually(t, 40*time.Second, "the second node Ready", k.nodeReady("two", agent))
}

// first starts a cluster that the machine can reach, whose own node is one.
func (m secondMachine) first(t *testing.T, c cluster.Cluster) *kube {
	t.Helper()
	return firstAt(t, c, m.here)
}

// firstAt starts a cluster whose own node is one and has these addresses.
func firstAt(t *testing.T, c cluster.Cluster, addresses string, args ...string) *kube {
	t.Helper()
	config := filepath.Join(t.TempDir(), "config.yaml")
	text := "apiVersion: minik8s.io/v1alpha1\nkind: Cluster\nkubelet: {nodeName: one, nodeIP: '" + addresses + "'}\n"
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return up(t, c, append([]string{"--config", config}, args...)...)
}

// ownSettings is a file for a node, which takes 42 pods.
func ownSettings(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	kubelet, config := filepath.Join(dir, "kubelet.yaml"), filepath.Join(dir, "node.yaml")
	for file, text := range map[string]string{
		kubelet: "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nmaxPods: 42\n",
		config:  "apiVersion: minik8s.io/v1alpha1\nkind: Cluster\nkubelet: {config: " + kubelet + "}\n",
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return config
}

// A node on another machine joins by its kubeconfig, takes its own settings from a file, runs pods, and reaches those of the first and the Services.
func TestAgent(t *testing.T) {
	c := newCluster(t, "agent")
	m := newSecondMachine(t)
	k := m.first(t, c)
	m.join(t, k, filepath.Join(suite.dir, "agent-two"), "--config", ownSettings(t))
	if pods := k.kubectl(t, "get", "node", "two", "-o", "jsonpath={.status.capacity.pods}"); pods != "42" {
		t.Errorf("the second node takes %s pods, its own settings say 42", pods)
	}
	k.kubectl(t, "create", "deployment", "web", "--image="+frontendImage, "--replicas=4", "--", "/guestbook", "static", "/")
	k.kubectl(t, "expose", "deployment", "web", "--port=80", "--target-port=8080")
	k.kubectl(t, "rollout", "status", "deployment/web", "--timeout=60s")
	pods, err := k.client.CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{LabelSelector: "app=web"})
	if err != nil {
		t.Fatal(err)
	}
	on := map[string]corev1.Pod{}
	for _, p := range pods.Items {
		on[p.Spec.NodeName] = p
	}
	if len(on) != 2 {
		t.Fatalf("the scheduler used %d nodes, want 2", len(on))
	}
	for from, to := range map[string]string{"one": "two", "two": "one"} {
		// logs and exec reach the kubelet of either node; pods reach pods of the other, and both DNS and Services.
		contains(t, k.kubectl(t, "logs", on[from].Name), "listening on")
		hostname := k.kubectl(t, "exec", on[from].Name, "--", "/guestbook", "get", "http://"+on[to].Status.PodIP+":8080/etc/hostname")
		contains(t, hostname, on[to].Name)
		eventually(t, 20*time.Second, "an answer of the Service from "+to, func(ctx context.Context) error {
			r, err := k.run(ctx, "exec", on[from].Name, "--", "/guestbook", "get", "http://web/etc/hostname")
			if err != nil {
				return err
			}
			for _, p := range pods.Items {
				if p.Spec.NodeName == to && strings.TrimSpace(r.Stdout) == p.Name {
					return nil
				}
			}
			return fmt.Errorf("got %s", r)
		})
	}
}
