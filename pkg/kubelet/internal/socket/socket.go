// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package socket connects to the unix sockets of plugins by gRPC, without following a link that somebody has put in the way, and serves by such.
// Touch it when a plugin is reached otherwise.
package socket

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// Socket is one socket, whatever its name comes to mean: a replacement at the same path is another. Its methods are safe for
// concurrent use, but for Close.
type Socket struct {
	file *os.File // only a handle (O_PATH): nothing has been asked of who listens
	id   ID
}

// ID tells a socket from one that has replaced it, also where inode numbers are used again.
type ID struct {
	dev, ino uint64
	made     unix.Timespec
}

// Open finds the socket of a name in dir. The name may have folders in it; neither they nor the socket may be links, and it
// must not lead out of dir. The caller closes what it gets. The path may be longer than the kernel allows in an address.
func Open(dir, name string) (_ *Socket, err error) {
	root, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: dir, Err: err}
	}
	defer func() { err = errors.Join(err, unix.Close(root)) }()
	fd, err := unix.Openat2(root, name, &unix.OpenHow{
		Flags:   unix.O_PATH | unix.O_NOFOLLOW | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
	})
	if err != nil {
		return nil, &os.PathError{Op: "openat2", Path: name, Err: err}
	}
	s := &Socket{file: os.NewFile(uintptr(fd), name)}
	var st unix.Stat_t
	if err = unix.Fstat(fd, &st); err == nil && st.Mode&unix.S_IFMT != unix.S_IFSOCK {
		err = fmt.Errorf("%s is no socket", name)
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	s.id = ID{dev: st.Dev, ino: st.Ino, made: st.Mtim}
	return s, nil
}

// ID returns what tells it from others.
func (s *Socket) ID() ID { return s.id }

// Close gives the handle back. Connections must have been closed before, for they connect anew by it.
func (s *Socket) Close() error { return s.file.Close() }

// Client returns a connection, which is made by the first call. Each call needs a deadline. The caller closes it.
func (s *Socket) Client(opts ...grpc.DialOption) (*grpc.ClientConn, error) {
	return grpc.NewClient("passthrough:///plugin", append(opts, grpc.WithAuthority("localhost"),
		grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithContextDialer(s.dial))...)
}

// Client returns a connection to whatever socket has a name in dir, see Open, at each time that it connects. It is made by the first
// call. Each call needs a deadline. The caller closes it.
func Client(dir, name string, opts ...grpc.DialOption) (*grpc.ClientConn, error) {
	dial := func(ctx context.Context, _ string) (_ net.Conn, err error) {
		s, err := Open(dir, name)
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, s.Close()) }()
		return s.dial(ctx, "")
	}
	return grpc.NewClient("passthrough:///plugin", append(opts, grpc.WithAuthority("localhost"),
		grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithContextDialer(dial))...)
}

func (s *Socket) dial(ctx context.Context, _ string) (net.Conn, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, "unix", handle(int(s.file.Fd())))
	if err != nil {
		return nil, fmt.Errorf("connecting to %s: %w", s.file.Name(), err)
	}
	return c, nil
}

// Listen makes a socket for the kubelet's own service, which only root may use, in place of what was left by that name. The
// socket stays when the listener is closed, until the next one takes its place.
func Listen(dir, name string) (_ net.Listener, err error) {
	root, err := os.OpenFile(dir, unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	fd := int(root.Fd())
	if err := unix.Unlinkat(fd, name, 0); err != nil && !errors.Is(err, unix.ENOENT) {
		return nil, &os.PathError{Op: "unlinkat", Path: name, Err: err}
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: handle(fd) + "/" + name})
	if err != nil {
		return nil, err
	}
	l.SetUnlinkOnClose(false)
	if err := unix.Fchmodat(fd, name, 0o600, 0); err != nil {
		return nil, errors.Join(&os.PathError{Op: "fchmodat", Path: name, Err: err}, l.Close())
	}
	return l, nil
}

// handle is a path to what a file descriptor is of, short enough for an address.
func handle(fd int) string { return "/proc/self/fd/" + strconv.Itoa(fd) }
