// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package docker

import (
	"context"
	"fmt"
	"io"
	"net"
	"strconv"

	"minik8s.io/minik8s/pkg/kubelet/container"
	"minik8s.io/minik8s/pkg/network/namespace"
)

// PortForward implements container.Runtime. It connects to localhost from inside the pod's network namespace, so that
// also servers which listen on the loopback only are reached.
func (r *Runtime) PortForward(ctx context.Context, sandboxID string, port int32, stream io.ReadWriteCloser) error {
	defer stream.Close()
	found, err := r.inspect(ctx, sandboxID, kindSandbox)
	if err != nil {
		return fmt.Errorf("sandbox: %w", err)
	}
	s := sandboxOf(found)
	if s.State != container.StateRunning {
		return fmt.Errorf("sandbox %q: %w", sandboxID, container.ErrNotRunning)
	}
	conn, err := dialInside(ctx, fmt.Sprintf("/proc/%d/ns/net", s.Pid), port)
	if err != nil {
		return err
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { _, _ = conn.Close(), stream.Close() })
	defer stop()

	go func() {
		_, err := io.Copy(conn, stream)
		if tcp, ok := conn.(*net.TCPConn); ok && err == nil {
			_ = tcp.CloseWrite() // the client has said all; the server may still answer
			return
		}
		_ = conn.Close()
	}()
	_, err = io.Copy(stream, conn)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		return fmt.Errorf("forwarding port %d of sandbox %q: %w", port, sandboxID, err)
	}
	return nil
}

// dialInside opens a connection to localhost of a network namespace.
func dialInside(ctx context.Context, netns string, port int32) (conn net.Conn, err error) {
	err = namespace.Do(netns, func() error {
		var dialer net.Dialer
		var err4, err6 error
		if conn, err4 = dialer.DialContext(ctx, "tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(int(port)))); err4 == nil {
			return nil
		}
		if conn, err6 = dialer.DialContext(ctx, "tcp6", net.JoinHostPort("::1", strconv.Itoa(int(port)))); err6 == nil {
			return nil
		}
		return fmt.Errorf("failed to connect to localhost:%d inside namespace %q, IPv4: %w IPv6 %w", port, netns, err4, err6)
	})
	return conn, err
}
