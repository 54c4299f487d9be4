// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package mirror

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	coreinformers "k8s.io/client-go/informers/core/v1"
	clientfake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"minik8s.io/minik8s/pkg/kubelet/internal/staticpod"
)

// node is a node with static pods and an API server that may refuse.
type node struct {
	t      *testing.T
	client *clientfake.Clientset
	m      *Manager

	mu       sync.Mutex // guards the fields below
	static   map[string]*corev1.Pod
	complete bool
	node     *corev1.Node
	status   map[types.UID]*corev1.PodStatus
	seen     []types.UID

	refuse atomic.Bool
}

func newNode(t *testing.T) *node {
	t.Helper()
	n := &node{
		t: t, client: clientfake.NewClientset(), static: map[string]*corev1.Pod{}, complete: true,
		node: &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "nu"}}, status: map[types.UID]*corev1.PodStatus{},
	}
	var made atomic.Int32
	n.client.PrependReactor("create", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
		p, ok := a.(clienttesting.CreateAction).GetObject().(*corev1.Pod)
		if !ok {
			return true, nil, errors.New("no pod")
		}
		if p.UID == "" {
			p.UID = types.UID("m" + strconv.Itoa(int(made.Add(1))))
		}
		return n.refuse.Load(), nil, errors.New("refused")
	})
	informer := coreinformers.NewPodInformer(n.client, metav1.NamespaceAll, 0, cache.Indexers{})
	n.m = New(Config{
		Client: n.client, Pods: informer, Static: n, Node: n.current, Clock: clock.RealClock{},
		Status: func(uid types.UID) *corev1.PodStatus { n.mu.Lock(); defer n.mu.Unlock(); return n.status[uid] },
		Seen:   func(p *corev1.Pod) { n.mu.Lock(); defer n.mu.Unlock(); n.seen = append(n.seen, p.UID) },
	})
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { informer.RunWithContext(ctx) })
	wg.Go(func() {
		if err := n.m.Start(ctx); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() { cancel(); wg.Wait() })
	return n
}

func (n *node) current() *corev1.Node {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.node
}

func (n *node) Static(name types.NamespacedName) (*corev1.Pod, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.static[name.Name], n.complete
}

func (n *node) Names() []types.NamespacedName {
	n.mu.Lock()
	defer n.mu.Unlock()
	var out []types.NamespacedName
	for name := range n.static {
		out = append(out, types.NamespacedName{Namespace: "default", Name: name})
	}
	return out
}

// do changes the node, and has the mirrors looked at.
func (n *node) do(f func()) {
	n.mu.Lock()
	f()
	n.mu.Unlock()
	n.m.LookAtAll()
}

func (n *node) pod(name, image string) *corev1.Pod {
	n.t.Helper()
	text := "apiVersion: v1\nkind: Pod\nmetadata: {name: " + name + "}\nspec: {containers: [{name: c, image: " + image + "}]}\n"
	p, err := staticpod.Parse([]byte(text), staticpod.Origin{Source: staticpod.File, Node: "n1"}, time.Time{})
	if err != nil {
		n.t.Fatal(err)
	}
	return p
}

// await returns the object of that name once ok holds of it; nil is one that is not there.
func (n *node) await(what, name string, ok func(*corev1.Pod) bool) *corev1.Pod {
	n.t.Helper()
	for deadline := time.Now().Add(15 * time.Second); ; <-time.After(2 * time.Millisecond) {
		p, err := n.client.CoreV1().Pods("default").Get(context.Background(), name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			p = nil
		} else if err != nil {
			n.t.Fatal(err)
		}
		if ok(p) {
			return p
		}
		if time.Now().After(deadline) {
			n.t.Fatalf("%s: %+v", what, p)
		}
	}
}

func TestManager(t *testing.T) {
	n := newNode(t)
	p := n.pod("a", "i")
	of := func(pod *corev1.Pod) func(*corev1.Pod) bool {
		return func(m *corev1.Pod) bool { return m != nil && staticpod.IsMirrorOf(m, pod) }
	}
	gone := func(m *corev1.Pod) bool { return m == nil }

	n.do(func() { n.node = nil; n.static["a-n1"] = p })
	<-time.After(20 * time.Millisecond)
	n.await("without a node", "a-n1", gone)
	n.refuse.Store(true)
	n.do(func() { n.node = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "nu"}} })
	<-time.After(20 * time.Millisecond)
	n.refuse.Store(false) // nobody says so: it is tried again
	m := n.await("made", "a-n1", of(p))
	if m.OwnerReferences[0].UID != "nu" {
		t.Errorf("owner %+v", m.OwnerReferences)
	}
	for deadline := time.Now().Add(15 * time.Second); n.m.Mirror(p) == nil; <-time.After(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the mirror is not seen")
		}
	}
	if got := n.m.Translate(m.UID); got != p.UID {
		t.Errorf("%s is translated to %s, want %s", m.UID, got, p.UID)
	}
	if got := n.m.Translate("x"); got != "x" {
		t.Errorf("x is translated to %s", got)
	}
	q := n.pod("a", "j")
	if n.m.Mirror(q) != nil {
		t.Error("another form has the mirror")
	}
	n.do(func() { n.static["a-n1"] = q })
	m2 := n.await("of another form", "a-n1", of(q))
	if m2.UID == m.UID {
		t.Error("it was changed, not made again")
	}
	n.do(func() { n.complete = false; delete(n.static, "a-n1") })
	<-time.After(20 * time.Millisecond)
	n.await("still there, for not all pods are known", "a-n1", of(q))
	n.do(func() { n.complete = true })
	n.await("gone", "a-n1", gone)
}

// TestManager_Foreign: an object of somebody else is not touched, and holds up no other.
func TestManager_Foreign(t *testing.T) {
	n := newNode(t)
	foreign := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "b-n1", UID: "foreign"}, Spec: corev1.PodSpec{NodeName: "n2"}}
	if _, err := n.client.CoreV1().Pods("default").Create(t.Context(), foreign, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	n.do(func() {
		n.static["b-n1"], n.static["c-n1"] = n.pod("b", "i"), n.pod("c", "i")
	})
	n.await("beside one that is refused", "c-n1", func(p *corev1.Pod) bool { return p != nil })
	if p := n.await("the foreign one", "b-n1", func(p *corev1.Pod) bool { return p != nil }); p.UID != "foreign" {
		t.Errorf("it became %+v", p.ObjectMeta)
	}
}
