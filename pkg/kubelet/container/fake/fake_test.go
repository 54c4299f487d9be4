// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package fake

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"minik8s.io/minik8s/pkg/kubelet/container"
	"minik8s.io/minik8s/pkg/kubelet/container/containertest"
	"minik8s.io/minik8s/pkg/kubelet/container/containertest/program"
)

// eofReader is the stdin of a command that has none.
type eofReader struct{}

func (eofReader) Read([]byte) (int, error) { return 0, io.EOF }

func TestContract(t *testing.T) {
	var mu sync.Mutex
	refused := map[string]bool{}
	var r *Runtime
	r = New(Config{
		Program: func(c container.ContainerConfig) Program {
			return func(ctx context.Context, p Process) int {
				return program.Run(ctx, program.Process{
					Args: c.Args, Env: c.Env, Stdin: p.Stdin, Stdout: p.Stdout, Stderr: p.Stderr, Signals: p.Signals, Listen: p.Listen,
				})
			}
		},
		Exec: func(ctx context.Context, c *container.Container, o container.ExecOptions) (int, error) {
			p := program.Process{Args: o.Command[1:], Stdin: o.Stdin, Stdout: o.Stdout, Stderr: o.Stderr}
			if p.Stdin == nil {
				p.Stdin = eofReader{}
			}
			if p.Stdout == nil {
				p.Stdout = io.Discard
			}
			if p.Stderr == nil {
				p.Stderr = io.Discard
			}
			p.Listen = r.Listen(c.SandboxID)
			return program.Run(ctx, p), nil
		},
	})
	r.Before(func(c Call) error {
		mu.Lock()
		defer mu.Unlock()
		if c.Op == "StartContainer" && refused[string(c.Pod.UID)] {
			return errors.New("no such program")
		}
		return nil
	})
	img := r.AddImage("minik8s.test/program:1", nil)
	layer := t.TempDir()
	if err := os.WriteFile(filepath.Join(layer, "program"), nil, 0o755); err != nil {
		t.Fatal(err)
	}
	r.LayImage(img.ID, layer)
	containertest.Run(t, containertest.Subject{
		Runtime: r, Image: img.ID, Ref: "minik8s.test/program:1", Program: "/program",
		Again: func() container.Runtime { return r },
		Refuse: func(c *container.ContainerConfig) {
			mu.Lock()
			defer mu.Unlock()
			refused[string(c.Pod.UID)] = true
		},
	})
}

func pod(t *testing.T, r *Runtime) (sandbox *container.Sandbox, id string) {
	t.Helper()
	p := container.Pod{UID: "u", Namespace: "n", Name: "p"}
	made, err := r.CreateSandbox(t.Context(), container.SandboxConfig{Pod: p})
	if err == nil {
		sandbox, err = r.StartSandbox(t.Context(), made)
	}
	if err != nil {
		t.Fatal(err)
	}
	id, err = r.CreateContainer(t.Context(), sandbox.ID, container.ContainerConfig{Pod: p, Name: "c", Image: r.AddImage("x", nil).ID})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.StartContainer(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	return sandbox, id
}

func TestLevers(t *testing.T) {
	r := New(Config{})
	events, err := r.Events(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	sandbox, id := pod(t, r)
	r.OOMKill(id)
	if c := r.Find("u", "c"); c.ExitCode != 137 || !c.OOMKilled || c.State != container.StateExited {
		t.Errorf("after OOMKill: %+v", c)
	}
	r.KillSandbox(sandbox.ID)
	if s := r.FindSandbox("u"); s.State != container.StateExited {
		t.Errorf("after KillSandbox: %+v", s)
	}
	if got := r.Calls("StartContainer"); len(got) != 1 || got[0].ID != id || got[0].Container != "c" {
		t.Errorf("calls: %+v", got)
	}
	boom := errors.New("boom")
	r.FailOnce("List", boom)
	if _, err := r.List(t.Context()); !errors.Is(err, boom) {
		t.Errorf("FailOnce: %v", err)
	}
	if _, err := r.List(t.Context()); err != nil {
		t.Errorf("after FailOnce: %v", err)
	}
	r.SetUnavailable(true)
	if _, err := r.Version(t.Context()); !errors.Is(err, container.ErrUnavailable) {
		t.Errorf("away: %v", err)
	}
	n := 0
	for range events { // broken by the engine's going away
		n++
	}
	if n != 6 { // sandbox created, started, died; container likewise
		t.Errorf("%d events", n)
	}
	r.SetUnavailable(false)
	if _, err := r.Version(t.Context()); err != nil {
		t.Errorf("back: %v", err)
	}
}

func TestPull(t *testing.T) {
	r := New(Config{})
	auth := &container.RegistryAuth{Username: "u", Password: "p"}
	r.Publish("example.com/private:1", auth)
	if _, err := r.PullImage(t.Context(), "example.com/private:1", nil); err == nil {
		t.Error("pulled without the login")
	}
	img, err := r.PullImage(t.Context(), "example.com/private:1", auth)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := r.Image(t.Context(), "example.com/private:1"); err != nil || got.ID != img.ID {
		t.Errorf("got %+v, %v", got, err)
	}
}
