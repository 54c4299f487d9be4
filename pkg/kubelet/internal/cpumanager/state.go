// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package cpumanager

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/moby/sys/atomicwriter"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/cpuset"
)

// checkpoint is a state on disk, with the fields of upstream's.
type checkpoint struct {
	PolicyName    string                          `json:"policyName"`
	DefaultCPUSet string                          `json:"defaultCpuSet"`
	Entries       map[types.UID]map[string]string `json:"entries,omitempty"`
}

func (s *state) encode() ([]byte, error) {
	c := checkpoint{PolicyName: Static, DefaultCPUSet: s.shared.String(), Entries: map[types.UID]map[string]string{}}
	for uid, containers := range s.own {
		c.Entries[uid] = map[string]string{}
		for name, own := range containers {
			c.Entries[uid][name] = own.String()
		}
	}
	data, err := json.Marshal(c)
	if err != nil {
		return nil, fmt.Errorf("encoding allocated CPUs: %w", err)
	}
	return data, nil
}

// write replaces the file in one step: a kill, or a loss of power, leaves the old or the new one.
func write(path string, data []byte) error {
	if err := atomicwriter.WriteFile(path, data, 0o600); err != nil {
		return fmt.Errorf("writing down allocated CPUs: %w", err)
	}
	return nil
}

// load reads what write has written; found is false if nobody has. Without a policy nothing is written: only what another policy
// has left is in the way.
func load(path, policy string) (s state, found bool, err error) {
	s = state{own: map[types.UID]map[string]cpuset.CPUSet{}}
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return s, false, nil
	}
	var c checkpoint
	if err == nil {
		err = json.Unmarshal(data, &c)
	}
	if err != nil {
		return s, false, err
	}
	if c.PolicyName != policy {
		return s, false, fmt.Errorf("configured policy %q differs from state checkpoint policy %q", policy, c.PolicyName)
	}
	if s.shared, err = cpuset.Parse(c.DefaultCPUSet); err != nil {
		return s, false, fmt.Errorf("could not parse default CPU set %q: %w", c.DefaultCPUSet, err)
	}
	for uid, containers := range c.Entries {
		s.own[uid] = map[string]cpuset.CPUSet{}
		for name, text := range containers {
			if s.own[uid][name], err = cpuset.Parse(text); err != nil {
				return s, false, fmt.Errorf("could not parse cpuset %q for container %q in pod %q: %w", text, name, uid, err)
			}
		}
	}
	return s, true, nil
}
