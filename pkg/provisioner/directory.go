// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package provisioner

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// volumeName is what volumes of the provisioner are called. Directories of other names are nobody's to make or remove.
var volumeName = regexp.MustCompile(`^pvc-[a-zA-Z0-9][-a-zA-Z0-9]*$`)

// bring makes the directory of a volume present or absent. It repeats what a killed process has left undone.
func (k *Keeper) bring(name, state string) error {
	if !volumeName.MatchString(name) {
		return fmt.Errorf("%q is not the name of a volume", name)
	}
	path := filepath.Join(k.Dir, name)
	switch state {
	case present:
		return makeDir(path)
	case absent:
		return k.remove(path)
	}
	return fmt.Errorf("a directory cannot be %q", state)
}

// makeDir makes a directory that every user may write to, for nobody knows which one the pod has.
func makeDir(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o711); err != nil {
		return err
	}
	if err := os.Mkdir(path, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return os.Chmod(path, 0o777)
}

// removeDir deletes a directory with its data, but not what somebody has mounted there.
func removeDir(path string) error {
	mounted, err := mountedBelow(path)
	if err != nil {
		return err
	}
	if mounted != "" {
		return fmt.Errorf("%s is a mount point", mounted)
	}
	return os.RemoveAll(path)
}

// mountedBelow is a mount point at path or below it, "" if there is none.
func mountedBelow(path string) (string, error) {
	path, err := filepath.EvalSymlinks(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	data, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return "", fmt.Errorf("reading mounts: %w", err)
	}
	for line := range strings.Lines(string(data)) {
		fields := strings.Fields(line)
		// The kernel writes spaces in octal; the names of volumes have none, the path may.
		if len(fields) > 4 && strings.HasPrefix(strings.ReplaceAll(fields[4], `\040`, " ")+"/", path+"/") {
			return fields[4], nil
		}
	}
	return "", nil
}
