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
// released. A directory that was asked for and that nobody waits for any more goes too, unless it has become that of a volume;
// exists tells, for certain.
func ask(asked, reported directories, waiting, released []string, exists func(name string) (bool, error)) (directories, error) {
	next := directories{}
	for _, name := range waiting {
		next[name] = present
	}
	for _, name := range released {
		next[name] = absent
	}
	for name := range asked {
		if next[name] != "" || reported[name] == absent {
			continue
		}
		there, err := exists(name)
		if err != nil {
			return nil, err
		}
		if !there {
			next[name] = absent
		}
	}
	if len(next) > maxAsked {
		for _, name := range slices.Sorted(maps.Keys(next))[maxAsked:] {
			delete(next, name)
		}
	}
	return next, nil
}
