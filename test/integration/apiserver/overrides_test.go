// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"minik8s.io/minik8s/pkg/apiserver"
	"minik8s.io/minik8s/pkg/etcd"
	"minik8s.io/minik8s/pkg/registry/etcdstore"
	"minik8s.io/minik8s/test/integration/framework"
)

// kept counts the keys of a store below a prefix.
func kept(t *testing.T, b etcd.Backend, prefix string) int64 {
	t.Helper()
	client := b.NewClient()
	defer client.Close()
	r, err := client.Get(t.Context(), prefix, clientv3.WithPrefix(), clientv3.WithCountOnly())
	if err != nil {
		t.Fatal(err)
	}
	return r.Count
}

// TestOverrides keeps events and leases in an etcd of their own, and ends that: all else goes on, and health says what is missing.
func TestOverrides(t *testing.T) {
	other, err := etcd.Start(t.Context(), etcd.Config{Dir: t.TempDir(), UnsafeNoFsync: true})
	if err != nil {
		t.Fatal(err)
	}
	end := sync.OnceValue(other.Close)
	t.Cleanup(func() { _ = end() })
	var main etcd.Backend
	c := framework.Start(t, framework.Options{APIServer: func(c *apiserver.Config) {
		main = c.Backend
		resources := []schema.GroupResource{{Resource: "events"}, {Group: "coordination.k8s.io", Resource: "leases"}}
		c.Storage.Overrides = []etcdstore.Override{{Resources: resources, Backend: other}}
	}})
	ns := c.Namespace(t)
	meta := metav1.ObjectMeta{Namespace: ns, Name: "a"}
	event := &corev1.Event{ObjectMeta: meta, InvolvedObject: corev1.ObjectReference{Namespace: ns, Kind: "Pod", Name: "p"}, Reason: "Tested", Type: corev1.EventTypeNormal}
	if _, err := c.Client.CoreV1().Events(ns).Create(t.Context(), event, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	leases := c.Client.CoordinationV1().Leases(ns)
	watch, err := leases.Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Stop()
	if _, err := leases.Create(t.Context(), &coordinationv1.Lease{ObjectMeta: meta}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	select {
	case e := <-watch.ResultChan():
		if l, ok := e.Object.(*coordinationv1.Lease); !ok || l.Name != "a" {
			t.Errorf("watched is %+v", e)
		}
	case <-time.After(10 * time.Second):
		t.Error("the lease was not seen by a watch")
	}
	configMaps := c.Client.CoreV1().ConfigMaps(ns)
	if _, err := configMaps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: meta}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, at := range []struct {
		prefix         string
		inMain, inSide bool
	}{{"/registry/events/" + ns + "/", false, true}, {"/registry/leases/" + ns + "/", false, true}, {"/registry/configmaps/" + ns + "/a", true, false}} {
		if m, s := kept(t, main, at.prefix) > 0, kept(t, other, at.prefix) > 0; m != at.inMain || s != at.inSide {
			t.Errorf("%s: in the store of most resources %v, in the other %v; want %v, %v", at.prefix, m, s, at.inMain, at.inSide)
		}
	}
	if list, err := c.Client.EventsV1().Events(ns).List(t.Context(), metav1.ListOptions{}); err != nil || len(list.Items) != 1 {
		t.Errorf("events of events.k8s.io are %v, %v", list, err)
	}

	healthz := func(ctx context.Context) string {
		text, _ := c.Client.Discovery().RESTClient().Get().AbsPath("/healthz").Param("verbose", "true").DoRaw(ctx) // the error is in the text
		return string(text)
	}
	if text := healthz(t.Context()); !strings.Contains(text, "[+]etcd ok") || !strings.Contains(text, "[+]etcd-override-0 ok") {
		t.Errorf("health is\n%s", text)
	}
	if err := end(); err != nil {
		t.Fatal(err)
	}
	if text := healthz(t.Context()); !strings.Contains(text, "[+]etcd ok") || !strings.Contains(text, "[-]etcd-override-0 failed") {
		t.Errorf("health without the other store is\n%s", text)
	}
	if _, err := configMaps.Get(t.Context(), "a", metav1.GetOptions{}); err != nil {
		t.Errorf("what is not kept there is gone with it: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if _, err := leases.Update(ctx, &coordinationv1.Lease{ObjectMeta: meta}, metav1.UpdateOptions{}); err == nil {
		t.Error("a lease was written to a store that has ended")
	}
}
