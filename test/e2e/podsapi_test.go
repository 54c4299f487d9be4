// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	podutil "k8s.io/kubectl/pkg/util/podutils"
	podsv1alpha1 "k8s.io/kubelet/pkg/apis/pods/v1alpha1"
)

// podsAPI asks the kubelet of the first node for its pods.
func (k *kube) podsAPI(t *testing.T) podsv1alpha1.PodsClient {
	t.Helper()
	conn, err := grpc.NewClient("unix://"+filepath.Join(k.DataDir, "kubelet", "pods-api", "pods-api.sock"), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	})
	return podsv1alpha1.NewPodsClient(conn)
}

// TestPodsAPI: programs of the node see a pod come, change and go, in order, and never as less than it was; also when minik8s has been killed.
func TestPodsAPI(t *testing.T) {
	k := up(t, newCluster(t, "podsapi"))
	client := k.podsAPI(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	stream, err := client.WatchPods(ctx, &podsv1alpha1.WatchPodsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	next := func() (podsv1alpha1.EventType, *corev1.Pod) {
		t.Helper()
		event, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		var p corev1.Pod
		if err := p.Unmarshal(event.GetPod()); err != nil {
			t.Fatal(err)
		}
		return event.GetType(), &p
	}
	if event, p := next(); event != podsv1alpha1.EventType_INITIAL_SYNC_COMPLETE {
		t.Fatalf("it begins with %s of %s/%s", event, p.Namespace, p.Name)
	}
	k.kubectl(t, "run", "web", "--image="+frontendImage, "--labels=state=0", "--grace-period=3", "--command", "--", "/guestbook", "static", "/")
	k.kubectl(t, "wait", "--for=condition=Ready", "--timeout=60s", "pod/web")
	k.kubectl(t, "label", "--overwrite", "pod/web", "state=1")
	k.kubectl(t, "label", "--overwrite", "pod/web", "state=2")
	before := corev1.Pod{}
	for begun := false; before.Labels["state"] != "2" || !podutil.IsPodReady(&before); begun = true {
		event, p := next()
		if want := podsv1alpha1.EventType_MODIFIED; begun && event != want || !begun && event != podsv1alpha1.EventType_ADDED {
			t.Fatalf("%s, and begun is %t", event, begun)
		}
		if p.Name != "web" || p.Labels["state"] < before.Labels["state"] || p.Status.Phase == "" || before.Status.Phase == corev1.PodRunning && p.Status.Phase == corev1.PodPending {
			t.Fatalf("%s: %s %v after %s %v", p.Name, p.Status.Phase, p.Labels, before.Status.Phase, before.Labels)
		}
		before = *p
	}

	kill(t, k)
	k = up(t, k.Cluster)
	client = k.podsAPI(t)
	eventually(t, time.Minute, "the pod as ready as it is", func(ctx context.Context) error {
		got, err := client.GetPod(ctx, &podsv1alpha1.GetPodRequest{PodUID: string(before.UID)})
		if code := status.Code(err); code == codes.Unavailable || code == codes.FailedPrecondition { // there is nobody, or somebody who says that it does not know yet
			return err
		}
		var p corev1.Pod
		if err := errors.Join(err, p.Unmarshal(got.GetPod())); err != nil {
			t.Fatal(err)
		}
		if !podutil.IsPodReady(&p) {
			t.Fatalf("it was not ready for a moment: %+v", p.Status)
		}
		return nil
	})
	if stream, err = client.WatchPods(ctx, &podsv1alpha1.WatchPodsRequest{}); err != nil {
		t.Fatal(err)
	}
	if event, p := next(); event != podsv1alpha1.EventType_ADDED || p.UID != before.UID {
		t.Fatalf("after the restart %s of %s", event, p.Name)
	}
	k.kubectl(t, "delete", "pod", "web", "--timeout=60s")
	for ending := false; ; {
		event, p := next()
		if event == podsv1alpha1.EventType_DELETED {
			if !ending || p.Name != "web" || p.UID != before.UID {
				t.Errorf("%s/%s is gone, and was ending: %t", p.Namespace, p.Name, ending)
			}
			return
		}
		if ending && p.DeletionTimestamp == nil {
			t.Fatal("it was ending, and is not any more")
		}
		ending = ending || p.DeletionTimestamp != nil
	}
}
