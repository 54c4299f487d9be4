// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"minik8s.io/minik8s/pkg/machinetest"
	"minik8s.io/minik8s/pkg/network/namespace"
	"minik8s.io/minik8s/test/e2e/cluster"
)

// familyPods are a server on every node, and a Service of each kind.
const familyPods = `
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
          ports: [{name: http, containerPort: 8080, hostPort: 18181}]
          readinessProbe: {httpGet: {path: /, port: http}, periodSeconds: 1}
          env:
            - {name: POD_IPS, valueFrom: {fieldRef: {fieldPath: status.podIPs}}}
            - {name: HOST_IPS, valueFrom: {fieldRef: {fieldPath: status.hostIPs}}}
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {type: NodePort, ipFamilyPolicy: PreferDualStack, selector: {app: web}, ports: [{port: 80, targetPort: http}]}
---
apiVersion: v1
kind: Service
metadata: {name: plain}
spec: {selector: {app: web}, ports: [{port: 80, targetPort: http}]}
`

// bothFamilies are Services that a cluster has to have both families for.
const bothFamilies = `---
apiVersion: v1
kind: Service
metadata: {name: both}
spec: {ipFamilyPolicy: RequireDualStack, ipFamilies: [IPv6, IPv4], selector: {app: web}, ports: [{port: 80, targetPort: http}]}
---
apiVersion: v1
kind: Service
metadata: {name: six}
spec: {ipFamilyPolicy: SingleStack, ipFamilies: [IPv6], selector: {app: web}, ports: [{port: 80, targetPort: http}]}
`

// TestDualStack runs two nodes of both families.
func TestDualStack(t *testing.T) {
	ipv6(t)
	c := newCluster(t, "dual")
	outside := newOutside(t)
	before, err := takeSnapshot(c.Name)
	if err != nil {
		t.Fatal(err)
	}
	k := up(t, c, "--nodes", "2", "--ip-family", "dual")
	second := c.Name + "-2"
	contains(t, must(t, c, "status").Stdout, "IPv4 and IPv6")
	pods := k.familyPods(t, familyPods+bothFamilies, 2)
	k.addressesOf(t, pods, 2)
	k.reachesFamilies(t, pods)
	k.servesFamilies(t, pods, map[string][]string{"web": {"IPv4", "IPv6"}, "plain": {"IPv4"}, "both": {"IPv6", "IPv4"}, "six": {"IPv6"}})
	k.nodePortsOf(t, "127.0.0.1", "::1")
	k.namesOf(t, pods[0].Name, 2)
	outside.sees(t, k, pods)
	k.routesFamilies(t)
	k.admits(t, pods)

	must(t, c, "node", "stop", second)
	nodes := k.nodeAddresses(t)
	must(t, c, "node", "start", second)
	if got := k.nodeAddresses(t); !slices.Equal(got, nodes) {
		t.Errorf("a node that was stopped has addresses %q, had %q", got, nodes)
	}
	kill(t, k)
	k = up(t, c)
	if got := k.nodeAddresses(t); !slices.Equal(got, nodes) {
		t.Errorf("after a crash nodes have addresses %q, had %q", got, nodes)
	}
	k.startedAnew(t, second)
	pods = k.runningPods(t, 2)
	k.addressesOf(t, pods, 2)
	k.reachesFamilies(t, pods)
	k.nodePortsOf(t)

	k.leavesNothing(t, before)
	r, err := c.Run(t.Context(), "up", "--ip-family", "ipv5")
	if err != nil || r.Code == 0 || !strings.Contains(r.Stderr, "networking.ipFamily") {
		t.Errorf("another family: %v %s", err, r)
	}
}

