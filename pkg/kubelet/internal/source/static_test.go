// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package source

import (
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"minik8s.io/minik8s/pkg/kubelet/internal/staticpod"
)

const webManifest = "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec: {containers: [{name: c, image: i}]}\n"

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestFile_Hostile: what is no good is named and does not harm the good, nor hold them up.
func TestFile_Hostile(t *testing.T) {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	write(t, in("web.yaml"), webManifest)
	write(t, in("double.yaml"), strings.Replace(webManifest, "image: i", "image: j", 1))
	write(t, in(".hidden"), "no manifest")
	write(t, in("broken"), "{")
	write(t, in("path"), strings.Replace(webManifest, "name: web", "name: ../web", 1))
	if err := errors.Join(
		unix.Mkfifo(in("pipe"), 0o600), os.Mkdir(in("folder"), 0o700), os.Symlink(in("web.yaml"), in("link")),
		os.Symlink("/dev/zero", in("zero")), os.Truncate(in("path"), 0), os.WriteFile(in("huge"), nil, 0o600), os.Truncate(in("huge"), 1<<40),
	); err != nil {
		t.Fatal(err)
	}
	socket, err := net.Listen("unix", in("socket")) //nolint:noctx // it is done at once
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	f := NewFile(FileConfig{Path: dir, Node: "n1", Clock: clock.RealClock{}})
	err = f.look(func(types.UID) {})
	if err == nil {
		t.Fatal("no error")
	}
	if got := images(f); !cmp.Equal(got, map[string]string{"web-n1": "j"}) {
		t.Errorf("pods %v", got) // double.yaml comes first
	}
	for _, name := range []string{"broken", "path", "pipe", "folder", "link", "zero", "huge", "socket"} {
		if !strings.Contains(err.Error(), in(name)+":") {
			t.Errorf("%s is not named", name)
		}
	}
	if !strings.Contains(err.Error(), "web-n1") || strings.Contains(err.Error(), "hidden") {
		t.Error("the pod that is there twice is not named, or a hidden file is")
	}
	if t.Failed() {
		t.Log(err)
	}
	// The path itself may be one file, which is no more trusted.
	for name, want := range map[string]int{"web.yaml": 1, "pipe": 0, "huge": 0, "none": 0} {
		f := NewFile(FileConfig{Path: in(name), Node: "n1", Clock: clock.RealClock{}})
		err := f.look(func(types.UID) {})
		if bad := name == "pipe" || name == "huge"; (err != nil) != bad || len(f.Pods()) != want || !f.Synced() {
			t.Errorf("%s: pods %v, error %v", name, images(f), err)
		}
	}
}

// TestFile_HalfWritten: a manifest that turns bad keeps its pod for a period, and no longer.
func TestFile_HalfWritten(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "web")
	write(t, path, webManifest)
	fake := clocktesting.NewFakeClock(time.Unix(1000, 0))
	f := NewFile(FileConfig{Path: dir, Node: "n1", Period: 20 * time.Second, Clock: fake})
	look := func(wantErr bool, want int) {
		t.Helper()
		if err := f.look(func(types.UID) {}); (err != nil) != wantErr || len(f.Pods()) != want {
			t.Errorf("pods %v, error %v", images(f), err)
		}
	}
	look(false, 1)
	uid := f.Pods()[0].UID
	write(t, path, webManifest[:20])
	look(true, 1)
	fake.Step(19 * time.Second)
	look(true, 1)
	write(t, path, webManifest)
	look(false, 1)
	if f.Pod(uid) == nil {
		t.Error("it is another pod now")
	}
	write(t, path, "")
	look(true, 1)
	fake.Step(20 * time.Second)
	look(true, 0)
	write(t, path, webManifest)
	look(false, 1)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	look(false, 0)
}

// TestFile_Unreadable: while the folder cannot be read, nothing is known, and what is known stays.
func TestFile_Unreadable(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "web"), webManifest)
	f := NewFile(FileConfig{Path: filepath.Join(dir, "web", "x"), Node: "n1", Clock: clock.RealClock{}}) // a file is no folder
	if err := f.look(func(types.UID) {}); err == nil || f.Synced() {
		t.Errorf("synced %v, error %v", f.Synced(), err)
	}
	f.cfg.Path = dir
	if err := f.look(func(types.UID) {}); err != nil || !f.Synced() || len(f.Pods()) != 1 {
		t.Errorf("pods %v, error %v", images(f), err)
	}
	f.cfg.Path = filepath.Join(dir, "web", "x")
	if err := f.look(func(types.UID) {}); err == nil || len(f.Pods()) != 1 {
		t.Errorf("pods %v, error %v", images(f), err)
	}
}

