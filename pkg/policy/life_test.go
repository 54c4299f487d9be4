// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"context"
	"net"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"minik8s.io/minik8s/pkg/network/namespace"
	"minik8s.io/minik8s/pkg/network/nftables"
	"minik8s.io/minik8s/pkg/policy/rules"
)

func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), 10*time.Millisecond, 20*time.Second, true, func(context.Context) (bool, error) { return cond(), nil })
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// hasTable tells whether the node has a table of the cluster.
func hasTable(t *testing.T) bool {
	t.Helper()
	found := false
	must(t, nftables.Dump(unix.NFPROTO_INET, unix.NFT_MSG_GETTABLE, nil, func(a nftables.Attributes) {
		found = found || nftables.String(a[unix.NFTA_TABLE_NAME]) == rules.TableName("policy-test")
	}))
	return found
}

// reaches tells whether a connection succeeds at this moment.
func (w *world) reaches(t *testing.T, from, to string, address ...string) bool {
	t.Helper()
	p := probe{from: w.ends[from], to: w.ends[to], protocol: corev1.ProtocolTCP, port: 80}
	if len(address) > 0 {
		p.address = netip.MustParseAddr(address[0])
	}
	return try(t, []probe{p}, 500*time.Millisecond, func(int) bool { return true })[0]
}

func (w *world) dial(t *testing.T, network, from, to string) net.Conn {
	t.Helper()
	var c net.Conn
	must(t, namespace.Do(w.ends[from].space, func() (err error) {
		c, err = net.DialTimeout(network, netip.AddrPortFrom(w.ends[to].addrs[0], 80).String(), 5*time.Second)
		return err
	}))
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// echoes tells whether the other end answers.
func echoes(t *testing.T, c net.Conn, patience time.Duration) bool {
	t.Helper()
	must(t, c.SetDeadline(time.Now().Add(patience)))
	if _, err := c.Write([]byte("x")); err != nil {
		return false
	}
	n, err := c.Read(make([]byte, 64))
	return err == nil && n > 0
}

const denyIngress = `{podSelector: {matchLabels: {pod: a}}, policyTypes: [Ingress]}`

func TestRealConnections(t *testing.T) {
	onNode(t, func(t *testing.T) {
		t.Helper()
		w := newWorld(t)
		w.enforce(t, nil)
		open := map[string]net.Conn{"tcp": w.dial(t, "tcp", "x/b", "x/a"), "udp": w.dial(t, "udp", "x/b", "x/a")}
		for network, c := range open {
			if !echoes(t, c, 5*time.Second) {
				t.Fatalf("%s: no answer at first", network)
			}
		}
		w.createPolicy(t, "x/deny", denyIngress)
		eventually(t, "what is new is refused", func() bool { return !w.reaches(t, "x/b", "x/a") })
		for network, c := range open {
			if echoes(t, c, 200*time.Millisecond) {
				t.Errorf("%s: what was established goes on", network)
			}
		}
		if !echoes(t, w.dial(t, "tcp", "x/a", "x/b"), 5*time.Second) {
			t.Error("a pod that nobody may call does not hear answers to its own calls")
		}
		eventually(t, "a pod is kept neither from itself nor from its node", func() bool { return w.reaches(t, "x/a", "x/a") && w.reaches(t, "node", "x/a") })
		run(t, "iptables", "-I", "FORWARD", "-j", "ACCEPT")
		if w.reaches(t, "x/b", "x/a") {
			t.Error("a rule of iptables that accepts everything opens a pod")
		}
		w.deletePolicies(t)
		eventually(t, "a connection outlives a policy", func() bool { return echoes(t, open["tcp"], time.Second) })
	})
}

func TestRealServices(t *testing.T) {
	onNode(t, func(t *testing.T) {
		t.Helper()
		w := newWorld(t)
		stop := w.enforce(t, nil)
		a := w.ends["x/a"].addrs[0].String()
		// What the service proxy does for a cluster IP, for the cluster's DNS and for a node port.
		run(t, "iptables", "-t", "nat", "-A", "PREROUTING", "-d", "10.96.0.1", "-p", "tcp", "-j", "DNAT", "--to", a)
		run(t, "iptables", "-t", "nat", "-A", "PREROUTING", "-d", "10.96.0.10", "-p", "tcp", "-j", "DNAT", "--to", outsideAddrs[0].String())
		run(t, "iptables", "-t", "nat", "-A", "PREROUTING", "-d", nodeAddrs[0].String(), "-i", "uplink", "-p", "tcp", "-j", "DNAT", "--to", a)
		run(t, "iptables", "-t", "nat", "-I", "POSTROUTING", "-d", a, "-j", "MASQUERADE")
		all := func(want map[string]bool) {
			t.Helper()
			eventually(t, "cluster IP", func() bool {
				return w.reaches(t, "x/b", "x/a", "10.96.0.1") == want["b"] && w.reaches(t, "y/b", "x/a", "10.96.0.1") == want["y"] &&
					w.reaches(t, "x/a", "x/a", "10.96.0.1") && w.reaches(t, "outside", "x/a", nodeAddrs[0].String()) == want["outside"]
			})
		}
		all(map[string]bool{"b": true, "y": true, "outside": true})
		w.createPolicy(t, "x/in", `{podSelector: {matchLabels: {pod: a}}, ingress: [{from: [{podSelector: {matchLabels: {pod: b}}}]}]}`)
		all(map[string]bool{"b": true})
		w.deletePolicies(t)
		// The client is judged by its own address, not by that of the node, which masquerades it.
		w.createPolicy(t, "x/in", `{podSelector: {matchLabels: {pod: a}}, ingress: [{from: [{ipBlock: {cidr: 192.0.2.77/32}}]}]}`)
		all(map[string]bool{"outside": true})
		w.deletePolicies(t)
		// A pod that may talk to nobody may talk to itself by its Service.
		w.createPolicy(t, "x/none", `{podSelector: {}, policyTypes: [Ingress, Egress]}`)
		all(nil)
		if w.reaches(t, "x/b", "outside", "10.96.0.10") {
			t.Error("a Service is reached that no policy allows")
		}
		stop()
		w.enforce(t, func(c *Config) { c.ClusterDNS = []netip.Addr{netip.MustParseAddr("10.96.0.10")} })
		eventually(t, "the cluster's DNS is always allowed", func() bool { return w.reaches(t, "x/b", "outside", "10.96.0.10") })
	})
}

func TestRealChanges(t *testing.T) {
	onNode(t, func(t *testing.T) {
		t.Helper()
		w := newWorld(t)
		w.enforce(t, nil)
		w.createPolicy(t, "x/in", `{podSelector: {matchLabels: {pod: a}}, ingress: [{from: [{podSelector: {matchLabels: {role: friend}}, namespaceSelector: {matchLabels: {team: blue}}}]}]}`)
		eventually(t, "nobody is a friend", func() bool { return !w.reaches(t, "y/b", "x/a") })

		friend := podObject("y/b", w.ends["y/b"].addrs)
		friend.Labels["role"] = "friend"
		w.setPod(t, friend, false)
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "y", Labels: map[string]string{corev1.LabelMetadataName: "y", "team": "blue"}}}
		_, err := w.client.CoreV1().Namespaces().Update(t.Context(), ns, metav1.UpdateOptions{})
		must(t, err)
		eventually(t, "labels of pod and namespace", func() bool { return w.reaches(t, "y/b", "x/a") })

		// The friend ends, and its address is given to another.
		friend.Status.Phase = corev1.PodSucceeded
		w.setPod(t, friend, false)
		eventually(t, "the friend has ended", func() bool { return !w.reaches(t, "y/b", "x/a") })
		other := podObject("y/b", w.ends["y/b"].addrs)
		other.Name, other.Labels["role"] = "d", "friend"
		w.setPod(t, other, true)
		eventually(t, "its address is another's", func() bool { return w.reaches(t, "y/b", "x/a") })

		isolated := podObject("x/a", w.ends["x/a"].addrs)
		isolated.Labels["pod"] = "free"
		w.setPod(t, isolated, false)
		eventually(t, "a pod is not selected any more", func() bool { return w.reaches(t, "z/a", "x/a") })
	})
}