// routesFamilies checks that an Ingress is reached at the node's addresses of both families.
func (k *kube) routesFamilies(t *testing.T) {
	t.Helper()
	k.kubectl(t, "create", "ingress", "web", "--rule=/*=web:80")
	defer k.kubectl(t, "delete", "ingress", "web")
	var at []networkingv1.IngressLoadBalancerIngress
	eventually(t, 20*time.Second, "both addresses of the Ingress", func(ctx context.Context) error {
		i, err := k.client.NetworkingV1().Ingresses("default").Get(ctx, "web", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if at = i.Status.LoadBalancer.Ingress; len(at) != 2 {
			return fmt.Errorf("it is at %v", at)
		}
		return nil
	})
	for _, a := range at {
		eventually(t, 20*time.Second, "an answer at "+a.IP, func(ctx context.Context) error {
			_, err := fetch(ctx, "GET", "http://"+net.JoinHostPort(a.IP, "80")+"/etc/hostname", "")
			return err
		})
	}
}

// TestIPv6 runs a node of IPv6 only.
func TestIPv6(t *testing.T) {
	ipv6(t)
	c := newCluster(t, "six")
	before, err := takeSnapshot(c.Name)
	if err != nil {
		t.Fatal(err)
	}
	k := up(t, c, "--ip-family", "ipv6")
	pods := k.familyPods(t, familyPods, 1)
	k.addressesOf(t, pods, 1)
	k.servesFamilies(t, pods, map[string][]string{"web": {"IPv6"}, "plain": {"IPv6"}})
	k.nodePortsOf(t, "::1")
	k.namesOf(t, pods[0].Name, 1)
	contains(t, k.kubectl(t, "logs", pods[0].Name), "listening on")
	if err := k.Down(t.Context()); err != nil {
		t.Fatal(err)
	}
	r, err := c.Run(t.Context(), "up", "--ip-family", "dual")
	if err != nil || r.Code == 0 || !strings.Contains(r.Stderr, "as long as it exists") {
		t.Errorf("another family for a cluster that is there: %v %s", err, r)
	}
	k.leavesNothing(t, before)
}

// TestDualStack_Join has a machine join a cluster of both families, with the addresses that it finds of itself.
func TestDualStack_Join(t *testing.T) {
	ipv6(t)
	c := newCluster(t, "dual-join")
	m := newSecondMachine(t)
	here6, there6 := m.addIPv6(t)
	k := firstAt(t, c, m.here+","+here6, "--ip-family", "dual")
	m.joinsFamilies(t, k, m.there, there6)
	pods := k.familyPods(t, familyPods+bothFamilies, 2)
	k.addressesOf(t, pods, 2)
	k.reachesFamilies(t, pods)
	k.servesFamilies(t, pods, map[string][]string{"web": {"IPv4", "IPv6"}, "both": {"IPv6", "IPv4"}, "six": {"IPv6"}})
	k.nodePortsOf(t)
	k.logsOf(t, pods)
}

// TestIPv6_Join has a machine join a cluster of IPv6 only, which is there at an address in brackets.
func TestIPv6_Join(t *testing.T) {
	ipv6(t)
	c := newCluster(t, "six-join")
	m := newSecondMachine(t)
	here6, there6 := m.addIPv6(t)
	k := firstAt(t, c, here6, "--ip-family", "ipv6")
	m.joinsFamilies(t, k, there6)
	pods := k.familyPods(t, familyPods, 2)
	k.addressesOf(t, pods, 1)
	k.reachesFamilies(t, pods)
	k.servesFamilies(t, pods, map[string][]string{"web": {"IPv6"}, "plain": {"IPv6"}})
	k.nodePortsOf(t)
	k.logsOf(t, pods)
}

// addIPv6 gives both machines an address of IPv6 besides.
func (m secondMachine) addIPv6(t *testing.T) (here, there string) {
	t.Helper()
	here, there = "fd00:e2e:2::1", "fd00:e2e:2::2"
	ip(t, "address add "+here+"/64 dev mk8s-e2e nodad")
	ip(t, "-n "+m.name+" address add "+there+"/64 dev eth0 nodad")
	ip(t, "-n "+m.name+" -6 route add default via "+here)
	return here, there
}

// joinsFamilies makes the machine node two of a cluster by a token, and checks with which addresses.
func (m secondMachine) joinsFamilies(t *testing.T, k *kube, want ...string) {
	t.Helper()
	node := cluster.Cluster{Binary: k.Binary, Name: k.Name + "-two"}
	m.purged(t, node)
	i := k.invite(t)
	args := []string{"--join", i.Server, "--token", i.Token, "--ca-cert-hash", i.CACertHash, "--node-name", "two", "--data-dir", filepath.Join(suite.dir, node.Name)}
	agent := background(t, m.on(t.Context(), node.Command(t.Context(), "agent", args...)))
	eventually(t, 60*time.Second, "the joined node Ready", k.nodeReady("two", agent))
	two, err := k.client.CoreV1().Nodes().Get(t.Context(), "two", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, a := range two.Status.Addresses {
		if a.Type == corev1.NodeInternalIP {
			got = append(got, a.Address)
		}
	}
	if !slices.Equal(got, want) || len(two.Spec.PodCIDRs) != len(want) {
		t.Errorf("the node has joined with %q and ranges %q, want %q", got, two.Spec.PodCIDRs, want)
	}
}

// logsOf checks that the API server reaches the kubelets of all nodes.
func (k *kube) logsOf(t *testing.T, pods []corev1.Pod) {
	t.Helper()
	for i := range pods {
		contains(t, k.kubectl(t, "logs", pods[i].Name), "listening on")
	}
}

// ipv6 gives a machine that has no address of IPv6, as many in CI have not, one that leads nowhere.
func ipv6(t *testing.T) {
	t.Helper()
	enabled(t)
	machinetest.Programs(t, "ip6tables")
	out, err := exec.Command("ip", "-6", "-o", "address", "show", "scope", "global").CombinedOutput()
	if err != nil {
		t.Fatalf("ip address show: %v: %s", err, out)
	}
	if len(out) > 0 {
		return
	}
	ip(t, "link add mk8s-e2e6 type dummy")
	t.Cleanup(func() { ip(t, "link delete mk8s-e2e6") })
	ip(t, "address add fd00:e2e::1/64 dev mk8s-e2e6 nodad")
	ip(t, "link set mk8s-e2e6 up")
}

func ip(t *testing.T, args string) {
	t.Helper()
	if out, err := exec.Command("ip", strings.Fields(args)...).CombinedOutput(); err != nil {
		t.Errorf("ip %s: %v: %s", args, err, out)
	}
}

// familyPods applies a manifest and waits for its pods.
func (k *kube) familyPods(t *testing.T, manifest string, count int) []corev1.Pod {
	t.Helper()
	file := filepath.Join(t.TempDir(), "pods.yaml")
	if err := os.WriteFile(file, []byte(manifest), 0o600); err != nil {
		t.Fatal(err)
	}
	k.kubectl(t, "apply", "-f", file)
	return k.runningPods(t, count)
}

func (k *kube) runningPods(t *testing.T, count int) []corev1.Pod {
	t.Helper()
	eventually(t, time.Minute, "a pod on each node", k.ready("default", "app=web", count))
	list, err := k.client.CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{LabelSelector: "app=web"})
	if err != nil {
		t.Fatal(err)
	}
	return list.Items
}

// startedAnew waits until the pod of a node that was stopped is known to run again: until then it is said to be as it was before, with the
// addresses of then.
func (k *kube) startedAnew(t *testing.T, node string) {
	t.Helper()
	eventually(t, time.Minute, "the pod of node "+node+", started anew", func(ctx context.Context) error {
		list, err := k.client.CoreV1().Pods("default").List(ctx, metav1.ListOptions{LabelSelector: "app=web", FieldSelector: "spec.nodeName=" + node})
		if err != nil {
			return err
		}
		if len(list.Items) != 1 || len(list.Items[0].Status.ContainerStatuses) != 1 || list.Items[0].Status.ContainerStatuses[0].RestartCount == 0 {
			return fmt.Errorf("it is not: %+v", list.Items)
		}
		return nil
	})
}

// addressesOf checks what pods say of their addresses: in the API, in their environment and in their file of hosts.
func (k *kube) addressesOf(t *testing.T, pods []corev1.Pod, want int) {
	t.Helper()
	for i := range pods {
		p := &pods[i]
		var own, hosts []string
		for _, ip := range p.Status.PodIPs {
			own = append(own, ip.IP)
		}
		for _, ip := range p.Status.HostIPs {
			hosts = append(hosts, ip.IP)
		}
		if len(own) != want || len(hosts) != want || own[0] != p.Status.PodIP || hosts[0] != p.Status.HostIP {
			t.Errorf("pod %s has addresses %q on a node with %q", p.Name, own, hosts)
		}
		environment := k.kubectl(t, "exec", p.Name, "--", "/guestbook", "cat", "/proc/1/environ")
		contains(t, environment, "POD_IPS="+strings.Join(own, ","), "HOST_IPS="+strings.Join(hosts, ","))
		file := k.kubectl(t, "exec", p.Name, "--", "/guestbook", "cat", "/etc/hosts")
		for _, ip := range own {
			contains(t, file, ip+"\t"+p.Name)
		}
	}
}

// reachesFamilies has each pod ask each by each of its addresses, once: a pod that is Ready is there.
func (k *kube) reachesFamilies(t *testing.T, pods []corev1.Pod) {
	t.Helper()
	for i := range pods {
		for j := range pods {
			for _, ip := range pods[j].Status.PodIPs {
				if err := k.asks(t.Context(), pods[i].Name, "http://"+net.JoinHostPort(ip.IP, "8080")+"/etc/hostname", pods[j].Name); err != nil {
					t.Error(err)
				}
			}
		}
	}
}

// servesFamilies checks which addresses Services have, and that pods and the machine reach them by each. A Service may take a moment after
// its pods are Ready, until which connections are refused, and in no other way fail.
func (k *kube) servesFamilies(t *testing.T, pods []corev1.Pod, want map[string][]string) {
	t.Helper()
	for name, families := range want {
		s, err := k.client.CoreV1().Services("default").Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, ip := range s.Spec.ClusterIPs {
			got = append(got, familyName(ip))
			for i := range pods {
				k.unlessRefused(t, func(ctx context.Context) error {
					return k.asks(ctx, pods[i].Name, "http://"+net.JoinHostPort(ip, "80")+"/etc/hostname", "web-")
				})
			}
			k.unlessRefused(t, func(ctx context.Context) error { return gets(ctx, net.JoinHostPort(ip, "80")) })
		}
		if !slices.Equal(got, families) {
			t.Errorf("Service %s has addresses of %q, want %q", name, got, families)
		}
	}
	for _, s := range []string{"web", "plain"} {
		k.unlessRefused(t, func(ctx context.Context) error { return k.asks(ctx, pods[0].Name, "http://"+s+"/etc/hostname", "web-") })
	}
}

func familyName(ip string) string {
	if strings.Contains(ip, ":") {
		return "IPv6"
	}
	return "IPv4"
}

func gets(ctx context.Context, hostPort string) error {
	_, err := fetch(ctx, "GET", "http://"+hostPort+"/etc/hostname", "")
	return err
}

// unlessRefused does something again for a few seconds if it was refused: rules of a Service that has endpoints are written at once, and yet
// after the pod was Ready.
func (k *kube) unlessRefused(t *testing.T, do func(context.Context) error) {
	t.Helper()
	var other error
	eventually(t, 10*time.Second, "an answer", func(ctx context.Context) error {
		err := do(ctx)
		if err != nil && !strings.Contains(err.Error(), "refused") {
			other = err
			return nil
		}
		return err
	})
	if other != nil {
		t.Error(other)
	}
}

// nodePortsOf reaches the node ports and the host ports of all nodes by all of their addresses, and node ports by further ones.
func (k *kube) nodePortsOf(t *testing.T, more ...string) {
	t.Helper()
	s, err := k.client.CoreV1().Services("default").Get(t.Context(), "web", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	port := fmt.Sprint(s.Spec.Ports[0].NodePort)
	for _, ip := range k.nodeAddresses(t) {
		k.unlessRefused(t, func(ctx context.Context) error { return gets(ctx, net.JoinHostPort(ip, port)) })
		k.unlessRefused(t, func(ctx context.Context) error { return gets(ctx, net.JoinHostPort(ip, "18181")) })
	}
	for _, ip := range more {
		k.unlessRefused(t, func(ctx context.Context) error { return gets(ctx, net.JoinHostPort(ip, port)) })
	}
}

// nodeAddresses are those of all nodes.
func (k *kube) nodeAddresses(t *testing.T) (all []string) {
	t.Helper()
	nodes, err := k.client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range nodes.Items {
		for _, a := range nodes.Items[i].Status.Addresses {
			if a.Type == corev1.NodeInternalIP {
				all = append(all, a.Address)
			}
		}
	}
	return all
}

// namesOf checks that names lead to addresses of all families, and addresses to names.
func (k *kube) namesOf(t *testing.T, pod string, families int) {
	t.Helper()
	s, err := k.client.CoreV1().Services("default").Get(t.Context(), "web", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Spec.ClusterIPs) != families {
		t.Fatalf("Service web has addresses %q", s.Spec.ClusterIPs)
	}
	contains(t, k.kubectl(t, "exec", pod, "--", "/guestbook", "lookup", "web"), s.Spec.ClusterIPs...)
	dns, err := k.client.CoreV1().Services("kube-system").Get(t.Context(), "kube-dns", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	resolver := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{Timeout: 5 * time.Second}).DialContext(ctx, network, net.JoinHostPort(dns.Spec.ClusterIP, "53"))
	}}
	for _, ip := range s.Spec.ClusterIPs {
		if names, err := resolver.LookupAddr(t.Context(), ip); err != nil || !slices.Contains(names, "web.default.svc.cluster.local.") {
			t.Errorf("%s is %q, %v", ip, names, err)
		}
	}
}

