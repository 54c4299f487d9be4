// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"minik8s.io/minik8s/test/integration/framework"
)

// spaceExceeded is what upstream's server answers when its etcd has no space.
var spaceExceeded = metav1.Status{Status: metav1.StatusFailure, Message: "etcdserver: mvcc: database space exceeded", Code: 500}

func isFull(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && cmp.Equal(spaceExceeded, status.Status())
}

// A user whose store is full deletes things, with whatever that takes, and goes on; also when the process has started again
// in between.
func TestFullStore(t *testing.T) {
	t.Parallel()
	o := framework.Options{Dir: t.TempDir(), QuotaBytes: 24 << 20, Controllers: []string{"*"}, Scheduler: true}
	first := framework.Start(t, o)
	startNode(t, first)
	prepareFull(t, first)
	made := fillStore(t, first)
	if made < 10 {
		t.Errorf("full after %d objects of 512 KiB, want more in 24 MiB", made)
	}
	checkFull(t, first)
	// What every cluster has comes back at a start, full or not.
	client := first.Client
	if err := client.RbacV1().ClusterRoles().Delete(t.Context(), "view", metav1.DeleteOptions{}); err != nil {
		t.Error(err)
	}
	if err := client.FlowcontrolV1().FlowSchemas().Delete(t.Context(), "probes", metav1.DeleteOptions{}); err != nil {
		t.Error(err)
	}
	if err := first.Stop(); err != nil {
		t.Fatal(err)
	}

	second := framework.Start(t, o)
	client = second.Client
	if _, err := client.RbacV1().ClusterRoles().Get(t.Context(), "view", metav1.GetOptions{}); err != nil {
		t.Errorf("after a start: %v", err)
	}
	startNode(t, second)
	checkFull(t, second)
	emptyFull(t, second)
	framework.Eventually(t, "writing after deletions", func() error {
		_, err := client.CoreV1().ConfigMaps("default").Create(t.Context(), large("again"), metav1.CreateOptions{})
		return err
	})
	if etcd, err := client.CoreV1().ComponentStatuses().Get(t.Context(), "etcd-0", metav1.GetOptions{}); err != nil || etcd.Conditions[0].Status != corev1.ConditionTrue {
		t.Errorf("after deletions: %v, %v", etcd, err)
	}
}

// startNode runs the node until its cluster stops.
func startNode(t *testing.T, c *framework.Cluster) {
	t.Helper()
	if _, err := c.StartNode(framework.FakeNode{Name: "node"}); err != nil {
		t.Fatal(err)
	}
}

// prepareFull makes what will be deleted.
func prepareFull(t *testing.T, c *framework.Cluster) {
	t.Helper()
	core := c.Client.CoreV1()
	for _, ns := range []string{"doomed", "pods"} {
		if _, err := core.Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		framework.Eventually(t, "a pod", func() error {
			_, err := core.Pods(ns).Create(t.Context(), framework.Pod("p", "app"), metav1.CreateOptions{})
			return err
		})
		framework.Eventually(t, "it runs", func() error {
			p, err := core.Pods(ns).Get(t.Context(), "p", metav1.GetOptions{})
			if err == nil && p.Status.Phase != corev1.PodRunning {
				err = errors.New(string(p.Status.Phase))
			}
			return err
		})
	}
	if _, err := core.ConfigMaps("doomed").Create(t.Context(), large("m"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	kept := large("kept")
	kept.Finalizers = []string{"example.com/keep"}
	if _, err := core.ConfigMaps("default").Create(t.Context(), kept, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func large(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"large": ""}}, Data: map[string]string{"k": strings.Repeat("v", 512<<10)}}
}

// fillStore creates objects until that is refused, and goes on being refused for ten seconds: a store that has become full frees what is
// old first, and again after ten times as long as that has taken, which is a while on a busy machine.
func fillStore(t *testing.T, c *framework.Cluster) (made int) {
	t.Helper()
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for refused := 0; made < 100; {
		_, err := c.Client.CoreV1().ConfigMaps("default").Create(t.Context(), large(fmt.Sprint("m", made)), metav1.CreateOptions{})
		switch {
		case err == nil:
			made, refused = made+1, 0
		case !isFull(err):
			t.Fatalf("filling: %#v", err)
		case refused == 100:
			return made
		default:
			refused++
			<-ticker.C
		}
	}
	t.Fatal("it is never full")
	return 0
}

// checkFull checks what a full store refuses, serves and tells.
func checkFull(t *testing.T, c *framework.Cluster) {
	t.Helper()
	core := c.Client.CoreV1()
	if _, err := core.ConfigMaps("default").Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "small"}}, metav1.CreateOptions{}); !isFull(err) {
		t.Errorf("creating: %#v", err)
	}
	longer := fmt.Sprintf(`{"data": {"more": %q}}`, strings.Repeat("v", 16<<10))
	if _, err := core.ConfigMaps("default").Patch(t.Context(), "m0", types.MergePatchType, []byte(longer), metav1.PatchOptions{}); !isFull(err) {
		t.Errorf("making longer: %#v", err)
	}
	if list, err := core.ConfigMaps("default").List(t.Context(), metav1.ListOptions{LabelSelector: "large"}); err != nil || len(list.Items) < 10 {
		t.Errorf("listing: %v", err)
	}
	etcd, err := core.ComponentStatuses().Get(t.Context(), "etcd-0", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if c := etcd.Conditions[0]; c.Status != corev1.ConditionFalse || !strings.HasPrefix(c.Message, spaceExceeded.Message+": ") {
		t.Errorf("the condition of etcd: %v", c)
	}
	for _, path := range []string{"/livez", "/readyz", "/healthz"} {
		if _, err := c.Client.Discovery().RESTClient().Get().AbsPath(path).DoRaw(t.Context()); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// emptyFull deletes what takes more than to delete a key.
func emptyFull(t *testing.T, c *framework.Cluster) {
	t.Helper()
	core := c.Client.CoreV1()
	gone := func(what string, get func() error) {
		t.Helper()
		framework.Eventually(t, what, func() error {
			switch err := get(); {
			case apierrors.IsNotFound(err):
				return nil
			case err != nil:
				return err
			}
			return errors.New("it is there")
		})
	}
	if err := core.Pods("pods").Delete(t.Context(), "p", metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](30)}); err != nil {
		t.Errorf("deleting a pod: %v", err)
	}
	gone("a pod", func() error { _, err := core.Pods("pods").Get(t.Context(), "p", metav1.GetOptions{}); return err })

	if err := core.ConfigMaps("default").Delete(t.Context(), "kept", metav1.DeleteOptions{}); err != nil {
		t.Errorf("deleting with a finalizer: %v", err)
	}
	if _, err := core.ConfigMaps("default").Patch(t.Context(), "kept", types.MergePatchType, []byte(`{"metadata": {"finalizers": null}}`), metav1.PatchOptions{}); err != nil {
		t.Errorf("removing a finalizer: %v", err)
	}
	gone("an object with a finalizer", func() error {
		_, err := core.ConfigMaps("default").Get(t.Context(), "kept", metav1.GetOptions{})
		return err
	})

	if err := core.Namespaces().Delete(t.Context(), "doomed", metav1.DeleteOptions{}); err != nil {
		t.Errorf("deleting a namespace: %v", err)
	}
	gone("a namespace", func() error { _, err := core.Namespaces().Get(t.Context(), "doomed", metav1.GetOptions{}); return err })
	if err := core.ConfigMaps("default").DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "large"}); err != nil {
		t.Errorf("deleting many: %v", err)
	}
}
