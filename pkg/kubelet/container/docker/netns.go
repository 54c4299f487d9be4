// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package docker

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"minik8s.io/minik8s/pkg/kubelet/container"
)

// nodeNetNS returns the path of this process's network namespace, the node's, and "" if the engine has the same: then the engine's
// own mode of the host's network does. Of an engine whose process is not to be seen from here the latter is assumed.
func (r *Runtime) nodeNetNS(ctx context.Context) (string, error) {
	socket, ok := strings.CutPrefix(r.client.DaemonHost(), "unix://")
	if !ok {
		return "", nil
	}
	pid, err := listener(ctx, socket)
	if err != nil {
		return "", fmt.Errorf("%w: %w", container.ErrUnavailable, err)
	}
	if pid == 0 {
		return "", nil
	}
	own := fmt.Sprintf("/proc/%d/ns/net", os.Getpid())
	if isIn(pid, own) {
		return "", nil
	}
	if _, err := os.Stat(fmt.Sprintf("/proc/%d/ns/net", pid)); errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return own, nil
}

// listener is the process that listens on a socket, 0 if it is in no process namespace that this one sees; see SO_PEERCRED in
// unix(7). It may be systemd, which does so for the engine.
func listener(ctx context.Context, socket string) (int, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", socket)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	raw, err := conn.(syscall.Conn).SyscallConn()
	if err != nil {
		return 0, err
	}
	var peer *unix.Ucred
	var perr error
	if err := raw.Control(func(fd uintptr) { peer, perr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }); err != nil {
		return 0, err
	}
	if perr != nil {
		return 0, perr
	}
	return int(peer.Pid), nil
}

// isIn reports whether a process is in the network namespace of a path.
func isIn(pid int, path string) bool {
	of, err := os.Stat(fmt.Sprintf("/proc/%d/ns/net", pid))
	if err != nil {
		return false
	}
	want, err := os.Stat(path)
	return err == nil && os.SameFile(of, want)
}
