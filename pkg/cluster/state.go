// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// format is the version of the layout of a data directory. A newer one is refused: an older program would not know what
// it must keep.
const format = 1

// entriesDir lists the clusters that this machine knows of, with their effective configurations.
func entriesDir() string           { return filepath.Join(BaseDir(), "clusters") }
func entryPath(name string) string { return filepath.Join(entriesDir(), name+".json") }
func lockPath(name string) string  { return filepath.Join(entriesDir(), name+".lock") }

// ErrUnknown says that there is no cluster of that name on this machine.
var ErrUnknown = errors.New("no such cluster")

// Load returns the kept configuration of a cluster.
func Load(name string) (Config, error) {
	data, err := os.ReadFile(entryPath(name))
	if errors.Is(err, fs.ErrNotExist) {
		return Config{}, fmt.Errorf("cluster %q: %w", name, ErrUnknown)
	}
	if err != nil {
		return Config{}, fmt.Errorf("reading cluster %q: %w", name, err)
	}
	var c Config
	if err := json.Unmarshal(data, &c); err != nil {
		return Config{}, fmt.Errorf("reading %s: %w", entryPath(name), err)
	}
	return c, nil
}

// List returns the configurations of all clusters of this machine.
func List() ([]Config, error) {
	files, err := filepath.Glob(filepath.Join(entriesDir(), "*.json"))
	if err != nil {
		return nil, err
	}
	var all []Config
	for _, f := range files {
		c, err := Load(strings.TrimSuffix(filepath.Base(f), ".json"))
		if err != nil {
			return nil, err
		}
		all = append(all, c)
	}
	return all, nil
}

// save keeps the configuration of a cluster.
func save(c Config) error {
	if err := os.MkdirAll(entriesDir(), 0o700); err != nil {
		return fmt.Errorf("making %s: %w", entriesDir(), err)
	}
	data, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return err
	}
	return writeFile(entryPath(c.Name), data)
}

// Forget removes the entry of a cluster, and the directories that have become empty. Its data stays.
func Forget(name string) error {
	for _, f := range []string{entryPath(name), lockPath(name)} {
		if err := os.Remove(f); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	os.Remove(entriesDir()) // these fail, as they should, while another cluster is there
	os.Remove(BaseDir())
	return nil
}

func formatPath(dir string) string { return filepath.Join(dir, "format") }

// IsNew reports whether dir holds nothing yet, so that a start which fails may remove what it has put there.
func IsNew(dir string) bool {
	entries, err := os.ReadDir(dir)
	return errors.Is(err, fs.ErrNotExist) || err == nil && len(entries) == 0
}

// checkFormat refuses a data directory of a newer layout, or one that holds something else, and marks a new one.
func checkFormat(dir string) error {
	path := formatPath(dir)
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		if !IsNew(dir) {
			return &Problem{Cause: dir + " is not empty and not a data directory of minik8s", Remedy: "choose an empty one with --data-dir"}
		}
		return writeFile(path, []byte(strconv.Itoa(format)+"\n"))
	}
	if err != nil {
		return fmt.Errorf("reading the format of the data directory: %w", err)
	}
	found, err := strconv.Atoi(strings.TrimSpace(string(data)))
	if err != nil {
		return &Problem{Cause: fmt.Sprintf("%s does not hold a number", path), Remedy: "restore the data directory from a backup, or start anew with: minik8s down --purge"}
	}
	if found > format {
		return &Problem{
			Cause:  fmt.Sprintf("the data directory %s has format %d, and this minik8s knows formats up to %d", dir, found, format),
			Remedy: "use the newer minik8s that made it, or another --data-dir",
		}
	}
	return nil
}

// lock marks a cluster as run by this process until the file is closed, which the kernel does if the process dies.
func lock(name string) (*os.File, error) {
	if err := os.MkdirAll(entriesDir(), 0o700); err != nil {
		return nil, fmt.Errorf("making %s: %w", entriesDir(), err)
	}
	f, err := os.OpenFile(lockPath(name), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("locking cluster %q: %w", name, err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		f.Close()
		return nil, &Problem{Cause: fmt.Sprintf("cluster %q is already running", name), Remedy: fmt.Sprintf("stop it with: minik8s down --name %s", name)}
	}
	if err := f.Truncate(0); err == nil {
		_, err = f.WriteAt([]byte(strconv.Itoa(os.Getpid())), 0)
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("locking cluster %q: %w", name, err)
	}
	return f, nil
}

// Pid returns the process that runs a cluster, 0 if none does.
func Pid(name string) int {
	f, err := os.Open(lockPath(name))
	if err != nil {
		return 0
	}
	defer f.Close()
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_SH|syscall.LOCK_NB); err == nil {
		return 0 // nobody holds it
	}
	data := make([]byte, 20)
	n, _ := f.ReadAt(data, 0)
	pid, err := strconv.Atoi(strings.TrimSpace(string(data[:n])))
	if err != nil {
		return 0
	}
	return pid
}

// writeFile replaces a file so that a crash leaves either the old or the new one. Mode is 0600.
func writeFile(path string, data []byte) error {
	tmp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name())
	if _, err = tmp.Write(data); err == nil {
		err = tmp.Sync()
	}
	if cerr := tmp.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return os.Rename(tmp.Name(), path)
}
