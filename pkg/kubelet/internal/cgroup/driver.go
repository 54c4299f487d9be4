// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package cgroup

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// driver makes and removes groups, as the engine does.
type driver interface {
	// ensure makes the group, with its parents, able to have limits; it can be repeated. It may set them already.
	ensure(path string, l limits) error
	// remove ends the group and those below it, of which directories may be left. Absence is success.
	remove(path string) error
}

// cgroupfs is the driver that has the tree do it all.
type cgroupfs struct{ tree tree }

func (d cgroupfs) ensure(path string, _ limits) error { return d.tree.prepare(path) }

func (cgroupfs) remove(string) error { return nil }

func (m *Manager) remove(file string) error {
	dirs, err := m.tree.dirs(file)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(dirs, isDir) {
		if err := m.driver.remove(file); err != nil {
			return err
		}
	}
	var errs []error
	for _, d := range dirs {
		errs = append(errs, removeGroup(d))
	}
	return errors.Join(errs...)
}

func isDir(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.IsDir()
}

// removeGroup removes a group and those below it. The files in the directory of a group are the kernel's and vanish
// with it.
func removeGroup(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var errs []error
	for _, e := range entries {
		if e.IsDir() {
			errs = append(errs, removeGroup(filepath.Join(dir, e.Name())))
		}
	}
	if err := rmdir(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
