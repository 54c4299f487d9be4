// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package cgroup gives every pod its Linux control group and reads usage from it; touch it when resources are enforced
// or measured wrongly.
//
// The tree is <root>/pod<uid> for guaranteed pods and <root>/{burstable,besteffort}/pod<uid> for the others, in every
// hierarchy of cgroup v1 or in the one of v2. The engine puts the containers' groups below a pod's. Of the two drivers
// that an engine may have, with "cgroupfs" the groups are directories that are made here; with "systemd" they are slices,
// for which systemd is asked (systemd.go).
package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"minik8s.io/minik8s/pkg/apis/core/qos"
	"minik8s.io/minik8s/pkg/kubelet/container"
)

// Config configures a Manager.
type Config struct {
	// Root is the group of the node's pods, an absolute path such as "/minik8s-NAME". Required.
	Root string
	// Driver is the engine's: "cgroupfs" or "systemd". Required.
	Driver string
	// Version is the kernel's: "1" or "2". Required.
	Version string
	// MountPoint is where the hierarchies are mounted. Default "/sys/fs/cgroup".
	MountPoint string
	// Proc is where the kernel tells of processes. Default "/proc".
	Proc string
	// MilliCPU is what LimitPods leaves to all pods together, in thousandths of a CPU: a pod that may have as much or more has no limit of
	// its own, for the kernel refuses to set it. Default 0: there is no such limit.
	MilliCPU int64
	// CPUTime is how limits of CPU are kept.
	CPUTime CPUTime
	// PodPidsLimit is the most processes and threads a pod may have. Default 0: no limit.
	PodPidsLimit int64
	// Exclusive says whether a container of a pod has CPUs of its own: then there is no limit of CPU time. Default: none has.
	Exclusive func(types.UID) bool
	// SingleProcessOOMKill lets the kernel end one process of a container whose memory runs out, and not all. Version 2 only.
	SingleProcessOOMKill bool
	// Swap is by default none. Version 2 only.
	Swap Swap
	// MemoryQoS is by default none.
	MemoryQoS MemoryQoS
}

// Manager keeps the groups of a node's pods. Safe for concurrent use.
type Manager struct {
	config Config
	tree   tree
	driver driver

	// making is held while groups are made and removed, so that those of the classes are as of the last change.
	making  sync.Mutex
	all     *container.Resources // guarded by making; what all pods together may use, nil until that was set
	mu      sync.Mutex           // guards applied
	applied map[types.UID]podGroup
}

// podGroup is what was set for a pod.
type podGroup struct {
	path      string // below the mount point, of cgroupfs
	class     corev1.PodQOSClass
	limits    limits
	hugePages string
	// unsettled: its containers had more than the pod is to have, and have to get less first.
	unsettled bool
}

// tree is a version of the kernel's interface. Paths are below the mount point (v2) or a hierarchy (v1).
type tree interface {
	// prepare makes the group, with its parents, able to hold others.
	prepare(path string) error
	exists(path string) bool
	// memoryLimit is what a group may have, 0 or more than any machine has if there is no limit.
	memoryLimit(path string) (int64, error)
	// apply sets the limits, as far as the groups below allow it: settled is false if they have more than this one is to have.
	apply(path string, l limits) (settled bool, err error)
	// limitHugePages sets the limits of huge pages, if there is a controller of them.
	limitHugePages(path string, limits hugePages) error
	// dirs are the directories that stand for a group.
	dirs(path string) ([]string, error)
	stats(path string) (Stats, error)
	// details reads everything; files that are not there are left out.
	details(path string) (Details, error)
}

