// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
)

// errNoKubeconfig says that a file is there which is none.
var errNoKubeconfig = errors.New("it cannot be read as a kubeconfig")

// changeKubeconfig changes one of the user's kubeconfigs, which need not be there, if change says so. Meanwhile nobody else does who locks
// it as kubectl and kind do, and a crash or a full disk leaves it as it was: by it the user may reach all else.
func changeKubeconfig(path string, change func(there *api.Config) (changed bool, err error)) error {
	unlock, err := lockKubeconfig(path)
	if err != nil {
		return err
	}
	defer unlock()
	there, err := clientcmd.LoadFromFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		there = api.NewConfig()
	case errors.Is(err, fs.ErrPermission):
		return err
	case err != nil:
		return fmt.Errorf("%s: %w: %w", path, errNoKubeconfig, err)
	}
	changed, err := change(there)
	if err != nil || !changed {
		return err
	}
	data, err := clientcmd.Write(*there)
	if err != nil {
		return fmt.Errorf("encoding kubeconfig: %w", err)
	}
	return replaceKept(path, data)
}

// lockPatience is how long others may take to change a kubeconfig.
const lockPatience = 5 * time.Second

// lockKubeconfig waits for the lock of a kubeconfig, which is a file beside it.
func lockKubeconfig(path string) (unlock func(), err error) {
	lock := path + ".lock"
	late := time.After(lockPatience)
	for {
		f, err := os.OpenFile(lock, os.O_CREATE|os.O_EXCL, 0)
		if err == nil {
			_ = f.Close()
			return func() { _ = os.Remove(lock) }, nil
		}
		if !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
		select {
		case <-late:
			return nil, &Problem{Cause: fmt.Sprintf("%s is there, by which another program has locked %s", lock, path), Remedy: "repeat this when that program has ended; if there is none, remove the lock", Err: err}
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// replaceKept is writeFile for a file of the user's: one that is there keeps its owner and mode, and a link to it stays one.
func replaceKept(path string, data []byte) error {
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target
	}
	_ = removeParts(path) // with credentials in them; whoever is killed while writing leaves one
	var before unix.Stat_t
	if err := unix.Stat(path, &before); err != nil {
		return writeFile(path, data)
	}
	err := writeFileAs(path, data, func(f *os.File) error {
		if err := f.Chmod(fs.FileMode(before.Mode & 0o777)); err != nil {
			return err
		}
		return f.Chown(int(before.Uid), int(before.Gid))
	})
	if errors.Is(err, unix.EBUSY) || errors.Is(err, unix.EPERM) {
		// Nothing can take the place of what is a mount by itself, as in containers, and who is not root cannot give a file away.
		return os.WriteFile(path, data, 0o600)
	}
	return err
}
