// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package atomicwriter replaces the files of a directory all at once for whoever reads them; touch it to change how
// configuration reaches running containers.
//
// The files live in a hidden directory named after the time of writing. ..data is a symbolic link to it and each
// visible name a link through ..data, so that renaming a new ..data over the old one switches all of them:
//
//	tls.crt -> ..data/tls.crt
//	..data -> ..2026_11_20_12_00_00.123456
//	..2026_11_20_12_00_00.123456/tls.crt
package atomicwriter

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const (
	dataLink    = "..data"
	newDataLink = "..data_tmp"
	maxPath     = 4096
	maxName     = 255
)

// File is one file of a volume.
type File struct {
	Data []byte
	// Mode holds the permission bits, whatever the umask.
	Mode fs.FileMode
	// User owns the file; nil means the kubelet's user.
	User *int64
}

// Write makes files (by path relative to dir) the whole content of dir. If group is not nil it owns everything, files
// become readable for it and directories pass it on. Nothing is written if the content is the same already. Only one
// Write may work on a directory at a time; a killed one leaves the old or the new content and is tidied by the next.
// points are the paths in dir on which containers have something else mounted: they become directories, where no file
// has their name, for who makes containers cannot make them in what is read-only.
func Write(dir string, files map[string]File, group *int64, points ...string) error {
	files, err := byCleanPath(files)
	if err != nil {
		return err
	}
	current, err := os.Readlink(filepath.Join(dir, dataLink))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("reading the link to the current content: %w", err)
	}
	if current == "" || !same(filepath.Join(dir, current), files, group) {
		next, err := writeAll(dir, files, group)
		if err != nil {
			return err
		}
		if err := swap(dir, next); err != nil {
			return err
		}
		current = next
	}
	return tidy(dir, current, files, points)
}

// Written says whether dir has been written once.
func Written(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, dataLink))
	return err == nil
}

// byCleanPath are files by what their paths come to: the API takes "./a" and "d//b/", too.
func byCleanPath(files map[string]File) (map[string]File, error) {
	out := make(map[string]File, len(files))
	for path, f := range files {
		if err := validate(path); err != nil {
			return nil, err
		}
		out[filepath.Clean(path)] = f
	}
	return out, nil
}

func validate(path string) error {
	switch {
	case path == "":
		return fmt.Errorf("invalid path: must not be empty: %q", path)
	case filepath.IsAbs(path):
		return fmt.Errorf("invalid path: must be relative path: %s", path)
	case len(path) > maxPath:
		return fmt.Errorf("invalid path: must be less than or equal to %d characters", maxPath)
	}
	for name := range strings.SplitSeq(path, "/") {
		switch {
		case name == "..":
			return fmt.Errorf("invalid path: must not contain '..': %s", path)
		case len(name) > maxName:
			return fmt.Errorf("invalid path: filenames must be less than or equal to %d characters", maxName)
		}
	}
	if strings.HasPrefix(filepath.Clean(path), "..") {
		return fmt.Errorf("invalid path: must not start with '..': %s", path)
	}
	return nil
}

// same compares what is below dir with files.
func same(dir string, files map[string]File, group *int64) bool {
	seen := 0
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		want, ok := files[name]
		if !ok {
			return fs.ErrExist
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if info.Mode() != fileMode(want.Mode, group) || info.Size() != int64(len(want.Data)) {
			return fs.ErrInvalid
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if !bytes.Equal(data, want.Data) {
			return fs.ErrInvalid
		}
		seen++
		return nil
	})
	return err == nil && seen == len(files)
}

func writeAll(dir string, files map[string]File, group *int64) (name string, err error) {
	next, err := os.MkdirTemp(dir, time.Now().UTC().Format("..2006_01_02_15_04_05."))
	if err != nil {
		return "", err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(next))
		}
	}()
	if err := own(dir, -1, group, dirMode(dir, group)); err != nil {
		return "", err
	}
	if err := own(next, -1, group, newDirMode(group)); err != nil {
		return "", err
	}
	for path, f := range files {
		full := filepath.Join(next, path)
		if err := makeParents(next, path, group); err != nil {
			return "", err
		}
		if err := os.WriteFile(full, f.Data, 0o600); err != nil {
			return "", err
		}
		user := int64(-1)
		if f.User != nil {
			user = *f.User
		}
		if err := own(full, user, group, fileMode(f.Mode, group)); err != nil {
			return "", err
		}
	}
	return filepath.Base(next), nil
}

func makeParents(root, path string, group *int64) error {
	dir := root
	parents := strings.Split(path, "/")
	for _, name := range parents[:len(parents)-1] {
		dir = filepath.Join(dir, name)
		if err := os.Mkdir(dir, 0o755); err != nil {
			if errors.Is(err, fs.ErrExist) {
				continue
			}
			return err
		}
		if err := own(dir, -1, group, newDirMode(group)); err != nil {
			return err
		}
	}
	return nil
}

// own changes the owner before the mode, because a change of owner clears the setgid bit.
func own(path string, user int64, group *int64, mode fs.FileMode) error {
	gid := int64(-1)
	if group != nil {
		gid = *group
	}
	if user >= 0 || gid >= 0 {
		if err := os.Lchown(path, int(user), int(gid)); err != nil {
			return err
		}
	}
	return os.Chmod(path, mode)
}

func fileMode(mode fs.FileMode, group *int64) fs.FileMode {
	if group != nil {
		mode |= 0o440
	}
	return mode
}

func newDirMode(group *int64) fs.FileMode {
	if group == nil {
		return 0o755
	}
	return 0o755 | fs.ModeSetgid
}

// dirMode is that of the volume itself: open to all, as upstream has it (containers see it read-only).
func dirMode(dir string, group *int64) fs.FileMode {
	mode := fs.FileMode(0o777)
	if info, err := os.Stat(dir); err == nil {
		mode |= info.Mode() & fs.ModeSticky
	}
	if group != nil {
		mode |= fs.ModeSetgid
	}
	return mode
}

func swap(dir, next string) error {
	tmp := filepath.Join(dir, newDataLink)
	if err := os.Remove(tmp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Symlink(next, tmp); err != nil {
		return err
	}
	return os.Rename(tmp, filepath.Join(dir, dataLink))
}

// tidy makes the visible links and the mount points, and removes what else is not the current content.
func tidy(dir, current string, files map[string]File, points []string) error {
	want, mounted := map[string]bool{}, map[string]bool{}
	for path := range files {
		want[first(path)] = true
	}
	points = slices.DeleteFunc(slices.Clone(points), func(path string) bool { return want[first(path)] || strings.HasPrefix(path, "..") })
	for _, path := range points {
		mounted[first(path)] = true
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		name := e.Name()
		if name == dataLink || name == current || mounted[name] && e.IsDir() {
			continue
		}
		if want[name] {
			delete(want, name)
			continue
		}
		if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	for name := range want {
		if err := os.Symlink(filepath.Join(dataLink, name), filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	for _, path := range points {
		if err := os.MkdirAll(filepath.Join(dir, path), 0o755); err != nil {
			return fmt.Errorf("unable to create nested volume mountpoints: %w", err)
		}
	}
	return nil
}

// first is the first name of a path.
func first(path string) string {
	name, _, _ := strings.Cut(path, "/")
	return name
}
