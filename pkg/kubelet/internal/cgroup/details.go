// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/types"
)

// Details is all that the kernel tells of a group and those below it. A pointer is nil where the kernel does not tell: the root
// has no limits, and each version knows things that the other does not. Times are in nanoseconds unless their names say
// otherwise, sizes in bytes.
type Details struct {
	// Time is when it was read, Created when the group was made.
	Time, Created time.Time

	CPUTotal, CPUUser, CPUSystem *uint64
	// Periods of the quota have begun, ThrottledPeriods of them were cut short, by Throttled together.
	Periods, ThrottledPeriods, Throttled *uint64
	// BurstPeriods have used what earlier ones had left, Burst together.
	BurstPeriods, Burst *uint64
	// Shares are on the scale of v1. QuotaMicros is nil without a quota.
	Shares, PeriodMicros, QuotaMicros *uint64

	MemoryUsage, MemoryMaxUsage, WorkingSet, Cache, RSS, Swap, MappedFile, ActiveFile, InactiveFile, KernelMemory *uint64
	// MemoryFailures is how often the limit was hit, AboveHigh how often the group was slowed down, AtMax how often its memory was
	// reclaimed before it could have more; the last two are told by v2 only.
	MemoryFailures, AboveHigh, AtMax *uint64
	// FileDirty is not written to disk yet, FileWriteback is being written. Pages were Scanned for what can be taken from the group, and
	// Stolen. FileRefaults and AnonRefaults are of pages that were taken and are needed again.
	FileDirty, FileWriteback, Scanned, Stolen, FileRefaults, AnonRefaults *uint64
	// PageFaults and MajorPageFaults of the group alone, where the kernel tells, and of the tree.
	OwnPageFaults, OwnMajorPageFaults, PageFaults, MajorPageFaults *uint64
	// MemoryLimit, SwapLimit and MemoryReservation are 0 if there is none.
	MemoryLimit, SwapLimit, MemoryReservation *uint64
	OOMKills                                  *uint64

	// PIDs are the processes of the group alone, nil where the kernel does not tell. Threads are those of the tree, MaxThreads is 0 if there
	// is no limit.
	PIDs                []int
	Threads, MaxThreads *uint64

	Disks []Disk
	// Pressure is told by v2 only.
	CPUPressure, MemoryPressure, IOPressure *Pressure
}

// Disk is what was read from and written to a block device.
type Disk struct {
	Major, Minor                         uint32
	ReadBytes, WriteBytes, Reads, Writes uint64
}

// Pressure is how some or all tasks have waited (KEP-4205).
type Pressure struct{ Some, Full Stall }

// Stall is the time waited since the group was made, and the share of the last 10, 60 and 300 seconds, in percent.
type Stall struct {
	Total                time.Duration
	Avg10, Avg60, Avg300 float64
}

// unlimited is what v1 says, or more, if there is no limit.
const unlimited = 1 << 62

// NodePaths are the groups above those of pods, the root of all first; those that do not exist are left out.
func (m *Manager) NodePaths() []string {
	paths := []string{"/"}
	for _, class := range classes {
		if p := m.classPath(class); m.tree.exists(p) {
			paths = append(paths, p)
		}
	}
	return paths
}

// PodPath is the group of a pod. The error matches fs.ErrNotExist if it has none.
func (m *Manager) PodPath(uid types.UID) (string, error) {
	for _, class := range classes {
		if file, _ := m.podPath(uid, class); m.tree.exists(file) {
			return file, nil
		}
	}
	return "", fmt.Errorf("cgroup of pod %q: %w", uid, fs.ErrNotExist)
}

// ContainerPath is the group of a container, whether or not it exists; pod is what PodPath returned.
func (m *Manager) ContainerPath(pod, id string) string {
	if m.systemd() {
		return path.Join(pod, "docker-"+id+".scope")
	}
	return path.Join(pod, id)
}

// Details reads all of a group. The error matches fs.ErrNotExist if it is gone, also if it went while it was read.
func (m *Manager) Details(path string) (Details, error) {
	gone := fmt.Errorf("cgroup %q: %w", path, fs.ErrNotExist)
	if path != "/" && !m.tree.exists(path) {
		return Details{}, gone
	}
	d, err := m.tree.details(path)
	if err != nil {
		return Details{}, err
	}
	if path != "/" && !m.tree.exists(path) {
		return Details{}, gone
	}
	return d, nil
}

