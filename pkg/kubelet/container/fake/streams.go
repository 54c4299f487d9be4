// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package fake

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"time"

	"minik8s.io/minik8s/pkg/kubelet/container"
)

// logBuffer keeps what a container printed, line by line and by stream.
type logBuffer struct {
	mu      sync.Mutex
	lines   []logLine
	partial map[string][]byte
	changed chan struct{} // closed and replaced at each change
	ended   bool
	taps    map[*tap]struct{} // attached clients
}

type logLine struct {
	at     time.Time
	stream string
	text   []byte // with its newline, unless the container ended in the middle of a line
}

type tap struct {
	stdout, stderr io.Writer
}

func newLogBuffer() *logBuffer {
	return &logBuffer{partial: map[string][]byte{}, changed: make(chan struct{}), taps: map[*tap]struct{}{}}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

func (l *logBuffer) writer(r *Runtime, stream string) io.Writer {
	return writerFunc(func(b []byte) (int, error) {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.ended {
			return 0, io.ErrClosedPipe
		}
		text := append(l.partial[stream], b...)
		for {
			i := bytes.IndexByte(text, '\n')
			if i < 0 {
				break
			}
			l.lines = append(l.lines, logLine{at: r.now(), stream: stream, text: bytes.Clone(text[:i+1])})
			text = text[i+1:]
		}
		l.partial[stream] = bytes.Clone(text)
		for t := range l.taps {
			w := t.stdout
			if stream == "stderr" {
				w = t.stderr
			}
			if w != nil {
				_, _ = w.Write(b) // an attached client that went away must not stop the container
			}
		}
		l.signal()
		return len(b), nil
	})
}

// signal wakes followers. The caller holds l.mu.
func (l *logBuffer) signal() {
	close(l.changed)
	l.changed = make(chan struct{})
}

func (l *logBuffer) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return
	}
	for _, stream := range []string{"stdout", "stderr"} {
		if rest := l.partial[stream]; len(rest) > 0 {
			at := time.Time{}
			if n := len(l.lines); n > 0 {
				at = l.lines[n-1].at
			}
			l.lines = append(l.lines, logLine{at: at, stream: stream, text: rest})
		}
	}
	l.ended = true
	l.signal()
}

// Logs implements container.Runtime.
func (r *Runtime) Logs(ctx context.Context, id string, o container.LogOptions, stdout, stderr io.Writer) error {
	if err := r.begin(ctx, Call{Op: "Logs", ID: id, Arg: o}); err != nil {
		return err
	}
	p, err := r.process(id)
	if err != nil {
		return err
	}
	next := -1
	for {
		p.log.mu.Lock()
		lines, ended, changed := slices.Clip(p.log.lines), p.log.ended, p.log.changed
		p.log.mu.Unlock()
		if next < 0 {
			next = 0
			if o.Tail >= 0 {
				next = max(0, len(lines)-int(min(o.Tail, int64(len(lines)))))
			}
		}
		for ; next < len(lines); next++ {
			if err := lines[next].write(o, stdout, stderr); err != nil {
				return err
			}
		}
		if !o.Follow || ended {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed:
		}
	}
}

func (l logLine) write(o container.LogOptions, stdout, stderr io.Writer) error {
	if !o.Since.IsZero() && l.at.Before(o.Since) || !o.Until.IsZero() && l.at.After(o.Until) {
		return nil
	}
	w := stdout
	if l.stream == "stderr" {
		w = stderr
	}
	if w == nil {
		return nil
	}
	text := l.text
	if o.Timestamps {
		text = append(l.at.UTC().AppendFormat(nil, time.RFC3339Nano+" "), text...)
	}
	_, err := w.Write(text)
	return err
}

// Exec implements container.Runtime.
func (r *Runtime) Exec(ctx context.Context, id string, o container.ExecOptions) (int, error) {
	if err := r.begin(ctx, Call{Op: "Exec", ID: id, Arg: o.Command}); err != nil {
		return 0, err
	}
	p, err := r.process(id)
	if err != nil {
		return 0, err
	}
	r.mu.Lock()
	c := p.copy()
	r.mu.Unlock()
	if c.State != container.StateRunning {
		return 0, fmt.Errorf("container %q: %w", id, container.ErrNotRunning)
	}
	if r.config.Exec == nil {
		return 0, nil
	}
	code, err := r.config.Exec(ctx, c, o)
	if ctx.Err() != nil {
		return 0, ctx.Err()
	}
	return code, err
}