// New returns a Manager. It changes nothing yet.
func New(config Config) (*Manager, error) {
	if config.MountPoint == "" {
		config.MountPoint = "/sys/fs/cgroup"
	}
	if config.Proc == "" {
		config.Proc = "/proc"
	}
	if config.Exclusive == nil {
		config.Exclusive = func(types.UID) bool { return false }
	}
	if !path.IsAbs(config.Root) || path.Clean(config.Root) == "/" {
		return nil, fmt.Errorf("cgroup root %q: want an absolute path other than /", config.Root)
	}
	config.Root = path.Clean(config.Root)
	if config.Driver != "cgroupfs" && config.Driver != "systemd" {
		return nil, fmt.Errorf("cgroup driver %q is not supported; configure the engine with cgroupfs or systemd", config.Driver)
	}
	m := &Manager{config: config, applied: map[types.UID]podGroup{}}
	switch config.Version {
	case "1":
		m.tree = v1{mount: config.MountPoint}
	case "2":
		m.tree = v2{mount: config.MountPoint, proc: config.Proc}
	default:
		return nil, fmt.Errorf("cgroup version %q is not supported", config.Version)
	}
	m.driver = cgroupfs{m.tree}
	if m.systemd() {
		m.driver = systemd{memoryQoS: config.Version == "2" && config.MemoryQoS.on()}
	}
	return m, nil
}

func (m *Manager) systemd() bool { return m.config.Driver == "systemd" }

var classes = []corev1.PodQOSClass{corev1.PodQOSGuaranteed, corev1.PodQOSBurstable, corev1.PodQOSBestEffort}

// classPath is the group above a class's pods.
func (m *Manager) classPath(class corev1.PodQOSClass) string {
	name := ""
	if class != corev1.PodQOSGuaranteed {
		name = strings.ToLower(string(class))
	}
	if !m.systemd() {
		return path.Join(m.config.Root, name)
	}
	slice := sliceName(m.config.Root)
	if name != "" {
		slice += "-" + name
	}
	return slicePath(slice)
}

// podPath is the path of a pod's group, and parent is what the engine calls it.
func (m *Manager) podPath(uid types.UID, class corev1.PodQOSClass) (file, parent string) {
	if !m.systemd() {
		file = path.Join(m.classPath(class), "pod"+string(uid))
		return file, file
	}
	above := strings.TrimSuffix(path.Base(m.classPath(class)), ".slice")
	slice := above + "-pod" + strings.ReplaceAll(string(uid), "-", "_")
	return slicePath(slice), slice + ".slice"
}

// Parent is what EnsurePod returns, without making anything.
func (m *Manager) Parent(pod *corev1.Pod) string {
	_, parent := m.podPath(pod.UID, qos.Of(pod))
	return parent
}

// EnsurePod makes a pod's group, sets its limits to what the spec says now, and returns what is to be the cgroup parent
// of the pod's containers. It is cheap when nothing has changed. A pod that shrinks keeps what its containers have until it
// is called again, and its memory while it uses more than it is to have: that is an *InUseError, beside which the group is
// there and all else is set.
func (m *Manager) EnsurePod(pod *corev1.Pod) (parent string, err error) {
	class := qos.Of(pod)
	file, parent := m.podPath(pod.UID, class)
	want := podGroup{
		path: file, class: class, limits: limits{podResources(pod, m.config.CPUTime), m.config.MemoryQoS.pod(pod)}, hugePages: podHugePages(pod).String(),
	}
	want.limits.PidsLimit = m.config.PodPidsLimit
	if m.config.Exclusive(pod.UID) || AllOf(want.limits.Resources, m.config.MilliCPU) {
		want.limits.CPUQuota, want.limits.CPUPeriod = 0, 0
	}
	if m.is(pod.UID, want) {
		return parent, nil
	}
	m.making.Lock()
	defer m.making.Unlock()
	m.record(pod.UID, nil)
	allowed := want.limits
	allowed.MemoryBytes, err = m.memory(file, want.limits.MemoryBytes)
	inUse, is := errors.AsType[*InUseError](err)
	if err != nil && !is {
		return "", err
	}
	settled, err := m.set(file, allowed)
	if err == nil {
		err = m.tree.limitHugePages(file, podHugePages(pod))
	}
	if err != nil {
		return "", fmt.Errorf("making the cgroup of pod %q: %w", pod.UID, err)
	}
	want.unsettled = !settled || inUse != nil
	m.record(pod.UID, &want)
	if err := m.setClasses(); err != nil {
		return "", err
	}
	if inUse != nil {
		return parent, inUse
	}
	return parent, nil
}

