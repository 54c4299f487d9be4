// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package containertest

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"minik8s.io/minik8s/pkg/kubelet/container"
)

func testSandbox(t *testing.T, s Subject) {
	t.Helper()
	p := NewPod(t, s)
	if got := p.Sandbox; got.State != container.StateRunning || got.Pid == 0 || got.Pod != p.pod || got.Labels["a.b/c"] != "d" ||
		got.Network != container.NamespacePod || time.Since(got.CreatedAt).Abs() > time.Hour {
		t.Errorf("got %+v", got)
	}
	again, err := p.sandbox(container.SandboxConfig{Pod: p.pod, Hostname: "pod"})
	if err != nil || again.ID != p.Sandbox.ID {
		t.Errorf("creating it again: %v, %v", again, err)
	}
	second, err := p.sandbox(container.SandboxConfig{Pod: p.pod, Attempt: 1, Hostname: "pod"})
	if err != nil || second.ID == p.Sandbox.ID || second.Attempt != 1 {
		t.Errorf("a second attempt: %+v, %v", second, err)
	}
	for range 2 {
		if err := s.Runtime.StopSandbox(p.ctx, p.Sandbox.ID); err != nil {
			t.Errorf("StopSandbox: %v", err)
		}
	}
	got, _, err := s.Runtime.Inspect(p.ctx, p.Sandbox.ID)
	if err != nil || got == nil || got.State != container.StateExited || got.Pid != 0 {
		t.Errorf("after stopping: %+v, %v", got, err)
	}
	replaced, err := p.sandbox(container.SandboxConfig{Pod: p.pod, Hostname: "pod"})
	if err != nil || replaced.ID == p.Sandbox.ID || replaced.State != container.StateRunning {
		t.Errorf("a stopped one is not replaced: %+v, %v", replaced, err)
	}
}

// testAhead: a container is made while its sandbox does not run yet, and started when that does.
func testAhead(t *testing.T, s Subject) {
	t.Helper()
	p := NewPod(t, s)
	sandbox, err := s.Runtime.CreateSandbox(p.ctx, container.SandboxConfig{Pod: p.pod, Attempt: 1, Hostname: "pod"})
	if err != nil {
		t.Fatal(err)
	}
	id, err := s.Runtime.CreateContainer(p.ctx, sandbox, p.Config("exit", "0"))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Runtime.StartContainer(p.ctx, id); !errors.Is(err, container.ErrNotRunning) {
		t.Errorf("StartContainer before StartSandbox: %v", err)
	}
	for range 2 {
		if got, err := s.Runtime.StartSandbox(p.ctx, sandbox); err != nil || got.ID != sandbox || got.State != container.StateRunning {
			t.Errorf("StartSandbox: %+v, %v", got, err)
		}
	}
	if err := s.Runtime.StartContainer(p.ctx, id); err != nil {
		t.Fatal(err)
	}
	if got := p.Exited(id); got.ExitCode != 0 || got.SandboxID != sandbox {
		t.Errorf("exited: %+v", got)
	}
}

func testHandler(t *testing.T, s Subject) {
	t.Helper()
	p := NewPod(t, s, func(c *container.SandboxConfig) { c.Handler = "runc" })
	id := p.Create(p.Config("exit", "0"))
	if err := s.Runtime.StartContainer(p.ctx, id); err != nil {
		t.Fatal(err)
	}
	if got := p.Exited(id); got.ExitCode != 0 {
		t.Errorf("exited: %+v", got)
	}
	unknown := container.SandboxConfig{Pod: p.pod, Attempt: 1, Hostname: "pod", Handler: "no-such-handler"}
	if _, err := p.sandbox(unknown); err == nil || !strings.Contains(err.Error(), unknown.Handler) {
		t.Errorf("unknown handler: %v", err)
	}
}