// TestHTTP: what answers badly, slowly, or without an end changes nothing.
func TestHTTP(t *testing.T) {
	var answer atomic.Pointer[http.HandlerFunc]
	set := func(f http.HandlerFunc) { answer.Store(&f) }
	text := func(body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, body) }
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { (*answer.Load())(w, r) }))
	defer server.Close()
	h := NewHTTP(HTTPConfig{
		URL: server.URL, Header: map[string][]string{"x-token": {"a", "b"}, "host": {"other"}}, Node: "n1", Clock: clock.RealClock{},
	})
	h.client.Timeout = 200 * time.Millisecond
	for _, tc := range []struct {
		name   string
		answer http.HandlerFunc
		want   int // pods; -1 for an error
	}{
		{"a pod", text(webManifest), 1},
		{"with its header", func(w http.ResponseWriter, r *http.Request) {
			if cmp.Equal(r.Header["X-Token"], []string{"a", "b"}) && r.Host == "other" {
				_, _ = io.WriteString(w, webManifest)
			}
		}, 1},
		{"nothing", text(""), 0},
		{"an empty list", text(`{"apiVersion":"v1","kind":"PodList"}`), 0},
		{"an error", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, webManifest, http.StatusTeapot) }, -1},
		{"no manifest", text("<html>"), -1},
		{"two of one name", text(`{"apiVersion":"v1","kind":"PodList","items":[{"metadata":{"name":"a"},"spec":{"containers":[{"name":"c","image":"i"}]}},` +
			`{"metadata":{"name":"a"},"spec":{"containers":[{"name":"c","image":"j"}]}}]}`), -1},
		{"no end", func(w http.ResponseWriter, r *http.Request) {
			for data := []byte(strings.Repeat("#", 1<<16)); r.Context().Err() == nil; {
				if _, err := w.Write(data); err != nil {
					return
				}
			}
		}, -1},
		{"no answer", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, -1},
		{"half an answer", func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, webManifest[:10])
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		}, -1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			set(tc.answer)
			pods, err := h.ask(t.Context())
			if (err != nil) != (tc.want < 0) || err == nil && len(pods) != tc.want {
				t.Errorf("%d pods, error %v", len(pods), err)
			}
		})
	}
	set(text(webManifest))
	h.cfg.Period, h.cfg.Header = shortPeriod, nil
	told := &heard{}
	runSource(t, h, told)
	uid := uidOf(t, h, "web-n1")
	var asked atomic.Int32
	set(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		http.Error(w, "", http.StatusInternalServerError)
	})
	eventually(t, "it asks again and again", func() bool { return asked.Load() > 2 })
	if h.Pod(uid) == nil {
		t.Error("the last good answer does not count any more")
	}
	set(text(""))
	eventually(t, "the pod is gone", func() bool { return h.Pod(uid) == nil })
}

func staticPod(uid types.UID, name, source string) *corev1.Pod {
	p := pod(uid)
	p.Name, p.Annotations = name, map[string]string{"kubernetes.io/config.source": source}
	return p
}

// other is a second source of the world.
type other struct{ *manifests }

func (o other) Name() string { return staticpod.File }
func (o other) Wait()        {}

// TestIntake_Static: a static pod waits for the one before it, is shown, and needs no API server.
func TestIntake_Static(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{room: 9, freshRoom: 9}
		files := &manifests{}
		files.replace([]*corev1.Pod{staticPod("s1", "s", staticpod.File)})
		w.more = []Source{otherSource{other{files}, w}}
		i := w.start(t, []*corev1.Pod{pod("a"), staticPod("gone", "gone", staticpod.File), staticPod("web", "web", staticpod.HTTP)})
		<-time.After(2 * time.Second)
		expect(t, "all might answer", w.settle())
		<-time.After(2 * time.Second)
		expect(t, "the API does not", w.settle(), "stop gone", "remove gone", "stop web", "remove web", "run s1", "show s", "run a")
		if p, complete := i.Static(types.NamespacedName{Name: "s"}); p == nil || complete {
			t.Errorf("%v, complete %v", p, complete)
		}

		// The manifest changes while the old form takes its time.
		w.lingers = true
		for _, uid := range files.replace([]*corev1.Pod{staticPod("s2", "s", staticpod.File)}) {
			w.tell(uid)
			synctest.Wait()
		}
		got := w.settle()
		if !cmp.Equal(got, []string{"show s", "stop s1", "remove s1"}) && !cmp.Equal(got, []string{"stop s1", "remove s1", "show s"}) {
			t.Errorf("%v", got)
		}
		if p, _ := i.Static(types.NamespacedName{Name: "s"}); p == nil || p.UID != "s1" {
			t.Errorf("%v is shown, not the one that runs", p)
		}
		w.leave("s1")
		i.Left(staticPod("s1", "s", staticpod.File))
		expect(t, "the old form has left", w.settle(), "show s", "run s2", "show s", "gone s1")

		// The API answers at last.
		w.locked(func() bool { w.synced = true; return true })
		<-time.After(time.Second)
		expect(t, "an answer", w.settle(), "stop a", "remove a")
		if p, complete := i.Static(types.NamespacedName{Name: "x"}); p != nil || !complete {
			t.Errorf("%v, complete %v", p, complete)
		}
		if names := i.Names(); len(names) == 0 || names[0].Name != "s" {
			t.Errorf("names %v", names)
		}
	})
}