// AllOf says that something is limited to no less than all that a node of so many thousandths of a CPU has; 0 is a node without a limit.
func AllOf(r container.Resources, milliCPU int64) bool {
	return milliCPU > 0 && r.CPUPeriod > 0 && r.CPUQuota*1000 >= milliCPU*r.CPUPeriod
}

// InUseError is that a pod, or the container of it that is named, uses more memory than it is to have.
type InUseError struct {
	Container string
	Limit     int64
	Usage     uint64
}

func (e *InUseError) Error() string {
	of := "pod"
	if e.Container != "" {
		of = fmt.Sprintf("container %q", e.Container)
	}
	return fmt.Sprintf("cannot decrease memory limits: attempting to set %s memory limit (%d) below current usage (%d)", of, e.Limit, e.Usage)
}

// Shrink is an *InUseError if a container uses more memory than it is to be limited to.
func (m *Manager) Shrink(pod *corev1.Pod, c *container.Container, memory int64) error {
	s, err := m.ContainerStats(m.Parent(pod), c.ID)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // it has ended meanwhile
	}
	if err != nil {
		return fmt.Errorf("reading the usage of container %q: %w", c.Name, err)
	}
	if s.MemoryUsage < uint64(memory) {
		return nil
	}
	return &InUseError{Container: c.Name, Limit: memory, Usage: s.MemoryUsage}
}

// memory is the limit that a group may be set to if it is to have want: what it has, with an *InUseError, if it uses more. The
// kernel would refuse to set it, or end processes.
func (m *Manager) memory(file string, want int64) (int64, error) {
	if want <= 0 || !m.tree.exists(file) {
		return want, nil
	}
	limit, err := m.tree.memoryLimit(file)
	if errors.Is(err, fs.ErrNotExist) || err == nil && limit > 0 && limit <= want {
		return want, nil // new, or nothing is taken from it
	}
	if err != nil {
		return 0, fmt.Errorf("reading the limit of a cgroup: %w", err)
	}
	s, err := m.tree.stats(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, fmt.Errorf("reading the usage of a cgroup: %w", err)
	}
	if s.MemoryUsage < uint64(want) {
		return want, nil
	}
	return limit, &InUseError{Limit: want, Usage: s.MemoryUsage}
}

// LimitPods sets what all pods together may use. What is zero is not limited, and a weight of zero stays as it is; then the group is
// not made for it.
func (m *Manager) LimitPods(r container.Resources) error {
	m.making.Lock()
	defer m.making.Unlock()
	root := m.classPath(corev1.PodQOSGuaranteed)
	if r == (container.Resources{}) && !m.tree.exists(root) {
		return nil
	}
	if _, err := m.set(root, limits{r, m.kept()}); err != nil {
		return fmt.Errorf("limiting the cgroup of all pods: %w", err)
	}
	m.all = &r
	return nil
}

// set makes a group and sets its limits. The files are written whoever has made it: systemd does that later, and tells nobody if
// it could not.
func (m *Manager) set(path string, l limits) (settled bool, err error) {
	if err := m.driver.ensure(path, l); err != nil {
		return false, err
	}
	return m.tree.apply(path, l)
}

// is tells whether a pod's group is as wanted.
func (m *Manager) is(uid types.UID, want podGroup) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.applied[uid] == want && m.tree.exists(want.path)
}

// record keeps what was set for a pod; nil forgets it.
func (m *Manager) record(uid types.UID, group *podGroup) (known bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, known = m.applied[uid]
	delete(m.applied, uid)
	if group != nil {
		m.applied[uid] = *group
	}
	return known
}