// TestRealBeginning: a pod that is to be isolated is so before anybody has told its address.
func TestRealBeginning(t *testing.T) {
	onNode(t, func(t *testing.T) {
		t.Helper()
		w := newWorld(t)
		w.enforce(t, nil)
		w.createPolicy(t, "x/none", `{podSelector: {matchLabels: {pod: new}}, policyTypes: [Ingress, Egress]}`)
		e := w.plumb(t, "x/new")
		eventually(t, "an address of which nobody knows is not refused", func() bool { return w.reaches(t, "x/new", "y/a") }) // its link is new
		pending := podObject("x/new", nil)
		pending.Status.Phase = corev1.PodPending
		w.setPod(t, pending, true)
		eventually(t, "a pod that is coming is isolated", func() bool { return !w.reaches(t, "x/new", "y/a") && !w.reaches(t, "y/a", "x/new") })
		eventually(t, "others are not refused", func() bool {
			return w.reaches(t, "x/a", "y/a") && w.reaches(t, "outside", "y/a") && w.reaches(t, "y/a", "outside")
		})
		w.setPod(t, podObject("x/new", e.addrs), false)
		w.plumb(t, "y/new")
		eventually(t, "its address is known, and others are not suspected any more", func() bool { return w.reaches(t, "y/new", "y/a") })
		if w.reaches(t, "x/new", "y/a") || w.reaches(t, "y/a", "x/new") {
			t.Error("it is not isolated any more")
		}
		free := podObject("x/new", e.addrs)
		free.Labels["pod"] = "free"
		begin := time.Now()
		w.setPod(t, free, false)
		eventually(t, "it is set free", func() bool { return w.reaches(t, "x/new", "y/a") })
		t.Logf("a change took %v to be in force", time.Since(begin))
	})
}

func TestRealRepair(t *testing.T) {
	onNode(t, func(t *testing.T) {
		t.Helper()
		w := newWorld(t)
		stop := w.enforce(t, func(c *Config) { c.SyncPeriod = 100 * time.Millisecond })
		w.createPolicy(t, "x/deny", denyIngress)
		refused := func() bool { return !w.reaches(t, "x/b", "x/a") }
		eventually(t, "refused", refused)
		for range 3 {
			must(t, Purge("policy-test", "/proc/self/ns/net")) // somebody's hand
			eventually(t, "what was taken away is put back", refused)
		}
		stop()
		if !refused() {
			t.Error("what is refused is not any more when the enforcer has stopped")
		}
		w.deletePolicies(t)
		stop = w.enforce(t, nil)
		eventually(t, "a policy that went away meanwhile", func() bool { return !hasTable(t) })
		w.createPolicy(t, "x/deny", denyIngress)
		eventually(t, "refused again", refused)
		stop()
		for range 2 {
			must(t, Purge("policy-test", ""))
			if hasTable(t) {
				t.Error("something is left after a purge")
			}
		}
	})
}
