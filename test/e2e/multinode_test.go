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
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// multinodePods are servers that leave a lost node early, and a client on every node.
const multinodePods = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      terminationGracePeriodSeconds: 1
      tolerations:
        - {key: node.kubernetes.io/unreachable, operator: Exists, effect: NoExecute, tolerationSeconds: 5}
        - {key: node.kubernetes.io/not-ready, operator: Exists, effect: NoExecute, tolerationSeconds: 5}
      topologySpreadConstraints:
        - {maxSkew: 1, topologyKey: kubernetes.io/hostname, whenUnsatisfiable: ScheduleAnyway, labelSelector: {matchLabels: {app: web}}}
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
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: client}
spec:
  selector: {matchLabels: {app: client}}
  template:
    metadata: {labels: {app: client}}
    spec:
      terminationGracePeriodSeconds: 1
      containers: [{name: c, image: "minik8s.io/guestbook-frontend:1", args: [static, /], readinessProbe: {httpGet: {path: /, port: 8080}, periodSeconds: 1}}]
`

// Three nodes on an engine of the test's own, and what happens to them: a node is lost and comes back, rules are lost, hundreds of
// Services come and go, the process is away, the engine is restarted. It takes minutes: make e2e-multinode.
func TestMultinodeFaults(t *testing.T) {
	enabled(t)
	long(t, "make e2e-multinode")
	d := newDaemon(t)
	c := newCluster(t, "faults")
	c.Env = []string{"DOCKER_HOST=" + d.host()}
	k := up(t, c, "--nodes", "3")
	manifest := filepath.Join(t.TempDir(), "pods.yaml")
	if err := os.WriteFile(manifest, []byte(multinodePods), 0o600); err != nil {
		t.Fatal(err)
	}
	k.kubectl(t, "apply", "-f", manifest)
	eventually(t, time.Minute, "the servers", k.ready("default", "app=web", 3))
	eventually(t, time.Minute, "a client on each node", k.ready("default", "app=client", 3))
	second, third := c.Name+"-2", c.Name+"-3"
	eventually(t, 30*time.Second, "the Service everywhere", k.served(3))

	k.losesNode(t, third)
	k.losesRules(t, second)
	k.churnsServices(t, second)
	k = k.losesProcess(t)

	d.end(t, syscall.SIGTERM)
	d.start(t)
	eventually(t, 2*time.Minute, "the servers after the engine", k.ready("default", "app=web", 3))
	eventually(t, time.Minute, "the clients after the engine", k.ready("default", "app=client", 3))
	eventually(t, time.Minute, "the Service after the engine", k.served(3))
}

// served checks that so many clients, each on a node of its own, are answered by the Service, and each node at its NodePort.
func (k *kube) served(clients int) func(context.Context) error {
	return func(ctx context.Context) error {
		pods, err := k.client.CoreV1().Pods("default").List(ctx, metav1.ListOptions{LabelSelector: "app=client"})
		if err != nil {
			return err
		}
		service, err := k.client.CoreV1().Services("default").Get(ctx, "web", metav1.GetOptions{})
		if err != nil {
			return err
		}
		asked := 0
		for i := range pods.Items {
			p := &pods.Items[i]
			if !isReady(p) || p.DeletionTimestamp != nil {
				continue
			}
			asked++
			for range 6 { // every endpoint is probably among the answers
				if err := k.asks(ctx, p.Name, "http://web/etc/hostname", "web-"); err != nil {
					return err
				}
			}
			if _, err := fetch(ctx, "GET", fmt.Sprintf("http://%s:%d/etc/hostname", p.Status.HostIP, service.Spec.Ports[0].NodePort), ""); err != nil {
				return err
			}
		}
		if asked != clients {
			return fmt.Errorf("%d clients, want %d", asked, clients)
		}
		return nil
	}
}

// losesNode stops a node: once it is known as lost nothing is led to its pods, they are replaced, and the node comes back as it was.
func (k *kube) losesNode(t *testing.T, name string) {
	t.Helper()
	begin := time.Now()
	must(t, k.Cluster, "node", "stop", name)
	eventually(t, 70*time.Second, "the node known as lost", k.nodeCondition(name, corev1.ConditionUnknown, ""))
	t.Logf("a node that was stopped is known as lost after %.0f s", time.Since(begin).Seconds())
	eventually(t, 5*time.Second, "no endpoint on the lost node", func(ctx context.Context) error {
		slices, err := k.client.DiscoveryV1().EndpointSlices("default").List(ctx, metav1.ListOptions{LabelSelector: "kubernetes.io/service-name=web"})
		if err != nil {
			return err
		}
		for _, s := range slices.Items {
			for _, e := range s.Endpoints {
				if e.NodeName != nil && *e.NodeName == name && e.Conditions.Ready != nil && *e.Conditions.Ready {
					return fmt.Errorf("%v is ready", e.Addresses)
				}
			}
		}
		return nil
	})
	eventually(t, 5*time.Second, "the Service on the nodes that are left", k.served(2))
	eventually(t, time.Minute, "servers in place of the lost", func(ctx context.Context) error {
		pods, err := k.client.CoreV1().Pods("default").List(ctx, metav1.ListOptions{LabelSelector: "app=web"})
		there := 0
		for i := range pods.Items {
			if p := &pods.Items[i]; p.Spec.NodeName != name && p.DeletionTimestamp == nil && isReady(p) {
				there++
			}
		}
		if err == nil && there != 3 {
			err = fmt.Errorf("%d", there)
		}
		return err
	})
	t.Logf("its pods are replaced after %.0f s", time.Since(begin).Seconds())
	must(t, k.Cluster, "node", "start", name)
	eventually(t, time.Minute, "servers, and none of before", k.ready("default", "app=web", 3))
	eventually(t, time.Minute, "a client on the node again", k.ready("default", "app=client", 3))
	eventually(t, 30*time.Second, "the Service everywhere again", k.served(3))
}

// in runs a program in the network namespace of a node of this machine; "" is the machine.
func (k *kube) in(node string, args ...string) (string, error) {
	if node != "" {
		args = append([]string{"nsenter", "--net=" + filepath.Join(k.DataDir, "netns", node)}, args...)
	}
	out, err := exec.Command(args[0], args[1:]...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s: %w: %s", strings.Join(args, " "), err, out)
	}
	return string(out), nil
}

// rules are the rules for Services that a node has.
func (k *kube) rules(t *testing.T, node string) []string {
	t.Helper()
	out, err := k.in(node, "iptables-save", "-t", "nat")
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for line := range strings.SplitSeq(out, "\n") {
		if strings.HasPrefix(line, "-A") && strings.Contains(line, "MK-") {
			all = append(all, line)
		}
	}
	return all
}

// losesRules takes rules from a node, one and then all: they are back within a minute.
func (k *kube) losesRules(t *testing.T, node string) {
	t.Helper()
	before := k.rules(t, node)
	heals := func(what string) {
		t.Helper()
		begin := time.Now()
		eventually(t, time.Minute, "rules after "+what, func(context.Context) error {
			if now := k.rules(t, node); len(now) != len(before) {
				return fmt.Errorf("%d rules, there were %d", len(now), len(before))
			}
			return nil
		})
		eventually(t, 10*time.Second, "the Service after "+what, k.served(3))
		t.Logf("%s: healed after %.0f s", what, time.Since(begin).Seconds())
	}
	for _, rule := range before {
		if strings.Contains(rule, "DNAT") && strings.Contains(rule, ":8080") {
			if _, err := k.in(node, append([]string{"iptables", "-w", "-t", "nat", "-D"}, quoted(strings.TrimPrefix(rule, "-A "))...)...); err != nil {
				t.Fatal(err)
			}
			break
		}
	}
	if now := k.rules(t, node); len(now) != len(before)-1 {
		t.Fatalf("%d rules, there were %d", len(now), len(before))
	}
	heals("one rule was deleted")
	if _, err := k.in(node, "iptables", "-w", "-t", "nat", "-F"); err != nil {
		t.Fatal(err)
	}
	heals("all rules were flushed")
}

// quoted are the words of a rule as iptables-save prints it.
func quoted(rule string) []string {
	var words []string
	for i, part := range strings.Split(rule, `"`) {
		if i%2 == 1 {
			words = append(words, part)
		} else {
			words = append(words, strings.Fields(part)...)
		}
	}
	return words
}

