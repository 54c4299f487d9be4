// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cri-streaming/pkg/streaming/portforward"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
	"k8s.io/streaming/pkg/httpstream/wsstream"
	utilexec "k8s.io/utils/exec"

	"minik8s.io/minik8s/pkg/kubelet/container"
	"minik8s.io/minik8s/pkg/kubelet/internal/capped"
)

func (s *Server) exec(w http.ResponseWriter, r *http.Request) {
	c, ok := s.command(w, r)
	if !ok {
		return
	}
	c.argv = r.Form["command"]
	if len(c.argv) == 0 {
		http.Error(w, "you must specify at least 1 command for the container", http.StatusBadRequest)
		return
	}
	if wsstream.IsWebSocketRequestWithStreamCloseProtocol(r) {
		serveWebSocket(w, r, c.options, s.config.StreamIdleTimeout, "executing command in", c.execute)
		return
	}
	remotecommand.ServeExec(w, r, c, c.pod.Name, string(c.pod.UID), c.id, c.argv, c.options,
		s.config.StreamIdleTimeout, remotecommand.DefaultStreamCreationTimeout, remotecommand.SupportedStreamingProtocols)
}

func (s *Server) attach(w http.ResponseWriter, r *http.Request) {
	c, ok := s.command(w, r)
	if !ok {
		return
	}
	// Whether a process has a terminal was decided when it started, not by who attaches.
	c.tty = c.spec.TTY
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	w, r = &hangUp{w, cancel}, r.WithContext(ctx)
	if wsstream.IsWebSocketRequestWithStreamCloseProtocol(r) {
		serveWebSocket(w, r, c.options, s.config.StreamIdleTimeout, "attaching to", c.join)
		return
	}
	remotecommand.ServeAttach(w, r, c, c.pod.Name, string(c.pod.UID), c.id, c.options,
		s.config.StreamIdleTimeout, remotecommand.DefaultStreamCreationTimeout, remotecommand.SupportedStreamingProtocols)
}

// command is what exec and attach have in common: it answers the request itself if it is no good.
func (s *Server) command(w http.ResponseWriter, r *http.Request) (*command, bool) {
	options, err := remotecommand.NewOptions(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return nil, false
	}
	pod := s.pod(r)
	if pod == nil {
		http.Error(w, "pod does not exist", http.StatusNotFound)
		return nil, false
	}
	name := r.PathValue("container")
	spec := containerSpec(pod, name)
	if spec == nil {
		http.Error(w, fmt.Sprintf("container not found (%q)", name), http.StatusNotFound)
		return nil, false
	}
	id, err := s.config.Host.RunningContainer(r.Context(), pod.UID, name)
	if err != nil {
		text := err.Error()
		if errors.Is(err, container.ErrNotFound) {
			text = fmt.Sprintf("container not found (%q)", name)
		}
		http.Error(w, text, http.StatusInternalServerError)
		return nil, false
	}
	return &command{host: s.config.Host, pod: pod, spec: spec, id: id, options: options, tty: options.TTY}, true
}

// command runs in a container or attaches to it. It is the Executor and Attacher of the streaming library.
type command struct {
	host Host
	pod  *corev1.Pod
	spec *corev1.Container
	id   string
	argv []string
	// options say what streams the client has, tty whether the process has a terminal.
	options *remotecommand.Options
	tty     bool
}

// streams are the ends in the container's direction.
type streams struct {
	in       io.Reader
	out, err io.Writer
	resize   <-chan remotecommand.TerminalSize
}

// ExecInContainer implements remotecommand.Executor.
func (c *command) ExecInContainer(ctx context.Context, _, _, _ string, _ []string, in io.Reader, out, err io.WriteCloser, _ bool, resize <-chan remotecommand.TerminalSize, _ time.Duration) error {
	return c.execute(ctx, streams{in, out, err, resize})
}

// AttachContainer implements remotecommand.Attacher.
func (c *command) AttachContainer(ctx context.Context, _, _, _ string, in io.Reader, out, err io.WriteCloser, _ bool, resize <-chan remotecommand.TerminalSize) error {
	return c.join(ctx, streams{in, out, err, resize})
}

