// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package fsgroup gives volumes that outlive their pods to the group of a pod; touch it to change what that group may do, or when
// a volume counts as given. See KEP-695.
package fsgroup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	"minik8s.io/minik8s/pkg/kubelet/internal/volume/plugin"
)

// What the group of a volume may do: files are read and written, directories entered too, and new files in them get the
// group.
const (
	fileMode = 0o660
	dirMode  = 0o770 | fs.ModeSetgid
)

// Slow is the reason of upstream's event about a volume that takes long to give.
const Slow = "VolumePermissionChangeInProgress"

// patience is after how long that is told.
const patience = 30 * time.Second

// Apply gives the directory dir to the group of the pod that has the volume, if there is one, and by the pod's fsGroupChangePolicy. slow is
// told the text of the event if that takes long. When ctx ends it stops where it is, and the directory itself is not the group's yet: a volume
// may have millions of files, which neither the end of the pod nor that of the kubelet waits for.
func Apply(ctx context.Context, m plugin.Mount, dir string, slow func(message string)) error {
	group := m.FSGroup()
	if group == nil {
		return nil
	}
	info, err := os.Stat(dir)
	if err != nil {
		return fmt.Errorf("applying fsGroup %d: %w", *group, err)
	}
	policy := ptr.Deref(m.Pod.Spec.SecurityContext.FSGroupChangePolicy, corev1.FSGroupChangeAlways)
	if policy == corev1.FSGroupChangeOnRootMismatch && belongs(info, *group) {
		return nil
	}
	return patiently(func() error { return give(ctx, dir, *group) }, func() {
		shown := dir
		if i := strings.Index(dir, string(m.Pod.UID)); i >= 0 {
			shown = dir[i:]
		}
		slow(fmt.Sprintf("Setting volume ownership for %s is taking longer than expected, consider using OnRootMismatch - "+
			"https://kubernetes.io/docs/tasks/configure-pod-container/security-context/#configure-volume-permission-and-ownership-change-policy-for-pods", shown))
	})
}

// patiently does something, and tells once if that takes long.
func patiently(do func() error, tell func()) error {
	timer := time.AfterFunc(patience, tell)
	defer timer.Stop()
	return do()
}

// belongs tells whether a directory is one that give has made the group's.
func belongs(info fs.FileInfo, group int64) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int64(stat.Gid) == group && info.Mode()&dirMode == dirMode
}

// give makes all in dir, and last itself, the group's. Containers may be at work there: what they exchange for a link
// cannot lead out of dir. What cannot be given stays as it is, which the log tells, as upstream's: a server may let nobody
// change owners, or show snapshots that nobody changes.
func give(ctx context.Context, dir string, group int64) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	var dirs []string
	left, why := 0, error(nil) // how much cannot be given, and why not the first of it
	one := func(name string, mode fs.FileMode) {
		if err := giveOne(root, name, group, mode); err != nil && !errors.Is(err, fs.ErrNotExist) {
			left, why = left+1, cmp.Or(why, err)
		}
	}
	err = fs.WalkDir(root.FS(), ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, fs.ErrNotExist) && name != ".": // removed meanwhile
		case err != nil:
			return err
		case entry.IsDir():
			dirs = append(dirs, name)
		default:
			one(name, fileMode)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("applying fsGroup %d: %w", group, err)
	}
	// The root last: that it is done says that all is.
	for _, name := range slices.Backward(dirs) {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		one(name, dirMode)
	}
	if left > 0 {
		klog.Background().Error(why, "Some of a volume stays as it is, and not the group's of the pod", "path", dir, "fsGroup", group, "files", left)
	}
	return nil
}

// giveOne changes owner and mode of a file, or only the owner of a link.
func giveOne(root *os.Root, name string, group int64, mode fs.FileMode) error {
	owner := root.Lchown(name, -1, int(group))
	info, err := root.Lstat(name)
	if err == nil && info.Mode()&fs.ModeSymlink == 0 {
		err = root.Chmod(name, info.Mode()|mode)
	}
	return errors.Join(owner, err)
}
