// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset/fake"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	networkpolicy "sigs.k8s.io/network-policy-api/pkg/client/clientset/versioned/fake"

	"minik8s.io/minik8s/pkg/policy/rules"
)

// fakeTable is a kernel that can refuse.
type fakeTable struct {
	mu      sync.Mutex
	calls   []string
	refuse  int // how often
	applied *rules.Table
}

func (f *fakeTable) call(name string, t *rules.Table) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, name)
	if f.refuse > 0 {
		f.refuse--
		return errors.New("the kernel is busy")
	}
	f.applied = t
	return nil
}

func (f *fakeTable) Apply(t *rules.Table) error        { return f.call("apply", t) }
func (f *fakeTable) Heal(t *rules.Table) (bool, error) { return true, f.call("heal", t) }
func (f *fakeTable) Remove() error                     { return f.call("remove", nil) }

func (f *fakeTable) state() (calls []string, applied *rules.Table) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.calls), f.applied
}

func TestStart(t *testing.T) {
	client := fake.NewClientset()
	table := &fakeTable{}
	e, err := New(Config{
		Cluster: "c", NodeName: "here", Client: client, Definitions: apiextensions.NewClientset(), ClusterPolicies: networkpolicy.NewSimpleClientset(), PodCIDRs: []netip.Prefix{netip.MustParsePrefix("10.244.0.0/24")},
		SyncPeriod: 20 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	e.table = table
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- e.Start(ctx) }()
	asked := func(resource string) int {
		n := 0
		for _, a := range client.Actions() {
			if a.GetVerb() == "watch" && a.GetResource().Resource == resource {
				n++
			}
		}
		return n
	}
	last := func(want string) func() bool {
		return func() bool {
			calls, _ := table.state()
			return len(calls) > 0 && calls[len(calls)-1] == want
		}
	}
	eventually(t, "what an earlier process left is removed", last("remove"))
	if calls, _ := table.state(); len(calls) != 1 || asked("pods") != 0 || asked("namespaces") != 0 {
		t.Errorf("without a policy: %v, and pods are watched %d times", calls, asked("pods"))
	}

	pod := podObject("x/a", []netip.Addr{netip.MustParseAddr("10.244.0.2")})
	if _, err := client.CoreV1().Pods("x").Create(ctx, pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	table.mu.Lock()
	table.refuse = 2
	table.mu.Unlock()
	w := &world{client: client}
	w.createPolicy(t, "x/deny", denyIngress)
	eventually(t, "the kernel takes it at last, and it is looked at from time to time", func() bool {
		calls, applied := table.state()
		return applied != nil && slices.Contains(calls, "heal") && slices.Index(calls, "heal") > slices.Index(calls, "apply")
	})
	if asked("pods") != 1 || asked("namespaces") != 1 {
		t.Errorf("pods are watched %d times, namespaces %d times", asked("pods"), asked("namespaces"))
	}
	passes := func(want bool) func() bool {
		c := connection{client: netip.MustParseAddr("10.244.0.3"), server: netip.MustParseAddr("10.244.0.2"), protocol: corev1.ProtocolTCP, port: 80}
		return func() bool {
			_, applied := table.state()
			return applied != nil && newTracer(applied).passes(rules.Forward, c, true) == want
		}
	}
	eventually(t, "the pod is isolated", passes(false))
	pod.Labels["pod"] = "b"
	if _, err := client.CoreV1().Pods("x").Update(ctx, pod, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the pod is not selected", passes(true))

	w.deletePolicies(t)
	eventually(t, "the last policy is gone", last("remove"))
	w.createPolicy(t, "x/deny", denyIngress)
	eventually(t, "there is one again", func() bool { _, applied := table.state(); return applied != nil })
	if asked("pods") != 2 {
		t.Errorf("pods are watched %d times", asked("pods"))
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// TestStart_UnknownClusterPolicies: NetworkPolicies are enforced although ClusterNetworkPolicies cannot be read, and these when they can.
func TestStart_UnknownClusterPolicies(t *testing.T) {
	for _, resource := range []string{"customresourcedefinitions", "clusternetworkpolicies", "nodes"} {
		t.Run(resource, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				t.Helper()
				var readable atomic.Bool
				// Of all errors this one is not reported by informers, who rest after a report by a clock from outside of the bubble.
				refuse := func() (bool, error) { return !readable.Load(), apierrors.NewResourceExpired("not now") }
				w := &world{client: fake.NewClientset(), definitions: apiextensions.NewClientset(), cluster: networkpolicy.NewSimpleClientset()}
				for _, f := range []*clienttesting.Fake{&w.client.Fake, &w.definitions.Fake, &w.cluster.Fake} {
					f.PrependReactor("list", resource, func(clienttesting.Action) (bool, runtime.Object, error) {
						refused, err := refuse()
						return refused, nil, err
					})
					f.PrependWatchReactor(resource, func(clienttesting.Action) (bool, watch.Interface, error) {
						refused, err := refuse()
						return refused, nil, err
					})
				}
				w.define(t)
				w.createClusterPolicy(t, "open", `{tier: Admin, priority: 1, subject: {namespaces: {}},
					ingress: [{action: Accept, from: [{namespaces: {}}]}], egress: [{action: Accept, to: [{nodes: {}}]}]}`)
				w.createPolicy(t, "x/deny", denyIngress)
				addrs := []netip.Addr{netip.MustParseAddr("10.244.0.2"), netip.MustParseAddr("10.244.0.3")}
				w.setPod(t, podObject("x/a", addrs[:1]), true)
				w.setPod(t, podObject("x/b", addrs[1:]), true)
				_, err := w.client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "x"}}, metav1.CreateOptions{})
				must(t, err)

				e, err := New(Config{
					Cluster: "c", NodeName: "here", Client: w.client, Definitions: w.definitions, ClusterPolicies: w.cluster,
					PodCIDRs: []netip.Prefix{netip.MustParsePrefix("10.244.0.0/24")},
				})
				must(t, err)
				table := &fakeTable{}
				e.table = table
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan error, 1)
				go func() { done <- e.Start(ctx) }()
				passes := func() bool {
					_, applied := table.state()
					c := connection{client: addrs[1], server: addrs[0], protocol: corev1.ProtocolTCP, port: 80}
					return applied != nil && newTracer(applied).passes(rules.Forward, c, true)
				}
				time.Sleep(patience / 2) //nolint:forbidigo // in a bubble, where it costs nothing
				if calls, _ := table.state(); len(calls) != 0 {
					t.Errorf("what an earlier process has left is changed at once: %v", calls)
				}
				time.Sleep(patience) //nolint:forbidigo // in a bubble, where it costs nothing
				if _, applied := table.state(); applied == nil || passes() != (resource == "nodes") {
					t.Errorf("NetworkPolicies are not enforced: %v, open = %t", applied != nil, passes())
				}
				readable.Store(true)
				time.Sleep(2 * time.Minute) //nolint:forbidigo // in a bubble, where it costs nothing
				if !passes() {
					t.Error("the policy that can be read now is not taken in")
				}
				cancel()
				must(t, <-done)
			})
		})
	}
}

