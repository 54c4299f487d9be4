// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package fsgroup gives volumes that outlive their pods to the group of a pod; touch it to change what that group may do, or when
// a volume counts as given. See KEP-695.
package fsgroup

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"minik8s.io/minik8s/pkg/kubelet/internal/volume/plugin"
)

// What the group of a volume may do: files are read and written, directories entered too, and new files in them get the
// group.
const (
	fileMode = 0o660
	dirMode  = 0o770 | fs.ModeSetgid
)

// Apply gives the directory dir to the group of the pod that has the volume, if there is one, and by the pod's fsGroupChangePolicy.
func Apply(m plugin.Mount, dir string) error {
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
	return give(dir, *group)
}

// belongs tells whether a directory is one that give has made the group's.
func belongs(info fs.FileInfo, group int64) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int64(stat.Gid) == group && info.Mode()&dirMode == dirMode
}

// give makes all in dir, and last itself, the group's. Containers may be at work there: what they exchange for a link
// cannot lead out of dir.
func give(dir string, group int64) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	var dirs []string
	err = fs.WalkDir(root.FS(), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			dirs = append(dirs, name)
			return nil
		}
		return giveOne(root, name, group, fileMode)
	})
	// The root last: that it is done says that all is.
	for i := len(dirs) - 1; i >= 0 && err == nil; i-- {
		err = giveOne(root, dirs[i], group, dirMode)
	}
	if err != nil {
		return fmt.Errorf("applying fsGroup %d: %w", group, err)
	}
	return nil
}

// giveOne changes owner and mode of a file, or only the owner of a link.
func giveOne(root *os.Root, name string, group int64, mode fs.FileMode) error {
	if err := root.Lchown(name, -1, int(group)); err != nil {
		return err
	}
	info, err := root.Lstat(name)
	if err != nil || info.Mode()&fs.ModeSymlink != 0 {
		return err
	}
	return root.Chmod(name, info.Mode()|mode)
}
