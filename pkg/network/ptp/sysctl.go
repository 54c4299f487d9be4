// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package ptp

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/vishvananda/netlink"
)

// forwarding makes the node a router. What it was before is kept, for a purge.
func (p *Plugin) forwarding() error {
	for _, r := range p.config.PodCIDRs {
		name := "net/ipv6/conf/all/forwarding"
		if r.Addr().Is4() {
			name = "net/ipv4/ip_forward"
		}
		if err := p.changeSysctl(name, "1"); err != nil {
			return err
		}
	}
	return nil
}

// change is a setting of the kernel as it was, and as it is since.
type change struct{ Before, Since string }

// recordFile has the changes by name.
func (p *Plugin) recordFile() string { return filepath.Join(p.config.StateDir, "sysctls.json") }

func (p *Plugin) changes() (map[string]change, error) {
	data, err := os.ReadFile(p.recordFile())
	if errors.Is(err, fs.ErrNotExist) {
		return map[string]change{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading changed kernel settings: %w", err)
	}
	var all map[string]change
	if err := json.Unmarshal(data, &all); err != nil {
		return nil, fmt.Errorf("reading %s: %w", p.recordFile(), err)
	}
	return all, nil
}

// changeSysctl is setSysctl, and keeps on disk what was there before. The record comes first: a process that is killed in
// between has changed nothing, and a purge sees that.
func (p *Plugin) changeSysctl(name, value string) error {
	before, err := readSysctl(name)
	if err != nil {
		return err
	}
	if before == value {
		return nil
	}
	all, err := p.changes()
	if err != nil {
		return err
	}
	if _, known := all[name]; !known {
		all[name] = change{before, value}
		data, err := json.Marshal(all)
		if err != nil {
			return fmt.Errorf("encoding changed kernel settings: %w", err)
		}
		if err := replaceFile(p.recordFile(), data); err != nil {
			return fmt.Errorf("keeping changed kernel settings: %w", err)
		}
	}
	return setSysctl(name, value)
}

// restoreSysctls gives settings their old values, except those that somebody has changed since. While pods of other clusters
// are on the machine, it stays as they need it.
func (p *Plugin) restoreSysctls() error {
	all, err := p.changes()
	if err != nil {
		return err
	}
	needed := false
	if len(all) > 0 {
		if needed, err = hasForeignLinks(p.linkPrefix()); err != nil {
			return err
		}
	}
	for name, c := range all {
		now, err := readSysctl(name)
		if err != nil {
			return err
		}
		if now != c.Since || needed {
			continue
		}
		if err := setSysctl(name, c.Before); err != nil {
			return err
		}
	}
	if err := os.Remove(p.recordFile()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing the record of kernel settings: %w", err)
	}
	return nil
}

// hasForeignLinks tells whether there are links of pods of other clusters.
func hasForeignLinks(own string) (bool, error) {
	links, err := netlink.LinkList()
	if err != nil {
		return false, fmt.Errorf("listing links: %w", err)
	}
	for _, l := range links {
		if name := l.Attrs().Name; l.Type() == "veth" && len(name) == len(own)+linkDigits && strings.HasPrefix(name, linkPrefix) && !strings.HasPrefix(name, own) {
			return true, nil
		}
	}
	return false, nil
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
