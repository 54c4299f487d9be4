// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package subpath opens a path inside a volume without ever leaving the volume, whatever links its users put there,
// and binds what it opened where containers can be given it; touch it with care: escaping here means owning the node.
// See upstream's CVE-2017-1002101.
package subpath

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"minik8s.io/minik8s/pkg/kubelet/internal/volume/mount"
)

// Open returns a descriptor of sub in the directory volume that names the file without opening it. Links are followed
// as long as they are relative and stay inside. The kernel decides that (openat2, Linux 5.6), so there is no moment
// between check and use.
func Open(volume, sub string) (*os.File, error) {
	root, err := os.Open(volume)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	fd, err := unix.Openat2(int(root.Fd()), sub, &unix.OpenHow{
		Flags:   unix.O_PATH | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_MAGICLINKS,
	})
	switch {
	case errors.Is(err, unix.ENOSYS):
		return nil, errors.New("subPath needs Linux 5.6 or later")
	case errors.Is(err, unix.EXDEV), errors.Is(err, unix.ELOOP):
		return nil, fmt.Errorf("subpath %q leads out of the volume", sub)
	case err != nil:
		return nil, &fs.PathError{Op: "open", Path: filepath.Join(volume, sub), Err: err}
	}
	return os.NewFile(uintptr(fd), filepath.Join(volume, sub)), nil
}

// Check says whether sub is a path that stays inside without any link.
func Check(sub string) error {
	if filepath.IsAbs(sub) {
		return fmt.Errorf("subPath must not be an absolute path: %q", sub)
	}
	if slices.Contains(strings.Split(sub, "/"), "..") {
		return fmt.Errorf("subPath must not contain '..': %q", sub)
	}
	return nil
}

// Prepare binds sub of volume on target (made as needed) and returns target. A missing sub becomes a directory that
// has the permissions of the volume. A target that shows the same file already stays.
func Prepare(m mount.Interface, volume, sub, target string) error {
	err := Bind(m, volume, sub, target)
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := makeDir(volume, sub); err != nil {
		return err
	}
	return Bind(m, volume, sub, target)
}

// Bind is Prepare for a sub that must be there: an error matches fs.ErrNotExist if it is not.
func Bind(m mount.Interface, volume, sub, target string) error {
	if err := Check(sub); err != nil {
		return err
	}
	f, err := Open(volume, sub)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if have, err := os.Lstat(target); err == nil {
		if os.SameFile(have, info) {
			return nil
		}
		// The container started anew and sub names another file now.
		if err := m.Unmount(target); err != nil {
			return err
		}
		if err := os.Remove(target); err != nil {
			return err
		}
	}
	if err := makeTarget(target, info.IsDir()); err != nil {
		return err
	}
	return m.Bind(f, target)
}

func makeDir(volume, sub string) error {
	info, err := os.Stat(volume)
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(volume)
	if err != nil {
		return err
	}
	defer root.Close()
	mode := info.Mode() & (fs.ModePerm | fs.ModeSetuid | fs.ModeSetgid | fs.ModeSticky)
	path := ""
	for name := range strings.SplitSeq(filepath.Clean(sub), "/") {
		path = filepath.Join(path, name)
		err := root.Mkdir(path, mode.Perm())
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err == nil {
			err = root.Chmod(path, mode) // whatever the umask
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func makeTarget(target string, dir bool) error {
	if err := os.MkdirAll(filepath.Dir(target), 0o750); err != nil {
		return err
	}
	if dir {
		return os.Mkdir(target, 0o750)
	}
	f, err := os.OpenFile(target, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o640)
	if err != nil {
		return err
	}
	return f.Close()
}
