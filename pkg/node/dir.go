// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// Dir has a folder for each node, with all that the node keeps.
type Dir string

const record = "node.json"

// Of is the folder of a node.
func (d Dir) Of(name string) string { return filepath.Join(string(d), name) }

// List returns all nodes, sorted by address. A folder that has no record is not one.
func (d Dir) List() ([]Node, error) {
	entries, err := os.ReadDir(string(d))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("listing nodes: %w", err)
	}
	var all []Node
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(d.Of(e.Name()), record))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		var n Node
		if err == nil {
			err = json.Unmarshal(data, &n)
		}
		if err == nil && n.Name != e.Name() {
			err = fmt.Errorf("it is of node %q", n.Name)
		}
		if err != nil {
			return nil, fmt.Errorf("reading the record of node %q: %w", e.Name(), err)
		}
		all = append(all, n)
	}
	slices.SortFunc(all, func(a, b Node) int { return cmp.Or(a.IP.Compare(b.IP), cmp.Compare(a.Name, b.Name)) })
	return all, nil
}

// Write keeps a node. After a crash the record is what it was before, or whole.
func (d Dir) Write(n Node) error {
	dir := d.Of(n.Name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("making the folder of node %q: %w", n.Name, err)
	}
	data, err := json.MarshalIndent(n, "", "  ")
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, "."+record+"-")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(f.Name()) }() // it has another name if all went well
	_, err = f.Write(data)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), filepath.Join(dir, record))
	}
	if err != nil {
		return fmt.Errorf("writing the record of node %q: %w", n.Name, err)
	}
	return nil
}

// Remove deletes the folder of a node, the record last: until then it is known that there is something to delete. Nothing may be
// mounted in it. Absence is success.
func (d Dir) Remove(name string) error {
	entries, err := os.ReadDir(d.Of(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("deleting the data of node %q: %w", name, err)
	}
	for _, e := range entries {
		if e.Name() == record {
			continue
		}
		if err := os.RemoveAll(filepath.Join(d.Of(name), e.Name())); err != nil {
			return fmt.Errorf("deleting the data of node %q: %w", name, err)
		}
	}
	if err := os.RemoveAll(d.Of(name)); err != nil {
		return fmt.Errorf("deleting the data of node %q: %w", name, err)
	}
	return nil
}