func (c *command) execute(ctx context.Context, s streams) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s = c.wanted(s)
	code, err := c.host.Exec(ctx, c.id, container.ExecOptions{
		Command: c.argv, Stdin: s.in, Stdout: s.out, Stderr: s.err, TTY: c.tty, Resize: sizes(ctx, s.resize),
	})
	if err != nil {
		return err
	}
	if code != 0 {
		return utilexec.CodeExitError{Err: fmt.Errorf("error executing command %v, exit code %d", c.argv, code), Code: code}
	}
	return nil
}

func (c *command) join(ctx context.Context, s streams) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s = c.wanted(s)
	return c.host.Attach(ctx, c.id, container.AttachOptions{
		Stdin: s.in, Stdout: s.out, Stderr: s.err, TTY: c.tty, Resize: sizes(ctx, s.resize),
	})
}

// wanted drops streams that were not asked for; WebSockets have all of them.
func (c *command) wanted(s streams) streams {
	if !c.options.Stdin {
		s.in = nil
	}
	if !c.options.Stdout {
		s.out = nil
	}
	if !c.options.Stderr || c.tty {
		s.err = nil
	}
	return s
}

func sizes(ctx context.Context, from <-chan remotecommand.TerminalSize) <-chan container.TerminalSize {
	if from == nil {
		return nil
	}
	to := make(chan container.TerminalSize)
	go func() {
		defer close(to)
		for {
			select {
			case <-ctx.Done():
				return
			case size, ok := <-from:
				if !ok {
					return
				}
				select {
				case <-ctx.Done():
					return
				case to <- container.TerminalSize{Width: size.Width, Height: size.Height}:
				}
			}
		}
	}()
	return to
}

// maxRunOutput is how much of a command's output is kept: what upstream's runtimes return (16 MiB, the limit of CRI).
const maxRunOutput = 16 << 20

// run executes a command and answers with its output when it has ended.
func (s *Server) run(w http.ResponseWriter, r *http.Request) {
	pod := s.pod(r)
	if pod == nil {
		http.Error(w, "pod does not exist", http.StatusNotFound)
		return
	}
	name := r.PathValue("container")
	id, err := s.config.Host.RunningContainer(r.Context(), pod.UID, name)
	if err != nil {
		http.Error(w, fmt.Sprintf("container not found (%q)", name), http.StatusInternalServerError)
		return
	}
	out := &capped.Buffer{Max: maxRunOutput}
	command := strings.Split(r.FormValue("cmd"), " ")
	code, err := s.config.Host.Exec(r.Context(), id, container.ExecOptions{Command: command, Stdout: out, Stderr: out})
	if err == nil && code != 0 {
		err = fmt.Errorf("command '%s' exited with %d: %s", strings.Join(command, " "), code, out.String())
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	_, _ = io.WriteString(w, out.String()) // the client is gone if this fails
}

func (s *Server) portForward(w http.ResponseWriter, r *http.Request) {
	pod := s.pod(r)
	if pod == nil {
		http.Error(w, "pod does not exist", http.StatusNotFound)
		return
	}
	f := forwarder{ctx: r.Context(), host: s.config.Host, pod: pod.UID}
	if wsstream.IsWebSocketRequestWithTunnelingProtocol(r) {
		serveTunnel(w, r, func(w http.ResponseWriter, r *http.Request) {
			s.forward(w, r, f, pod, &portforward.V4Options{})
		})
		return
	}
	options, err := portforward.NewV4Options(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	s.forward(w, r, f, pod, options)
}

func (s *Server) forward(w http.ResponseWriter, r *http.Request, f forwarder, pod *corev1.Pod, o *portforward.V4Options) {
	portforward.ServePortForward(w, r, f, pod.Name, string(pod.UID), o, s.config.StreamIdleTimeout,
		remotecommand.DefaultStreamCreationTimeout, portforward.SupportedProtocols)
}

// forwarder implements portforward.PortForwarder.
type forwarder struct {
	// ctx is the request's: the library has none of its own for streams.
	ctx  context.Context
	host Host
	pod  types.UID
}

func (f forwarder) PortForward(_ context.Context, _, _ string, port int32, stream io.ReadWriteCloser) error {
	return f.host.PortForward(f.ctx, f.pod, port, stream)
}
