// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package podsapi

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	podsv1alpha1 "k8s.io/kubelet/pkg/apis/pods/v1alpha1"
)

// node has pods, of which some have a status of the kubelet's own.
type node struct {
	*Server

	mu    sync.Mutex // guards all below
	known bool
	pods  map[types.UID]*corev1.Pod
	own   map[types.UID]corev1.PodStatus
}

func newNode(t *testing.T) (*node, podsv1alpha1.PodsClient) {
	t.Helper()
	n := &node{known: true, pods: map[types.UID]*corev1.Pod{}, own: map[types.UID]corev1.PodStatus{}}
	root := t.TempDir()
	n.Server = New(Config{
		RootDir: root,
		Ready: func() bool {
			n.mu.Lock()
			defer n.mu.Unlock()
			return n.known
		},
		Pods: func() []*corev1.Pod {
			n.mu.Lock()
			defer n.mu.Unlock()
			return slices.Collect(maps.Values(n.pods))
		},
		Pod: func(uid types.UID) *corev1.Pod {
			n.mu.Lock()
			defer n.mu.Unlock()
			return n.pods[uid]
		},
		Status: func(pod *corev1.Pod) (corev1.PodStatus, bool) {
			n.mu.Lock()
			defer n.mu.Unlock()
			if st, ok := n.own[pod.UID]; ok {
				return st, true
			}
			return pod.Status, false
		},
		Intercept: func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
			return next(ctx, req)
		},
		InterceptStream: func(server any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, next grpc.StreamHandler) error {
			return next(server, stream)
		},
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- n.Start(ctx) }()
	conn, err := grpc.NewClient("unix://"+filepath.Join(root, "pods-api", "pods-api.sock"),
		grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultCallOptions(grpc.WaitForReady(true)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return n, podsv1alpha1.NewPodsClient(conn)
}

// set gives the node a pod, whose API status says that it is ready, and tells that it has changed.
func (n *node) set(name, label string) {
	n.mu.Lock()
	n.pods[types.UID(name)] = &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: name, UID: types.UID(name), Labels: map[string]string{"l": label}},
		Status:     corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}},
	}
	n.mu.Unlock()
	n.Changed(types.UID(name))
}

// run says that a pod runs.
func (n *node) run(name string) {
	n.mu.Lock()
	n.own[types.UID(name)] = corev1.PodStatus{Phase: corev1.PodRunning, Conditions: n.pods[types.UID(name)].Status.Conditions}
	n.mu.Unlock()
	n.Changed(types.UID(name))
}

func (n *node) remove(name string) {
	n.mu.Lock()
	delete(n.pods, types.UID(name))
	n.mu.Unlock()
	n.Changed(types.UID(name))
}

func shown(t *testing.T, data []byte) string {
	t.Helper()
	var p corev1.Pod
	if err := p.Unmarshal(data); err != nil {
		t.Fatal(err)
	}
	out := fmt.Sprintf("%s/%s %s %s", p.Namespace, p.Name, p.Labels["l"], p.Status.Phase)
	for _, c := range p.Status.Conditions {
		out += fmt.Sprintf(" %s=%s", c.Type, c.Status)
	}
	return out
}

func patient(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func TestServer_Asked(t *testing.T) {
	t.Parallel()
	n, client := newNode(t)
	ctx := patient(t)
	n.set("b", "1")
	n.set("a", "1")
	n.run("a")
	all, err := client.ListPods(ctx, &podsv1alpha1.ListPodsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range all.GetPods() {
		got = append(got, shown(t, p))
	}
	const a, b = "n/a 1 Running Ready=True", "n/b 1 Pending Ready=False" // nobody has looked whether b is still ready
	if want := []string{a, b}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	one, err := client.GetPod(ctx, &podsv1alpha1.GetPodRequest{PodUID: "a"})
	if err != nil || shown(t, one.GetPod()) != a {
		t.Errorf("%v, %v", one, err)
	}
	if _, err := client.GetPod(ctx, &podsv1alpha1.GetPodRequest{PodUID: "c"}); status.Code(err) != codes.NotFound {
		t.Errorf("a pod that is not there: %v", err)
	}
}

// TestServer_Begins: who asks before the kubelet knows its pods is told so, and not that there are none.
func TestServer_Begins(t *testing.T) {
	t.Parallel()
	n, client := newNode(t)
	n.known = false
	ctx := patient(t)
	_, list := client.ListPods(ctx, &podsv1alpha1.ListPodsRequest{})
	_, get := client.GetPod(ctx, &podsv1alpha1.GetPodRequest{PodUID: "a"})
	stream, err := client.WatchPods(ctx, &podsv1alpha1.WatchPodsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	_, watch := stream.Recv()
	for what, err := range map[string]error{"list": list, "get": get, "watch": watch} {
		if status.Code(err) != codes.FailedPrecondition {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestServer_Watched(t *testing.T) {
	t.Parallel()
	n, client := newNode(t)
	n.set("a", "1")
	stream, err := client.WatchPods(patient(t), &podsv1alpha1.WatchPodsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	next := func(want string) {
		t.Helper()
		event, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		got := event.GetType().String()
		if len(event.GetPod()) > 0 {
			got += " " + shown(t, event.GetPod())
		}
		if got = strings.TrimSpace(got); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	next("ADDED n/a 1 Pending Ready=False")
	next("INITIAL_SYNC_COMPLETE")
	n.run("a")
	next("MODIFIED n/a 1 Running Ready=True")
	n.Changed("a") // which it has not
	n.Changed("nobody")
	n.set("b", "1")
	next("ADDED n/b 1 Pending Ready=False")
	n.set("a", "2")
	next("MODIFIED n/a 2 Running Ready=True")
	n.remove("a")
	next("DELETED n/a")
	n.set("a", "3")
	next("ADDED n/a 3 Running Ready=True")
}

// TestServer_SlowClient: a client that does not read holds up nobody, and is told the newest of each pod once it does.
func TestServer_SlowClient(t *testing.T) {
	t.Parallel()
	n, client := newNode(t)
	stream, err := client.WatchPods(patient(t), &podsv1alpha1.WatchPodsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if event, err := stream.Recv(); err != nil || event.GetType() != podsv1alpha1.EventType_INITIAL_SYNC_COMPLETE {
		t.Fatalf("%v, %v", event, err)
	}
	const pods, changes = 20, 200
	large := strings.Repeat("x", 50_000) // so that what is between server and client is full soon
	for i := range changes {
		for p := range pods {
			n.set(fmt.Sprintf("p%02d", p), fmt.Sprint(i)+large)
		}
	}
	last := map[string]string{}
	events := 0
	for done := 0; done < pods; {
		event, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		var p corev1.Pod
		if err := p.Unmarshal(event.GetPod()); err != nil {
			t.Fatal(err)
		}
		if was := last[p.Name]; (was == "") != (event.GetType() == podsv1alpha1.EventType_ADDED) {
			t.Fatalf("%s of %s after %.10s", event.GetType(), p.Name, was)
		}
		events++
		if last[p.Name] = p.Labels["l"]; last[p.Name] == fmt.Sprint(changes-1)+large {
			done++
		}
	}
	if events >= pods*changes/2 {
		t.Errorf("%d events of %d changes", events, pods*changes)
	}
}
