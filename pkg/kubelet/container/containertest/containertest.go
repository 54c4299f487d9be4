// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package containertest is the suite that every container.Runtime must pass; touch it when the interface or what the
// kubelet expects of it changes. The containers run package program.
package containertest

import (
	"bytes"
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/types"

	"minik8s.io/minik8s/pkg/kubelet/container"
)

// Subject is a Runtime under test with an image that runs package program.
type Subject struct {
	Runtime container.Runtime
	// Image is the id of the image and Ref a reference of it; its entrypoint is the program.
	Image, Ref string
	// Program is the path of the program in the image, for Exec.
	Program string
	// Again returns another Runtime on the same engine, as after a restart of the kubelet.
	Again func() container.Runtime
	// Refuse changes a container so that the engine cannot start it.
	Refuse func(*container.ContainerConfig)
}

// patience is how long the suite waits for what should happen within milliseconds.
const patience = 30 * time.Second

// Run runs the suite.
func Run(t *testing.T, s Subject) {
	t.Helper()
	for _, test := range []struct {
		name string
		run  func(*testing.T, Subject)
	}{
		{"Version", testVersion},
		{"Sandbox", testSandbox},
		{"Ahead", testAhead},
		{"Handler", testHandler},
		{"ContainerLife", testContainerLife},
		{"CreateIsIdempotent", testCreateIsIdempotent},
		{"User", testUser},
		{"StopGraceful", testStopGraceful},
		{"StopKills", testStopKills},
		{"StopEndsWithContext", testStopEndsWithContext},
		{"AbsenceIsSuccess", testAbsenceIsSuccess},
		{"NotFound", testNotFound},
		{"DeadSandbox", testDeadSandbox},
		{"StartRefused", testStartRefused},
		{"Adoption", testAdoption},
		{"ListFollowsChanges", testListFollowsChanges},
		{"Events", testEvents},
		{"Logs", testLogs},
		{"LogsFollow", testLogsFollow},
		{"Exec", testExec},
		{"ExecKilledByContext", testExecKilledByContext},
		{"Attach", testAttach},
		{"PortForward", testPortForward},
		{"Update", testUpdate},
		{"Images", testImages},
		{"ImageLayers", testImageLayers},
		{"ImageArchive", testImageArchive},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, s) })
	}
}

// Pod is a pod of the suite; what is made through it is removed with the test.
type Pod struct {
	t       *testing.T
	subject Subject
	ctx     context.Context
	pod     container.Pod
	Sandbox *container.Sandbox
}

// NewPod makes a pod's sandbox.
func NewPod(t *testing.T, s Subject, change ...func(*container.SandboxConfig)) *Pod {
	t.Helper()
	p := &Pod{t: t, subject: s, ctx: t.Context(), pod: container.Pod{UID: types.UID(uuid.NewString()), Namespace: "test", Name: "pod"}}
	config := container.SandboxConfig{Pod: p.pod, Hostname: "pod", PID: container.NamespaceContainer, Labels: map[string]string{"a.b/c": "d"}}
	for _, f := range change {
		f(&config)
	}
	t.Cleanup(p.remove)
	var err error
	if p.Sandbox, err = p.sandbox(config); err != nil {
		t.Fatal(err)
	}
	return p
}

// sandbox makes and starts one.
func (p *Pod) sandbox(c container.SandboxConfig) (*container.Sandbox, error) {
	id, err := p.subject.Runtime.CreateSandbox(p.ctx, c)
	if err != nil {
		return nil, fmt.Errorf("CreateSandbox: %w", err)
	}
	sandbox, err := p.subject.Runtime.StartSandbox(p.ctx, id)
	if err != nil {
		return nil, fmt.Errorf("StartSandbox: %w", err)
	}
	return sandbox, nil
}

func (p *Pod) remove() {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	sandboxes, containers := p.listed(ctx, p.subject.Runtime)
	for _, c := range containers {
		if err := p.subject.Runtime.RemoveContainer(ctx, c.ID); err != nil {
			p.t.Errorf("cleaning up: %v", err)
		}
	}
	for _, s := range sandboxes {
		if err := p.subject.Runtime.RemoveSandbox(ctx, s.ID); err != nil {
			p.t.Errorf("cleaning up: %v", err)
		}
	}
}

// listed inspects what the engine lists of the pod.
func (p *Pod) listed(ctx context.Context, r container.Runtime) (sandboxes []*container.Sandbox, containers []*container.Container) {
	p.t.Helper()
	found, err := r.List(ctx)
	if err != nil {
		p.t.Errorf("List: %v", err)
	}
	for _, f := range found {
		if f.Pod.UID != p.pod.UID {
			continue
		}
		if f.Pod != p.pod {
			p.t.Errorf("List: pod %+v, want %+v", f.Pod, p.pod)
		}
		switch s, c, err := r.Inspect(ctx, f.ID); {
		case err != nil:
			p.t.Errorf("Inspect: %v", err)
		case s != nil:
			sandboxes = append(sandboxes, s)
		default:
			containers = append(containers, c)
		}
	}
	return sandboxes, containers
}

// Config is a container's that runs the program with args.
func (p *Pod) Config(args ...string) container.ContainerConfig {
	return container.ContainerConfig{
		Pod: p.pod, Name: "c", Type: container.TypeRegular, Hash: "h", Image: p.subject.Image, ImageRef: p.subject.Ref,
		Args: args, PID: container.NamespaceContainer, Labels: map[string]string{"x/y": "z"},
	}
}

// Create makes a container.
func (p *Pod) Create(c container.ContainerConfig) string {
	p.t.Helper()
	id, err := p.subject.Runtime.CreateContainer(p.ctx, p.Sandbox.ID, c)
	if err != nil {
		p.t.Fatalf("CreateContainer: %v", err)
	}
	return id
}

// Start makes and starts a container.
func (p *Pod) Start(c container.ContainerConfig) string {
	p.t.Helper()
	id := p.Create(c)
	if err := p.subject.Runtime.StartContainer(p.ctx, id); err != nil {
		p.t.Fatalf("StartContainer: %v", err)
	}
	return id
}

// Get returns a container.
func (p *Pod) Get(id string) *container.Container {
	p.t.Helper()
	_, c, err := p.subject.Runtime.Inspect(p.ctx, id)
	if err != nil || c == nil {
		p.t.Fatalf("Inspect: %+v, %v", c, err)
	}
	return c
}

// Exited waits for a container to end.
func (p *Pod) Exited(id string) *container.Container {
	p.t.Helper()
	var c *container.Container
	Eventually(p.t, "the container exits", func() bool {
		c = p.Get(id)
		return c.State == container.StateExited
	})
	return c
}

// Logs returns a container's log.
func (p *Pod) Logs(id string, o container.LogOptions) (stdout, stderr string) {
	p.t.Helper()
	var out, err bytes.Buffer
	if e := p.subject.Runtime.Logs(p.ctx, id, o, &out, &err); e != nil {
		p.t.Fatalf("Logs: %v", e)
	}
	return out.String(), err.String()
}

// Eventually waits until a condition of the engine holds, which the interface offers no other way to wait for.
func Eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	again := time.NewTicker(5 * time.Millisecond)
	defer again.Stop()
	for !holds() {
		select {
		case <-deadline.C:
			t.Fatalf("waited in vain until %s", what)
		case <-again.C:
		}
	}
}
