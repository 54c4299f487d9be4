// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package removal removes trees that others have filled, however large and deep they have made them; touch it with care: what it
// removes beside them is gone.
package removal

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

const (
	// batch is how many entries of a directory are read at once; it bounds the memory for those with very many.
	batch = 1024
	// deepest is how many directories are open at once. What lies deeper is moved up, so that nobody takes all descriptors of the
	// process by a chain of directories.
	deepest = 64
)

// Tree removes path and all below it, and goes on behind what cannot be removed, of which the error is. It follows no links, and what
// is mounted in the tree stays and is an error. When ctx ends it ends soon, with the error of ctx; another call goes on from there.
func Tree(ctx context.Context, path string) error {
	parent, err := os.Open(filepath.Dir(path))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer parent.Close()
	return (&walk{}).remove(ctx, parent, filepath.Base(path), 0)
}

type walk struct {
	// top is the directory that is to be removed as a whole, once it is open.
	top *os.File
}

// remove removes what has a name in dir, which is so deep in the tree.
func (w *walk) remove(ctx context.Context, dir *os.File, name string, depth int) error {
	if ctx.Err() != nil {
		return fmt.Errorf("removing %s: %w", dir.Name(), ctx.Err())
	}
	err := unlink(dir, name, 0)
	if !errors.Is(err, unix.EISDIR) && !errors.Is(err, unix.EPERM) && !errors.Is(err, unix.EACCES) {
		return err
	}
	if depth == deepest && w.lift(dir, name) {
		return nil
	}
	child, opened := open(dir, name)
	switch {
	case errors.Is(opened, fs.ErrNotExist):
		return nil
	case errors.Is(opened, unix.ENOTDIR), errors.Is(opened, unix.ELOOP):
		return err
	case opened != nil:
		return opened
	}
	defer child.Close()
	if w.top == nil {
		w.top = child
	}
	if err := w.empty(ctx, child, depth+1); err != nil {
		return err
	}
	return unlink(dir, name, unix.AT_REMOVEDIR)
}

// empty removes what is in dir. What comes while it is read, as that which is moved up, may be seen by another look only.
func (w *walk) empty(ctx context.Context, dir *os.File, depth int) error {
	for {
		if _, err := dir.Seek(0, io.SeekStart); err != nil {
			return err
		}
		removed := 0
		var failed error
		for {
			names, err := dir.Readdirnames(batch)
			for _, name := range names {
				switch err := w.remove(ctx, dir, name, depth); {
				case err == nil:
					removed++
				case ctx.Err() != nil:
					return err
				case failed == nil:
					failed = err
				}
			}
			if errors.Is(err, io.EOF) || errors.Is(err, fs.ErrNotExist) {
				break
			}
			if err != nil {
				return err
			}
		}
		if removed == 0 {
			return failed
		}
	}
}

// lift moves a directory up to the top, where it is removed as well, and says whether it could: not every file system does so.
func (w *walk) lift(dir *os.File, name string) bool {
	return unix.Renameat(int(dir.Fd()), name, int(w.top.Fd()), ".removed-"+rand.Text()) == nil
}

// open opens a directory, in which nothing else may be mounted: that is EXDEV. ENOTDIR and ELOOP say that it is none.
func open(dir *os.File, name string) (*os.File, error) {
	const flags = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC
	path := filepath.Join(dir.Name(), name)
	fd, err := unix.Openat2(int(dir.Fd()), name, &unix.OpenHow{Flags: flags, Resolve: unix.RESOLVE_NO_XDEV})
	if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM) { // Linux before 5.6, or a filter of calls that does not know it
		fd, err = openOnDevice(dir, name, flags)
	}
	switch {
	case errors.Is(err, unix.EXDEV):
		return nil, fmt.Errorf("%s is still mounted: %w", path, err)
	case err != nil:
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	return os.NewFile(uintptr(fd), path), nil
}

// openOnDevice opens what is on the same device as dir; what of that is mounted elsewhere is not noticed.
func openOnDevice(dir *os.File, name string, flags int) (int, error) {
	fd, err := unix.Openat(int(dir.Fd()), name, flags, 0)
	if err != nil {
		return 0, err
	}
	var own, parent unix.Stat_t
	err = errors.Join(unix.Fstat(fd, &own), unix.Fstat(int(dir.Fd()), &parent))
	if err == nil && own.Dev != parent.Dev {
		err = unix.EXDEV
	}
	if err != nil {
		return 0, errors.Join(err, unix.Close(fd))
	}
	return fd, nil
}

// unlink removes a name; one that is gone is success.
func unlink(dir *os.File, name string, flags int) error {
	err := unix.Unlinkat(int(dir.Fd()), name, flags)
	for errors.Is(err, unix.EINTR) {
		err = unix.Unlinkat(int(dir.Fd()), name, flags)
	}
	if err == nil || errors.Is(err, unix.ENOENT) {
		return nil
	}
	return &fs.PathError{Op: "unlinkat", Path: filepath.Join(dir.Name(), name), Err: err}
}