func TestNew_Errors(t *testing.T) {
	whole := Config{
		Cluster: "c", NodeName: "n", Client: fake.NewClientset(), Definitions: apiextensions.NewClientset(), ClusterPolicies: networkpolicy.NewSimpleClientset(),
		PodCIDRs: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/24")},
	}
	if _, err := New(whole); err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(*Config){
		"no cluster": func(c *Config) { c.Cluster = "" }, "no node": func(c *Config) { c.NodeName = "" },
		"no client": func(c *Config) { c.Client = nil }, "no client of definitions": func(c *Config) { c.Definitions = nil },
		"no client of cluster policies": func(c *Config) { c.ClusterPolicies = nil }, "no range": func(c *Config) { c.PodCIDRs = nil },
	} {
		config := whole
		spoil(&config)
		if _, err := New(config); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// TestPodHandler: most of what happens to pods is no reason to look at policies.
func TestPodHandler(t *testing.T) {
	addr := []netip.Addr{netip.MustParseAddr("10.0.0.1")}
	for _, tt := range []struct {
		name   string
		change func(*corev1.Pod)
		want   int
	}{
		{"a condition", func(p *corev1.Pod) { p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady}} }, 0},
		{"a label", func(p *corev1.Pod) { p.Labels = map[string]string{"a": "b"} }, 1},
		{"an address", func(p *corev1.Pod) { p.Status.PodIPs = []corev1.PodIP{{IP: "10.0.0.2"}} }, 1},
		{"its end", func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }, 1},
		{"its deletion", func(p *corev1.Pod) { p.DeletionTimestamp = new(metav1.Now()) }, 1},
		{"another of that name", func(p *corev1.Pod) { p.UID = "2" }, 1},
	} {
		got := 0
		h := podHandler(func() { got++ })
		before, after := podObject("x/a", addr), podObject("x/a", addr)
		tt.change(after)
		if h.OnUpdate(before, after); got != tt.want {
			t.Errorf("%s: told %d times, want %d", tt.name, got, tt.want)
		}
	}
}
