// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package source

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	coreinformers "k8s.io/client-go/informers/core/v1"
	clientfake "k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"minik8s.io/minik8s/pkg/kubelet/internal/staticpod"
)

// origin is what a Source takes its pods from.
type origin interface {
	// open returns the source; what it needs beside Start is there.
	open(t *testing.T) Source
	// put makes a pod of that name, or gives it another image.
	put(t *testing.T, name, image string)
	remove(t *testing.T, name string)
}

const shortPeriod = 20 * time.Millisecond

func manifestOf(name, image string) *corev1.Pod {
	return &corev1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: image}}},
	}
}

type apiOrigin struct{ client *clientfake.Clientset }

func (a *apiOrigin) open(t *testing.T) Source {
	t.Helper()
	informer := coreinformers.NewPodInformer(a.client, metav1.NamespaceAll, 0, cache.Indexers{})
	s, err := NewAPI(informer, "n1")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { informer.RunWithContext(ctx) })
	t.Cleanup(func() { cancel(); wg.Wait() })
	return s
}

func (a *apiOrigin) put(t *testing.T, name, image string) {
	t.Helper()
	a.remove(t, name)
	p := manifestOf(name+"-n1", image)
	p.Namespace, p.UID, p.Spec.NodeName = "default", types.UID(name+image), "n1"
	if _, err := a.client.CoreV1().Pods("default").Create(t.Context(), p, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func (a *apiOrigin) remove(t *testing.T, name string) {
	t.Helper()
	_ = a.client.CoreV1().Pods("default").Delete(t.Context(), name+"-n1", metav1.DeleteOptions{}) // it may not be there
}

type fileOrigin struct {
	dir    string
	period time.Duration
}

func (f *fileOrigin) open(*testing.T) Source {
	return NewFile(FileConfig{Path: f.dir, Node: "n1", Period: f.period, Clock: clock.RealClock{}})
}

func (f *fileOrigin) put(t *testing.T, name, image string) {
	t.Helper()
	data, err := json.Marshal(manifestOf(name, image))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(f.dir, name), data, 0o600); err != nil {
		t.Fatal(err)
	}
}

func (f *fileOrigin) remove(t *testing.T, name string) {
	t.Helper()
	if err := os.Remove(filepath.Join(f.dir, name)); err != nil {
		t.Fatal(err)
	}
}

type httpOrigin struct {
	mu   sync.Mutex
	pods map[string]*corev1.Pod
}

func (h *httpOrigin) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	h.mu.Lock()
	defer h.mu.Unlock()
	list := corev1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}}
	for _, p := range h.pods {
		list.Items = append(list.Items, *p)
	}
	_ = json.NewEncoder(w).Encode(list)
}

func (h *httpOrigin) open(t *testing.T) Source {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	return NewHTTP(HTTPConfig{URL: server.URL, Node: "n1", Period: shortPeriod, Clock: clock.RealClock{}})
}

func (h *httpOrigin) put(_ *testing.T, name, image string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.pods[name] = manifestOf(name, image)
}

func (h *httpOrigin) remove(_ *testing.T, name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.pods, name)
}

// heard collects what a source tells of.
type heard struct {
	mu   sync.Mutex
	uids []types.UID
}

func (h *heard) changed(uid types.UID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.uids = append(h.uids, uid)
}

func (h *heard) of(uid types.UID) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Contains(h.uids, uid)
}

func (h *heard) forget() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.uids = nil
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(15 * time.Second); !ok(); <-time.After(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not in time: %s", what)
		}
	}
}

// runSource starts a source until the test ends.
func runSource(t *testing.T, s Source, h *heard) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	if err := s.Start(ctx, h.changed); err != nil {
		t.Fatal(err)
	}
	stop = func() { cancel(); s.Wait() }
	t.Cleanup(stop)
	eventually(t, "it is synced", s.Synced)
	return stop
}

// images are the pods of a source by name.
func images(s Source) map[string]string {
	out := map[string]string{}
	for _, p := range s.Pods() {
		out[p.Name] = p.Spec.Containers[0].Image
	}
	return out
}

