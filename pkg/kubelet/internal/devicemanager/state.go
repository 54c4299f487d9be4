// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package devicemanager

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/moby/sys/atomicwriter"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	devicepluginv1beta1 "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"minik8s.io/minik8s/pkg/kubelet/internal/podspec"
	"minik8s.io/minik8s/pkg/kubelet/internal/topology"
)

// state is what is known of devices. It decides, and does nothing.
type state struct {
	// resources by name, also those whose plugin has gone.
	resources map[string]*devices
	// pods have allocations by container and resource name.
	pods map[types.UID]map[string]map[string]*allocation
}

// devices are those of one resource.
type devices struct {
	known map[string]*devicepluginv1beta1.Device // by ID
	// gone is since when there is no plugin that has told of any, zero while there is.
	gone time.Time
	// prepared: the plugin that has gone had to prepare them before each start.
	prepared bool
}

// allocation is what a container has of a resource.
type allocation struct {
	// Devices are IDs, sorted.
	Devices []string `json:"devices"`
	// Response is what the plugin has said that the container needs, nil until it has.
	Response *devicepluginv1beta1.ContainerAllocateResponse `json:"response"`
	// near are the NUMA nodes that the devices are to be close to, if they are only held; none: any.
	near topology.Nodes
}

func (d *devices) healthy(id string) bool {
	dev := d.known[id]
	return d.gone.IsZero() && dev != nil && dev.GetHealth() == devicepluginv1beta1.Healthy
}

// health is that of a device in the words of the API.
func (d *devices) health(id string) corev1.ResourceHealthStatus {
	switch {
	case d == nil || d.known[id] == nil || !d.gone.IsZero():
		return corev1.ResourceHealthStatusUnknown
	case d.healthy(id):
		return corev1.ResourceHealthStatusHealthy
	}
	return corev1.ResourceHealthStatusUnhealthy
}

func (d *devices) describe(res, id string) Device {
	out := Device{Resource: res, ID: id}
	if d != nil {
		for _, n := range d.known[id].GetTopology().GetNodes() {
			out.NUMANodes = append(out.NUMANodes, n.GetID())
		}
	}
	return out
}

// count is how many there are.
func (d *devices) count(now time.Time) (all, healthy int64) {
	if !d.gone.IsZero() && now.Sub(d.gone) >= grace {
		return 0, 0
	}
	for id := range d.known {
		if d.healthy(id) {
			healthy++
		}
	}
	return int64(len(d.known)), healthy
}

// wanted is how much of a resource a container asks for that this node has from plugins.
func (s *state) wanted(pod *corev1.Pod, c *corev1.Container) map[string]int {
	var out map[string]int
	for name, q := range c.Resources.Limits {
		if s.resources[string(name)] == nil || q.Sign() <= 0 || podspec.Claimed(pod, c.Name, name) {
			continue
		}
		if out == nil {
			out = map[string]int{}
		}
		out[string(name)] = int(q.Value())
	}
	return out
}

// retain frees the devices of pods that are not present.
func (s *state) retain(present func(types.UID) bool) {
	maps.DeleteFunc(s.pods, func(uid types.UID, _ map[string]map[string]*allocation) bool { return !present(uid) })
}

// used are the devices of a resource that some container has.
func (s *state) used(res string) map[string]bool {
	out := map[string]bool{}
	for _, containers := range s.pods {
		for _, own := range containers {
			if a := own[res]; a != nil {
				for _, id := range a.Devices {
					out[id] = true
				}
			}
		}
	}
	return out
}

// offer are the devices that a container of a pod may get: those that the pod's init containers leave behind, which come first,
// and those that are free or held for it. The error says, in upstream's words, why these are less than need.
func (s *state) offer(res string, reusable, held []string, need int) (reuse, free []string, err error) {
	d, used := s.resources[res], s.used(res)
	healthy := 0
	for _, id := range slices.Sorted(maps.Keys(d.known)) {
		if !d.healthy(id) {
			continue
		}
		healthy++
		switch {
		case slices.Contains(reusable, id):
			reuse = append(reuse, id)
		case !used[id] || slices.Contains(held, id):
			free = append(free, id)
		}
	}
	switch {
	case healthy == 0:
		return nil, nil, fmt.Errorf("no healthy devices present; cannot allocate unhealthy devices %s", res)
	case len(reuse)+len(free) < need:
		return nil, nil, fmt.Errorf("requested number of devices unavailable for %s. Requested: %d, Available: %d",
			res, need-min(len(reuse), need), len(free))
	}
	return reuse, free, nil
}

