// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package persistentvolume

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// What the group of a volume may do: files are read and written, directories entered too, and new files in them get the
// group.
const (
	fileMode = 0o660
	dirMode  = 0o770 | fs.ModeSetgid
)

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
