// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package node says what a node of a machine is that has several of them: its name, addresses, size and state, and where on disk that is
// kept. Touch it when there is more to know about such a node, or addresses and names are chosen otherwise.
package node

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"
)

// State is what a node is to be.
type State string

const (
	// Running is a node that takes pods.
	Running State = "running"
	// Stopped is one that is off, as if its machine had lost power.
	Stopped State = "stopped"
	// Removing is one that is being taken away.
	Removing State = "removing"
)

// Node is what is known of a node, and kept. Only Size and State change.
type Node struct {
	Name string `json:"name"`
	// IP is its address, SecondIP that of the other family, if it has both.
	IP       netip.Addr `json:"ip"`
	SecondIP netip.Addr `json:"secondIP,omitzero"`
	// PodCIDR is the range of its pods, or one of each family with a comma between them.
	PodCIDR string `json:"podCIDR"`
	Size    Size   `json:"size,omitzero"`
	State   State  `json:"state"`
}

// IPs are its addresses, the primary first.
func (n Node) IPs() []netip.Addr {
	if n.SecondIP.IsValid() {
		return []netip.Addr{n.IP, n.SecondIP}
	}
	return []netip.Addr{n.IP}
}

// Size is how much of the machine a node has. What is zero is not limited.
type Size struct {
	CPU    resource.Quantity `json:"cpu,omitzero"`
	Memory resource.Quantity `json:"memory,omitzero"`
	// Pods is the most pods it takes; 0 is the kubelet's default.
	Pods int `json:"pods,omitempty"`
}

// The least that a container and its sandbox can do something with.
var (
	leastCPU    = resource.MustParse("10m")
	leastMemory = resource.MustParse("16Mi")
)

// Validate says what is wrong with a size.
func (s Size) Validate() error {
	switch {
	case !s.CPU.IsZero() && s.CPU.Cmp(leastCPU) < 0:
		return fmt.Errorf("%s CPUs are too few: give at least %s", s.CPU.String(), leastCPU.String())
	case !s.Memory.IsZero() && s.Memory.Cmp(leastMemory) < 0:
		return fmt.Errorf("memory of %s is too little: give at least %s", s.Memory.String(), leastMemory.String())
	case s.Pods < 0:
		return errors.New("a node cannot take fewer than no pods")
	}
	return nil
}

// ValidateName says why a node cannot have a name. It is that of a folder, too.
func ValidateName(name string) error {
	if problems := validation.IsDNS1123Subdomain(name); len(problems) > 0 {
		return fmt.Errorf("%q is no name for a node: %s", name, problems[0])
	}
	if len(name) > validation.DNS1123LabelMaxLength {
		return fmt.Errorf("%q is no name for a node: it is longer than %d characters", name, validation.DNS1123LabelMaxLength)
	}
	return nil
}

// NextName is the first of PREFIX-2, PREFIX-3 and so on that none of the nodes has. The first node has the machine's name.
func NextName(prefix string, nodes []Node) string {
	taken := map[string]bool{}
	for _, n := range nodes {
		taken[n.Name] = true
	}
	for i := 2; ; i++ {
		if name := fmt.Sprintf("%s-%d", prefix, i); !taken[name] {
			return name
		}
	}
}

// NextIP is the first address of a subnet that none of the nodes has. The first of all is the machine's, the last one nobody's.
func NextIP(subnet netip.Prefix, nodes []Node) (netip.Addr, error) {
	taken := map[netip.Addr]bool{}
	for _, n := range nodes {
		taken[n.IP], taken[n.SecondIP] = true, true
	}
	for ip := subnet.Masked().Addr().Next().Next(); subnet.Contains(ip.Next()); ip = ip.Next() {
		if !taken[ip] {
			return ip, nil
		}
	}
	return netip.Addr{}, fmt.Errorf("no address for another node is left in %s", subnet)
}

// String tells a size as a user gives it.
func (s Size) String() string {
	var parts []string
	if !s.CPU.IsZero() {
		parts = append(parts, s.CPU.String()+" CPUs")
	}
	if !s.Memory.IsZero() {
		parts = append(parts, s.Memory.String())
	}
	if s.Pods != 0 {
		parts = append(parts, fmt.Sprintf("%d pods", s.Pods))
	}
	if len(parts) == 0 {
		return "all of the machine"
	}
	return strings.Join(parts, ", ")
}
