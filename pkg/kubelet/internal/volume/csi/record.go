// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package csi

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/moby/sys/atomicwriter"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"
)

// recordFile has the record of a volume of a pod, beside its mount, and the one of what is staged. The name and the upper keys are
// upstream's.
const recordFile = "vol_data.json"

// record is what is on disk of a volume of a pod: all that its removal needs, so that this needs no API server.
type record struct {
	Name       string                        `json:"specVolID"`
	Handle     string                        `json:"volumeHandle"`
	Driver     string                        `json:"driverName"`
	Node       string                        `json:"nodeName"`
	Attachment string                        `json:"attachmentID"` // "" if nobody attaches it
	Lifecycle  storagev1.VolumeLifecycleMode `json:"volumeLifecycleMode"`

	Mode corev1.PersistentVolumeMode `json:"volumeMode,omitempty"`
	// Publishing is noted before the driver is asked to publish the volume, Published after it has.
	Publishing bool `json:"publishing,omitempty"`
	Published  bool `json:"published,omitempty"`

	pod types.UID
}

func (r record) block() bool { return r.Mode == corev1.PersistentVolumeBlock }

// same says whether two records are of one volume, for the same pod or another.
func (r record) same(o record) bool { return r.Driver == o.Driver && r.Handle == o.Handle }

// leftBehind stands for a pod in the records of volumes that no pod has any more, and that are staged still.
const leftBehind types.UID = "~"

// key names a volume of a pod.
type key struct {
	pod  types.UID
	name string
}

func (r record) key() key { return key{r.pod, r.Name} }

// covers says whether a key is another, or names a folder that this may be in. An empty field of either stands for all.
func (k key) covers(o key) bool {
	return (k.pod == "" || o.pod == "" || k.pod == o.pod) && (k.name == "" || o.name == "" || k.name == o.name)
}

// records are those on disk, in memory. It is safe for concurrent use; the writes of one volume of a pod must come one after the other.
type records struct {
	layout layout

	mu  sync.Mutex // guards the fields below
	all map[key]record
	// unread are those that cannot be read, and why. The key of a folder that cannot be listed has no name, that of all pods' nothing.
	unread map[key]error
}

// load reads the records of all pods. The error joins those that cannot be read, which is tried again whenever records are looked at.
func load(l layout) (*records, error) {
	r := &records{layout: l, all: map[key]record{}, unread: map[key]error{}}
	r.read(key{})
	r.read(key{pod: leftBehind})
	return r, errors.Join(slices.Collect(maps.Values(r.unread))...)
}

// read reads the record of a volume, those of a pod if k has no name, or all. r.mu is held, unless nobody else has r.
func (r *records) read(k key) {
	delete(r.unread, k)
	if err := r.tryRead(k); err != nil && !errors.Is(err, fs.ErrNotExist) {
		r.unread[k] = err
	}
}

func (r *records) tryRead(k key) error {
	if k.name != "" {
		if _, known := r.all[k]; known {
			return nil
		}
		one, err := readRecord(filepath.Join(r.layout.pod(k.pod, k.name), recordFile))
		if err == nil {
			one.pod = k.pod
			r.all[k] = one
		}
		return err
	}
	dir := filepath.Join(r.layout.root, "pods")
	if k.pod != "" {
		dir = r.layout.pod(k.pod, "")
	}
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		switch {
		case !e.IsDir():
		case k.pod == "":
			r.read(key{pod: types.UID(e.Name())})
		default:
			r.read(key{k.pod, e.Name()})
		}
	}
	return err
}

// readAgain tries to read what could not be read. r.mu is held.
func (r *records) readAgain() {
	for _, k := range slices.Collect(maps.Keys(r.unread)) {
		r.read(k)
	}
}

// doubt says why it is not known whether there is a record of k, or what it says. r.mu is held.
func (r *records) doubt(k key) error {
	for u, err := range r.unread {
		if u.covers(k) {
			return err
		}
	}
	return nil
}

// unknown says why it is not known which records there are of k.
func (r *records) unknown(k key) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.readAgain()
	return r.doubt(k)
}

// readRecord reads pods/UID/volumes/KIND/NAME/vol_data.json.
func readRecord(file string) (record, error) {
	var r record
	data, err := os.ReadFile(file)
	if err != nil {
		return r, fmt.Errorf("reading the record of a volume: %w", err)
	}
	if err := json.Unmarshal(data, &r); err != nil {
		return r, fmt.Errorf("reading the record of a volume: %s: %w", file, err)
	}
	if r.Name != filepath.Base(filepath.Dir(file)) || r.Driver == "" || r.Handle == "" {
		return r, fmt.Errorf("reading the record of a volume: %s is of another volume: %w", file, fs.ErrInvalid)
	}
	return r, nil
}

