// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package kubelet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"

	"minik8s.io/minik8s/pkg/kubelet/configuration"
	"minik8s.io/minik8s/pkg/kubelet/container"
	"minik8s.io/minik8s/pkg/kubelet/container/fake"
)

const hashAnnotation = "kubernetes.io/config.hash"

// staticWorld is a world whose kubelet reads manifests from a folder, and whose API gives uids and may be away.
type staticWorld struct {
	*world
	folder string
	away   atomic.Bool
}

func newStaticWorld(t *testing.T) *staticWorld {
	t.Helper()
	w := &staticWorld{world: newWorld(t, fake.Config{}), folder: t.TempDir()}
	w.settings = configuration.Default()
	w.settings.ClusterDomain, w.settings.StaticPodPath = "cluster.local", w.folder
	var made atomic.Int64
	w.client.PrependReactor("create", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
		if p, ok := a.(clienttesting.CreateAction).GetObject().(*corev1.Pod); ok && p.UID == "" {
			p.UID = types.UID("given-" + strconv.FormatInt(made.Add(1), 10))
		}
		return false, nil, nil
	})
	w.client.PrependReactor("patch", "pods", w.refuseOther)
	w.client.PrependReactor("*", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
		if w.away.Load() {
			return true, nil, errors.New("the API server is away")
		}
		return false, nil, nil
	})
	return w
}

// refuseOther refuses a patch of another pod than the one that there is by that name, as the API server does: the fake one would
// give it the uid of the other.
func (w *staticWorld) refuseOther(a clienttesting.Action) (bool, runtime.Object, error) {
	patch, ok := a.(clienttesting.PatchAction)
	if !ok {
		return false, nil, nil
	}
	var meant metav1.PartialObjectMetadata
	if err := json.Unmarshal(patch.GetPatch(), &meant); err != nil {
		return true, nil, err
	}
	o, err := w.client.Tracker().Get(patch.GetResource(), patch.GetNamespace(), patch.GetName())
	if p, is := o.(*corev1.Pod); err == nil && is && meant.UID != "" && p.UID != meant.UID {
		return true, nil, apierrors.NewConflict(corev1.Resource("pods"), p.Name, errors.New("the uid is another one"))
	}
	return false, nil, nil
}

// manifest puts a pod of that image into the folder.
func (w *staticWorld) manifest(name, image string) {
	w.t.Helper()
	text := fmt.Sprintf("apiVersion: v1\nkind: Pod\nmetadata: {name: %s, namespace: ns}\nspec:\n  terminationGracePeriodSeconds: 1\n  containers: [{name: c, image: %s}]\n", name, image)
	if err := os.WriteFile(filepath.Join(w.folder, name+".yaml"), []byte(text), 0o600); err != nil {
		w.t.Fatal(err)
	}
}

// running waits for one container to run and no other, of that image, and returns it.
func (w *staticWorld) running(image string) *container.Container {
	w.t.Helper()
	var last []string
	for deadline := time.Now().Add(15 * time.Second); time.Now().Before(deadline); <-time.After(10 * time.Millisecond) {
		all, err := w.runtime.List(context.Background())
		if err != nil {
			w.t.Fatal(err)
		}
		last = nil
		var found *container.Container
		for _, s := range all {
			_, c, err := w.runtime.Inspect(context.Background(), s.ID)
			if err != nil || c == nil {
				continue
			}
			last = append(last, c.ImageRef+" "+string(c.State))
			if c.State == container.StateRunning && c.ImageRef == image {
				found = c
			}
		}
		if found != nil && len(last) == 1 {
			return found
		}
	}
	w.t.Fatalf("containers %q, want one of %s that runs", last, image)
	return nil
}

// mirror waits for the pod "a-n1" to be a mirror that says that it is ready, and shows that container.
func (w *staticWorld) mirror(c *container.Container) *corev1.Pod {
	w.t.Helper()
	return w.await("the ready mirror", "a-n1", func(p *corev1.Pod) bool {
		return ready(p) && p.DeletionTimestamp == nil && len(p.Status.ContainerStatuses) == 1 &&
			p.Status.ContainerStatuses[0].ContainerID == "fake://"+c.ID
	})
}

