// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package ptp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/util/wait"

	"minik8s.io/minik8s/pkg/network/dump"
)

// lockTimeout bounds how long a cluster waits for another one that looks at the settings.
const lockTimeout = 5 * time.Second

// forwarding makes the node a router. What it was before is kept, for a purge. The fallback routes are there already: a cluster that goes at
// the same time sees by them that packets are still forwarded, before this one looks or after it has.
func (p *Plugin) forwarding() error {
	if p.config.NetNS != "" {
		return p.forward()
	}
	unlock, err := lock(p.lockFile(), lockTimeout)
	if err != nil {
		return err
	}
	defer unlock()
	return p.forward()
}

func (p *Plugin) forward() error {
	for _, r := range p.config.PodCIDRs {
		name := "net/ipv4/ip_forward"
		if r.Addr().Is6() {
			name = "net/ipv6/conf/all/forwarding"
			if err := p.keepRouters(name); err != nil {
				return err
			}
		}
		if err := p.changeSysctl(name, "1"); err != nil {
			return err
		}
	}
	p.remember()
	return nil
}

// keepRouters keeps the default routes of a machine that is about to forward IPv6 packets: the kernel forgets what routers have told it
// then, and listens to them no longer on links for which nobody says that it shall all the same (2 in place of 1).
func (p *Plugin) keepRouters(forwarding string) error {
	if now, err := readSysctl(forwarding); err != nil || now == "1" {
		return err
	}
	told, err := dump.Whole(func() ([]netlink.Route, error) {
		return netlink.RouteListFiltered(netlink.FAMILY_V6, &netlink.Route{Protocol: unix.RTPROT_RA}, netlink.RT_FILTER_PROTOCOL)
	})
	if err != nil {
		return fmt.Errorf("listing the routes that routers have told: %w", err)
	}
	for _, r := range told {
		link, err := netlink.LinkByIndex(r.LinkIndex)
		if isNoLink(err) {
			continue
		}
		if err != nil {
			return fmt.Errorf("finding the link of a route: %w", err)
		}
		name := "net/ipv6/conf/" + link.Attrs().Name + "/accept_ra"
		if now, err := readSysctl(name); err != nil || now != "1" {
			continue // somebody else looks after it, or the link has gone
		}
		if err := p.changeSysctl(name, "2"); err != nil {
			return err
		}
	}
	return nil
}

// change is a setting of the kernel as it was, and as it is since.
type change struct{ Before, Since string }

// recordFile has the changes by name.
func (p *Plugin) recordFile() string { return filepath.Join(p.config.StateDir, "sysctls.json") }

// leftFile has what clusters have changed that have gone while others of the machine still needed it: the last of them restores it.
func (p *Plugin) leftFile() string { return filepath.Join(p.config.RunDir, "minik8s-sysctls.json") }

// lockFile is there while a cluster of the machine looks at the settings, or changes them. Nobody but root can hold it.
func (p *Plugin) lockFile() string { return filepath.Join(p.config.RunDir, "minik8s-sysctls.lock") }

func readChanges(file string) (map[string]change, error) {
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return map[string]change{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading changed kernel settings: %w", err)
	}
	var all map[string]change
	if err := json.Unmarshal(data, &all); err != nil {
		return nil, fmt.Errorf("reading %s: %w", file, err)
	}
	return all, nil
}

func writeChanges(file string, all map[string]change) error {
	if len(all) == 0 {
		return removeFile(file)
	}
	data, err := json.Marshal(all)
	if err != nil {
		return fmt.Errorf("encoding changed kernel settings: %w", err)
	}
	if err := replaceFile(file, data); err != nil {
		return fmt.Errorf("keeping changed kernel settings: %w", err)
	}
	return nil
}

func removeFile(file string) error {
	if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing the record of kernel settings: %w", err)
	}
	return nil
}

// changeSysctl is setSysctl, and keeps on disk what was there before. The record comes first: a process that is killed in
// between has changed nothing, and a purge sees that. What could not be changed is not kept: who changes it later does so for himself.
func (p *Plugin) changeSysctl(name, value string) error {
	before, err := readSysctl(name)
	if err != nil {
		return err
	}
	if before == value {
		return nil
	}
	all, err := readChanges(p.recordFile())
	if err != nil {
		return err
	}
	known, is := all[name]
	next := change{before, value}
	if is && before == known.Since { // it was ours, and is to be more now
		next.Before = known.Before
	}
	if all[name] = next; next != known {
		if err := writeChanges(p.recordFile(), all); err != nil {
			return err
		}
	}
	err = setSysctl(name, value)
	if err == nil {
		return nil
	}
	if all[name] = known; !is {
		delete(all, name)
	}
	return errors.Join(err, writeChanges(p.recordFile(), all))
}