// lasts says, in upstream's words, why devices that were allocated are not to be had any more.
func (s *state) lasts(res string, ids []string) error {
	d := s.resources[res]
	switch {
	case d == nil:
		return fmt.Errorf("cannot allocate unregistered device %s", res)
	case !slices.ContainsFunc(slices.Collect(maps.Keys(d.known)), d.healthy):
		return fmt.Errorf("no healthy devices present; cannot allocate unhealthy devices %s", res)
	case slices.ContainsFunc(ids, func(id string) bool { return !d.healthy(id) }):
		return fmt.Errorf("previously allocated devices are no longer healthy; cannot allocate unhealthy devices %s", res)
	}
	return nil
}

// choose takes need of the devices of an offer, first those to be used again, then those that the plugin prefers.
func choose(reuse, free, preferred []string, need int) []string {
	var out []string
	take := func(ids []string, allowed func(string) bool) {
		for _, id := range ids {
			if len(out) < need && allowed(id) && !slices.Contains(out, id) {
				out = append(out, id)
			}
		}
	}
	take(reuse, func(string) bool { return true })
	take(preferred, func(id string) bool { return slices.Contains(free, id) })
	take(free, func(string) bool { return true })
	slices.Sort(out)
	return out
}

// reusable are the devices of a resource that the containers before one leave to it: those of init containers that have ended
// by then, but for what a sidecar or another container has been given of them.
func (s *state) reusable(pod *corev1.Pod, name, res string) []string {
	var out []string
	own := s.pods[pod.UID]
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		if c.Name == name {
			break
		}
		if a := own[c.Name][res]; a != nil && !podspec.IsSidecar(c) {
			out = append(out, a.Devices...)
		}
	}
	kept := func(c *corev1.Container) {
		if a := own[c.Name][res]; a != nil && c.Name != name {
			out = slices.DeleteFunc(out, func(id string) bool { return slices.Contains(a.Devices, id) })
		}
	}
	for i := range pod.Spec.InitContainers {
		if c := &pod.Spec.InitContainers[i]; podspec.IsSidecar(c) {
			kept(c)
		}
	}
	for i := range pod.Spec.Containers {
		kept(&pod.Spec.Containers[i])
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// checkpoint is a state on disk.
type checkpoint struct {
	// Resources are the names of those that plugins have registered.
	Resources []string                                        `json:"resources"`
	Pods      map[types.UID]map[string]map[string]*allocation `json:"pods"`
}

func statePath(root string) string { return filepath.Join(root, "device_manager_state") }

// encode leaves out what no plugin has granted yet.
func (s *state) encode() ([]byte, error) {
	c := checkpoint{Resources: slices.Sorted(maps.Keys(s.resources)), Pods: map[types.UID]map[string]map[string]*allocation{}}
	for uid, containers := range s.pods {
		for name, own := range containers {
			for res, a := range own {
				if a.Response == nil {
					continue
				}
				if c.Pods[uid] == nil {
					c.Pods[uid] = map[string]map[string]*allocation{}
				}
				if c.Pods[uid][name] == nil {
					c.Pods[uid][name] = map[string]*allocation{}
				}
				c.Pods[uid][name][res] = a
			}
		}
	}
	data, err := json.Marshal(c)
	if err != nil {
		return nil, fmt.Errorf("encoding allocated devices: %w", err)
	}
	return data, nil
}

// write replaces the file in one step: a kill, or a loss of power, leaves the old or the new one.
func write(path string, data []byte) error {
	if err := atomicwriter.WriteFile(path, data, 0o600); err != nil {
		return fmt.Errorf("writing down allocated devices: %w", err)
	}
	return nil
}

// load reads what write has written. The plugins count as having gone before the kubelet started, and their devices are not
// known.
func load(path string, now time.Time) (state, error) {
	s := state{resources: map[string]*devices{}, pods: map[types.UID]map[string]map[string]*allocation{}}
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	var c checkpoint
	if err == nil {
		err = json.Unmarshal(data, &c)
	}
	if err != nil {
		return s, fmt.Errorf("reading allocated devices: %w", err)
	}
	for _, name := range c.Resources {
		s.resources[name] = &devices{gone: now}
	}
	if c.Pods != nil {
		s.pods = c.Pods
	}
	return s, nil
}
