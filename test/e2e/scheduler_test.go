// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"

	"minik8s.io/minik8s/pkg/etcd"
)

// crowdNodes are nodes without a kubelet, which have room for all pods and for not one more.
const crowdNodes = 20

// A process that is killed again and again while pods are scheduled binds each of them, once, and gives no node more than it has room
// for, not for a moment: the store's history says so.
func TestSchedulerCrash(t *testing.T) {
	c := newCluster(t, "schedulercrash")
	w := newWorld(t, c)
	w.args = []string{"--nodes", "0"}
	w.start(t)
	kills := int(number(t, "MINIK8S_FAULTS_KILLS", 10))
	room := 2 * kills // pods on a node
	pods := crowdNodes * room
	seed := number(t, "MINIK8S_FAULTS_SEED", rand.Uint64())
	t.Logf("%d pods, %d kills, MINIK8S_FAULTS_SEED=%d", pods, kills, seed)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute+time.Duration(kills)*10*time.Second)
	defer cancel()
	w.crowdNodes(ctx, room)
	bound := make(chan struct{})
	go func() {
		defer close(bound)
		w.crowd(ctx, pods, kills)
	}()
	n := w.kills(ctx, t, rand.New(rand.NewPCG(seed, 1)), kills, bound)
	if ctx.Err() != nil {
		t.Fatalf("after %d kills not all pods are bound", n)
	}
	t.Logf("all are bound after %d kills", n)
	w.kill()
	boundOnce(t, filepath.Join(c.DataDir, "etcd"), pods, room)
}

func (w *world) crowdNodes(ctx context.Context, pods int) {
	for i := range crowdNodes {
		room := corev1.ResourceList{corev1.ResourceCPU: *resource.NewQuantity(int64(pods), resource.DecimalSI), corev1.ResourcePods: resource.MustParse("1000")}
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("crowd-", i)}, Status: corev1.NodeStatus{Capacity: room, Allocatable: room}}
		w.insist(ctx, func() bool {
			_, err := w.client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{})
			return err == nil || apierrors.IsAlreadyExists(err)
		})
	}
}

// crowd makes pods that fill all nodes to the last, some every now and then so that there are some to schedule whenever the process is
// killed, and returns when all are bound.
func (w *world) crowd(ctx context.Context, pods, kills int) {
	names := make(chan string)
	go func() {
		defer close(names)
		pause := time.NewTicker(time.Duration(kills) * 2 * time.Second / time.Duration(pods))
		defer pause.Stop()
		for n := range pods {
			select {
			case names <- fmt.Sprint("p", n):
			case <-ctx.Done():
				return
			}
			<-pause.C
		}
	}()
	api := w.client.CoreV1().Pods("default")
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for name := range names {
				pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{
					// The nodes have no kubelet, and soon a taint that says so.
					Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
					Containers: []corev1.Container{{Name: "none", Image: "none", Resources: corev1.ResourceRequirements{
						Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}}}},
				}}
				w.insist(ctx, func() bool {
					_, err := api.Create(ctx, pod, metav1.CreateOptions{})
					return err == nil || apierrors.IsAlreadyExists(err)
				})
			}
		})
	}
	all.Wait()
	w.insist(ctx, func() bool {
		waiting, err := api.List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName="})
		return err == nil && len(waiting.Items) == 0
	})
}

// boundOnce reads what became of pods, revision by revision, from a store that nobody has opened.
func boundOnce(t *testing.T, dir string, pods, room int) {
	t.Helper()
	store, err := etcd.Start(t.Context(), etcd.Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	client := store.NewClient()
	defer client.Close()
	const prefix = "/registry/pods/default/"
	last, err := client.Get(t.Context(), prefix, append(clientv3.WithLastRev(), clientv3.WithPrefix())...)
	if err != nil || len(last.Kvs) != 1 {
		t.Fatalf("looking for the last change: %+v, %v", last, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	on, used, revision := map[string]string{}, map[string]int{}, int64(0)
	history := client.Watch(ctx, prefix, clientv3.WithPrefix(), clientv3.WithRev(1))
	for revision < last.Kvs[0].ModRevision {
		changes := <-history
		if err := changes.Err(); err != nil || ctx.Err() != nil {
			t.Fatalf("reading the store's history: %v, %v", err, ctx.Err())
		}
		for _, e := range changes.Events {
			revision = e.Kv.ModRevision
			key := string(e.Kv.Key)
			if e.Type == clientv3.EventTypeDelete {
				t.Errorf("revision %d: %s is deleted", revision, key)
				continue
			}
			var pod corev1.Pod
			if err := runtime.DecodeInto(scheme.Codecs.UniversalDeserializer(), e.Kv.Value, &pod); err != nil {
				t.Fatal(err)
			}
			switch was := on[key]; {
			case pod.Spec.NodeName == was:
			case was != "":
				t.Errorf("revision %d: %s is on %s and was on %s", revision, key, pod.Spec.NodeName, was)
			default:
				on[key] = pod.Spec.NodeName
				if used[pod.Spec.NodeName]++; used[pod.Spec.NodeName] > room {
					t.Errorf("revision %d: %d pods on %s, which has room for %d", revision, used[pod.Spec.NodeName], pod.Spec.NodeName, room)
				}
			}
		}
	}
	if len(on) != pods {
		t.Errorf("%d pods were bound, of %d", len(on), pods)
	}
	t.Logf("in %d revisions of the store", revision)
}
