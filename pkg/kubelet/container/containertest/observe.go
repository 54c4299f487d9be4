// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package containertest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"minik8s.io/minik8s/pkg/kubelet/container"
)

func testVersion(t *testing.T, s Subject) {
	t.Helper()
	v, err := s.Runtime.Version(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if v.Name == "" || v.Version == "" || v.CgroupDriver == "" || v.CgroupVersion != "1" && v.CgroupVersion != "2" {
		t.Errorf("incomplete: %+v", v)
	}
	if len(v.Handlers) == 0 || v.Handlers[0].Name != "" {
		t.Errorf("the default handler is not the first: %+v", v.Handlers)
	}
	is := func(h container.Handler) bool { return h.Name == NewPod(t, s).Sandbox.Handler }
	if !slices.ContainsFunc(v.Handlers, is) {
		t.Errorf("a sandbox is run with none of %+v", v.Handlers)
	}
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Runtime.Version(canceled); !errors.Is(err, context.Canceled) {
		t.Errorf("with an ended context: %v", err)
	}
}

func testNotFound(t *testing.T, s Subject) {
	t.Helper()
	p := NewPod(t, s)
	absent := strings.Repeat("0", 64)
	withImage := p.Config("wait")
	withImage.Image = "sha256:" + absent
	near, far := net.Pipe()
	defer near.Close()
	for name, f := range map[string]func() error{
		"Inspect":         func() error { _, _, err := s.Runtime.Inspect(p.ctx, absent); return err },
		"StartContainer":  func() error { return s.Runtime.StartContainer(p.ctx, absent) },
		"UpdateContainer": func() error { return s.Runtime.UpdateContainer(p.ctx, absent, container.Resources{CPUShares: 2}) },
		"Image":           func() error { _, err := s.Runtime.Image(p.ctx, "minik8s.test/absent:1"); return err },
		"Logs": func() error {
			return s.Runtime.Logs(p.ctx, absent, container.LogOptions{Tail: -1}, io.Discard, io.Discard)
		},
		"Exec": func() error {
			_, err := s.Runtime.Exec(p.ctx, absent, container.ExecOptions{Command: []string{"x"}})
			return err
		},
		"DiskUsage":   func() error { _, err := s.Runtime.DiskUsage(p.ctx, absent); return err },
		"Attach":      func() error { return s.Runtime.Attach(p.ctx, absent, container.AttachOptions{Stdout: io.Discard}) },
		"PortForward": func() error { return s.Runtime.PortForward(p.ctx, absent, 80, far) },
		"no sandbox":  func() error { _, err := s.Runtime.CreateContainer(p.ctx, absent, p.Config("wait")); return err },
		"no image":    func() error { _, err := s.Runtime.CreateContainer(p.ctx, p.Sandbox.ID, withImage); return err },
	} {
		if err := f(); !errors.Is(err, container.ErrNotFound) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, ref := range []string{"Upper", "a b", "x:", ""} {
		if _, err := s.Runtime.Image(p.ctx, ref); !errors.Is(err, container.ErrInvalidImageName) {
			t.Errorf("Image(%q): %v", ref, err)
		}
		if _, err := s.Runtime.PullImage(p.ctx, ref, nil); !errors.Is(err, container.ErrInvalidImageName) {
			t.Errorf("PullImage(%q): %v", ref, err)
		}
	}
}

func testAdoption(t *testing.T, s Subject) {
	t.Helper()
	p := NewPod(t, s)
	running := p.Start(p.Config("wait"))
	ended := p.Config("exit", "7")
	ended.Name, ended.Type = "init", container.TypeInit
	p.Exited(p.Start(ended))

	sandboxes, containers := p.listed(p.ctx, s.Again())
	if len(sandboxes) != 1 || sandboxes[0].ID != p.Sandbox.ID || sandboxes[0].Pid != p.Sandbox.Pid || sandboxes[0].Labels["a.b/c"] != "d" {
		t.Errorf("sandboxes: %+v", sandboxes)
	}
	if len(containers) != 2 {
		t.Fatalf("containers: %+v", containers)
	}
	for _, c := range containers {
		switch c.Name {
		case "c":
			if c.ID != running || c.State != container.StateRunning || c.Pid == 0 || c.StartedAt.IsZero() || c.SandboxID != p.Sandbox.ID {
				t.Errorf("running: %+v", c)
			}
		case "init":
			if c.State != container.StateExited || c.ExitCode != 7 || c.Type != container.TypeInit || c.FinishedAt.IsZero() {
				t.Errorf("ended: %+v", c)
			}
		default:
			t.Errorf("unknown %+v", c)
		}
	}
}

// testListFollowsChanges checks that nothing stale is told.
func testListFollowsChanges(t *testing.T, s Subject) {
	t.Helper()
	p := NewPod(t, s)
	look := func(id string) (container.State, *container.Container) {
		found, err := s.Runtime.List(p.ctx)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range found {
			if f.ID == id {
				return f.State, p.Get(id)
			}
		}
		return "", nil
	}
	id := p.Start(p.Config("wait"))
	for range 2 {
		if st, c := look(id); st != container.StateRunning || c.State != st || c.Pid == 0 {
			t.Fatalf("running: %s, %+v", st, c)
		}
	}
	if err := s.Runtime.UpdateContainer(p.ctx, id, container.Resources{CPUShares: 512}); err != nil {
		t.Fatal(err)
	}
	if _, c := look(id); c.Resources.CPUShares != 512 {
		t.Errorf("resources after an update: %+v", c.Resources)
	}
	if err := s.Runtime.StopContainer(p.ctx, id, 0, ""); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if st, c := look(id); st != container.StateExited || c.State != st || c.ExitCode != 137 || c.Pid != 0 {
			t.Fatalf("stopped: %s, %+v", st, c)
		}
	}
	if err := s.Runtime.RemoveContainer(p.ctx, id); err != nil {
		t.Fatal(err)
	}
	if st, c := look(id); c != nil {
		t.Errorf("removed: %s, %+v", st, c)
	}
}

func testEvents(t *testing.T, s Subject) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	events, err := s.Runtime.Events(ctx)
	if err != nil {
		t.Fatal(err)
	}
	p := NewPod(t, s)
	id := p.Start(p.Config("wait"))
	if err := s.Runtime.UpdateContainer(p.ctx, id, container.Resources{CPUShares: 512}); err != nil {
		t.Fatal(err)
	}
	if err := s.Runtime.StopContainer(p.ctx, id, 0, ""); err != nil {
		t.Fatal(err)
	}
	if err := s.Runtime.RemoveContainer(p.ctx, id); err != nil {
		t.Fatal(err)
	}
	want := []container.EventType{container.EventCreated, container.EventStarted, container.EventUpdated, container.EventDied, container.EventRemoved}
	var got []container.EventType
	var ofSandbox []container.EventType
	timeout := time.After(patience)
	for len(got) < len(want) {
		select {
		case e, ok := <-events:
			if !ok {
				t.Fatal("the stream broke")
			}
			if e.PodUID != p.pod.UID {
				continue
			}
			switch e.ID {
			case id:
				got = append(got, e.Type)
			case p.Sandbox.ID:
				ofSandbox = append(ofSandbox, e.Type)
			}
		case <-timeout:
			t.Fatalf("got only %v", got)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if !slices.Equal(ofSandbox, want[:2]) {
		t.Errorf("of the sandbox: %v", ofSandbox)
	}
	cancel()
	for range events { // must be closed
	}
}

func testImages(t *testing.T, s Subject) {
	t.Helper()
	for _, ref := range []string{s.Ref, s.Image} {
		got, err := s.Runtime.Image(t.Context(), ref)
		if err != nil || got.ID != s.Image || got.SizeBytes == 0 {
			t.Errorf("Image(%q) = %+v, %v", ref, got, err)
		}
	}
	all, err := s.Runtime.Images(t.Context())
	if err != nil || !slices.ContainsFunc(all, func(i *container.Image) bool { return i.ID == s.Image && slices.Contains(i.RepoTags, s.Ref) }) {
		t.Errorf("Images() = %+v, %v", all, err)
	}
	if dir, err := s.Runtime.ImageDir(t.Context()); err != nil || dir == "" {
		t.Errorf("ImageDir() = %q, %v", dir, err)
	}
	if _, err := s.Runtime.PullImage(t.Context(), "127.0.0.1:1/absent:1", nil); err == nil {
		t.Error("an image was pulled from nowhere")
	}
	p := NewPod(t, s)
	id := p.Create(p.Config("wait")) // which does not run
	if used, err := s.Runtime.ImagesInUse(t.Context()); err != nil || !used[s.Image] {
		t.Errorf("ImagesInUse() = %v, %v: %s is not in it, of which there is %s", used, err, s.Image, id)
	}
}

func testImageLayers(t *testing.T, s Subject) {
	t.Helper()
	dirs, err := s.Runtime.ImageLayers(t.Context(), s.Image)
	switch {
	case errors.Is(err, errors.ErrUnsupported): // and Mount.Image is not, which takes what the image has to be seen by
	case err != nil:
		t.Errorf("ImageLayers: %v", err)
	case !slices.ContainsFunc(dirs, func(dir string) bool { return exists(filepath.Join(dir, s.Program)) }):
		t.Errorf("ImageLayers() = %q, none of which has the image's program", dirs)
	}
	if dirs, err := s.Runtime.ImageLayers(t.Context(), "sha256:"+strings.Repeat("0", 64)); !errors.Is(err, container.ErrNotFound) {
		t.Errorf("layers of an image that is not there: %q, %v", dirs, err)
	}
}

// testImageArchive saves an image and loads it again: it is the same. That it comes where it is not is for who has a second engine.
func testImageArchive(t *testing.T, s Subject) {
	t.Helper()
	if err := s.Runtime.SaveImage(t.Context(), "minik8s.test/absent:1", io.Discard); !errors.Is(err, container.ErrNotFound) {
		t.Errorf("saving an image that is not there: %v", err)
	}
	var archive bytes.Buffer
	if err := s.Runtime.SaveImage(t.Context(), s.Ref, &archive); err != nil || archive.Len() == 0 {
		t.Fatalf("SaveImage: %d bytes, %v", archive.Len(), err)
	}
	if err := s.Runtime.LoadImage(t.Context(), bytes.NewReader(archive.Bytes()[:archive.Len()/2])); err == nil {
		t.Error("half an archive was loaded")
	}
	broken := errors.New("broken")
	if err := s.Runtime.LoadImage(t.Context(), io.MultiReader(bytes.NewReader(archive.Bytes()), iotest.ErrReader(broken))); err == nil {
		t.Error("an archive was loaded whose end could not be read")
	}
	if err := s.Runtime.LoadImage(t.Context(), &archive); err != nil {
		t.Errorf("LoadImage: %v", err)
	}
	if got, err := s.Runtime.Image(t.Context(), s.Ref); err != nil || got.ID != s.Image {
		t.Errorf("Image(%q) = %+v, %v", s.Ref, got, err)
	}
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