// churnsServices makes and deletes many Services at once: no rule of them is left on the machine and on a node, and no address is taken.
func (k *kube) churnsServices(t *testing.T, node string) {
	t.Helper()
	const count = 500
	addresses := func() int {
		list, err := k.client.NetworkingV1().IPAddresses().List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return len(list.Items)
	}
	here, there, taken := len(k.rules(t, "")), len(k.rules(t, node)), addresses()
	services := k.client.CoreV1().Services("default")
	each := func(what string, do func(ctx context.Context, name string) error) {
		t.Helper()
		group, ctx := errgroup.WithContext(t.Context())
		group.SetLimit(16)
		begin := time.Now()
		for n := range count {
			group.Go(func() error { return do(ctx, fmt.Sprint("churn-", n)) })
		}
		if err := group.Wait(); err != nil {
			t.Fatal(err)
		}
		t.Logf("%d Services %s in %.1f s", count, what, time.Since(begin).Seconds())
	}
	each("made", func(ctx context.Context, name string) error {
		_, err := services.Create(ctx, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.ServiceSpec{
			Selector: map[string]string{"app": "web"}, Ports: []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromInt32(8080)}},
		}}, metav1.CreateOptions{})
		return err
	})
	eventually(t, time.Minute, "rules of the Services on the node", func(context.Context) error {
		if now := len(k.rules(t, node)); now < there+count {
			return fmt.Errorf("%d rules, there were %d", now, there)
		}
		return nil
	})
	each("deleted", func(ctx context.Context, name string) error {
		return services.Delete(ctx, name, metav1.DeleteOptions{})
	})
	eventually(t, time.Minute, "no rules of the Services", func(context.Context) error {
		if now, then := len(k.rules(t, "")), len(k.rules(t, node)); now != here || then != there {
			return fmt.Errorf("%d and %d rules, there were %d and %d", now, then, here, there)
		}
		return nil
	})
	if now := addresses(); now != taken {
		t.Errorf("%d addresses are taken, there were %d", now, taken)
	}
}

