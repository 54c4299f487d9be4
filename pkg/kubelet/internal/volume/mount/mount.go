// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package mount makes and removes mounts of the node; touch it when volumes need another kind of mount.
package mount

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Interface is what volumes need of the kernel.
type Interface interface {
	// Tmpfs mounts a new file system in memory on dir. mode and gid are those of its root; size limits it in bytes
	// (0: the kernel's default, half of the memory).
	Tmpfs(dir string, mode fs.FileMode, gid int64, size int64) error
	// HugePages mounts a new file system in huge pages of a size in bytes on dir. mode and gid are those of its root.
	HugePages(dir string, mode fs.FileMode, gid int64, pageSize int64) error
	// Bind mounts the open file or directory on target, which must be of the same kind.
	Bind(f *os.File, target string) error
	// Overlay mounts directories, the topmost first, as one that nobody can write on dir, which is empty. dir lies below them all, for
	// the kernel takes no fewer than two.
	Overlay(layers []string, dir string) error
	// Remote mounts what a server has on dir, with options of mount(8). kind is the file system's, such as nfs. It takes no longer
	// than a minute.
	Remote(ctx context.Context, kind, source, dir string, options []string) error
	// Device mounts a block device on dir, with options of mount(8). One without a file system gets one of that kind first, unless it
	// is mounted to be read ("ro"); one that has a file system is checked. It takes as long as that, or until ctx ends.
	Device(ctx context.Context, device, dir, kind string, options []string) error
	// Unmount removes the topmost mount of target. A target that is none is success. A server that is away is given a minute.
	Unmount(target string) error
	// Under lists all mount points in dir (itself included), innermost first.
	Under(dir string) ([]string, error)
	// IsMountPoint says whether dir is the root of another file system than its parent; bind mounts of the same file
	// system are not noticed.
	IsMountPoint(dir string) (bool, error)
	// Mounted says whether something is mounted on dir, a path without links, and does not look at it: it may hang.
	Mounted(dir string) (bool, error)
}

// Linux asks the kernel.
type Linux struct{}

// Tmpfs implements Interface. Nothing of it gets into swap, if the kernel can see to that (from 6.4 on, and not in user namespaces).
func (Linux) Tmpfs(dir string, mode fs.FileMode, gid, size int64) error {
	options := fmt.Sprintf("mode=%o,gid=%d", unixMode(mode), gid)
	if size > 0 {
		options += fmt.Sprintf(",size=%d", size)
	}
	err := unix.Mount("tmpfs", dir, "tmpfs", 0, options+",noswap")
	if err != nil {
		err = unix.Mount("tmpfs", dir, "tmpfs", 0, options)
	}
	if err != nil {
		return fmt.Errorf("mounting tmpfs on %s: %w", dir, err)
	}
	return nil
}

// CanKeepOffSwap says whether nothing of what Tmpfs mounts gets into swap. It mounts nothing.
func CanKeepOffSwap() bool {
	fd, err := unix.Fsopen("tmpfs", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return false
	}
	defer func() { _ = unix.Close(fd) }()
	return unix.FsconfigSetFlag(fd, "noswap") == nil
}

// HugePages implements Interface.
func (Linux) HugePages(dir string, mode fs.FileMode, gid, pageSize int64) error {
	options := fmt.Sprintf("mode=%o,gid=%d,pagesize=%dK", unixMode(mode), gid, pageSize>>10)
	if err := unix.Mount("nodev", dir, "hugetlbfs", 0, options); err != nil {
		return fmt.Errorf("mounting hugetlbfs with pages of %d KiB on %s: %w", pageSize>>10, dir, err)
	}
	return nil
}

// Bind implements Interface. The source goes by its descriptor, so that nobody can exchange what its path names.
func (Linux) Bind(f *os.File, target string) error {
	source := "/proc/self/fd/" + strconv.Itoa(int(f.Fd()))
	if err := unix.Mount(source, target, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("bind mounting %s on %s: %w", f.Name(), target, err)
	}
	return nil
}

// Overlay implements Interface. The kernel reads no more options than fit into a page, so that it is told descriptors, which are
// shorter than an engine's paths and may have no colon.
func (Linux) Overlay(layers []string, dir string) error {
	var names []string
	for _, path := range append(slices.Clone(layers), dir) {
		f, err := os.OpenFile(path, unix.O_PATH|unix.O_DIRECTORY, 0)
		if err != nil {
			return err
		}
		defer f.Close()
		names = append(names, "/proc/self/fd/"+strconv.Itoa(int(f.Fd())))
	}
	// The image's programs are for containers; on the node its devices and owners mean nothing.
	const flags = unix.MS_RDONLY | unix.MS_NODEV | unix.MS_NOSUID
	if err := unix.Mount("overlay", dir, "overlay", flags, "lowerdir="+strings.Join(names, ":")); err != nil {
		return fmt.Errorf("mounting an overlay of %d layers on %s: %w", len(layers), dir, err)
	}
	return nil
}

// Unmount implements Interface.
func (Linux) Unmount(target string) error {
	data, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	if isRemote(string(data), target) {
		err = unmountRemote(target, remotePatience)
	} else {
		err = unix.Unmount(target, unix.UMOUNT_NOFOLLOW)
	}
	if err == nil || errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOENT) {
		return nil
	}
	return fmt.Errorf("unmounting %s: %w", target, err)
}

// Under implements Interface.
func (Linux) Under(dir string) ([]string, error) {
	data, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	// The kernel lists mounts by their real path.
	real, err := filepath.EvalSymlinks(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return under(string(data), real), nil
}

// IsMountPoint implements Interface.
func (Linux) IsMountPoint(dir string) (bool, error) {
	var own, parent unix.Stat_t
	if err := unix.Lstat(dir, &own); err != nil {
		if errors.Is(err, unix.ENOENT) {
			return false, nil
		}
		return false, &fs.PathError{Op: "lstat", Path: dir, Err: err}
	}
	if err := unix.Lstat(filepath.Dir(dir), &parent); err != nil {
		return false, &fs.PathError{Op: "lstat", Path: filepath.Dir(dir), Err: err}
	}
	return own.Dev != parent.Dev, nil
}

// under reads mount points out of mountinfo (see proc(5)): the fifth field, with blanks as octal escapes. Later lines
// lie on earlier ones, so the reverse order is the one to unmount in.
func under(mountinfo, dir string) []string {
	var list []string
	for line := range strings.Lines(mountinfo) {
		fields := strings.Fields(line)
		if len(fields) < 5 {
			continue
		}
		point := unescape(fields[4])
		if point == dir || strings.HasPrefix(point, strings.TrimSuffix(dir, "/")+"/") {
			list = append(list, point)
		}
	}
	slices.Reverse(list)
	return list
}

func unescape(s string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(s)
}

func unixMode(mode fs.FileMode) uint32 {
	m := uint32(mode.Perm())
	if mode&fs.ModeSetgid != 0 {
		m |= unix.S_ISGID
	}
	if mode&fs.ModeSticky != 0 {
		m |= unix.S_ISVTX
	}
	return m
}