// setClasses gives the burstable pods together the weight of all their requests, and the best-effort ones the least, and has the groups
// above those of pods keep what these keep. The caller holds m.making.
func (m *Manager) setClasses() error {
	burstable := int64(0)
	m.mu.Lock()
	for _, g := range m.applied {
		if g.class == corev1.PodQOSBurstable {
			burstable += g.limits.CPUShares
		}
	}
	m.mu.Unlock()
	kept := m.kept()
	want := map[corev1.PodQOSClass]limits{
		corev1.PodQOSBurstable:  {container.Resources{CPUShares: min(max(burstable, minShares), maxShares)}, protection{low: kept.low}},
		corev1.PodQOSBestEffort: {container.Resources{CPUShares: minShares}, protection{}},
	}
	if m.config.MemoryQoS.Reserve && m.all != nil { // else the limits of an earlier process would go
		want[corev1.PodQOSGuaranteed] = limits{*m.all, kept}
	}
	for class, l := range want {
		file := m.classPath(class)
		if !m.tree.exists(file) {
			continue
		}
		if _, err := m.set(file, l); err != nil {
			return fmt.Errorf("setting the cgroup of %s pods: %w", class, err)
		}
	}
	return nil
}

// RemovePod removes a pod's group with what containers left below it. Absence is success; processes that are still in
// it make it fail, but with systemd, which ends them.
func (m *Manager) RemovePod(uid types.UID) error {
	m.making.Lock()
	defer m.making.Unlock()
	for _, class := range classes {
		file, _ := m.podPath(uid, class)
		if err := m.remove(file); err != nil {
			return fmt.Errorf("removing the cgroup of pod %q: %w", uid, err)
		}
	}
	if !m.record(uid, nil) {
		return nil
	}
	return m.setClasses()
}

// Pods returns the pods that have a group.
func (m *Manager) Pods() ([]types.UID, error) {
	var uids []types.UID
	seen := map[types.UID]bool{}
	for _, class := range classes {
		dirs, err := m.tree.dirs(m.classPath(class))
		if err != nil {
			return nil, err
		}
		for _, d := range dirs {
			entries, err := os.ReadDir(d)
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err != nil {
				return nil, fmt.Errorf("listing cgroups: %w", err)
			}
			for _, e := range entries {
				if uid, ok := m.podOf(e.Name()); ok && e.IsDir() && !seen[uid] {
					seen[uid] = true
					uids = append(uids, uid)
				}
			}
		}
	}
	return uids, nil
}

// podOf reads a pod's id from the name of its group.
func (m *Manager) podOf(name string) (types.UID, bool) {
	if !m.systemd() {
		uid, ok := strings.CutPrefix(name, "pod")
		return types.UID(uid), ok && uid != ""
	}
	_, uid, ok := strings.Cut(strings.TrimSuffix(name, ".slice"), "-pod")
	return types.UID(strings.ReplaceAll(uid, "_", "-")), ok && uid != ""
}

// Purge removes the whole tree.
func (m *Manager) Purge() error {
	m.making.Lock()
	defer m.making.Unlock()
	m.mu.Lock()
	clear(m.applied)
	m.mu.Unlock()
	root := m.classPath(corev1.PodQOSGuaranteed)
	if err := m.remove(root); err != nil {
		return fmt.Errorf("removing cgroup %q: %w", root, err)
	}
	return nil
}

// NodeStats returns the usage of all pods together. The error matches fs.ErrNotExist if there has not been any yet.
func (m *Manager) NodeStats() (Stats, error) {
	root := m.classPath(corev1.PodQOSGuaranteed)
	if !m.tree.exists(root) {
		return Stats{}, fmt.Errorf("cgroup %q: %w", root, fs.ErrNotExist)
	}
	return m.tree.stats(root)
}

// PodStats returns the usage of a pod. The error matches fs.ErrNotExist if it has no group.
func (m *Manager) PodStats(uid types.UID) (Stats, error) {
	file, err := m.PodPath(uid)
	if err != nil {
		return Stats{}, err
	}
	return m.tree.stats(file)
}

// ContainerStats returns the usage of a container by its id; parent is what EnsurePod returned.
func (m *Manager) ContainerStats(parent, id string) (Stats, error) {
	return m.tree.stats(m.containerPath(parent, id))
}

func (m *Manager) containerPath(parent, id string) string {
	if m.systemd() {
		return path.Join(slicePath(strings.TrimSuffix(parent, ".slice")), "docker-"+id+".scope")
	}
	return path.Join(parent, id)
}