func TestStaticPod(t *testing.T) {
	w := newStaticWorld(t)
	w.manifest("a", "img")
	stop := w.start()
	c := w.running("img")
	m := w.mirror(c)
	node, err := w.client.CoreV1().Nodes().Get(t.Context(), "n1", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	uid := m.Annotations[hashAnnotation]
	if o := m.OwnerReferences; len(o) != 1 || o[0].Kind != "Node" || o[0].Name != "n1" || o[0].UID != node.UID || o[0].Controller == nil || !*o[0].Controller {
		t.Errorf("owners %+v", o)
	}
	if m.Annotations[corev1.MirrorPodAnnotationKey] != uid || string(c.Pod.UID) != uid || m.Annotations["kubernetes.io/config.source"] != "file" || m.Spec.NodeName != "n1" {
		t.Errorf("container of pod %s, mirror %+v", c.Pod.UID, m.ObjectMeta)
	}

	// Who deletes the mirror, at once or gracefully, gets another one; the container does not notice.
	for _, how := range []func(){
		func() {
			if err := w.client.CoreV1().Pods("ns").Delete(t.Context(), "a-n1", metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
		},
		func() { w.remove("a-n1") },
	} {
		old := w.mirror(c).UID
		how()
		w.await("another mirror", "a-n1", func(p *corev1.Pod) bool { return p != nil && p.UID != old && p.DeletionTimestamp == nil })
		w.mirror(c)
	}
	if now := w.running("img"); now.ID != c.ID {
		t.Errorf("container %s became %s", c.ID, now.ID)
	}

	// Another kubelet adopts it, and makes no second mirror.
	old := w.mirror(c).UID
	stop()
	w.client.ClearActions()
	stop = w.start()
	w.create(newPod("b", nil))
	w.await("ready", "b", ready)
	w.remove("b")
	w.await("gone", "b", func(p *corev1.Pod) bool { return p == nil })
	if now := w.running("img"); now.ID != c.ID {
		t.Errorf("another kubelet made container %s of %s", now.ID, c.ID)
	}
	if now := w.mirror(c).UID; now != old {
		t.Errorf("another kubelet made mirror %s of %s", now, old)
	}

	// A change of the manifest replaces pod and mirror, its removal ends both.
	w.manifest("a", "img2")
	c2 := w.running("img2")
	if m2 := w.mirror(c2); m2.UID == old || m2.Annotations[hashAnnotation] == uid || string(c2.Pod.UID) == uid {
		t.Errorf("after the change: %+v of pod %s", m2.ObjectMeta, c2.Pod.UID)
	}
	if err := os.Remove(filepath.Join(w.folder, "a.yaml")); err != nil {
		t.Fatal(err)
	}
	w.await("gone", "a-n1", func(p *corev1.Pod) bool { return p == nil })
	stop()
	if l := w.left(); l != "" {
		t.Errorf("left behind: %s", l)
	}
}

// TestStaticPodAlone: a static pod needs no API server, neither to start nor to change, and is shown once there is one.
func TestStaticPodAlone(t *testing.T) {
	w := newStaticWorld(t)
	w.away.Store(true)
	w.manifest("a", "img")
	w.start()
	w.running("img")
	w.manifest("a", "img2")
	c := w.running("img2")
	w.away.Store(false)
	w.mirror(c)
}

// TestStaticPodWhileDown: what happened to manifests while no kubelet ran is made up for.
func TestStaticPodWhileDown(t *testing.T) {
	w := newStaticWorld(t)
	w.manifest("a", "img")
	stop := w.start()
	w.mirror(w.running("img"))
	stop()
	w.manifest("a", "img2")
	stop = w.start()
	w.mirror(w.running("img2"))
	stop()
	if err := os.Remove(filepath.Join(w.folder, "a.yaml")); err != nil {
		t.Fatal(err)
	}
	w.start()
	w.await("gone", "a-n1", func(p *corev1.Pod) bool { return p == nil })
	w.awaitNothing()
}

func (w *staticWorld) awaitNothing() {
	w.t.Helper()
	for deadline := time.Now().Add(15 * time.Second); w.left() != ""; <-time.After(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			w.t.Fatalf("left behind: %s", w.left())
		}
	}
}

// TestStaticPodComesBack: a manifest that goes and comes back while its pod is being stopped runs again, which counts as a restart.
func TestStaticPodComesBack(t *testing.T) {
	w := newStaticWorld(t)
	release := w.runtime.Hang("StopContainer", "")
	w.manifest("a", "img")
	w.start()
	c := w.running("img")
	w.mirror(c)
	path := filepath.Join(w.folder, "a.yaml")
	if err := os.Rename(path, filepath.Join(w.folder, ".a")); err != nil {
		t.Fatal(err)
	}
	w.events("Killing")
	if err := os.Rename(filepath.Join(w.folder, ".a"), path); err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(15 * time.Second)
	for ; w.kubelet.running.Load().workers.Pod(c.Pod.UID).DeletionTimestamp != nil; <-time.After(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("nobody sees that it is back")
		}
	}
	release()
	for ; ; <-time.After(10 * time.Millisecond) {
		if now := w.runtime.Find(c.Pod.UID, "c"); now != nil && now.ID != c.ID && now.State == container.StateRunning {
			if m := w.mirror(now); m.Status.ContainerStatuses[0].RestartCount != 1 {
				t.Errorf("%d restarts are told, want 1", m.Status.ContainerStatuses[0].RestartCount)
			}
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("it does not run again")
		}
	}
}

