// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package diskusage counts what a directory takes of its file system; touch it to count in another way, such as by project
// quotas.
package diskusage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"syscall"
)

// Usage is what files take.
type Usage struct {
	// Bytes are those of the blocks in use, so that holes do not count.
	Bytes int64
	// Inodes are the files and directories.
	Inodes int64
}

// Add returns the sum of both.
func (u Usage) Add(v Usage) Usage {
	return Usage{Bytes: u.Bytes + v.Bytes, Inodes: u.Inodes + v.Inodes}
}

// batch is how many entries of a directory are read at once; it bounds the memory for those with very many.
const batch = 1024

// Of counts dir and all below it on the same file system, hard links once, and follows no links, whatever is moved and linked
// meanwhile. A directory that is not there takes nothing. What cannot be read is an error, beside what the rest takes; so is the
// end of ctx, beside what was counted until then.
func Of(ctx context.Context, dir string) (Usage, error) {
	var u Usage
	root, err := os.OpenRoot(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return u, nil
	}
	if err != nil {
		return u, fmt.Errorf("measuring %q: %w", dir, err)
	}
	defer root.Close()
	info, err := root.Lstat(".")
	if err != nil {
		return u, fmt.Errorf("measuring %q: %w", dir, err)
	}
	w := walk{root: root, seen: map[uint64]bool{}}
	w.device = stat(info).Dev
	w.count(info)
	for w.pending = []string{"."}; len(w.pending) > 0; {
		next := w.pending[len(w.pending)-1]
		w.pending = w.pending[:len(w.pending)-1]
		if ctx.Err() != nil {
			return w.usage, fmt.Errorf("measuring %q: %w", dir, ctx.Err())
		}
		if err := w.directory(ctx, next); err != nil {
			w.failed = err
		}
	}
	if w.failed != nil {
		return w.usage, fmt.Errorf("measuring %q: %w", dir, w.failed)
	}
	return w.usage, nil
}

type walk struct {
	root    *os.Root
	device  uint64
	seen    map[uint64]bool // inodes that have several names
	usage   Usage
	pending []string
	failed  error // of one that could not be read
}

func stat(info fs.FileInfo) *syscall.Stat_t {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return st
	}
	return &syscall.Stat_t{}
}

// count adds a file and says whether it is a directory to look into.
func (w *walk) count(info fs.FileInfo) bool {
	st := stat(info)
	if st.Dev != w.device {
		return false
	}
	if !info.IsDir() && st.Nlink > 1 {
		if w.seen[st.Ino] {
			return false
		}
		w.seen[st.Ino] = true
	}
	w.usage = w.usage.Add(Usage{Bytes: st.Blocks * 512, Inodes: 1})
	return info.IsDir()
}

func (w *walk) directory(ctx context.Context, name string) error {
	// It may have become anything since it was listed. What is no directory is not opened for reading, which could block.
	f, err := w.root.OpenFile(name, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return gone(err)
	}
	defer f.Close()
	for {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		names, err := f.Readdirnames(batch)
		for _, n := range names {
			n = path.Join(name, n)
			info, err := w.root.Lstat(n)
			if err != nil {
				if err := gone(err); err != nil {
					w.failed = err
				}
				continue
			}
			if w.count(info) {
				w.pending = append(w.pending, n)
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return gone(err)
		}
	}
}

// gone drops the errors of what was removed or exchanged meanwhile.
func gone(err error) error {
	for _, e := range []error{fs.ErrNotExist, syscall.ENOTDIR, syscall.ELOOP} {
		if errors.Is(err, e) {
			return nil
		}
	}
	return err
}
