// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package cdi translates devices of the Container Device Interface, version 1.1 of its specification, into what any Docker can do
// for a container. Touch it when that interface grows, or when Docker learns to do more.
package cdi

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
	"tags.cncf.io/container-device-interface/pkg/cdi"
	"tags.cncf.io/container-device-interface/specs-go"

	"minik8s.io/minik8s/pkg/kubelet/container"
)

// UnsupportedError says what a container's devices need that Docker has no means for.
type UnsupportedError struct {
	// What are phrases such as "a hook (createContainer)".
	What []string
}

func (e *UnsupportedError) Error() string {
	return "CDI device injection failed: the engine has no means for " + strings.Join(e.What, ", ")
}

// Inject returns c with its CDI devices as environment, devices, mounts and groups. It reads the specifications in dirs as they are
// now, of which the last one counts most; none: where they usually are, /etc/cdi and /var/run/cdi. Device nodes that the machine does
// not have as they are to be are made in the folder nodes, where they stay. It fails with an *UnsupportedError for what cannot be
// translated.
func Inject(c container.ContainerConfig, nodes string, dirs ...string) (container.ContainerConfig, error) {
	if len(c.CDIDevices) == 0 {
		return c, nil
	}
	edits, err := read(c.CDIDevices, dirs)
	if err != nil {
		return c, err
	}
	return edit(c, edits, machine{stat: stat, make: func(n node) (string, error) { return mknod(nodes, n) }})
}

// read gathers what the specifications say of devices: what is for all of a file once, before its devices.
func read(names, dirs []string) (*specs.ContainerEdits, error) {
	options := []cdi.Option{cdi.WithAutoRefresh(false)}
	if len(dirs) > 0 {
		options = append(options, cdi.WithSpecDirs(dirs...))
	}
	cache, err := cdi.NewCache(options...)
	if err != nil {
		return nil, fmt.Errorf("CDI device injection failed: %w", err)
	}
	all := &cdi.ContainerEdits{ContainerEdits: &specs.ContainerEdits{}}
	seen := map[*cdi.Spec]bool{}
	var unresolved []string
	for _, name := range names {
		d := cache.GetDevice(name)
		if d == nil {
			unresolved = append(unresolved, name)
			continue
		}
		if spec := d.GetSpec(); !seen[spec] {
			seen[spec] = true
			all.Append(&cdi.ContainerEdits{ContainerEdits: &spec.ContainerEdits})
		}
		all.Append(&cdi.ContainerEdits{ContainerEdits: &d.ContainerEdits})
	}
	if len(unresolved) == 0 {
		return all.ContainerEdits, nil
	}
	problems := []string{"CDI device injection failed: unresolvable CDI devices " + strings.Join(unresolved, ", ")}
	broken := cache.GetErrors()
	for _, path := range slices.Sorted(maps.Keys(broken)) {
		problems = append(problems, fmt.Sprintf("%s: %v", path, broken[path]))
	}
	return nil, errors.New(strings.Join(problems, "; "))
}

// machine has device nodes, and gets others.
type machine struct {
	stat func(path string) (node, error)
	make func(node) (path string, err error)
}

// node is a device node of the machine.
type node struct {
	// kind is "b" or "c".
	kind         string
	major, minor int64
	mode         os.FileMode
	uid, gid     uint32
}

// stat looks a device node up. Links are followed, as Docker does.
func stat(path string) (node, error) {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return node{}, &os.PathError{Op: "stat", Path: path, Err: err}
	}
	n := node{
		major: int64(unix.Major(st.Rdev)), minor: int64(unix.Minor(st.Rdev)),
		mode: os.FileMode(st.Mode & 0o777), uid: st.Uid, gid: st.Gid,
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFBLK:
		n.kind = "b"
	case unix.S_IFCHR:
		n.kind = "c"
	default:
		return node{}, fmt.Errorf("%s is no device", path)
	}
	return n, nil
}

// mknod makes a device node in a folder, unless it is there. It is called by what it is, so that all who need it share it, and who
// finds it half made, or is at it at the same time, makes it what it is to be.
func mknod(dir string, n node) (string, error) {
	path := filepath.Join(dir, fmt.Sprintf("%s-%d-%d-%04o-%d-%d", n.kind, n.major, n.minor, n.mode, n.uid, n.gid))
	have, err := stat(path)
	if err == nil && have == n {
		return path, nil
	}
	if err != nil || have.kind != n.kind || have.major != n.major || have.minor != n.minor {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return "", err
		}
		if !errors.Is(err, os.ErrNotExist) { // something else has its name
			if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
				return "", err
			}
		}
		kind := uint32(unix.S_IFCHR)
		if n.kind == "b" {
			kind = unix.S_IFBLK
		}
		err := unix.Mknod(path, kind|0o600, int(unix.Mkdev(uint32(n.major), uint32(n.minor))))
		if err != nil && !errors.Is(err, unix.EEXIST) {
			return "", &os.PathError{Op: "mknod", Path: path, Err: err}
		}
	}
	if err := os.Chown(path, int(n.uid), int(n.gid)); err != nil {
		return "", err
	}
	return path, os.Chmod(path, n.mode)
}