// TestIntake_BackAgain: a static pod that leaves and whose manifest is there again is run anew.
func TestIntake_BackAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{synced: true, room: 9, freshRoom: 9, lingers: true}
		files := &manifests{}
		s := staticPod("s1", "s", staticpod.File)
		files.replace([]*corev1.Pod{s})
		w.more = []Source{otherSource{other{files}, w}}
		i := w.start(t, nil)
		<-time.After(time.Second)
		expect(t, "it runs", w.settle(), "run s1", "show s")
		files.replace(nil)
		w.tell("s1")
		expect(t, "it goes", w.settle(), "stop s1", "remove s1")
		files.replace([]*corev1.Pod{s})
		w.tell("s1")
		w.settle()
		w.leave("s1")
		i.Left(s)
		expect(t, "it is back", w.settle(), "show s", "run s1", "count a restart, static true", "show s")
	})
}

// TestIntake_Renewed: a static pod whose manifest was away for a moment is run anew, once.
func TestIntake_Renewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{synced: true, room: 9, freshRoom: 9, lingers: true}
		files := &manifests{}
		s := staticPod("s1", "s", staticpod.File)
		files.replace([]*corev1.Pod{s})
		w.more = []Source{otherSource{other{files}, w}}
		i := w.start(t, nil)
		<-time.After(time.Second)
		expect(t, "it runs", w.settle(), "run s1", "show s")
		if changed := files.replace([]*corev1.Pod{s}, "s1"); !slices.Equal(changed, []types.UID{"s1"}) {
			t.Errorf("it tells of %v", changed)
		}
		w.tell("s1")
		expect(t, "it goes, and is said to be back", w.settle(), "stop s1", "remove s1", "run s1", "show s")
		w.leave("s1")
		i.Left(s)
		expect(t, "it is back", w.settle(), "show s", "run s1", "count a restart, static true", "show s")
		if changed := files.replace([]*corev1.Pod{s}); len(changed) > 0 {
			t.Errorf("it tells again of %v", changed)
		}
	})
}

// TestIntake_RenewedRefused: that a manifest was away is of no account once its pod, which did not run then, does.
func TestIntake_RenewedRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{synced: true}
		files := &manifests{}
		s := staticPod("s1", "s", staticpod.File)
		files.replace([]*corev1.Pod{s})
		w.more = []Source{otherSource{other{files}, w}}
		w.start(t, nil)
		<-time.After(time.Minute)
		expect(t, "no room", w.settle(), "show s", "refuse s1", "show s")
		files.replace([]*corev1.Pod{s}, "s1")
		w.tell("s1")
		w.settle()
		if files.Renewed("s1") {
			t.Error("it would end the pod that runs in the meantime")
		}
	})
}

// TestFile_Rewritten: a manifest that is removed and written again before anybody looks is another one, a manifest that is replaced by
// the same is not.
func TestFile_Rewritten(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "web.yaml")
	write(t, path, webManifest)
	f, h := NewFile(FileConfig{Path: dir, Node: "n1", Period: time.Hour, Clock: clock.RealClock{}}), &heard{}
	runSource(t, f, h)
	uid := uidOf(t, f, "web-n1")
	if f.Renewed(uid) {
		t.Error("it is renewed at the start")
	}
	h.forget()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	write(t, path, webManifest)
	eventually(t, "it tells of it", func() bool { return h.of(uid) })
	if !f.Renewed(uid) || f.Renewed(uid) {
		t.Error("it is not renewed once")
	}
	h.forget()
	write(t, filepath.Join(dir, ".new"), webManifest)
	if err := os.Rename(filepath.Join(dir, ".new"), path); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "other.yaml"), strings.Replace(webManifest, "name: web", "name: other", 1))
	eventually(t, "it has seen the other", func() bool { return len(f.Pods()) == 2 })
	if h.of(uid) || f.Renewed(uid) {
		t.Error("one that is replaced by the same is renewed")
	}
}

// TestIntake_RefusedStatic: a static pod that is refused is shown, and so is that it went.
func TestIntake_RefusedStatic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{synced: true}
		files := &manifests{}
		files.replace([]*corev1.Pod{staticPod("s1", "s", staticpod.File)})
		w.more = []Source{otherSource{other{files}, w}}
		w.start(t, nil)
		<-time.After(time.Minute)
		expect(t, "no room", w.settle(), "show s", "refuse s1", "show s")
		files.replace(nil)
		w.tell("s1")
		expect(t, "it went", w.settle(), "show s", "gone s1")
	})
}

func TestDistinct(t *testing.T) {
	p := func(uid types.UID, ns, name string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: uid, Namespace: ns, Name: name}}
	}
	for name, tc := range map[string]struct {
		second *corev1.Pod
		want   int
	}{
		"another": {p("2", "ns", "b"), 2}, "another namespace": {p("2", "other", "a"), 2},
		"the name": {p("2", "ns", "a"), 1}, "the uid": {p("1", "ns", "b"), 1},
	} {
		got, err := distinct([]*corev1.Pod{p("1", "ns", "a"), tc.second})
		if len(got) != tc.want || (err != nil) != (tc.want == 1) {
			t.Errorf("%s: %d pods, %v", name, len(got), err)
		}
	}
}