// admits checks that a policy admits an address of IPv6, and nothing else.
func (k *kube) admits(t *testing.T, pods []corev1.Pod) {
	t.Helper()
	from, to := &pods[0], &pods[1]
	policy := filepath.Join(t.TempDir(), "policy.yaml")
	if err := os.WriteFile(policy, fmt.Appendf(nil, `
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: six}
spec:
  podSelector: {matchLabels: {app: web}}
  ingress: [{from: [{ipBlock: {cidr: %s/128}}]}]
`, from.Status.PodIPs[1].IP), 0o600); err != nil {
		t.Fatal(err)
	}
	ask := func(ctx context.Context, ip string) error {
		return k.asks(ctx, from.Name, "http://"+net.JoinHostPort(ip, "8080")+"/etc/hostname", to.Name)
	}
	k.kubectl(t, "apply", "-f", policy)
	eventually(t, 20*time.Second, "the policy for IPv4", func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		if err := ask(ctx, to.Status.PodIPs[0].IP); err == nil {
			return fmt.Errorf("%s is still reached", to.Status.PodIPs[0].IP)
		}
		return nil
	})
	if err := ask(t.Context(), to.Status.PodIPs[1].IP); err != nil {
		t.Errorf("an address that is admitted: %v", err)
	}
	from, to = to, from
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if err := ask(ctx, to.Status.PodIPs[1].IP); err == nil {
		t.Errorf("%s is reached from an address that is not admitted", to.Status.PodIPs[1].IP)
	}
	k.kubectl(t, "delete", "-f", policy)
	eventually(t, 10*time.Second, "both families without the policy", func(ctx context.Context) error {
		for _, ip := range to.Status.PodIPs {
			if err := ask(ctx, ip.IP); err != nil {
				return err
			}
		}
		return nil
	})
}

