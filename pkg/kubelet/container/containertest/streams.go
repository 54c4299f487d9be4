// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package containertest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"minik8s.io/minik8s/pkg/kubelet/container"
)

// awaitLog waits until a container has printed text, by which it tells that its signal handlers are there.
func (p *Pod) awaitLog(id, text string) {
	p.t.Helper()
	Eventually(p.t, fmt.Sprintf("the container prints %q", text), func() bool {
		out, _ := p.Logs(id, container.LogOptions{Tail: -1})
		return strings.Contains(out, text)
	})
}

func testLogs(t *testing.T, s Subject) {
	t.Helper()
	p := NewPod(t, s)
	id := p.Start(p.Config("print"))
	p.Exited(id)
	all := container.LogOptions{Tail: -1}
	out, err := p.Logs(id, all)
	if want := "out 0\nout 1\nout 2\nout 3\nout 4\n"; out != want {
		t.Errorf("stdout %q", out)
	}
	if want := "err 0\nerr 1\nerr 2\nerr 3\nerr 4\n"; err != want {
		t.Errorf("stderr %q", err)
	}
	// Which line of the two streams came last, the engine decides that reads them.
	lastOut, lastErr := p.Logs(id, container.LogOptions{Tail: 3})
	if n := strings.Count(lastOut+lastErr, "\n"); n != 3 || !strings.HasSuffix(out, lastOut) || !strings.HasSuffix(err, lastErr) {
		t.Errorf("the last three lines: %q, %q", lastOut, lastErr)
	}
	if out, err = p.Logs(id, container.LogOptions{Tail: 0}); out != "" || err != "" {
		t.Errorf("the last zero lines: %q, %q", out, err)
	}
	var only bytes.Buffer
	if e := s.Runtime.Logs(p.ctx, id, container.LogOptions{Tail: -1}, nil, &only); e != nil || only.String() != "err 0\nerr 1\nerr 2\nerr 3\nerr 4\n" {
		t.Errorf("stderr alone: %q, %v", only.String(), e)
	}
	stamped, _ := p.Logs(id, container.LogOptions{Tail: -1, Timestamps: true})
	var stamps []time.Time
	for line := range strings.Lines(stamped) {
		stamp, _, _ := strings.Cut(line, " ")
		at, e := time.Parse(time.RFC3339Nano, stamp)
		if e != nil {
			t.Fatalf("line %q: %v", line, e)
		}
		stamps = append(stamps, at)
	}
	if len(stamps) != 5 {
		t.Fatalf("with timestamps: %q", stamped)
	}
	if out, _ = p.Logs(id, container.LogOptions{Tail: -1, Since: stamps[3]}); out != "out 3\nout 4\n" {
		t.Errorf("since the fourth line: %q", out)
	}
	if out, _ = p.Logs(id, container.LogOptions{Tail: -1, Until: stamps[1]}); out != "out 0\nout 1\n" {
		t.Errorf("until the second line: %q", out)
	}
	long := p.Config("long", "40000")
	long.Name = "long"
	id = p.Start(long)
	p.Exited(id)
	if out, _ = p.Logs(id, container.LogOptions{Tail: -1, Timestamps: true}); strings.Count(out, "x") != 40000 || strings.Count(out, " ") != 1 {
		t.Errorf("a long line came as %d bytes with %d timestamps", len(out), strings.Count(out, " "))
	}
}

func testLogsFollow(t *testing.T, s Subject) {
	t.Helper()
	p := NewPod(t, s)
	id := p.Start(p.Config("tick"))
	ctx, cancel := context.WithCancel(p.ctx)
	defer cancel()
	r, w := io.Pipe()
	done := make(chan error, 1)
	go func() {
		err := s.Runtime.Logs(ctx, id, container.LogOptions{Follow: true, Tail: -1}, w, io.Discard)
		_ = w.Close()
		done <- err
	}()
	b := make([]byte, 4)
	for range 3 { // more than is there at the beginning
		if _, err := io.ReadFull(r, b); err != nil {
			t.Fatal(err)
		}
	}
	go func() { _, _ = io.Copy(io.Discard, r) }()
	if err := s.Runtime.StopContainer(p.ctx, id, patience, ""); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Errorf("at the container's end: %v", err)
	}

	second := p.Config("tick")
	second.Attempt = 1
	id = p.Start(second)
	go func() {
		done <- s.Runtime.Logs(ctx, id, container.LogOptions{Follow: true, Tail: -1}, io.Discard, io.Discard)
	}()
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("at the context's end: %v", err)
	}
}

func testExec(t *testing.T, s Subject) {
	t.Helper()
	p := NewPod(t, s)
	id := p.Start(p.Config("wait"))
	var out, errOut bytes.Buffer
	code, err := s.Runtime.Exec(p.ctx, id, container.ExecOptions{
		Command: []string{s.Program, "cat"}, Stdin: strings.NewReader("hello"), Stdout: &out, Stderr: &errOut,
	})
	if err != nil || code != 0 || out.String() != "hello" || errOut.String() != "end\n" {
		t.Errorf("got %d, %v, %q, %q", code, err, out.String(), errOut.String())
	}
	for _, want := range []int{0, 5} {
		if code, err := s.Runtime.Exec(p.ctx, id, container.ExecOptions{Command: []string{s.Program, "exit", fmt.Sprint(want)}}); err != nil || code != want {
			t.Errorf("exit code %d, %v, want %d", code, err, want)
		}
	}
	if err := s.Runtime.StopContainer(p.ctx, id, 0, ""); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Runtime.Exec(p.ctx, id, container.ExecOptions{Command: []string{s.Program, "exit", "0"}}); !errors.Is(err, container.ErrNotRunning) {
		t.Errorf("in an ended container: %v", err)
	}
}

