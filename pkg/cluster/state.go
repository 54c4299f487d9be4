// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"

	"minik8s.io/minik8s/pkg/cluster/lifecycle"
)

// format is the version of the layout of a data directory. A newer one is refused: an older program would not know what
// it must keep.
const format = 1

// entries lists the clusters that this machine knows of.
func entries() lifecycle.Dir { return lifecycle.Dir(filepath.Join(BaseDir(), "clusters")) }

// entry is what is known of a cluster while none of its processes runs.
type entry struct {
	State lifecycle.State `json:"state"`
	// Config is the effective configuration; of a start that is under way, the one that it tries.
	Config Config `json:"config"`
	// Agent says that it is only a node, of a cluster on another machine.
	Agent bool `json:"agent,omitempty"`
	// Made is the topmost directory that was made for the data, "" if they are in one that was there and empty.
	Made string `json:"made,omitempty"`
	// Adopted says that the data were there before the cluster had an entry.
	Adopted bool `json:"adopted,omitempty"`
	// Before is what a start that is under way goes back to if it fails; nil for a first start.
	Before *entry `json:"before,omitempty"`
}

// asking says that a node waits to be let in by a cluster elsewhere, and has done nothing yet: what was here before is as it was.
func (e entry) asking() bool { return e.Agent && e.Config.NodeCount() == 0 }

// ErrUnknown says that there is no cluster of that name on this machine.
var ErrUnknown = errors.New("no such cluster")

// read returns the entry of a cluster, one that is Absent if there is none.
func read(dir lifecycle.Dir, name string) (entry, error) {
	data, err := os.ReadFile(dir.Entry(name))
	if errors.Is(err, fs.ErrNotExist) {
		return entry{State: lifecycle.Absent}, nil
	}
	if err != nil {
		return entry{}, explain(fmt.Errorf("reading cluster %q: %w", name, err), "")
	}
	var e entry
	if err = json.Unmarshal(data, &e); err == nil && e.State == "" {
		e, err = readPlain(data)
	}
	if err == nil && e.Config.DataDir == "" {
		err = errors.New("it names no data directory")
	}
	if err != nil {
		return entry{}, &Problem{
			Cause: fmt.Sprintf("%s cannot be read (%v)", dir.Entry(name), err), Remedy: "mend it, or remove it and the cluster's data directory", Err: err,
		}
	}
	return e, nil
}

// readPlain reads an entry of the first versions, which was the configuration alone.
func readPlain(data []byte) (entry, error) {
	e := entry{State: lifecycle.Running}
	err := json.Unmarshal(data, &e.Config)
	e.Made = e.Config.DataDir
	return e, err
}

func write(dir lifecycle.Dir, e entry) error {
	data, err := json.MarshalIndent(e, "", "  ")
	if err != nil {
		return err
	}
	return dir.Write(e.Config.Name, data)
}

// Find returns what there is of a cluster, or of a node of one elsewhere.
func Find(name string) (Entry, error) {
	e, err := read(entries(), name)
	if err != nil {
		return Entry{}, err
	}
	if e.State == lifecycle.Absent {
		return Entry{}, unknown(name)
	}
	return e.known(name), nil
}

// Load returns the configuration of a cluster: the one it runs with or, while it does not, the one it last ran with.
func Load(name string) (Config, error) {
	e, err := Find(name)
	if err == nil && e.Agent {
		err = &Problem{Cause: fmt.Sprintf("%q is only a node, of a cluster on another machine", name), Remedy: "ask there"}
	}
	return e.Config, err
}

// unknown says that there is no such cluster or, if another user has one, whose it is.
func unknown(name string) error {
	err := fmt.Errorf("cluster %q: %w", name, ErrUnknown)
	base, owner := elsewhere()
	if base == "" {
		return err
	}
	_, found := os.Lstat(lifecycle.Dir(filepath.Join(base, "clusters")).Entry(name))
	switch {
	case found == nil && owner == "root":
		return &Problem{
			Cause:  fmt.Sprintf("cluster %q was started by root", name),
			Remedy: fmt.Sprintf("use sudo, or fetch its kubeconfig: sudo minik8s kubeconfig --name %s > %s.kubeconfig", name, contextName(name)), Err: ErrUnknown,
		}
	case found == nil:
		return &Problem{Cause: fmt.Sprintf("cluster %q was started by %s", name, owner), Remedy: "use it without sudo", Err: ErrUnknown}
	case errors.Is(found, fs.ErrPermission):
		return fmt.Errorf("%w of yours (one that was started by root is found with sudo)", err)
	}
	return err
}