// restoreSysctls gives settings their old values, except those that somebody has changed since. What other clusters of the machine need is
// left to them to restore. What makes this one need it has to be gone before, so that of several that go at the same time one does it.
func (p *Plugin) restoreSysctls() error {
	if p.config.NetNS != "" {
		return removeFile(p.recordFile()) // the settings go with the namespace
	}
	unlock, err := lock(p.lockFile(), lockTimeout)
	if err != nil {
		return err
	}
	defer unlock()
	left, err := readChanges(p.leftFile())
	if err != nil {
		return err
	}
	own, err := readChanges(p.recordFile())
	if err != nil {
		return err
	}
	if len(own) == 0 && len(left) == 0 {
		return nil
	}
	for name, c := range own {
		if _, before := left[name]; !before {
			left[name] = c
		}
	}
	var errs []error
	for name, c := range left {
		needed, err := p.needed(name)
		if err == nil && !needed {
			err = restoreSysctl(name, c)
		}
		if err == nil && !needed {
			delete(left, name)
		}
		errs = append(errs, err) // what cannot be restored now is left, too, and keeps no other setting
	}
	if err := writeChanges(p.leftFile(), left); err != nil {
		return errors.Join(append(errs, err)...)
	}
	return errors.Join(append(errs, removeFile(p.recordFile()))...)
}

// needed tells whether another cluster on this machine needs a setting: one of the family that the setting is for, or of any.
func (p *Plugin) needed(name string) (bool, error) {
	for prefix, family := range map[string]int{"net/ipv4/": netlink.FAMILY_V4, "net/ipv6/": netlink.FAMILY_V6} {
		if strings.HasPrefix(name, prefix) {
			return p.othersForward(family)
		}
	}
	four, err := p.othersForward(netlink.FAMILY_V4)
	if four || err != nil {
		return four, err
	}
	return p.othersForward(netlink.FAMILY_V6)
}

func restoreSysctl(name string, c change) error {
	now, err := readSysctl(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // the link has gone, and the setting with it
	}
	if err != nil || now != c.Since {
		return err
	}
	return setSysctl(name, c.Before)
}

// othersForward tells whether packets are forwarded for another cluster on this machine: each has a fallback route of each family.
func (p *Plugin) othersForward(family int) (bool, error) {
	list, err := dump.Whole(func() ([]netlink.Route, error) {
		return netlink.RouteListFiltered(family, &netlink.Route{Protocol: routeProtocol, Type: unix.RTN_UNREACHABLE}, netlink.RT_FILTER_PROTOCOL|netlink.RT_FILTER_TYPE)
	})
	if err != nil {
		return false, fmt.Errorf("listing routes: %w", err)
	}
	return slices.ContainsFunc(list, func(r netlink.Route) bool {
		return !slices.ContainsFunc(p.config.PodCIDRs, func(own netip.Prefix) bool { return r.Dst != nil && r.Dst.String() == own.Masked().String() })
	}), nil
}

// lock has others wait who lock the same file. Who unlocks it removes it.
func lock(path string, timeout time.Duration) (unlock func(), err error) {
	var f *os.File
	err = wait.PollUntilContextTimeout(context.Background(), 10*time.Millisecond, timeout, true, func(context.Context) (bool, error) {
		if f, err = os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600); err != nil {
			return false, err
		}
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil && isAt(f, path) {
			return true, nil
		}
		if errors.Is(err, unix.EWOULDBLOCK) {
			err = nil
		}
		return false, errors.Join(err, f.Close())
	})
	if err != nil {
		return nil, fmt.Errorf("locking %s, which another cluster of this machine may hold: %w", path, err)
	}
	return func() {
		_ = os.Remove(path)
		_ = f.Close() // which unlocks it
	}, nil
}

// isAt tells whether an open file is still the one at a path.
func isAt(f *os.File, path string) bool {
	open, err := f.Stat()
	if err != nil {
		return false
	}
	there, err := os.Stat(path)
	return err == nil && os.SameFile(open, there)
}

// replaceFile writes a file that a reader sees as it was or as it is now, also after a power cut.
func replaceFile(path string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".sysctls-")
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

func sysctlFile(name string) string { return filepath.Join("/proc/sys", name) }

func readSysctl(name string) (string, error) {
	data, err := os.ReadFile(sysctlFile(name))
	if err != nil {
		return "", fmt.Errorf("reading %s: %w", name, err)
	}
	return strings.TrimSpace(string(data)), nil
}

// setSysctl writes a kernel setting of the thread's network namespace unless it has that value, so that a read-only
// /proc/sys does not matter where all is well.
func setSysctl(name, value string) error {
	if now, err := readSysctl(name); err == nil && now == value {
		return nil
	}
	if err := os.WriteFile(sysctlFile(name), []byte(value), 0o644); err != nil {
		return fmt.Errorf("setting %s to %s: %w", name, value, err)
	}
	return nil
}