// files reads the files of groups, and keeps the first error but that a file is absent.
type files struct{ err error }

func (f *files) text(file string) (string, bool) {
	b, err := os.ReadFile(file)
	switch {
	case err == nil:
		return strings.TrimSpace(string(b)), true
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ENODEV), errors.Is(err, unix.EOPNOTSUPP):
		// ENODEV: the group went after the file was opened.
	case f.err == nil:
		f.err = fmt.Errorf("reading cgroup usage: %w", err)
	}
	return "", false
}

// number reads one number; "max" is 0, for no limit.
func (f *files) number(file string) *uint64 {
	text, ok := f.text(file)
	if !ok {
		return nil
	}
	return f.parse(file, text)
}

func (f *files) parse(file, text string) *uint64 {
	if text == "max" {
		return new(uint64(0))
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		if f.err == nil {
			f.err = fmt.Errorf("parsing %q: %w", file, err)
		}
		return nil
	}
	return &n
}

// table reads lines "key number"; other lines are passed over.
func (f *files) table(file string) table {
	text, ok := f.text(file)
	if !ok {
		return nil
	}
	t := table{}
	for line := range strings.Lines(text) {
		if w := strings.Fields(line); len(w) == 2 {
			if n, err := strconv.ParseUint(w[1], 10, 64); err == nil {
				t[w[0]] = n
			}
		}
	}
	return t
}

// pids reads a list of processes.
func (f *files) pids(file string) []int {
	text, ok := f.text(file)
	if !ok {
		return nil
	}
	out := []int{}
	for word := range strings.FieldsSeq(text) {
		if pid, err := strconv.Atoi(word); err == nil {
			out = append(out, pid)
		}
	}
	return out
}

func (f *files) pressure(file string) *Pressure {
	text, ok := f.text(file)
	if !ok {
		return nil
	}
	return parsePressure(text)
}

// ReadPressure reads a file in the form of the kernel's /proc/pressure; it is nil if there is none.
func ReadPressure(file string) *Pressure { return (&files{}).pressure(file) }

// parsePressure reads lines "some avg10=0.00 avg60=0.00 avg300=0.00 total=0", total in microseconds. Lines that are not so are
// passed over.
func parsePressure(text string) *Pressure {
	var p Pressure
	for line := range strings.Lines(text) {
		kind, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		var s Stall
		var micros uint64
		if n, err := fmt.Sscanf(rest, "avg10=%f avg60=%f avg300=%f total=%d", &s.Avg10, &s.Avg60, &s.Avg300, &micros); n != 4 || err != nil {
			continue
		}
		s.Total = time.Duration(micros) * time.Microsecond
		switch kind {
		case "some":
			p.Some = s
		case "full":
			p.Full = s
		}
	}
	return &p
}

type table map[string]uint64

// get returns the value of a key, times scale; nil if it is not there.
func (t table) get(key string, scale uint64) *uint64 {
	n, ok := t[key]
	if !ok {
		return nil
	}
	return new(n * scale)
}

// limit makes 0 of what stands for no limit.
func limit(n *uint64) *uint64 {
	if n != nil && *n > unlimited {
		return new(uint64(0))
	}
	return n
}

// created is when a group was made. Making a group below it changes the time of its directory, not that of its files.
func created(candidates ...string) time.Time {
	var first time.Time
	for _, name := range candidates {
		i, err := os.Stat(name)
		if err == nil && (first.IsZero() || i.ModTime().Before(first)) {
			first = i.ModTime()
		}
	}
	return first
}

// addDisk sums up what lines of several operations say of a device.
func addDisk(disks []Disk, major, minor uint32, change func(*Disk)) []Disk {
	i := slices.IndexFunc(disks, func(d Disk) bool { return d.Major == major && d.Minor == minor })
	if i < 0 {
		disks = append(disks, Disk{Major: major, Minor: minor})
		i = len(disks) - 1
	}
	change(&disks[i])
	return disks
}

// device parses "major:minor".
func device(text string) (major, minor uint32, ok bool) {
	a, b, ok := strings.Cut(text, ":")
	x, err1 := strconv.ParseUint(a, 10, 32)
	y, err2 := strconv.ParseUint(b, 10, 32)
	return uint32(x), uint32(y), ok && err1 == nil && err2 == nil
}
