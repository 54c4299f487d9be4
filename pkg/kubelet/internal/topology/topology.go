// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package topology reads which CPUs and how much memory a machine has, and what of it is close to what: cores, caches, sockets and
// NUMA nodes. Touch it when those who give CPUs, memory or devices to containers have to know more of the machine.
package topology

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/bits"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"k8s.io/utils/cpuset"

	"minik8s.io/minik8s/pkg/kubelet/internal/meminfo"
)

// Machine is what there was when it was read. It is not to be changed.
type Machine struct {
	// CPUs are those that are online, by id.
	CPUs map[int]CPU
	// Nodes are the NUMA nodes, by ascending id; one with id 0 where the kernel knows none.
	Nodes []Node
}

// CPU is where a CPU is, that is a hardware thread.
type CPU struct {
	// Core and Cache are the lowest CPUs of the core, and of those with the same last level cache, so that they are unique on the
	// machine. Socket and Node are the kernel's ids.
	Core, Cache, Socket, Node int
}

// Node is a NUMA node.
type Node struct {
	ID int
	// Memory is in bytes, huge pages included.
	Memory uint64
	// HugePages are how many there are by their size in bytes.
	HugePages map[uint64]uint64
	// Distances are those to all nodes by ascending id, as the kernel has them; nil if it does not tell.
	Distances []uint64
}

const (
	cpuDir  = "sys/devices/system/cpu"
	nodeDir = "sys/devices/system/node"
	// hugePagesDir is where the kernel has a directory for each size of huge pages.
	hugePagesDir = "sys/kernel/mm/hugepages"
	// lastLevel is that of the caches that cores share.
	lastLevel = "3"
)

// Read asks the kernel, whose files are below root ("/" on a machine).
func Read(root string) (*Machine, error) {
	online, err := list(filepath.Join(root, cpuDir, "online"))
	if err != nil {
		return nil, fmt.Errorf("reading which CPUs there are: %w", err)
	}
	if online.IsEmpty() {
		return nil, errors.New("reading which CPUs there are: could not detect number of cpus")
	}
	m := &Machine{CPUs: map[int]CPU{}}
	home, err := m.readNodes(root)
	if err != nil {
		return nil, fmt.Errorf("reading NUMA nodes: %w", err)
	}
	for _, id := range online.List() {
		cpu, err := readCPU(filepath.Join(root, cpuDir, fmt.Sprintf("cpu%d", id)), id, online)
		if err != nil {
			return nil, fmt.Errorf("reading where CPU %d is: %w", id, err)
		}
		cpu.Node = m.Nodes[0].ID
		if n, is := home[id]; is {
			cpu.Node = n
		}
		m.CPUs[id] = cpu
	}
	return m, nil
}

// readCPU fills in all but the node. What a virtual machine does not tell of counts as the CPU's own.
func readCPU(dir string, id int, online cpuset.CPUSet) (CPU, error) {
	lowest := func(name string, otherwise int) (int, error) {
		set, err := list(filepath.Join(dir, name))
		if errors.Is(err, fs.ErrNotExist) {
			return otherwise, nil
		}
		if err != nil {
			return 0, err
		}
		if set = set.Intersection(online); set.IsEmpty() {
			return otherwise, nil
		}
		return set.List()[0], nil
	}
	var c CPU
	var err error
	if c.Core, err = lowest("topology/thread_siblings_list", id); err != nil {
		return c, err
	}
	if c.Socket, err = number(filepath.Join(dir, "topology/physical_package_id")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return c, err
	}
	c.Socket = max(c.Socket, 0) // -1: not known
	// Where caches are not told of, those of a socket count as one.
	if c.Cache, err = lowest("topology/core_siblings_list", id); err != nil {
		return c, err
	}
	caches, _ := filepath.Glob(filepath.Join(dir, "cache/index*"))
	for _, cache := range caches {
		level, err := os.ReadFile(filepath.Join(cache, "level"))
		if err != nil || strings.TrimSpace(string(level)) != lastLevel {
			continue
		}
		if c.Cache, err = lowest(filepath.Join("cache", filepath.Base(cache), "shared_cpu_list"), c.Cache); err != nil {
			return c, err
		}
	}
	return c, nil
}

// readNodes returns the node of each CPU.
func (m *Machine) readNodes(root string) (map[int]int, error) {
	home := map[int]int{}
	dirs, _ := filepath.Glob(filepath.Join(root, nodeDir, "node[0-9]*"))
	for _, dir := range dirs {
		id, err := strconv.Atoi(strings.TrimPrefix(filepath.Base(dir), "node"))
		if err != nil {
			continue
		}
		n := Node{ID: id, HugePages: hugePages(filepath.Join(dir, "hugepages"))}
		cpus, err := list(filepath.Join(dir, "cpulist"))
		if err != nil {
			return nil, err
		}
		for _, cpu := range cpus.List() {
			home[cpu] = id
		}
		if n.Memory, err = nodeMemory(filepath.Join(dir, "meminfo")); err != nil {
			return nil, err
		}
		if data, err := os.ReadFile(filepath.Join(dir, "distance")); err == nil {
			for text := range strings.FieldsSeq(string(data)) {
				d, err := strconv.ParseUint(text, 10, 64)
				if err != nil {
					return nil, fmt.Errorf("distances of node %d: %w", id, err)
				}
				n.Distances = append(n.Distances, d)
			}
		}
		m.Nodes = append(m.Nodes, n)
	}
	if len(m.Nodes) == 0 {
		info, err := meminfo.Read(root)
		if err != nil {
			return nil, err
		}
		m.Nodes = []Node{{Memory: info["MemTotal"], HugePages: hugePages(filepath.Join(root, hugePagesDir)), Distances: []uint64{10}}}
	}
	slices.SortFunc(m.Nodes, func(a, b Node) int { return a.ID - b.ID })
	return home, nil
}

