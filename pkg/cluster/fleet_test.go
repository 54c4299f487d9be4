// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	nodes "minik8s.io/minik8s/pkg/node"
)

func TestKeepNodes(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name                          string
		there, removing, before, want int
		result                        int // negative: refused
	}{
		{"none but the first", 0, 0, 1, 1, 1},
		{"a control plane", 0, 0, 0, 0, 0},
		{"more", 1, 0, 2, 4, 4},
		{"as before", 2, 0, 3, 3, 3},
		{"one was added and the process killed", 2, 0, 2, 2, 3},
		{"one is being removed", 1, 1, 2, 2, 2},
		{"all are being removed", 0, 2, 1, 1, 1},
		{"fewer", 2, 0, 3, 2, -1},
		{"no node at all", 2, 0, 3, 0, -1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			before, after := Config{Name: "c", Nodes: &tc.before}, Config{Name: "c", Nodes: &tc.want}
			list := slices.Concat(slices.Repeat([]nodes.Node{{State: nodes.Running}}, tc.there), slices.Repeat([]nodes.Node{{State: nodes.Removing}}, tc.removing))
			got, err := keepNodes(before, after, list)
			refused := tc.result < 0
			if (err != nil) != refused || refused != isProblem(err) || !refused && got.NodeCount() != tc.result {
				t.Errorf("got %d, %v", got.NodeCount(), err)
			}
		})
	}
}

func TestMissing(t *testing.T) {
	t.Parallel()
	there := []nodes.Node{{Name: "c-2", State: nodes.Removing}, {Name: "c-4", State: nodes.Stopped}}
	for _, tc := range []struct {
		name  string
		count int
		list  []nodes.Node
		want  []string
	}{
		{"a control plane", 0, nil, nil},
		{"the first only", 1, nil, nil},
		{"new ones", 3, nil, []string{"c-2", "c-3"}},
		{"beside one that is stopped and one that is being removed", 4, there, []string{"c-3", "c-5"}},
		{"none", 2, there, nil},
		{"more than there are to be", 1, there, nil},
	} {
		if diff := cmp.Diff(tc.want, missing(Config{Name: "c", Nodes: &tc.count}, tc.list)); diff != "" {
			t.Errorf("%s: (-want +got):\n%s", tc.name, diff)
		}
	}
}

func TestOf(t *testing.T) {
	t.Parallel()
	c := Config{Name: "c", DataDir: "/data", Kubelet: KubeletConfig{NodeName: "machine", MaxPods: 50}}
	n := nodes.Node{Name: "c-2", IP: netip.MustParseAddr("10.196.0.2"), PodCIDR: "10.244.1.0/24", Size: nodes.Size{Pods: 5}}
	own := c.of(n)
	got := []string{kubeletDir(own), cgroupRootOf(own), own.Kubelet.NodeName, own.Kubelet.PodCIDR}
	if diff := cmp.Diff([]string{"/data/nodes/c-2/kubelet", cgroupRoot(c) + ".c-2", "c-2", "10.244.1.0/24"}, got); diff != "" || own.Kubelet.MaxPods != 5 {
		t.Errorf("%d pods, (-want +got):\n%s", own.Kubelet.MaxPods, diff)
	}
	if cgroupRootOf(own) == cgroupRoot(Config{Name: "c-2"}) {
		t.Error("a node shares its cgroup with another cluster")
	}
}

