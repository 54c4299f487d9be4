// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package cadvisor tells what the groups of pods and containers use in the metrics of cAdvisor, as /metrics/cadvisor of the
// kubelet has them. Touch it when a metric or a label there is missing or not as upstream's.
package cadvisor

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"minik8s.io/minik8s/pkg/kubelet/container"
	"minik8s.io/minik8s/pkg/kubelet/internal/cgroup"
	"minik8s.io/minik8s/pkg/kubelet/internal/netdev"
	"minik8s.io/minik8s/pkg/kubelet/internal/observed"
)

// Groups reads cgroups. What it reads may be gone meanwhile: then the error matches fs.ErrNotExist.
type Groups interface {
	// NodePaths are the root and the groups above those of pods.
	NodePaths() []string
	PodPath(uid types.UID) (string, error)
	ContainerPath(pod, id string) string
	Details(path string) (cgroup.Details, error)
}

// Machine is what is told of the node. Sizes are in bytes.
type Machine struct {
	MachineID, SystemUUID, BootID           string
	KernelVersion, OSVersion, EngineVersion string
	Cores                                   int
	Memory, Swap                            uint64
}

// FileSystem is one with what is taken of it. Sizes are in bytes.
type FileSystem struct {
	// Dir is on it.
	Dir                             string
	Used, Limit, Inodes, InodesFree uint64
}

// Config is what a Collector is made from; all but Proc and Sys are required.
type Config struct {
	// Groups returns nil while groups cannot be read yet; then only the machine is told of.
	Groups func() Groups
	// Observed is what the engine has of each pod.
	Observed func() map[types.UID]*observed.Pod
	// Written is what a container has written and the file system that it is on; nil while that is not known. FileSystems are those
	// of the node whose use is told.
	Written     func(id string) *FileSystem
	FileSystems func() []FileSystem
	// Machine describes the node.
	Machine func() (Machine, error)
	// Version is told as cAdvisor's.
	Version string
	// Proc and Sys are where the kernel's files are; "/proc" and "/sys" if empty.
	Proc, Sys string
}

// labels are those that the kubelet gives each series. The group of a pod has only namespace and pod, that of its sandbox also
// image and name, and only containers have a container, as upstream with a CRI runtime.
type labels struct{ container, id, image, name, namespace, pod string }

// subject is a group with what it uses.
type subject struct {
	labels
	// created and started are of the container, zero where the times of the group count.
	created, started time.Time
	cgroup.Details
	interfaces  []netdev.Interface
	fileSystems map[string]FileSystem // by device
	// pid is the first process, 0 if there is none or nobody knows.
	pid int
	// files and sockets are those that processes have open, maxFiles is how many the first may have, -1 for no limit. nil: not told.
	files, sockets *uint64
	maxFiles       *int64
}

// subjects reads all groups. A group that is gone is left out, one that cannot be read fails none of the others; the errors of
// those are returned together.
func (c *Collector) subjects() ([]subject, error) {
	groups := c.cfg.Groups()
	if groups == nil {
		return nil, nil
	}
	var out []subject
	var errs []error
	add := func(s subject) {
		d, err := groups.Details(s.id)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return
		case err != nil:
			errs = append(errs, err)
			return
		}
		s.Details = d
		if s.name != "" { // those of the machine are too many
			c.open(&s)
		}
		out = append(out, s)
	}
	for _, p := range groups.NodePaths() {
		s := subject{labels: labels{id: p}}
		if p == "/" {
			s.interfaces, s.fileSystems = c.network("net/dev"), c.byDevice(c.cfg.FileSystems())
		}
		add(s)
	}
	for uid, pod := range c.cfg.Observed() {
		if pod.Sandbox() == nil && len(pod.Alive()) == 0 {
			continue
		}
		group, err := groups.PodPath(uid)
		if err != nil {
			if !errors.Is(err, fs.ErrNotExist) {
				errs = append(errs, err)
			}
			continue // without a group of the pod there is none of a container
		}
		add(subject{labels: labels{id: group, namespace: pod.Namespace, pod: pod.Name}})
		if sb := pod.Sandbox(); sb != nil {
			s := subject{labels: labels{id: groups.ContainerPath(group, sb.ID), image: sb.Image, name: sb.ID,
				namespace: pod.Namespace, pod: pod.Name}, created: sb.CreatedAt, pid: sb.Pid}
			if sb.Pid > 0 {
				// A pod with the network of the node has the node's interfaces, as upstream.
				s.interfaces = c.network(filepath.Join(strconv.Itoa(sb.Pid), "net/dev"))
			}
			add(s)
		}
		for _, ctr := range pod.Alive() {
			if ctr.State == container.StateRunning {
				s := subject{labels: labels{container: ctr.Name, id: groups.ContainerPath(group, ctr.ID), image: ctr.ImageRef, name: ctr.ID,
					namespace: pod.Namespace, pod: pod.Name}, created: ctr.CreatedAt, started: ctr.StartedAt, pid: ctr.Pid}
				if written := c.cfg.Written(ctr.ID); written != nil {
					s.fileSystems = c.byDevice([]FileSystem{*written})
				}
				add(s)
			}
		}
	}
	return out, errors.Join(errs...)
}

// network reads counters below proc. A process that is gone has none.
func (c *Collector) network(file string) []netdev.Interface {
	found, err := netdev.Read(filepath.Join(c.cfg.Proc, file))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		klog.Background().V(2).Info("Counters of a network are left out", "err", err)
	}
	return slices.DeleteFunc(found, func(i netdev.Interface) bool { return ofContainers(i.Name) })
}

// ofContainers says whether an interface is the node's end of a container's, which cAdvisor leaves out.
func ofContainers(name string) bool {
	for _, prefix := range []string{"lo", "veth", "docker", "nerdctl"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

// deviceName is the path of a block device, empty if the kernel does not know it any more.
func (c *Collector) deviceName(d cgroup.Disk) string {
	link, err := os.Readlink(filepath.Join(c.cfg.Sys, "dev/block", fmt.Sprintf("%d:%d", d.Major, d.Minor)))
	if err != nil {
		return ""
	}
	return "/dev/" + filepath.Base(link)
}

// byDevice names file systems by the devices that they are on. One that cannot be found is left out.
func (c *Collector) byDevice(all []FileSystem) map[string]FileSystem {
	out := map[string]FileSystem{}
	for _, fs := range all {
		var st unix.Stat_t
		if err := unix.Stat(fs.Dir, &st); err != nil {
			continue
		}
		d := cgroup.Disk{Major: unix.Major(st.Dev), Minor: unix.Minor(st.Dev)}
		name := c.deviceName(d)
		if name == "" {
			name = c.mountedDevice(d)
		}
		if name != "" {
			out[name] = fs
		}
	}
	return out
}

// mountedDevice is what a device that is no block device, as that of a tmpfs, was mounted as; empty if it is not mounted.
func (c *Collector) mountedDevice(d cgroup.Disk) string {
	data, err := os.ReadFile(filepath.Join(c.cfg.Proc, "self/mountinfo"))
	if err != nil {
		return ""
	}
	number := fmt.Sprintf("%d:%d", d.Major, d.Minor)
	for line := range strings.Lines(string(data)) {
		before, after, _ := strings.Cut(line, " - ")
		if f, source := strings.Fields(before), strings.Fields(after); len(f) > 2 && f[2] == number && len(source) > 1 {
			return source[1]
		}
	}
	return ""
}