func testContainerLife(t *testing.T, s Subject) {
	t.Helper()
	p := NewPod(t, s)
	c := p.Config("exit", "3")
	c.Attempt, c.TerminationMount = 4, "/somewhere"
	c.Resources = container.Resources{CPUShares: 200, MemoryBytes: 64 << 20}
	id := p.Create(c)
	got := p.Get(id)
	if got.State != container.StateCreated || got.Name != "c" || got.Pod != p.pod || got.SandboxID != p.Sandbox.ID || got.Attempt != 4 ||
		got.Hash != "h" || got.Type != container.TypeRegular || got.ImageRef != s.Ref || got.TerminationMessageFile != "/somewhere" ||
		got.Labels["x/y"] != "z" || got.Resources != c.Resources || !got.StartedAt.IsZero() || !got.FinishedAt.IsZero() {
		t.Errorf("created: %+v", got)
	}
	if !strings.HasPrefix(got.ImageID, "docker://sha256:") && !strings.HasPrefix(got.ImageID, "docker-pullable://") {
		t.Errorf("image id %q", got.ImageID)
	}
	if err := s.Runtime.StartContainer(p.ctx, id); err != nil {
		t.Fatal(err)
	}
	got = p.Exited(id)
	if got.ExitCode != 3 || got.OOMKilled || got.Message != "" || got.StartedAt.IsZero() || got.FinishedAt.Before(got.StartedAt) || got.Pid != 0 {
		t.Errorf("exited: %+v", got)
	}
	if err := s.Runtime.RemoveContainer(p.ctx, id); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.Runtime.Inspect(p.ctx, id); !errors.Is(err, container.ErrNotFound) {
		t.Errorf("after removal: %v", err)
	}
}

func testCreateIsIdempotent(t *testing.T, s Subject) {
	t.Helper()
	p := NewPod(t, s)
	first := p.Create(p.Config("wait"))
	if again := p.Create(p.Config("wait")); again != first {
		t.Errorf("the same container was made twice: %s, %s", first, again)
	}
	changed := p.Config("wait")
	changed.Hash = "other"
	second := p.Create(changed)
	if second == first {
		t.Error("a container of another spec was taken for the same")
	}
	if err := s.Runtime.StartContainer(p.ctx, second); err != nil {
		t.Fatal(err)
	}
	if again := p.Create(changed); again != second {
		t.Error("a running container was replaced")
	}
	if again, err := s.Again().CreateContainer(p.ctx, p.Sandbox.ID, changed); err != nil || again != second {
		t.Errorf("a running container was replaced after a restart: %s, %v", again, err)
	}
	if err := s.Runtime.StartContainer(p.ctx, second); err != nil {
		t.Errorf("starting it again: %v", err)
	}
	if got := p.Get(second); got.State != container.StateRunning || got.Pid == 0 || got.StartedAt.IsZero() {
		t.Errorf("running: %+v", got)
	}
}

func testStopGraceful(t *testing.T, s Subject) {
	t.Helper()
	p := NewPod(t, s)
	c := p.Config("serve", "8080")
	id := p.Start(c)
	p.awaitLog(id, "serving")
	for range 2 {
		if err := s.Runtime.StopContainer(p.ctx, id, patience, ""); err != nil {
			t.Fatal(err)
		}
	}
	if got := p.Get(id); got.State != container.StateExited || got.ExitCode != 0 {
		t.Errorf("got %+v", got)
	}
}

func testStopKills(t *testing.T, s Subject) {
	t.Helper()
	for _, grace := range []time.Duration{0, 100 * time.Millisecond} {
		t.Run(grace.String(), func(t *testing.T) {
			p := NewPod(t, s)
			id := p.Start(p.Config("stubborn"))
			p.awaitLog(id, "ready")
			if err := s.Runtime.StopContainer(p.ctx, id, grace, ""); err != nil {
				t.Fatal(err)
			}
			if got := p.Get(id); got.State != container.StateExited || got.ExitCode != 137 || got.OOMKilled {
				t.Errorf("got %+v", got)
			}
		})
	}
}

func testStopEndsWithContext(t *testing.T, s Subject) {
	t.Helper()
	p := NewPod(t, s)
	id := p.Start(p.Config("stubborn"))
	p.awaitLog(id, "ready")
	ctx, cancel := context.WithTimeout(p.ctx, 100*time.Millisecond)
	defer cancel()
	if err := s.Runtime.StopContainer(ctx, id, patience, ""); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("got %v", err)
	}
	if got := p.Get(id); got.State != container.StateRunning {
		t.Errorf("got %+v", got)
	}
	// The grace period was cut short by somebody.
	if err := s.Runtime.StopContainer(p.ctx, id, 0, ""); err != nil {
		t.Fatal(err)
	}
}