// Images are kept that a pod of any node uses, also of one that is stopped.
func TestKubeletDirs(t *testing.T) {
	t.Parallel()
	f, _ := newTestFleet(t, nodes.Node{Name: "c-2", State: nodes.Running}, nodes.Node{Name: "c-3", State: nodes.Stopped})
	got, err := kubeletDirs(f.config)
	at := f.config.DataDir
	if diff := cmp.Diff([]string{at + "/kubelet", at + "/nodes/c-2/kubelet", at + "/nodes/c-3/kubelet"}, got); diff != "" || err != nil {
		t.Errorf("%v, (-want +got):\n%s", err, diff)
	}
	if err := os.WriteFile(filepath.Join(at, "nodes", "c-2", "node.json"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := kubeletDirs(f.config); err == nil {
		t.Error("a record that cannot be read is passed over")
	}
}

// newTestFleet is a fleet of nodes that are on disk, on a host that does nothing. It begins when begin is called, and its nodes end with
// the test.
func newTestFleet(t *testing.T, there ...nodes.Node) (*fleet, *fakeHost) {
	t.Helper()
	count := 1 + len(staying(there))
	c := Config{
		Name: "c", DataDir: t.TempDir(), Nodes: &count, Kubelet: KubeletConfig{NodeName: "machine"},
		Networking: NetworkingConfig{PodSubnet: "10.244.0.0/16", ServiceSubnet: "10.96.0.0/16", NodeSubnet: "10.196.0.0/24"},
	}
	f := newFleet(c, func(n int) error {
		count = n
		return nil
	})
	for i, n := range there {
		n.IP, n.PodCIDR = netip.AddrFrom4([4]byte{10, 196, 0, byte(i + 2)}), fmt.Sprintf("10.244.%d.0/24", i+1)
		if err := f.dir.Write(n); err != nil {
			t.Fatal(err)
		}
	}
	host := &fakeHost{dir: f.dir, fails: map[string]int{}}
	f.ctx, f.admin, f.host, f.machine = t.Context(), fake.NewClientset(), host, []netip.Addr{netip.MustParseAddr("192.0.2.1")}
	return f, host
}

// states are those on disk, by node.
func (f *fleet) states(t *testing.T) map[string]nodes.State {
	t.Helper()
	list, err := f.dir.List()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]nodes.State{}
	for _, n := range list {
		all[n.Name] = n.State
	}
	return all
}

// What fails for a node at the start ends neither the others nor the control plane, keeps no order waiting, and is done in the end.
func TestBegin_NodeThatFails(t *testing.T) {
	t.Parallel()
	all := []string{"build c-2", "build c-5", "clear c-4", "cutOff c-3"}
	for _, failing := range append(slices.Clone(all), "nothing") {
		t.Run(failing, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f, host := newTestFleet(t, nodes.Node{Name: "c-2", State: nodes.Running}, nodes.Node{Name: "c-3", State: nodes.Stopped}, nodes.Node{Name: "c-4", State: nodes.Removing})
				*f.config.Nodes = 4 // one more is to be made
				host.fails[failing] = 2
				began := time.Now()
				ended := make(chan error, 1)
				go func() { ended <- f.begin(t.Context()) }()
				synctest.Wait()
				want := slices.DeleteFunc(slices.Clone(all), func(what string) bool { return what == failing })
				if diff := cmp.Diff(want, host.done()); diff != "" || *f.config.Nodes != 4 {
					t.Errorf("at first: %d nodes, done (-want +got):\n%s", *f.config.Nodes, diff)
				}
				turn, err := f.change(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				turn()
				wait := 2 * again
				if failing == "nothing" {
					wait = 0
				}
				if err := <-ended; err != nil || time.Since(began) != wait {
					t.Errorf("it ended after %s, %v", time.Since(began), err)
				}
				if diff := cmp.Diff(all, host.done()); diff != "" {
					t.Errorf("in the end (-want +got):\n%s", diff)
				}
				states := map[string]nodes.State{"c-2": nodes.Running, "c-3": nodes.Stopped, "c-5": nodes.Running}
				if diff := cmp.Diff(states, f.states(t)); diff != "" || !f.runs("c-2") || f.runs("c-3") {
					t.Errorf("states (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// Who changes a node whose start fails is heard: the next try is about what it is to be then.
func TestBegin_ChangedMeanwhile(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		change func(*fleet, context.Context) error
		want   []string
	}{
		{"stopped", func(f *fleet, ctx context.Context) error { _, err := f.stop(ctx, "c-2"); return err }, []string{"cutOff c-2", "cutOff c-2"}},
		{"removed", func(f *fleet, ctx context.Context) error { _, err := f.remove(ctx, "c-2", false); return err }, []string{"clear c-2"}},
		{"the cluster ends", nil, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f, host := newTestFleet(t, nodes.Node{Name: "c-2", State: nodes.Running})
				host.fails["build c-2"] = -1
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				ended := make(chan error, 1)
				go func() { ended <- f.begin(ctx) }()
				synctest.Wait()
				if tc.change == nil {
					cancel()
				} else if err := tc.change(f, ctx); err != nil {
					t.Fatal(err)
				}
				if err := <-ended; err != nil {
					t.Error(err)
				}
				if diff := cmp.Diff(tc.want, host.done()); diff != "" {
					t.Errorf("done (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// The record on disk and what runs are what an order says, or what a start can go on with.
func TestOrders(t *testing.T) {
	t.Parallel()
	start := func(f *fleet, ctx context.Context) error { _, err := f.resumeOne(ctx, "c-2"); return err }
	stop := func(f *fleet, ctx context.Context) error { _, err := f.stop(ctx, "c-2"); return err }
	add := func(f *fleet, ctx context.Context) error { _, err := f.add(ctx, nodes.Node{Name: "c-2"}); return err }
	remove := func(f *fleet, ctx context.Context) error { _, err := f.remove(ctx, "c-2", false); return err }
	for _, tc := range []struct {
		name    string
		state   nodes.State // of c-2 before, "": there is none
		fails   []string
		orders  []func(*fleet, context.Context) error // all but the last succeed
		tried   []string                              // with the state that was noted then
		want    nodes.State
		runs    bool
		count   int
		wantErr bool
	}{
		{"start of one that was stopped", nodes.Stopped, nil, []func(*fleet, context.Context) error{start}, []string{"build c-2 running"}, nodes.Running, true, 2, false},
		{"start that fails", nodes.Stopped, []string{"build c-2"}, []func(*fleet, context.Context) error{start}, []string{"build c-2 running"}, nodes.Running, false, 2, true},
		{"start of one that is noted running and does not run", nodes.Running, nil, []func(*fleet, context.Context) error{start}, []string{"build c-2 running"}, nodes.Running, true, 2, false},
		{"start of one that runs", nodes.Running, nil, []func(*fleet, context.Context) error{start, start}, []string{"build c-2 running"}, nodes.Running, true, 2, false},
		{"start of one that is being removed", nodes.Removing, nil, []func(*fleet, context.Context) error{start}, nil, nodes.Removing, false, 1, true},
		{"stop", nodes.Running, nil, []func(*fleet, context.Context) error{start, stop}, []string{"build c-2 running", "cutOff c-2 stopped"}, nodes.Stopped, false, 2, false},
		{"stop of one that is being removed", nodes.Removing, nil, []func(*fleet, context.Context) error{stop}, nil, nodes.Removing, false, 1, true},
		{"add", "", nil, []func(*fleet, context.Context) error{add}, []string{"build c-2 running"}, nodes.Running, true, 2, false},
		{"add that fails", "", []string{"build c-2"}, []func(*fleet, context.Context) error{add}, []string{"build c-2 running", "clear c-2 removing"}, "", false, 1, true},
		{
			"add that fails, and cannot be undone", "", []string{"build c-2", "clear c-2"}, []func(*fleet, context.Context) error{add},
			[]string{"build c-2 running", "clear c-2 removing"}, nodes.Removing, false, 1, true,
		},
		{"remove", nodes.Running, nil, []func(*fleet, context.Context) error{start, remove}, []string{"build c-2 running", "clear c-2 removing"}, "", false, 1, false},
		{"remove that fails", nodes.Stopped, []string{"clear c-2"}, []func(*fleet, context.Context) error{remove}, []string{"clear c-2 removing"}, nodes.Removing, false, 1, true},
		{"remove of one that is being removed", nodes.Removing, nil, []func(*fleet, context.Context) error{remove}, []string{"clear c-2 removing"}, "", false, 1, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			var there []nodes.Node
			if tc.state != "" {
				there = []nodes.Node{{Name: "c-2", State: tc.state}}
			}
			f, host := newTestFleet(t, there...)
			for _, what := range tc.fails {
				host.fails[what] = 1
			}
			for i, order := range tc.orders {
				wantErr := tc.wantErr && i == len(tc.orders)-1
				if err := order(f, t.Context()); (err != nil) != wantErr {
					t.Errorf("order %d: %v", i, err)
				}
			}
			if diff := cmp.Diff(tc.tried, host.tried); diff != "" {
				t.Errorf("tried (-want +got):\n%s", diff)
			}
			if got := f.states(t)["c-2"]; got != tc.want || f.runs("c-2") != tc.runs || f.config.NodeCount() != tc.count {
				t.Errorf("it is noted %q, runs: %t, and there are %d nodes", got, f.runs("c-2"), f.config.NodeCount())
			}
		})
	}
}

// An order that nobody waits for any more does not wait either for a change that hangs, and changes nothing.
func TestOrders_WhileAnotherHangs(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name  string
		order func(*fleet, context.Context) (nodes.Node, error)
	}{
		{"add", func(f *fleet, ctx context.Context) (nodes.Node, error) { return f.add(ctx, nodes.Node{Name: "new"}) }},
		{"stop", func(f *fleet, ctx context.Context) (nodes.Node, error) { return f.stop(ctx, "c-2") }},
		{"start", func(f *fleet, ctx context.Context) (nodes.Node, error) { return f.resumeOne(ctx, "c-2") }},
		{"remove", func(f *fleet, ctx context.Context) (nodes.Node, error) { return f.remove(ctx, "c-2", true) }},
		{"begin", func(f *fleet, ctx context.Context) (nodes.Node, error) {
			return nodes.Node{}, errors.Join(f.begin(ctx), ctx.Err())
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f, host := newTestFleet(t, nodes.Node{Name: "c-2", State: nodes.Running})
				turn, err := f.change(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				if _, err := tc.order(f, ctx); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("it ended with %v", err)
				}
				if diff := cmp.Diff(map[string]nodes.State{"c-2": nodes.Running}, f.states(t)); diff != "" || host.tried != nil {
					t.Errorf("tried %v, states (-want +got):\n%s", host.tried, diff)
				}
				turn()
				if _, err := f.stop(t.Context(), "c-2"); err != nil {
					t.Errorf("the next order: %v", err)
				}
			})
		})
	}
}

func TestDrainable(t *testing.T) {
	t.Parallel()
	pod := func(name string, change func(*corev1.Pod)) corev1.Pod {
		p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}}
		change(&p)
		return p
	}
	owned := func(kind string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.OwnerReferences = []metav1.OwnerReference{{Kind: kind, Controller: new(true)}}
		}
	}
	got := drainable([]corev1.Pod{
		pod("alone", func(*corev1.Pod) {}),
		pod("replica", owned("ReplicaSet")),
		pod("daemon", owned("DaemonSet")),
		pod("mirror", func(p *corev1.Pod) { p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"} }),
		pod("ended", func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }),
	})
	if diff := cmp.Diff([]string{"ns/alone", "ns/replica"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A machine that joins by the name that a new node is about to have keeps it, its Node and its pods.
func TestAdd_NameIsTakenMeanwhile(t *testing.T) {
	t.Parallel()
	f, host := newTestFleet(t)
	ctx, client := t.Context(), fake.NewClientset()
	f.admin = client
	theirs := joiner{name: "c-2", ips: []netip.Addr{netip.MustParseAddr("192.0.2.7")}, key: "key"}
	if _, err := register(ctx, client, f.config, theirs); err != nil {
		t.Fatal(err)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}, Spec: corev1.PodSpec{NodeName: "c-2"}}
	if _, err := client.CoreV1().Pods("ns").Create(ctx, pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	asked := false
	client.PrependReactor("get", "nodes", func(clienttesting.Action) (bool, runtime.Object, error) {
		before := !asked
		asked = true
		return before, nil, apierrors.NewNotFound(corev1.Resource("nodes"), "c-2")
	})
	if _, err := f.add(ctx, nodes.Node{Name: "c-2"}); err == nil || !strings.Contains(err.Error(), `has a node "c-2"`) {
		t.Errorf("error %v", err)
	}
	if _, err := client.CoreV1().Nodes().Get(ctx, "c-2", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
	if _, err := client.CoreV1().Pods("ns").Get(ctx, "p", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
	if as, _, err := joinedAs(ctx, client, "c-2"); err != nil || parseJoined(as).key != "key" {
		t.Errorf("noted as %q, %v", as, err)
	}
	if diff := cmp.Diff([]string{"clear c-2"}, host.done()); diff != "" || len(f.states(t)) != 0 {
		t.Errorf("%v is left, done (-want +got):\n%s", f.states(t), diff)
	}
}