// outsider is a host beside the machine, in a namespace, which tells who asks.
type outsider struct{ machine, there []netip.Addr }

func newOutside(t *testing.T) *outsider {
	t.Helper()
	const name = "mk8s-e2e-out"
	o := &outsider{
		machine: []netip.Addr{netip.MustParseAddr("192.0.2.129"), netip.MustParseAddr("fd00:e2e:1::1")},
		there:   []netip.Addr{netip.MustParseAddr("192.0.2.130"), netip.MustParseAddr("fd00:e2e:1::2")},
	}
	ip(t, "netns add "+name)
	t.Cleanup(func() { ip(t, "netns delete "+name) })
	ip(t, "link add "+name+" type veth peer name eth0 netns "+name)
	t.Cleanup(func() { ip(t, "link delete "+name) })
	ip(t, "link set "+name+" addrgenmode none") // an address that the kernel looks for takes a while
	ip(t, "address add 192.0.2.129/30 dev "+name)
	ip(t, "address add fd00:e2e:1::1/64 dev "+name+" nodad")
	ip(t, "link set "+name+" up")
	ip(t, "-n "+name+" address add 192.0.2.130/30 dev eth0")
	ip(t, "-n "+name+" address add fd00:e2e:1::2/64 dev eth0 nodad")
	ip(t, "-n "+name+" link set eth0 up")
	for _, a := range o.there {
		l, err := namespace.Listen(t.Context(), "/run/netns/"+name, netip.AddrPortFrom(a, 8080).String())
		if err != nil {
			t.Fatal(err)
		}
		server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = fmt.Fprintf(w, "from %s", r.RemoteAddr)
		})}
		t.Cleanup(func() { _ = server.Close() })
		go func() { _ = server.Serve(l) }()
	}
	return o
}

// sees checks that pods leave the cluster with the address of the machine.
func (o *outsider) sees(t *testing.T, k *kube, pods []corev1.Pod) {
	t.Helper()
	for i := range pods {
		for family := range o.there {
			want := "from " + strings.TrimSuffix(netip.AddrPortFrom(o.machine[family], 0).String(), "0")
			if err := k.asks(t.Context(), pods[i].Name, "http://"+netip.AddrPortFrom(o.there[family], 8080).String(), want); err != nil {
				t.Error(err)
			}
		}
	}
}