// nodeMemory reads "Node 0 MemTotal:  24684000 kB".
func nodeMemory(file string) (uint64, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(data)) {
		f := strings.Fields(line)
		if len(f) < 4 || f[2] != "MemTotal:" {
			continue
		}
		kb, err := strconv.ParseUint(f[3], 10, 64)
		if err != nil {
			return 0, fmt.Errorf("%s: %w", file, err)
		}
		return kb << 10, nil
	}
	return 0, fmt.Errorf("%s: no MemTotal", file)
}

// hugePages counts pages by size. What cannot be read is not there.
func hugePages(dir string) map[uint64]uint64 {
	out := map[uint64]uint64{}
	pools, _ := filepath.Glob(filepath.Join(dir, "hugepages-*kB"))
	for _, p := range pools {
		kb, err := strconv.ParseUint(strings.TrimSuffix(strings.TrimPrefix(filepath.Base(p), "hugepages-"), "kB"), 10, 64)
		if err != nil {
			continue
		}
		if n, err := number(filepath.Join(p, "nr_hugepages")); err == nil && n >= 0 {
			out[kb<<10] = uint64(n)
		}
	}
	return out
}

func list(file string) (cpuset.CPUSet, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return cpuset.New(), err
	}
	set, err := cpuset.Parse(strings.TrimSpace(string(data)))
	if err != nil {
		return set, fmt.Errorf("%s: %w", file, err)
	}
	return set, nil
}

func number(file string) (int, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(data)))
	if err != nil {
		return 0, fmt.Errorf("%s: %w", file, err)
	}
	return n, nil
}

// Set are all CPUs.
func (m *Machine) Set() cpuset.CPUSet { return cpuset.New(slices.Collect(maps.Keys(m.CPUs))...) }

// A Level tells in which core, cache, socket or node a CPU is.
type Level func(CPU) int

// The levels.
var (
	Core   Level = func(c CPU) int { return c.Core }
	Cache  Level = func(c CPU) int { return c.Cache }
	Socket Level = func(c CPU) int { return c.Socket }
	NUMA   Level = func(c CPU) int { return c.Node }
)

// In are the CPUs that are in one of several cores, caches, sockets or nodes.
func (m *Machine) In(level Level, ids ...int) cpuset.CPUSet {
	var out []int
	for id, c := range m.CPUs {
		if slices.Contains(ids, level(c)) {
			out = append(out, id)
		}
	}
	return cpuset.New(out...)
}

// IDs are in which cores, caches, sockets or nodes some CPUs are, in ascending order.
func (m *Machine) IDs(level Level, cpus cpuset.CPUSet) []int {
	var out []int
	for _, id := range cpus.UnsortedList() {
		if c, is := m.CPUs[id]; is {
			out = append(out, level(c))
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Per is how many CPUs a core, cache, socket or node has on average.
func (m *Machine) Per(level Level) int { return len(m.CPUs) / max(1, len(m.IDs(level, m.Set()))) }

// NodeIDs are those of all nodes.
func (m *Machine) NodeIDs() []int {
	var out []int
	for _, n := range m.Nodes {
		out = append(out, n.ID)
	}
	return out
}

// Nodes is a set of NUMA nodes, of which a machine has no more than 64 with ids below 64. The zero value has none.
type Nodes uint64

// NodesOf is the set of some nodes; ids beyond what a set can have are left out.
func NodesOf(ids ...int) Nodes {
	var s Nodes
	for _, id := range ids {
		if id >= 0 && id < 64 {
			s |= 1 << id
		}
	}
	return s
}

// Has says whether a node is in the set.
func (s Nodes) Has(id int) bool { return id >= 0 && id < 64 && s&(1<<id) != 0 }

// Count is how many there are.
func (s Nodes) Count() int { return bits.OnesCount64(uint64(s)) }

// IDs are in ascending order.
func (s Nodes) IDs() []int {
	var out []int
	for ; s != 0; s &= s - 1 {
		out = append(out, bits.TrailingZeros64(uint64(s)))
	}
	return out
}

// Narrower says whether s is to be preferred to t: it has fewer nodes, or as many with lower ids.
func (s Nodes) Narrower(t Nodes) bool {
	if s.Count() != t.Count() {
		return s.Count() < t.Count()
	}
	return s < t
}