func uidOf(t *testing.T, s Source, name string) types.UID {
	t.Helper()
	for _, p := range s.Pods() {
		if p.Name == name {
			return p.UID
		}
	}
	t.Fatalf("there is no pod %q", name)
	return ""
}

// TestSources is what each Source must do.
func TestSources(t *testing.T) {
	for name, open := range map[string]func(t *testing.T) origin{
		staticpod.API: func(*testing.T) origin { return &apiOrigin{client: clientfake.NewClientset()} },
		// Of the two, only the second may wait for its period.
		staticpod.File: func(t *testing.T) origin { t.Helper(); return &fileOrigin{dir: t.TempDir(), period: time.Hour} },
		"file, not watched": func(t *testing.T) origin {
			t.Helper()
			return &unwatched{fileOrigin{dir: t.TempDir(), period: shortPeriod}}
		},
		staticpod.HTTP: func(*testing.T) origin { return &httpOrigin{pods: map[string]*corev1.Pod{}} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := open(t)
			o.put(t, "a", "i")
			s, h := o.open(t), &heard{}
			if s.Synced() {
				t.Error("it is synced before it has begun")
			}
			stop := runSource(t, s, h)
			has := func(want map[string]string) {
				t.Helper()
				eventually(t, "the pods", func() bool { return cmp.Equal(want, images(s)) })
				for _, p := range s.Pods() {
					eventually(t, "it tells of the pod", func() bool { return h.of(p.UID) })
					if s.Pod(p.UID) != p && !cmp.Equal(s.Pod(p.UID), p) || p.Spec.NodeName != "n1" || staticpod.Source(p) != s.Name() {
						t.Errorf("%s is %+v", p.UID, p)
					}
				}
			}
			has(map[string]string{"a-n1": "i"})
			a := uidOf(t, s, "a-n1")
			o.put(t, "b", "i")
			has(map[string]string{"a-n1": "i", "b-n1": "i"})
			if now := uidOf(t, s, "a-n1"); now != a {
				t.Errorf("the uid of a changed from %s to %s with another pod", a, now)
			}
			h.forget()
			o.put(t, "a", "j")
			eventually(t, "it tells that the old form went", func() bool { return h.of(a) })
			eventually(t, "the new form", func() bool { return cmp.Equal(map[string]string{"a-n1": "j", "b-n1": "i"}, images(s)) })
			if s.Pod(a) != nil {
				t.Error("another form has the same uid")
			}
			b := uidOf(t, s, "b-n1")
			o.remove(t, "b")
			eventually(t, "one is gone", func() bool { return cmp.Equal(map[string]string{"a-n1": "j"}, images(s)) && h.of(b) })
			stop()
			h.forget()
			o.put(t, "c", "i")
			if h.of("c") || len(h.uids) > 0 {
				t.Errorf("after its end it tells of %v", h.uids)
			}
		})
	}
}

// unwatched is a folder that is not there when the source begins, so that it has to find out by itself.
type unwatched struct{ fileOrigin }

func (u *unwatched) open(t *testing.T) Source {
	t.Helper()
	hidden := u.dir + ".later"
	if err := os.Rename(u.dir, hidden); err != nil {
		t.Fatal(err)
	}
	s := u.fileOrigin.open(t)
	t.Cleanup(func() { _ = os.RemoveAll(u.dir) })
	time.AfterFunc(5*shortPeriod, func() { _ = os.Rename(hidden, u.dir) })
	return s
}

// TestAPI_Mirrors: mirror pods are not of the API's pods, whatever happens to them.
func TestAPI_Mirrors(t *testing.T) {
	o := &apiOrigin{client: clientfake.NewClientset()}
	m := manifestOf("m", "i")
	m.Namespace, m.UID, m.Spec.NodeName, m.Annotations = "default", "mu", "n1", map[string]string{corev1.MirrorPodAnnotationKey: "x"}
	if _, err := o.client.CoreV1().Pods("default").Create(t.Context(), m, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	s, h := o.open(t), &heard{}
	runSource(t, s, h)
	o.put(t, "a", "i")
	eventually(t, "the pod", func() bool { return h.of("ai") })
	if s.Pod("mu") != nil || len(s.Pods()) != 1 || h.of("mu") {
		t.Errorf("the mirror is a pod: %v", images(s))
	}
}