// edit applies edits to a container. As with other runtimes they count more than what the container has by the same name or path.
func edit(c container.ContainerConfig, e *specs.ContainerEdits, m machine) (container.ContainerConfig, error) {
	var what []string
	for _, h := range e.Hooks {
		what = append(what, "a hook ("+h.HookName+")")
	}
	if e.IntelRdt != nil {
		what = append(what, "Intel RDT")
	}
	for _, d := range e.NetDevices {
		what = append(what, "a network device ("+d.HostInterfaceName+")")
	}
	c.Env, c.Devices, c.Mounts, c.Groups = slices.Clone(c.Env), slices.Clone(c.Devices), slices.Clone(c.Mounts), slices.Clone(c.Groups)
	for _, v := range e.Env {
		name, _, _ := strings.Cut(v, "=")
		c.Env = append(slices.DeleteFunc(c.Env, func(have string) bool { return strings.HasPrefix(have, name+"=") }), v)
	}
	for _, n := range e.DeviceNodes {
		d, missing, err := device(n, m)
		if err != nil {
			return c, fmt.Errorf("CDI device injection failed: %w", err)
		}
		what = append(what, missing...)
		c.Devices = append(slices.DeleteFunc(c.Devices, func(have container.Device) bool { return have.ContainerPath == d.ContainerPath }), d)
	}
	for _, m := range e.Mounts {
		mount, missing := bind(m)
		what = append(what, missing...)
		c.Mounts = append(slices.DeleteFunc(c.Mounts, func(have container.Mount) bool { return have.ContainerPath == mount.ContainerPath }), mount)
	}
	for _, gid := range e.AdditionalGIDs {
		if gid != 0 && !slices.Contains(c.Groups, int64(gid)) {
			c.Groups = append(c.Groups, int64(gid))
		}
	}
	if len(what) > 0 {
		slices.Sort(what)
		return c, &UnsupportedError{What: slices.Compact(what)}
	}
	c.CDIDevices = nil
	return c, nil
}

// device translates a device node. Docker makes one like that of the machine only, so that the machine gets one where it has none such.
// missing is what is asked for beyond that.
func device(d *specs.DeviceNode, m machine) (_ container.Device, missing []string, _ error) {
	out := container.Device{HostPath: d.HostPath, ContainerPath: d.Path, Permissions: d.Permissions}
	if out.HostPath == "" {
		out.HostPath = d.Path
	}
	if out.Permissions == "" {
		out.Permissions = "rwm"
	}
	switch {
	case d.Permissions == cdi.NoPermissions:
		return out, []string{"device " + d.Path + " without any permission"}, nil
	case !slices.Contains([]string{"", "b", "c", "u"}, d.Type):
		return out, []string{fmt.Sprintf("device %s of type %q", d.Path, d.Type)}, nil
	}
	have, err := m.stat(out.HostPath)
	if whole := d.Type != "" && d.Major != 0; err != nil && whole {
		have = node{mode: 0o666} // what it is to be is said, and nobody need have it
	} else if err != nil {
		return out, nil, err
	}
	want := wanted(d, have)
	if want != have {
		if out.HostPath, err = m.make(want); err != nil {
			return out, nil, err
		}
	}
	return out, nil, nil
}

// wanted is a device node as it is to be: as the machine has it where nothing else is said.
func wanted(d *specs.DeviceNode, have node) node {
	want := have
	if d.Type != "" {
		want.kind = d.Type
	}
	if want.kind == "u" { // a name for "c"
		want.kind = "c"
	}
	if d.Major != 0 || d.Minor != 0 {
		want.major, want.minor = d.Major, d.Minor
	}
	if d.FileMode != nil {
		want.mode = d.FileMode.Perm()
	}
	if d.UID != nil {
		want.uid = *d.UID
	}
	if d.GID != nil {
		want.gid = *d.GID
	}
	return want
}

// bind translates a mount.
func bind(m *specs.Mount) (_ container.Mount, missing []string) {
	out := container.Mount{HostPath: m.HostPath, ContainerPath: m.ContainerPath}
	if !slices.Contains([]string{"", "none", "bind"}, m.Type) {
		missing = append(missing, fmt.Sprintf("mount %s of type %s", m.ContainerPath, m.Type))
	}
	for _, o := range m.Options {
		switch o {
		case "ro":
			out.ReadOnly = true
		case "rw":
			out.ReadOnly = false
		case "bind":
			out.NonRecursive = true
		case "rbind":
			out.NonRecursive = false
		case "private", "rprivate":
			out.Propagation = ""
		case "rslave", "rshared":
			out.Propagation = o
		default:
			missing = append(missing, fmt.Sprintf("mount %s with option %s", m.ContainerPath, o))
		}
	}
	return out, missing
}
