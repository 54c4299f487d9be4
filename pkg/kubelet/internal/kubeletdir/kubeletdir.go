// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package kubeletdir keeps the link by which drivers and plugins, which are made for any node, find the directory of this
// kubelet. Touch it when they are to find it otherwise.
package kubeletdir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Standard is where the manifests of drivers mount the kubelet's directory from (hostPath), and by what they name it.
const Standard = "/var/lib/kubelet"

// The directories in which drivers and plugins have their sockets, below the kubelet's root; upstream's names and mode.
const (
	// Plugins has a folder for each driver.
	Plugins = "plugins"
	// Registry has the sockets by which they register.
	Registry = "plugins_registry"

	mode = 0o750
)

// Prepare makes the directories of the pods and of the sockets, below the kubelet's root.
func Prepare(root string) error {
	for _, name := range []string{"pods", Plugins, Registry} {
		if err := os.MkdirAll(filepath.Join(root, name), mode); err != nil {
			return fmt.Errorf("making kubelet directory: %w", err)
		}
	}
	return nil
}

// A TakenError says that something else than the kubelet's root is where drivers look. What it is stays.
type TakenError struct{ Path, Root string }

func (e *TakenError) Error() string {
	return fmt.Sprintf("%s is there already and not %s: drivers that mount it do not find this kubelet", e.Path, e.Root)
}

// Claim makes path a link to root, an absolute path, if nothing is there, or a link that leads nowhere: that of a cluster whose
// data were deleted by hand. Whose the link is, is where it leads: two clusters of a machine never have the same root, so that the
// first has it until Release. It fails with a *TakenError if path is another's.
func Claim(path, root string) error {
	err := os.Symlink(root, path)
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	there, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		if err = replaceDangling(path, root); err == nil {
			there, err = os.Stat(path)
		}
	}
	if err != nil {
		return err
	}
	own, err := os.Stat(root)
	if err != nil {
		return err
	}
	if !os.SameFile(there, own) {
		return &TakenError{path, root}
	}
	return nil
}

// replaceDangling lets path lead to root if it leads nowhere. Of two that do so at once the second finds the first one's: the
// directory is locked meanwhile.
func replaceDangling(path, root string) error {
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer dir.Close()
	if err := unix.Flock(int(dir.Fd()), unix.LOCK_EX); err != nil {
		return fmt.Errorf("locking %s: %w", dir.Name(), err)
	}
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := unix.Unlink(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing the link %s, which leads nowhere: %w", path, err)
	}
	if err := os.Symlink(root, path); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

// Release removes the link if it is that of root. It can be repeated. Whoever holds root's cluster is the only one to make such a
// link, so that it cannot become another's between the look and the removal, which spares directories in any case.
func Release(path, root string) error {
	to, err := os.Readlink(path)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.EINVAL) { // not there, or no link
		return nil
	}
	if err != nil || to != root {
		return err
	}
	if err := unix.Unlink(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing the link %s: %w", path, err)
	}
	return nil
}

// AsSeen is what drivers call a path below root: the same below standard if that leads to root, else the path itself. A driver in
// a container has mounted the kubelet's directory by that name.
func AsSeen(standard, root, path string) string {
	rel, err := filepath.Rel(root, path)
	if err != nil || !filepath.IsLocal(rel) {
		return path
	}
	a, aerr := os.Stat(standard)
	b, berr := os.Stat(root)
	if aerr != nil || berr != nil || !os.SameFile(a, b) {
		return path
	}
	return filepath.Join(standard, rel)
}

// Below is where a path that a driver has named is below root: drivers say Standard, whether or not that leads to root.
func Below(root, path string) (rel string, is bool) {
	for _, base := range []string{root, Standard} {
		rel, err := filepath.Rel(base, path)
		if err == nil && rel != "." && filepath.IsLocal(rel) {
			return rel, true
		}
	}
	return "", false
}
