// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package provisioner

import (
	"encoding/json"
	"maps"
	"slices"
)

// Annotations of a Node by which provisioner and keeper speak to one another. A node may write those of its own Node and read
// no other, so it gets no rights that reach beyond itself.
const (
	// annotationDirectory is where the node keeps volumes; the keeper writes it.
	annotationDirectory = "local-path.minik8s.io/directory"
	// annotationAsked are the directories that are to be there or to be gone; the provisioner writes it.
	annotationAsked = "local-path.minik8s.io/asked"
	// annotationReported is how far the keeper is with what is asked; the keeper writes it.
	annotationReported = "local-path.minik8s.io/reported"
)

// directories are names of volumes with the state of their directories: present, absent, or why neither is so yet.
type directories map[string]string

const (
	present = "present"
	absent  = "absent"
)

// maxAsked is how many directories are asked for at a time: all annotations of an object share 256 KiB.
const maxAsked = 500

// parse reads an annotation. What cannot be read says nothing: it is written anew.
func parse(annotation string) directories {
	d := directories{}
	if json.Unmarshal([]byte(annotation), &d) != nil || d == nil {
		return directories{}
	}
	return d
}

// String is the form of an annotation: "" for none.
func (d directories) String() string {
	if len(d) == 0 {
		return ""
	}
	data, err := json.Marshal(map[string]string(d)) // sorted by name
	if err != nil {
		panic("provisioner: strings do not marshal: " + err.Error())
	}
	return string(data)
}

// ask says what to ask of a node: directories of claims that wait for a volume, and the end of those of volumes that are
// released. A directory that was asked for and that nobody waits for any more goes too, unless it has become that of a volume of the
// node; keeps tells, for certain. What was asked for goes before what is new: once forgotten, nobody would find such a directory. A
// removal that was asked for is waited for, even if the directory is wanted again: the keeper may be about it.
func ask(asked, reported directories, waiting, released []string, keeps func(name string) (bool, error)) (directories, error) {
	wanted := directories{}
	for _, name := range waiting {
		wanted[name] = present
		if leaving(name, asked, reported) {
			wanted[name] = absent
		}
	}
	for _, name := range released {
		wanted[name] = absent
	}
	next := directories{}
	for name := range asked {
		if wanted[name] != "" {
			next[name] = wanted[name]
			continue
		}
		if reported[name] == absent {
			continue
		}
		kept, err := keeps(name)
		if err != nil {
			return nil, err
		}
		if !kept {
			next[name] = absent
		}
	}
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		if len(next) >= maxAsked {
			break
		}
		next[name] = wanted[name]
	}
	return next, nil
}

// leaving tells whether a directory may be on its way out, though it is still reported to be there.
func leaving(name string, asked, reported directories) bool {
	return asked[name] == absent && reported[name] != absent
}
