// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Clear removes what a stopped cluster has outside its data directory: containers, network, rules, mounts, cgroups. It
// can be repeated and does as much as it can; the error tells all that failed.
func Clear(ctx context.Context, c Config) error {
	if _, err := os.Stat(kubeletDir(c)); errors.Is(err, fs.ErrNotExist) {
		return nil // no node has run: Docker may not even be there
	}
	var errs []error
	for _, step := range clearSteps {
		if err := step.run(ctx, c); err != nil {
			errs = append(errs, fmt.Errorf("removing %s: %w", step.name, err))
		}
	}
	return errors.Join(errs...)
}

// Purge removes everything of a stopped cluster.
func Purge(ctx context.Context, c Config) error {
	if err := Clear(ctx, c); err != nil {
		return err // the data directory tells what is left; with it gone nobody could try again
	}
	return remove(c)
}

// unmountAll unmounts what is mounted under dir, the innermost first: deleting through a mount would delete what is
// mounted.
func unmountAll(dir string) error {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	defer f.Close()
	dir = filepath.Clean(dir) + "/"
	var under []string
	for scanner := bufio.NewScanner(f); scanner.Scan(); {
		fields := strings.Fields(scanner.Text())
		if len(fields) < 5 {
			continue
		}
		if at := unescape(fields[4]); strings.HasPrefix(at+"/", dir) {
			under = append(under, at)
		}
	}
	slices.Reverse(under) // later mounts may be on top of earlier ones
	var errs []error
	for _, at := range under {
		if err := unix.Unmount(at, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
			errs = append(errs, fmt.Errorf("unmounting %s: %w", at, err))
		}
	}
	return errors.Join(errs...)
}

// unescape undoes the octal escapes of mountinfo.
func unescape(s string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(s)
}
