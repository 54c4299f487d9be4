// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package kubeletdir knows how drivers and plugins, which are made for any node, find the directory of this kubelet: in pods by what
// their hostPath volumes lead to, elsewhere by a link. Touch it when they are to find it otherwise.
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
	return fmt.Sprintf("%s is there already and not %s: programs outside of pods do not find this kubelet there", e.Path, e.Root)
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

// Place is where a path that a pod or a plugin names is on the node of the kubelet that root belongs to. Every node has a
// Standard of its own, although several share a machine, or the machine has something else there. If root is "", it is the machine's.
func Place(root, path string) string {
	if rel, is := below(Standard, path); is && root != "" {
		return filepath.Join(root, rel)
	}
	return path
}

// AsSeen is what a driver calls a path below root, whose socket is endpoint in its own words. In a pod it has mounted
// the kubelet's directory by the name of Standard.
func AsSeen(root, endpoint, path string) string {
	rel, is := below(root, path)
	if _, standard := below(Standard, endpoint); !is || !standard {
		return path
	}
	return filepath.Join(Standard, rel)
}

// below is where a path is that is base or below it.
func below(base, path string) (rel string, is bool) {
	rel, err := filepath.Rel(base, path)
	return rel, err == nil && filepath.IsLocal(rel)
}

// Below is where a path that a driver has named is below root: drivers say Standard, whether or not that leads to root.
func Below(root, path string) (rel string, is bool) {
	for _, base := range []string{root, Standard} {
		if rel, is := below(base, path); is && rel != "." {
			return rel, true
		}
	}
	return "", false
}
