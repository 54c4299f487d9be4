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
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"minik8s.io/minik8s/pkg/machinetest"
	"minik8s.io/minik8s/pkg/network/xtables"
)

// cniBridge and cniRange are what the network of TestCNI is made of.
const cniBridge, cniRange = "mk8s-e2e-cni", "10.231.7.0/24"

// cniNetwork are published programs: a bridge, a range of addresses for its pods, and the machine's leave to forward.
const cniNetwork = `{"cniVersion": "1.0.0", "name": "e2e", "plugins": [
  {"type": "bridge", "bridge": %q, "isDefaultGateway": true, "ipMasq": false,
   "ipam": {"type": "host-local", "dataDir": %q, "ranges": [[{"subnet": %q}]]}},
  {"type": "firewall", "backend": "iptables"}]}`

// cniHost runs before there is a network, as what installs one does.
const cniHost = `
apiVersion: v1
kind: Pod
metadata: {name: installer}
spec:
  nodeName: %s
  hostNetwork: true
  terminationGracePeriodSeconds: 1
  containers: [{name: c, image: "minik8s.io/guestbook-frontend:1", args: [count]}]
`

// withoutNetwork undoes what the programs leave on the machine: a bridge and the head of the firewall's chains.
func withoutNetwork(t *testing.T) {
	t.Helper()
	var table xtables.Programs
	chains := []string{"CNI-FORWARD", "CNI-ADMIN"}
	for _, chain := range chains {
		if _, there, err := table.Rules(t.Context(), "filter", chain); err != nil || there {
			machinetest.Lacks(t, "somebody else's network is here: chain %s: %v", chain, err)
		}
	}
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		rules, _, err := table.Rules(ctx, "filter", "FORWARD")
		undo := "*filter\n"
		for _, r := range rules {
			if strings.HasSuffix(r, "-j CNI-FORWARD") {
				undo += strings.Replace(r, "-A", "-D", 1) + "\n"
			}
		}
		for _, chain := range chains {
			undo += ":" + chain + " - [0:0]\n-X " + chain + "\n"
		}
		err = errors.Join(err, table.Restore(ctx, undo+"COMMIT\n"))
		if out, removed := exec.Command("ip", "link", "delete", cniBridge).CombinedOutput(); removed != nil {
			err = errors.Join(err, fmt.Errorf("removing the bridge: %s", out))
		}
		if err != nil {
			t.Error(err)
		}
	})
}

// Pods are on a network that somebody else brings: the node waits for it, pods reach one another and Services by it, it outlives the
// process, and no pod's address is left when the cluster is gone.
func TestCNI(t *testing.T) {
	enabled(t)
	withoutNetwork(t)
	c := newCluster(t, "cni")
	conf, data := t.TempDir(), t.TempDir()
	config := filepath.Join(t.TempDir(), "config.yaml")
	text := fmt.Sprintf("apiVersion: minik8s.io/v1alpha1\nkind: Cluster\nnetworking: {podSubnet: 10.231.0.0/16, cniConfDir: %s, cniBinDir: %s}\n", conf, binary("cni"))
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	k := up(t, c, "--config", config)
	nodes, err := k.client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	if err != nil || len(nodes.Items) != 1 {
		t.Fatalf("%v, %v", nodes, err)
	}
	name := nodes.Items[0].Name
	eventually(t, 20*time.Second, "a node that waits for its network", k.nodeCondition(name, corev1.ConditionFalse, "container runtime network not ready: no network configuration in "+conf))
	manifest := filepath.Join(t.TempDir(), "installer.yaml")
	if err := os.WriteFile(manifest, fmt.Appendf(nil, cniHost, name), 0o600); err != nil {
		t.Fatal(err)
	}
	eventually(t, 20*time.Second, "the pod that installs", func(ctx context.Context) error {
		r, err := k.run(ctx, "apply", "-f", manifest)
		if err == nil && r.Code != 0 {
			err = errors.New(r.Stderr)
		}
		return err
	})
	k.kubectl(t, "wait", "--for=condition=Ready", "pod/installer", "--timeout=60s")

	if err := os.WriteFile(filepath.Join(conf, "10-e2e.conflist"), fmt.Appendf(nil, cniNetwork, cniBridge, data, cniRange), 0o600); err != nil {
		t.Fatal(err)
	}
	eventually(t, 30*time.Second, "the node with a network", k.nodeCondition(name, corev1.ConditionTrue, "kubelet is posting ready status"))
	k.kubectl(t, "create", "deployment", "web", "--image="+frontendImage, "--replicas=2", "--port=8080", "--", "/guestbook", "static", "/")
	k.kubectl(t, "expose", "deployment", "web", "--port=80", "--target-port=8080", "--type=NodePort")
	k.kubectl(t, "rollout", "status", "deployment/web", "--timeout=60s")
	eventually(t, time.Minute, "pods by their addresses and a name", k.onBridge)

	kill(t, k)
	k = up(t, c)
	eventually(t, time.Minute, "the same after the process was killed", k.onBridge)
	r, err := c.Run(t.Context(), "node", "add")
	if err != nil || r.Code == 0 || !strings.Contains(r.Stderr, "CNI") {
		t.Errorf("a further node: %v %s", err, r)
	}

	if err := k.Down(t.Context(), "--purge"); err != nil {
		t.Fatal(err)
	}
	left, err := filepath.Glob(filepath.Join(data, "e2e", "10.231.*"))
	if err != nil || len(left) > 0 {
		t.Errorf("addresses are still given: %v, %v", left, err)
	}
	if out, err := exec.Command("ip", "-oneline", "link", "show", "master", cniBridge).CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("links are still there: %v\n%s", err, out)
	}
}

// nodeCondition checks whether a node is Ready or not, and says so.
func (k *kube) nodeCondition(name string, status corev1.ConditionStatus, message string) func(context.Context) error {
	return func(ctx context.Context) error {
		n, err := k.client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, c := range n.Status.Conditions {
			if c.Type == corev1.NodeReady && c.Status == status && strings.Contains(c.Message, message) {
				return nil
			}
		}
		return fmt.Errorf("conditions %v", n.Status.Conditions)
	}
}

// onBridge checks that the pods of TestCNI have addresses of its network, and reach one another by these and by the Service.
func (k *kube) onBridge(ctx context.Context) error {
	pods, err := k.client.CoreV1().Pods("default").List(ctx, metav1.ListOptions{LabelSelector: "app=web"})
	if err == nil && len(pods.Items) != 2 {
		err = fmt.Errorf("%d pods", len(pods.Items))
	}
	if err != nil {
		return err
	}
	for i := range pods.Items {
		from, to := &pods.Items[i], &pods.Items[1-i]
		if !strings.HasPrefix(to.Status.PodIP, "10.231.7.") {
			return fmt.Errorf("pod %s has the address %q", to.Name, to.Status.PodIP)
		}
		if err := k.asks(ctx, from.Name, "http://"+to.Status.PodIP+":8080/etc/hostname", to.Name); err != nil {
			return err
		}
		if err := k.asks(ctx, from.Name, "http://web/etc/hostname", "web-"); err != nil {
			return err
		}
	}
	service, err := k.client.CoreV1().Services("default").Get(ctx, "web", metav1.GetOptions{})
	if err != nil {
		return err
	}
	_, err = fetch(ctx, "GET", fmt.Sprintf("http://%s:%d/etc/hostname", pods.Items[0].Status.HostIP, service.Spec.Ports[0].NodePort), "")
	return err
}
