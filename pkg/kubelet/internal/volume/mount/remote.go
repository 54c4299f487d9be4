// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package mount

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"minik8s.io/minik8s/pkg/kubelet/internal/capped"
)

const (
	// remotePatience is how long a server may take to be mounted, and what it holds to be written when it is unmounted. Upstream
	// waits as long for the latter.
	remotePatience = time.Minute
	// maxOutput bounds what a program says, in bytes.
	maxOutput = 4 << 10
)

// Remote implements Interface, by the program mount.KIND of the node. It and all that it has started are killed when ctx ends, or
// a minute is over. The text of an error is upstream's.
func (Linux) Remote(ctx context.Context, kind, source, dir string, options []string) error {
	program, err := helper("mount." + kind)
	if err != nil {
		return err
	}
	args := []string{source, dir}
	if len(options) > 0 {
		args = append(args, "-o", strings.Join(options, ","))
	}
	if strings.HasPrefix(source, "-") {
		return fmt.Errorf("mounting %q: a source must not begin with a dash", source)
	}
	ctx, cancel := context.WithTimeout(ctx, remotePatience)
	defer cancel()
	out := &capped.Buffer{Max: maxOutput}
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second // for what has left the group and holds the output
	done := make(chan error, 1)
	go func() { done <- cmd.Run() }()
	select {
	case err = <-done:
	case <-ctx.Done():
		select {
		case err = <-done:
		case <-time.After(5 * time.Second):
			err = errors.New("it does not even end when it is killed") // nor does the goroutine: the kernel waits for the server
		}
	}
	if err == nil {
		return nil
	}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		err = fmt.Errorf("no answer within %s: %w", remotePatience, err)
	}
	return fmt.Errorf("mount failed: %w\nMounting command: %s\nMounting arguments: %s\nOutput: %s", err, program, strings.Join(args, " "), out)
}

// helper finds a program that the PATH of a service may not lead to.
func helper(name string) (string, error) {
	for _, path := range []string{name, "/sbin/" + name, "/usr/sbin/" + name} {
		if found, err := exec.LookPath(path); err == nil {
			return found, nil
		}
	}
	return "", fmt.Errorf("the program %s is not installed on this node", name)
}

// Mounted implements Interface.
func (Linux) Mounted(dir string) (bool, error) {
	data, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return false, err
	}
	return slices.Contains(under(string(data), dir), dir), nil
}

// remote are the kinds of file systems that somebody has to answer for, who may be away.
var remote = []string{"9p", "ceph", "cifs", "fuse", "nfs", "nfs4", "smb3"}

// isRemote tells whether the topmost mount on dir is of a kind that may hang.
func isRemote(mountinfo, dir string) bool {
	is := false
	for line := range strings.Lines(mountinfo) {
		where, what, _ := strings.Cut(line, " - ")
		fields := strings.Fields(where)
		if len(fields) < 5 || unescape(fields[4]) != dir {
			continue
		}
		kind, _, _ := strings.Cut(what, " ")
		kind, _, _ = strings.Cut(kind, ".") // fuse.sshfs
		is = slices.Contains(remote, kind)
	}
	return is
}

// unmountRemote unmounts what may wait for a server. If that takes too long, what is not written is given up. In any case the mount
// leaves the tree, so that its pod waits neither for the server nor for those who do.
func unmountRemote(target string, patience time.Duration) error {
	done := make(chan error, 1)
	go func() { done <- unix.Unmount(target, unix.UMOUNT_NOFOLLOW) }()
	flags := unix.UMOUNT_NOFOLLOW | unix.MNT_DETACH
	select {
	case err := <-done:
		if !errors.Is(err, unix.EBUSY) {
			return err
		}
	case <-time.After(patience):
		flags |= unix.MNT_FORCE
	}
	detached := make(chan error, 1)
	go func() { detached <- unix.Unmount(target, flags) }()
	select {
	case err := <-detached:
		return err
	case <-time.After(5 * time.Second):
		return unix.ETIMEDOUT
	}
}
