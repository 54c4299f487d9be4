// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package mount

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Share has what is mounted below dir, a real path, be seen in the containers that have mounted it with propagation, and what they
// mount there be seen on the node. Where the machine does not do that by itself, as systemd has it, dir is mounted on itself. It can be
// repeated.
func Share(dir string) error {
	data, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return fmt.Errorf("sharing mounts below %s: %w", dir, err)
	}
	on := holder(parse(string(data)), dir)
	if on.shared {
		return nil
	}
	if on.point != dir {
		if err := unix.Mount(dir, dir, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
			return fmt.Errorf("mounting %s on itself: %w", dir, err)
		}
	}
	if err := unix.Mount("", dir, "", unix.MS_SHARED|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("sharing mounts below %s: %w", dir, err)
	}
	return nil
}

// Unshare unmounts dir if it was mounted on itself, with all below it. What else is mounted there stays. It can be repeated.
func Unshare(dir string) error {
	real, err := filepath.EvalSymlinks(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for {
		data, err := os.ReadFile("/proc/self/mountinfo")
		if err != nil {
			return fmt.Errorf("looking for a mount of %s on itself: %w", real, err)
		}
		if !onItself(parse(string(data)), real) {
			return nil
		}
		if err := unix.Unmount(real, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err != nil {
			return fmt.Errorf("unmounting %s: %w", real, err)
		}
	}
}

// entry is a line of mountinfo; see proc(5).
type entry struct {
	id, parent, device, root, point string
	shared                          bool
}

func parse(mountinfo string) []entry {
	var out []entry
	for line := range strings.Lines(mountinfo) {
		f := strings.Fields(line)
		if len(f) < 7 {
			continue
		}
		e := entry{id: f[0], parent: f[1], device: f[2], root: unescape(f[3]), point: unescape(f[4])}
		for _, option := range f[6:] {
			if option == "-" {
				break
			}
			e.shared = e.shared || strings.HasPrefix(option, "shared:")
		}
		out = append(out, e)
	}
	return out
}

// holder is the mount that dir is in: the innermost, and of those the one that lies on top.
func holder(all []entry, dir string) entry {
	var best entry
	for _, e := range all {
		if inside(dir, e.point) && len(e.point) >= len(best.point) {
			best = e
		}
	}
	return best
}

func inside(path, dir string) bool {
	return path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/")
}

// onItself says whether the mount on dir shows what would be there without it.
func onItself(all []entry, dir string) bool {
	top := holder(all, dir)
	at := slices.IndexFunc(all, func(e entry) bool { return e.id == top.parent })
	if top.point != dir || at < 0 {
		return false
	}
	below := all[at]
	rel, err := filepath.Rel(below.point, dir)
	return err == nil && top.device == below.device && top.root == filepath.Join(below.root, rel)
}
