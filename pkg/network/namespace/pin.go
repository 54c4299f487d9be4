// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package namespace

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// Pin makes sure that the file at path is a network namespace that lives on without a process in it, until Unpin. It makes a new one,
// and the file, if what is there is none. The folder must exist. It is not for concurrent use with one path.
func Pin(path string) error {
	is, err := Pinned(path)
	if is || err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDONLY, 0o600)
	if err != nil {
		return fmt.Errorf("making the file of a network namespace: %w", err)
	}
	_ = f.Close() // nothing was written
	done := make(chan error, 1)
	go onOwnThread(func() {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			done <- fmt.Errorf("making a network namespace: %w", err)
			return
		}
		if err := unix.Mount("/proc/thread-self/ns/net", path, "", unix.MS_BIND, ""); err != nil {
			done <- fmt.Errorf("keeping network namespace %q: %w", path, err)
			return
		}
		done <- nil
	})
	return <-done
}

// Pinned tells whether the file at path is a network namespace. After a reboot the file is still there, and is none.
func Pinned(path string) (bool, error) {
	var s unix.Statfs_t
	err := unix.Statfs(path, &s)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("looking at network namespace %q: %w", path, err)
	}
	return s.Type == unix.NSFS_MAGIC, nil
}

// Unpin lets go of a namespace and removes the file. The kernel removes the namespace with all that is in it a moment after the last
// process has left it and its last socket was closed. Absence is success.
func Unpin(path string) error {
	for { // somebody may have mounted it twice
		err := unix.Unmount(path, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
		if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOENT) {
			break
		}
		if err != nil {
			return fmt.Errorf("letting go of network namespace %q: %w", path, err)
		}
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing the file of a network namespace: %w", err)
	}
	return nil
}