func testExecKilledByContext(t *testing.T, s Subject) {
	t.Helper()
	p := NewPod(t, s)
	id := p.Start(p.Config("wait"))
	ctx, cancel := context.WithCancel(p.ctx)
	r, w := io.Pipe()
	done := make(chan error, 1)
	go func() {
		_, err := s.Runtime.Exec(ctx, id, container.ExecOptions{Command: []string{s.Program, "serve", "8081"}, Stdout: w})
		done <- err
	}()
	if _, err := r.Read(make([]byte, 1)); err != nil { // it runs
		t.Fatal(err)
	}
	go func() { _, _ = io.Copy(io.Discard, r) }()
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v", err)
	}
	// The command is gone when its port is free again.
	Eventually(t, "the command is killed", func() bool {
		near, far := net.Pipe()
		defer near.Close()
		probe, cancel := context.WithTimeout(p.ctx, time.Second)
		defer cancel()
		err := s.Runtime.PortForward(probe, p.Sandbox.ID, 8081, far)
		return err != nil && probe.Err() == nil
	})
	if got := p.Get(id); got.State != container.StateRunning {
		t.Errorf("the container: %+v", got)
	}
}

// buffer is a bytes.Buffer for two goroutines.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func testAttach(t *testing.T, s Subject) {
	t.Helper()
	p := NewPod(t, s)
	c := p.Config("cat")
	c.Stdin = true
	c.StdinOnce = true
	id := p.Start(c)
	var out, errOut buffer
	err := s.Runtime.Attach(p.ctx, id, container.AttachOptions{Stdin: strings.NewReader("hello"), Stdout: &out, Stderr: &errOut})
	if err != nil || out.String() != "hello" || errOut.String() != "end\n" {
		t.Errorf("got %v, %q, %q", err, out.String(), errOut.String())
	}
	if got := p.Exited(id); got.ExitCode != 0 {
		t.Errorf("got %+v", got)
	}
	if err := s.Runtime.Attach(p.ctx, id, container.AttachOptions{Stdout: io.Discard}); !errors.Is(err, container.ErrNotRunning) {
		t.Errorf("to an ended container: %v", err)
	}

	// Stdin that is not read only once stays open for the next one to attach; the attach ends with its own.
	again := p.Config("cat")
	again.Stdin, again.Attempt = true, 1
	id = p.Start(again)
	for i, text := range []string{"one\n", "two\n"} {
		stdin, typing := io.Pipe()
		var seen buffer
		done := make(chan error, 1)
		go func() {
			done <- s.Runtime.Attach(p.ctx, id, container.AttachOptions{Stdin: stdin, Stdout: &seen})
		}()
		if _, err := io.WriteString(typing, text); err != nil {
			t.Fatal(err)
		}
		Eventually(t, fmt.Sprintf("attach %d echoes", i), func() bool { return seen.String() == text })
		_ = typing.Close()
		select {
		case err := <-done:
			if err != nil {
				t.Errorf("attach %d: %v", i, err)
			}
		case <-time.After(patience):
			t.Fatalf("attach %d does not end with its stdin", i)
		}
	}
	// One that is given up ends at once, though its stdin does not.
	ctx, cancel := context.WithCancel(p.ctx)
	stdin, typing := io.Pipe()
	defer typing.Close()
	var seen buffer
	done := make(chan error, 1)
	go func() {
		done <- s.Runtime.Attach(ctx, id, container.AttachOptions{Stdin: stdin, Stdout: &seen})
	}()
	if _, err := io.WriteString(typing, "three\n"); err != nil {
		t.Fatal(err)
	}
	Eventually(t, "the last attach echoes", func() bool { return seen.String() == "three\n" })
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("given up: %v", err)
	}
	if got := p.Get(id); got.State != container.StateRunning {
		t.Errorf("after detaching: %+v", got)
	}
}

func testPortForward(t *testing.T, s Subject) {
	t.Helper()
	p := NewPod(t, s)
	id := p.Start(p.Config("serve", "8080"))
	p.awaitLog(id, "serving")
	for i := range 3 {
		near, far := net.Pipe()
		done := make(chan error, 1)
		go func() { done <- s.Runtime.PortForward(p.ctx, p.Sandbox.ID, 8080, far) }()
		text := fmt.Sprintf("hello %d", i)
		if _, err := io.WriteString(near, text); err != nil {
			t.Fatal(err)
		}
		b := make([]byte, len(text))
		if _, err := io.ReadFull(near, b); err != nil || string(b) != text {
			t.Errorf("got %q, %v", b, err)
		}
		_ = near.Close()
		select {
		case <-done:
		case <-time.After(patience):
			t.Fatal("does not end with its stream")
		}
	}
	near, far := net.Pipe()
	defer near.Close()
	err := s.Runtime.PortForward(p.ctx, p.Sandbox.ID, 9999, far)
	if err == nil || !strings.Contains(err.Error(), "failed to connect to localhost:9999") {
		t.Errorf("to a closed port: %v", err)
	}
}