// elsewhere is where the clusters are that a user may take for their own: those of root, and with sudo those of whoever
// called it.
func elsewhere() (base, owner string) {
	if os.Geteuid() != 0 {
		return rootDir, "root"
	}
	u, err := user.LookupId(os.Getenv("SUDO_UID"))
	if err != nil || u.Uid == "0" {
		return "", ""
	}
	return filepath.Join(u.HomeDir, ".local", "share", "minik8s"), u.Username
}

// Entry is a cluster of this machine.
type Entry struct {
	Name string
	// Agent says that it is only a node, of a cluster on another machine.
	Agent bool
	// State is what it has left on this machine.
	State lifecycle.State
	// Config is complete unless Err is set.
	Config Config
	// Err says why the entry cannot be read.
	Err error

	before *entry
}

func (e entry) known(name string) Entry {
	return Entry{Name: name, Agent: e.Agent, State: e.State, Config: e.Config, before: e.Before}
}

// List returns all clusters of this user on this machine, sorted by name. What is wrong with one of them is in its Err.
func List() ([]Entry, error) { return list(entries()) }

func list(dir lifecycle.Dir) ([]Entry, error) {
	names, err := dir.Names()
	if err != nil {
		return nil, fmt.Errorf("listing clusters: %w", err)
	}
	var all []Entry
	for _, name := range names {
		e, err := read(dir, name)
		if err == nil && e.State == lifecycle.Absent {
			continue // gone since
		}
		known := e.known(name)
		known.Err = err
		all = append(all, known)
	}
	return all, nil
}

// Pid returns the process that runs a cluster, 0 if none does.
func Pid(name string) (int, error) { return entries().Pid(name) }

func formatPath(dir string) string { return filepath.Join(dir, "format") }

// lostAndFound is in every file system of the ext family from the start.
const lostAndFound = "lost+found"

// contents are the names in a directory, which need not exist.
func contents(dir string) ([]string, error) {
	all, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("looking into the data directory: %w", err)
	}
	var names []string
	for _, e := range all {
		if e.Name() != lostAndFound {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

// checkFormat reports whether a directory holds data of a cluster. It refuses data of a newer layout, and a directory that
// holds something else.
func checkFormat(dir string) (marked bool, err error) {
	path := formatPath(dir)
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		names, err := contents(dir)
		if err == nil && len(names) > 0 {
			err = &Problem{Cause: dir + " is not empty and not a data directory of minik8s", Remedy: "choose an empty one with --data-dir"}
		}
		return false, err
	}
	if err != nil {
		return false, fmt.Errorf("reading the format of the data directory: %w", err)
	}
	found, err := strconv.Atoi(strings.TrimSpace(string(data)))
	if err != nil {
		return true, &Problem{Cause: fmt.Sprintf("%s does not hold a number", path), Remedy: "restore the data directory from a backup, or start anew with: minik8s down --purge"}
	}
	if found > format {
		return true, &Problem{
			Cause:  fmt.Sprintf("the data directory %s has format %d, and this minik8s knows formats up to %d", dir, found, format),
			Remedy: "use the newer minik8s that made it, or another --data-dir",
		}
	}
	return true, nil
}

// mark makes the data directory of a new cluster.
func mark(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("making the data directory: %w", err)
	}
	return writeFile(formatPath(dir), []byte(strconv.Itoa(format)+"\n"))
}

// topmostMissing is the first directory that making dir makes, "" if dir is there.
func topmostMissing(dir string) string {
	top := ""
	for at := dir; ; at = filepath.Dir(at) {
		if _, err := os.Lstat(at); !errors.Is(err, fs.ErrNotExist) {
			return top
		}
		top = at
	}
}

// partPrefix begins the names of files that become the file at path when they are whole. Nobody else's begin so.
func partPrefix(path string) string { return "." + filepath.Base(path) + ".minik8s-" }

// removeParts removes what writes of the file at path have left that were cut off.
func removeParts(path string) error {
	names, err := contents(filepath.Dir(path))
	if err != nil {
		return err
	}
	for _, name := range names {
		if !strings.HasPrefix(name, partPrefix(path)) {
			continue
		}
		if err := os.Remove(filepath.Join(filepath.Dir(path), name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// writeFile replaces a file so that a crash leaves either the old or the new one. Mode is 0600.
func writeFile(path string, data []byte) error {
	return writeFileAs(path, data, func(*os.File) error { return nil })
}

// writeFileAs is writeFile for a file that is made what it is to be before anybody sees it.
func writeFileAs(path string, data []byte, as func(*os.File) error) error {
	tmp, err := os.CreateTemp(filepath.Dir(path), partPrefix(path)+"*")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(tmp.Name()) }() // it has another name if all went well
	if err = as(tmp); err == nil {
		_, err = tmp.Write(data)
	}
	if err == nil {
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
