// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package kubelet

import (
	"context"
	"os"
	"path/filepath"
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

	"minik8s.io/minik8s/pkg/kubelet/configuration"
	"minik8s.io/minik8s/pkg/kubelet/container/fake"
)

// watchPods watches what a kubelet tells of its pods, from when it does.
func watchPods(t *testing.T, root string) grpc.ServerStreamingClient[podsv1alpha1.WatchPodsEvent] {
	t.Helper()
	conn, err := grpc.NewClient("unix://"+filepath.Join(root, "pods-api", "pods-api.sock"), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(func() {
		cancel()
		_ = conn.Close()
	})
	client := podsv1alpha1.NewPodsClient(conn)
	for {
		_, err := client.ListPods(ctx, &podsv1alpha1.ListPodsRequest{}, grpc.WaitForReady(true))
		if err == nil {
			break
		}
		if status.Code(err) != codes.FailedPrecondition {
			t.Fatal(err)
		}
		<-time.After(20 * time.Millisecond)
	}
	stream, err := client.WatchPods(ctx, &podsv1alpha1.WatchPodsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	return stream
}

// TestPodsAPI: a program of the node is told of a pod's way as it is, in order, and by the next kubelet what the one before has told.
func TestPodsAPI(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fake.Config{})
	stop := w.start()
	stream := watchPods(t, w.dir)
	next := func(want podsv1alpha1.EventType) *corev1.Pod {
		t.Helper()
		event, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		var p corev1.Pod
		if err := p.Unmarshal(event.GetPod()); err != nil {
			t.Fatal(err)
		}
		if event.GetType() != want {
			t.Fatalf("%s %+v, want %s", event.GetType(), p, want)
		}
		return &p
	}
	until := func(what string, ok func(*corev1.Pod) bool) {
		t.Helper()
		for {
			if p := next(podsv1alpha1.EventType_MODIFIED); ok(p) {
				return
			} else if p.Status.Phase == "" {
				t.Fatalf("waiting for %s: a pod without a phase: %+v", what, p)
			}
		}
	}
	next(podsv1alpha1.EventType_INITIAL_SYNC_COMPLETE)
	release := w.runtime.Hang("StartContainer", "") // a client that reads slowly would get the newest of the pod only
	w.create(newPod("one", nil))
	if p := next(podsv1alpha1.EventType_ADDED); p.Name != "one" || p.Status.Phase != corev1.PodPending {
		t.Errorf("it came as %+v", p)
	}
	release()
	until("being ready", ready)
	patch := []byte(`{"metadata":{"labels":{"state":"changed"}}}`)
	if _, err := w.client.CoreV1().Pods("ns").Patch(t.Context(), "one", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	until("a label", func(p *corev1.Pod) bool { return p.Labels["state"] == "changed" && ready(p) })

	stop()
	stop = w.start()
	stream = watchPods(t, w.dir)
	if p := next(podsv1alpha1.EventType_ADDED); p.Labels["state"] != "changed" || !ready(p) {
		t.Errorf("the next kubelet has %+v", p)
	}
	next(podsv1alpha1.EventType_INITIAL_SYNC_COMPLETE)
	w.remove("one")
	for {
		event, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		if event.GetType() == podsv1alpha1.EventType_DELETED {
			break
		}
	}
	stop()
}

// TestPodsAPI_Off: without its gate there is no socket.
func TestPodsAPI_Off(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fake.Config{})
	w.settings = configuration.Default()
	w.settings.FeatureGates = map[string]bool{string(configuration.PodsAPI): false}
	w.start()
	w.create(newPod("one", nil))
	w.await("ready", "one", ready)
	if _, err := os.Stat(filepath.Join(w.dir, "pods-api")); !os.IsNotExist(err) {
		t.Errorf("there is a socket: %v", err)
	}
}

func TestSettling(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	never, now := func() bool { return false }, func() bool { return true }
	var s settling
	for _, tc := range []struct {
		after time.Duration
		all   func() bool
		want  bool
	}{{0, never, false}, {9 * time.Second, never, false}, {10 * time.Second, never, true}, {11 * time.Second, never, true}} {
		if got := s.over(start.Add(tc.after), tc.all); got != tc.want {
			t.Errorf("after %s: %t", tc.after, got)
		}
	}
	s = settling{}
	for _, all := range []func() bool{now, never} { // a pod that comes later holds up nobody
		if !s.over(start, all) {
			t.Error("all have been looked at")
		}
	}
}