// TestMirrorIsNoPod: an object of the API that says that it is a mirror is run by nobody, and goes if it shows nothing. One that
// says that it comes from a file is a pod of the API all the same.
func TestMirrorIsNoPod(t *testing.T) {
	w := newStaticWorld(t)
	w.create(newPod("fake", func(p *corev1.Pod) { p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"} }))
	w.create(newPod("b", func(p *corev1.Pod) { p.Annotations = map[string]string{"kubernetes.io/config.source": "file"} }))
	w.start()
	w.await("ready", "b", ready)
	w.await("gone", "fake", func(p *corev1.Pod) bool { return p == nil })
	if c := w.runtime.Find("uid-fake", "c"); c != nil {
		t.Errorf("it runs: %+v", c)
	}
	w.remove("b")
	w.await("gone", "b", func(p *corev1.Pod) bool { return p == nil })
}

// TestMirrorEnded: a mirror that somebody declares dead does not end its pod, and is made again.
func TestMirrorEnded(t *testing.T) {
	w := newStaticWorld(t)
	w.manifest("a", "img")
	w.start()
	c := w.running("img")
	m := w.mirror(c).DeepCopy()
	m.Status.Phase = corev1.PodFailed
	if _, err := w.client.CoreV1().Pods("ns").UpdateStatus(t.Context(), m, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	w.await("another mirror", "a-n1", func(p *corev1.Pod) bool { return p != nil && p.UID != m.UID })
	w.mirror(c)
	if now := w.running("img"); now.ID != c.ID {
		t.Errorf("container %s became %s", c.ID, now.ID)
	}
}

// TestStaticPodRefused: a static pod that the node does not take says so by its mirror.
func TestStaticPodRefused(t *testing.T) {
	w := newStaticWorld(t)
	text := "apiVersion: v1\nkind: Pod\nmetadata: {name: a, namespace: ns}\nspec:\n  nodeSelector: {no: where}\n  containers: [{name: c, image: img}]\n"
	if err := os.WriteFile(filepath.Join(w.folder, "a.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	w.start()
	p := w.await("refused", "a-n1", phase(corev1.PodFailed))
	if p.Status.Reason != "NodeAffinity" {
		t.Errorf("reason %q", p.Status.Reason)
	}
	w.manifest("a", "img")
	w.mirror(w.running("img"))
	if err := os.Remove(filepath.Join(w.folder, "a.yaml")); err != nil {
		t.Fatal(err)
	}
	w.awaitNothing()
	w.await("gone", "a-n1", func(p *corev1.Pod) bool { return p == nil })
}