// begin notes that a pod is about to have a volume, and returns what is known of it, which is more if that has been begun before.
// With alone it fails while another pod has the volume.
func (r *records) begin(want record, alone bool) (record, error) {
	r.mu.Lock()
	r.readAgain()
	doubt := r.doubt(want.key())
	if doubt == nil && alone {
		doubt = r.doubt(key{name: want.Name})
	}
	have, there := r.all[want.key()]
	if there && have.same(want) {
		r.mu.Unlock()
		return have, nil
	}
	taken := false
	for _, o := range r.all {
		taken = taken || alone && o.same(want) && o.pod != want.pod && o.pod != leftBehind
	}
	if doubt == nil && !taken && !there {
		r.all[want.key()] = want // so that no other pod has it from now on
	}
	r.mu.Unlock()
	switch {
	case doubt != nil:
		return record{}, doubt
	case taken:
		return record{}, errors.New("volume uses the ReadWriteOncePod access mode and is already in use by another pod")
	case there:
		return record{}, fmt.Errorf("the pod has another volume of the name %s", want.Name)
	}
	if err := r.write(want); err != nil {
		r.mu.Lock()
		delete(r.all, want.key())
		r.mu.Unlock()
		return record{}, err
	}
	return want, nil
}

// set replaces a record.
func (r *records) set(one record) error {
	if err := r.write(one); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all[one.key()] = one
	return nil
}

func (r *records) write(one record) error {
	dir := r.layout.pod(one.pod, one.Name)
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return fmt.Errorf("making the directory of a volume: %w", err)
	}
	return writeJSON(filepath.Join(dir, recordFile), one)
}

func writeJSON(file string, content any) error {
	data, err := json.Marshal(content)
	if err == nil {
		err = atomicwriter.WriteFile(file, data, 0o600)
	}
	if err != nil {
		return fmt.Errorf("noting a volume: %w", err)
	}
	return nil
}

// remove forgets a volume of a pod with its folder, which must have nothing else in it.
func (r *records) remove(one record) error {
	dir := r.layout.pod(one.pod, one.Name)
	if err := removeFolder(dir); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.all, one.key())
	return nil
}

// removeFolder removes a folder with a record, and that first: without it nothing says that there is more to do.
func removeFolder(dir string) error {
	left, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing the folder of a volume: %w", err)
	}
	for _, e := range left {
		if e.Name() != recordFile && !strings.HasPrefix(e.Name(), ".tmp-") {
			return fmt.Errorf("removing the folder of a volume: %s is in it", filepath.Join(dir, e.Name()))
		}
	}
	for _, e := range left {
		if err := os.Remove(filepath.Join(dir, e.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("removing the folder of a volume: %w", err)
		}
	}
	if err := os.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing the folder of a volume: %w", err)
	}
	return nil
}

// leave notes of a volume that the last pod has left that it is staged still.
func (r *records) leave(one record) error {
	left := one
	left.pod, left.Publishing, left.Published = leftBehind, false, false
	if other, there := r.get(left.key()); there && !other.same(left) {
		return fmt.Errorf("another volume of the name %s is staged still", one.Name)
	}
	if err := r.set(left); err != nil {
		return err
	}
	return r.remove(one)
}

// get returns the record of a volume of a pod.
func (r *records) get(k key) (record, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	one, there := r.all[k]
	return one, there
}

// of returns the records of a pod.
func (r *records) of(pod types.UID) []record {
	return r.filter(func(o record) bool { return o.pod == pod })
}

// yield drops a record if another one, of a pod or of what pods have left, has the staged volume too, or may have it, and says whether it
// did: of two that go at once one stays, by which the volume is unstaged. What cannot be read is of the volume that its folder names; the
// error is that of a folder whose volumes are not known.
func (r *records) yield(one record) (bool, error) {
	r.mu.Lock()
	r.readAgain()
	shared, err := r.shared(one)
	have, there := r.all[one.key()]
	if shared {
		delete(r.all, one.key())
	}
	r.mu.Unlock()
	if err != nil || !shared || !there {
		return shared, err
	}
	if err := removeFolder(r.layout.pod(one.pod, one.Name)); err != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.all[one.key()] = have
		return false, err
	}
	return true, nil
}

// shared says whether another record has, or may have, what is staged for one. r.mu is held.
func (r *records) shared(one record) (bool, error) {
	for k, o := range r.all {
		if k != one.key() && r.layout.staging(o) == r.layout.staging(one) {
			return true, nil
		}
	}
	there := false
	for u, err := range r.unread {
		if u.name == "" {
			return false, err
		}
		there = there || u.name == one.Name
	}
	return there, nil
}

func (r *records) filter(keep func(record) bool) []record {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.readAgain()
	var out []record
	for _, o := range r.all {
		if keep(o) {
			out = append(out, o)
		}
	}
	return out
}

// inUse are the names of the volumes that somebody attaches, of drivers that attach still, and that pods of this node have, or may have,
// mounted, or have left staged; sorted and not nil.
func (r *records) inUse(attaches func(driver string) bool) []corev1.UniqueVolumeName {
	out := []corev1.UniqueVolumeName{}
	for _, o := range r.filter(func(o record) bool { return o.Attachment != "" && attaches(o.Driver) }) {
		out = append(out, uniqueName(o.Driver, o.Handle))
	}
	slices.Sort(out)
	return slices.Compact(out)
}
