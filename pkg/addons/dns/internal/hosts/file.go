// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package hosts

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// DefaultLock is held by who changes the machine's hosts file: several clusters may want to.
const DefaultLock = "/run/minik8s-hosts.lock"

const (
	// lockTime is how long another cluster may take, lockPause the time between two tries to get the lock.
	lockTime  = 10 * time.Second
	lockPause = 20 * time.Millisecond
	// maxTries is how often somebody else may change the file while it is replaced.
	maxTries = 5
)

// errChanged says that somebody who takes no lock has changed the file meanwhile.
var errChanged = errors.New("somebody else is changing the file")

// File is a hosts file.
type File struct {
	Path string
	// Lock is the file that is locked meanwhile; DefaultLock by default.
	Lock string
}

// Edit makes of the text of the file another one. change may be called several times. The file is replaced in one step, with the same
// mode, owner and attributes; where that is not possible, as with one that is mounted into a container, it is written over from the
// first byte that differs, and what was there comes back if that fails. It is never empty in between. A file that is to stay as it
// is, is only read.
func (f File) Edit(ctx context.Context, change func(string) string) error {
	path, err := filepath.EvalSymlinks(f.Path)
	if errors.Is(err, fs.ErrNotExist) {
		path, err = f.Path, nil
	}
	if err != nil {
		return err
	}
	if done, err := unchanged(path, change); done || err != nil {
		return err
	}
	unlock, err := f.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	for range maxTries {
		if err = edit(path, change); !errors.Is(err, errChanged) {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("changing %s: %w", f.Path, err)
	}
	return nil
}

// unchanged tells whether there is nothing to do. A file that is not there counts as an empty one.
func unchanged(path string, change func(string) string) (bool, error) {
	old, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	return change(string(old)) == string(old), nil
}

func (f File) lock(ctx context.Context) (unlock func(), err error) {
	path := f.Lock
	if path == "" {
		path = DefaultLock
	}
	l, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("locking the hosts file: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, lockTime)
	defer cancel()
	ticker := time.NewTicker(lockPause)
	defer ticker.Stop()
	for {
		err := unix.Flock(int(l.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return func() { _ = l.Close() }, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			return nil, errors.Join(fmt.Errorf("locking the hosts file: %w", err), l.Close())
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil, errors.Join(fmt.Errorf("locking the hosts file, which another cluster changes: %w", ctx.Err()), l.Close())
		}
	}
}

// edit changes the file once, with the lock held.
func edit(path string, change func(string) string) error {
	old, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	next := []byte(change(string(old)))
	if bytes.Equal(next, old) {
		return nil
	}
	var stat unix.Stat_t
	if err := unix.Stat(path, &stat); err != nil {
		return err
	}
	if stat.Nlink > 1 { // the other names of the file would keep what was
		return overwrite(path, old, next)
	}
	err = replace(path, old, next, stat)
	for _, no := range []error{unix.EBUSY, unix.EXDEV, unix.EACCES, unix.EPERM, unix.EROFS} {
		if errors.Is(err, no) {
			return overwrite(path, old, next)
		}
	}
	return err
}

// replace writes a file beside, and gives it the name of the old one.
func replace(path string, old, next []byte, stat unix.Stat_t) (err error) {
	dir := filepath.Dir(path)
	beside := filepath.Join(dir, "."+filepath.Base(path)+".minik8s")
	if err := os.Remove(beside); err != nil && !errors.Is(err, fs.ErrNotExist) { // of a process that was killed
		return err
	}
	f, err := os.OpenFile(beside, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, f.Close())
		if err != nil {
			_ = os.Remove(beside)
		}
	}()
	if _, err := f.Write(next); err != nil {
		return err
	}
	if err := f.Chown(int(stat.Uid), int(stat.Gid)); err != nil {
		return err
	}
	if err := f.Chmod(os.FileMode(stat.Mode & 0o777)); err != nil {
		return err
	}
	if err := copyAttributes(path, f); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if now, err := os.ReadFile(path); err != nil || !bytes.Equal(now, old) {
		return errors.Join(errChanged, err)
	}
	if err := os.Rename(beside, path); err != nil {
		return err
	}
	return syncDir(dir)
}

// copyAttributes gives a file the extended attributes of another one, such as its label of SELinux.
func copyAttributes(from string, to *os.File) error {
	size, err := unix.Listxattr(from, nil)
	if errors.Is(err, unix.ENOTSUP) || err == nil && size == 0 {
		return nil
	}
	if err != nil {
		return err
	}
	names := make([]byte, size)
	if size, err = unix.Listxattr(from, names); err != nil {
		return err
	}
	for name := range bytes.SplitSeq(bytes.TrimRight(names[:size], "\x00"), []byte{0}) {
		value := make([]byte, 64<<10) // the most that the kernel allows
		n, err := unix.Getxattr(from, string(name), value)
		if err != nil {
			return err
		}
		if err := unix.Fsetxattr(int(to.Fd()), string(name), value[:n], 0); err != nil {
			return err
		}
	}
	return nil
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// overwrite changes a file where it is, from the first byte that differs.
func overwrite(path string, old, next []byte) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	err = write(f, old, next)
	if err != nil {
		err = errors.Join(err, write(f, next, old))
	}
	return errors.Join(err, f.Close())
}

// write makes of what a file has something else. What both begin with is not written.
func write(f *os.File, old, next []byte) error {
	same := 0
	for same < min(len(old), len(next)) && old[same] == next[same] {
		same++
	}
	if _, err := f.WriteAt(next[same:], int64(same)); err != nil {
		return err
	}
	if err := f.Truncate(int64(len(next))); err != nil {
		return err
	}
	return f.Sync()
}