func testAbsenceIsSuccess(t *testing.T, s Subject) {
	t.Helper()
	ctx := t.Context()
	absent := strings.Repeat("0", 64)
	for name, err := range map[string]error{
		"StopSandbox":     s.Runtime.StopSandbox(ctx, absent),
		"RemoveSandbox":   s.Runtime.RemoveSandbox(ctx, absent),
		"StopContainer":   s.Runtime.StopContainer(ctx, absent, time.Second, ""),
		"RemoveContainer": s.Runtime.RemoveContainer(ctx, absent),
		"RemoveImage":     s.Runtime.RemoveImage(ctx, "minik8s.test/absent:1"),
	} {
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func testDeadSandbox(t *testing.T, s Subject) {
	t.Helper()
	p := NewPod(t, s)
	made := p.Create(p.Config("wait"))
	if err := s.Runtime.StopSandbox(p.ctx, p.Sandbox.ID); err != nil {
		t.Fatal(err)
	}
	if err := s.Runtime.StartContainer(p.ctx, made); !errors.Is(err, container.ErrNotRunning) {
		t.Errorf("StartContainer: %v", err)
	}
	near, far := net.Pipe()
	defer near.Close()
	if err := s.Runtime.PortForward(p.ctx, p.Sandbox.ID, 80, far); err == nil {
		t.Error("PortForward: no error")
	}
}

func testStartRefused(t *testing.T, s Subject) {
	t.Helper()
	p := NewPod(t, s)
	c := p.Config("wait")
	s.Refuse(&c)
	id := p.Create(c)
	err := s.Runtime.StartContainer(p.ctx, id)
	if err == nil {
		t.Fatal("no error")
	}
	got := p.Get(id)
	if got.State != container.StateExited || got.ExitCode != 127 && got.ExitCode != 128 || got.Message == "" || !strings.Contains(err.Error(), got.Message) ||
		!got.StartedAt.IsZero() || got.FinishedAt.IsZero() {
		t.Errorf("after %q: %+v", err, got)
	}
	next := p.Config("exit", "0")
	if second := p.Create(next); second == id {
		t.Error("a container that could not start was taken up again")
	}
}

func testUpdate(t *testing.T, s Subject) {
	t.Helper()
	p := NewPod(t, s)
	c := p.Config("wait")
	c.Resources = container.Resources{CPUShares: 100, CPUQuota: 20000, CPUPeriod: 100000, MemoryBytes: 64 << 20}
	id := p.Start(c)
	for _, want := range []container.Resources{
		{CPUShares: 300, CPUQuota: 50000, CPUPeriod: 100000, MemoryBytes: 128 << 20},
		{CPUShares: 300, CPUQuota: 10000, CPUPeriod: 100000, MemoryBytes: 32 << 20},
		{CPUShares: 2},
	} {
		if err := s.Runtime.UpdateContainer(p.ctx, id, want); err != nil {
			t.Fatalf("%+v: %v", want, err)
		}
		if got := p.Get(id).Resources; got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
	}
	for _, r := range []container.Resources{{CPUShares: 2, CPUs: "0", NUMANodes: "0"}, {CPUShares: 3}} {
		if err := s.Runtime.UpdateContainer(p.ctx, id, r); err != nil {
			t.Fatalf("%+v: %v", r, err)
		}
		if got, want := p.Get(id).Resources, (container.Resources{CPUShares: r.CPUShares, CPUs: "0", NUMANodes: "0"}); got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
	}
	if got := p.Get(id); got.State != container.StateRunning {
		t.Errorf("got %+v", got)
	}
}

func testUser(t *testing.T, s Subject) {
	t.Helper()
	p := NewPod(t, s)
	for i, test := range []struct {
		user string
		want container.User
	}{
		{"", container.User{UID: 0, GID: 0, Groups: []int64{0, 77}}},
		{"4321", container.User{UID: 4321, GID: 0, Groups: []int64{0, 77}}},
		{"4321:99", container.User{UID: 4321, GID: 99, Groups: []int64{77, 99}}},
	} {
		c := p.Config("wait")
		c.Attempt, c.User, c.Groups, c.StrictGroups = uint32(i), test.user, []int64{77}, true
		if got := p.Get(p.Create(c)).User; got == nil || got.UID != test.want.UID || got.GID != test.want.GID || !slices.Equal(got.Groups, test.want.Groups) {
			t.Errorf("%q: %+v, want %+v", test.user, got, test.want)
		}
	}
	c := p.Config("wait")
	c.Attempt, c.User = 9, "nobody-of-that-name"
	if id, err := s.Runtime.CreateContainer(t.Context(), p.Sandbox.ID, c); err == nil {
		t.Errorf("container %s was made for a user that the image does not know", id)
	}
}