// Attach implements container.Runtime.
func (r *Runtime) Attach(ctx context.Context, id string, o container.AttachOptions) error {
	if err := r.begin(ctx, Call{Op: "Attach", ID: id}); err != nil {
		return err
	}
	p, err := r.process(id)
	if err != nil {
		return err
	}
	r.mu.Lock()
	running := p.State == container.StateRunning
	r.mu.Unlock()
	if !running {
		return fmt.Errorf("container %q: %w", id, container.ErrNotRunning)
	}
	t := &tap{stdout: o.Stdout, stderr: o.Stderr}
	p.log.mu.Lock()
	p.log.taps[t] = struct{}{}
	p.log.mu.Unlock()
	defer func() {
		p.log.mu.Lock()
		delete(p.log.taps, t)
		p.log.mu.Unlock()
	}()
	left := make(chan struct{})
	if o.Stdin != nil {
		go func() {
			_, _ = io.Copy(p.stdin, o.Stdin) // ends with the caller's reader or the container's stdin
			if p.config.StdinOnce && !p.config.TTY {
				_ = p.stdin.Close()
			} else {
				close(left)
			}
		}()
	}
	select {
	case <-p.done:
		return nil
	case <-left:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// listener is a port inside a pod.
type listener struct {
	port  int32
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *listener) Close() error {
	l.once.Do(func() { close(l.done) })
	return nil
}

func (l *listener) Addr() net.Addr {
	return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: int(l.port)}
}

func (r *Runtime) listen(s *sandbox, port int32) (net.Listener, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if old := s.listeners[port]; old != nil {
		select {
		case <-old.done:
		default:
			return nil, errors.New("address already in use")
		}
	}
	l := &listener{port: port, conns: make(chan net.Conn), done: make(chan struct{})}
	s.listeners[port] = l
	return l, nil
}

// Listen returns a function that opens ports of a sandbox, for Config.Exec.
func (r *Runtime) Listen(sandboxID string) func(port int32) (net.Listener, error) {
	return func(port int32) (net.Listener, error) {
		r.mu.Lock()
		s := r.sandboxes[sandboxID]
		r.mu.Unlock()
		if s == nil {
			return nil, fmt.Errorf("sandbox %q: %w", sandboxID, container.ErrNotFound)
		}
		return r.listen(s, port)
	}
}

// PortForward implements container.Runtime; it reaches ports that programs opened with Process.Listen.
func (r *Runtime) PortForward(ctx context.Context, sandboxID string, port int32, stream io.ReadWriteCloser) error {
	if err := r.begin(ctx, Call{Op: "PortForward", ID: sandboxID, Arg: port}); err != nil {
		return err
	}
	defer stream.Close()
	r.mu.Lock()
	s := r.sandboxes[sandboxID]
	var l *listener
	if s != nil {
		l = s.listeners[port]
	}
	r.mu.Unlock()
	switch {
	case s == nil:
		return fmt.Errorf("sandbox %q: %w", sandboxID, container.ErrNotFound)
	case l == nil:
		return fmt.Errorf("failed to connect to localhost:%d inside sandbox %q: connection refused", port, sandboxID)
	}
	near, far := net.Pipe()
	defer near.Close()
	select {
	case l.conns <- far:
	case <-l.done:
		return fmt.Errorf("failed to connect to localhost:%d inside sandbox %q: connection refused", port, sandboxID)
	case <-ctx.Done():
		return ctx.Err()
	}
	stop := context.AfterFunc(ctx, func() { _, _ = near.Close(), stream.Close() })
	defer stop()
	go func() {
		_, _ = io.Copy(near, stream) // ends when either side closes
		_ = near.Close()
	}()
	_, _ = io.Copy(stream, near)
	return ctx.Err()
}