// losesProcess kills the process, with API server, kubelets and proxies: Services are served meanwhile, and nothing is started anew after.
func (k *kube) losesProcess(t *testing.T) *kube {
	t.Helper()
	service, err := k.client.CoreV1().Services("default").Get(t.Context(), "web", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	ids := func() map[string]string {
		pods, err := k.client.CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		all := map[string]string{}
		for i := range pods.Items {
			for _, s := range pods.Items[i].Status.ContainerStatuses {
				all[pods.Items[i].Name] = s.ContainerID
			}
		}
		return all
	}
	before, nodes := ids(), []string{k.addressOf(t, k.Name+"-2"), k.addressOf(t, k.Name+"-3")}
	kill(t, k)
	failed := 0
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); pass(t, 200*time.Millisecond) {
		for _, node := range nodes {
			if _, err := fetch(t.Context(), "GET", fmt.Sprintf("http://%s:%d/etc/hostname", node, service.Spec.Ports[0].NodePort), ""); err != nil {
				failed++
				t.Log(err)
			}
		}
	}
	if failed > 0 {
		t.Errorf("%d requests failed while the process was away", failed)
	}
	k = up(t, k.Cluster)
	eventually(t, time.Minute, "the Service after the process", k.served(3))
	for name, id := range ids() {
		if before[name] != id {
			t.Errorf("%s was started anew", name)
		}
	}
	return k
}
