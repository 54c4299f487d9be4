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

	"minik8s.io/minik8s/pkg/kubelet/container"
)

// clear removes what a cluster without a process has outside its data directory: containers, network, rules, mounts,
// cgroups. It can be repeated and does as much as it can; the error tells all that failed. A cluster that has never served
// has no containers, so that it does not matter then whether the engine answers, nor does it to who abandons the engine.
func (o *operation) clear(ctx context.Context, c Config, served bool) error {
	steps := append([]clearStep{hostNames}, o.steps...)
	// Where no node has run, Docker may not even be there. That the directory is not there proves it only before the
	// cluster has served: its disk may be away.
	if _, err := os.Stat(kubeletDir(c)); errors.Is(err, fs.ErrNotExist) && (!served || c.NodeCount() == 0) {
		steps = steps[:1]
	}
	spared := !served || o.abandon
	var errs []error
	for _, step := range steps {
		err := step.within(ctx, c)
		if spared && step.engine && errors.Is(err, container.ErrUnavailable) {
			continue
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("removing %s: %w", step.name, err))
		}
	}
	return errors.Join(errs...)
}

// within runs a step for as long as it may take, so that one that hangs does not keep the rest from being removed, nor others
// from the cluster.
func (s clearStep) within(ctx context.Context, c Config) error {
	limited := ctx
	if s.limit > 0 {
		var cancel context.CancelFunc
		limited, cancel = context.WithTimeout(ctx, s.limit)
		defer cancel()
	}
	err := s.run(limited, c)
	if err != nil && ctx.Err() == nil && limited.Err() != nil {
		err = fmt.Errorf("no end after %s: %w", s.limit, err)
		if s.engine {
			err = fmt.Errorf("%w: %w", container.ErrUnavailable, err)
		}
	}
	return err
}

// samePlace reports whether a start with one configuration finds and takes over what the other has left on the machine.
func samePlace(a, b Config) bool {
	is, other := placeOf(a), placeOf(b)
	if is.pool == "" {
		is.pool = other.pool // it has left none of its addresses
	}
	return is == other
}

// place is what tells where the containers, addresses and routes of a cluster are. Rules, links and cgroups are found by the
// cluster's name.
type place struct {
	node, dockerHost, podCIDR, pods, services, nodes, cni, pool, gateways string
}

func placeOf(c Config) place {
	if c.NodeCount() == 0 {
		return place{}
	}
	n := c.Networking
	return place{
		c.Kubelet.NodeName, c.Kubelet.DockerHost, c.Kubelet.PodCIDR, n.PodSubnet, n.ServiceSubnet, n.NodeSubnet, n.CNIConfDir, c.LoadBalancer.Pool, c.Router.GatewaySubnet,
	}
}

// removeData removes the data of a cluster that nothing of is left elsewhere. A directory without the mark of a data
// directory is somebody else's and stays, but for what a marking that was cut off has left.
func removeData(e entry) error {
	mark := formatPath(e.Config.DataDir)
	_, err := os.Stat(mark)
	if err == nil {
		return eraseData(e)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := removeParts(mark); err != nil {
		return fmt.Errorf("removing the data: %w", err)
	}
	return removeEmpty(e)
}

// eraseData empties the data directory of a cluster that nothing of is left elsewhere, the mark last, and removes what was
// made for it.
func eraseData(e entry) error {
	dir := e.Config.DataDir
	names, err := contents(dir)
	if err != nil {
		return err
	}
	mark := filepath.Base(formatPath(dir))
	names = append(slices.DeleteFunc(names, func(name string) bool { return name == mark }), mark)
	for _, name := range names {
		path := filepath.Join(dir, name)
		err := os.RemoveAll(path)
		if errors.Is(err, unix.EBUSY) {
			return &Problem{Cause: "something is mounted at or below " + path, Remedy: "its contents are removed; unmount it and repeat", Err: err}
		}
		if err != nil {
			return fmt.Errorf("removing the data: %w", err)
		}
	}
	return removeEmpty(e)
}

// removeEmpty removes the directories that were made for a cluster's data, as far as they are empty: what somebody else has
// put there stays, and so does a mount point.
func removeEmpty(e entry) error {
	if e.Made == "" {
		return nil
	}
	for at := e.Config.DataDir; ; at = filepath.Dir(at) {
		err := os.Remove(at)
		switch {
		case errors.Is(err, unix.ENOTEMPTY), errors.Is(err, unix.EEXIST), errors.Is(err, unix.EBUSY):
			return nil
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			return err
		}
		if at == e.Made || at == filepath.Dir(at) {
			return nil
		}
	}
}

// unmountAll unmounts what is mounted under dir, the innermost first: deleting through a mount would delete what is
// mounted. What is mounted at dir itself stays.
func unmountAll(dir string) error {
	dir, err := filepath.EvalSymlinks(dir) // mounts are listed by their true paths
	if err != nil {
		return err
	}
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	defer f.Close()
	var under []string
	scanner := bufio.NewScanner(f)
	for scanner.Scan() {
		fields := strings.Fields(scanner.Text())
		if len(fields) < 5 {
			continue
		}
		if at := unescape(fields[4]); strings.HasPrefix(at, dir+"/") {
			under = append(under, at)
		}
	}
	if err := scanner.Err(); err != nil {
		return fmt.Errorf("listing mounts: %w", err)
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
