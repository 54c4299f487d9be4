// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package dra

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"

	"github.com/moby/sys/atomicwriter"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
)

// state is what is noted of claims, also on disk. It decides, and does nothing.
type state struct {
	// Claims are those that drivers may have prepared.
	Claims map[types.UID]*claim `json:"claims"`
	// Pods are those that use them.
	Pods map[types.UID]*consumer `json:"pods"`
}

// claim is a ResourceClaim.
type claim struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Drivers are all that have devices of it, with what they have prepared.
	Drivers map[string][]device `json:"drivers"`
	// Prepared: all drivers have done so. Unpreparing: some may have undone it.
	Prepared    bool `json:"prepared,omitempty"`
	Unpreparing bool `json:"unpreparing,omitempty"`
}

// device is what a driver has prepared.
type device struct {
	Pool    string  `json:"pool"`
	Device  string  `json:"device"`
	ShareID *string `json:"shareID,omitempty"`
	// Requests of the claim that it is for, all of them if there are none.
	Requests []string `json:"requests,omitempty"`
	CDI      []string `json:"cdi,omitempty"`
}

// consumer is a pod that uses claims.
type consumer struct {
	// Claims by what the pod calls them. One that has become unnecessary is "".
	Claims map[string]types.UID `json:"claims,omitempty"`
	// Extended is the claim for the extended resources of containers (KEP-5004), "" if there is none.
	Extended types.UID `json:"extended,omitempty"`
	// Checked: it may use them, and has got them once.
	Checked bool `json:"checked,omitempty"`
	// Former are those that it had before somebody replaced them.
	Former []types.UID `json:"former,omitempty"`
}

// current are the claims that a pod runs with, sorted, each once.
func (c *consumer) current() []types.UID {
	out := append(slices.Collect(maps.Values(c.Claims)), c.Extended)
	out = slices.DeleteFunc(out, func(uid types.UID) bool { return uid == "" })
	slices.Sort(out)
	return slices.Compact(out)
}

// all are those and the former ones.
func (c *consumer) all() []types.UID {
	out := append(c.current(), c.Former...)
	slices.Sort(out)
	return slices.Compact(out)
}

// claimFrom is what is noted of a claim.
func claimFrom(c *resourcev1.ResourceClaim) (*claim, error) {
	if c.Status.Allocation == nil {
		return nil, fmt.Errorf("ResourceClaim %s: not allocated", c.Name)
	}
	out := &claim{Namespace: c.Namespace, Name: c.Name, Drivers: map[string][]device{}}
	for _, r := range c.Status.Allocation.Devices.Results {
		if len(r.SkipNodeOperations) > 0 {
			return nil, fmt.Errorf("ResourceClaim %s: DRAOptionalNodeOperations feature gate is disabled on kubelet", c.Name)
		}
		out.Drivers[r.Driver] = nil
	}
	return out, nil
}

// note enters a pod and its claims. It fails, in upstream's words, if another claim has the name of one, or if one is being taken
// back; then nothing has changed.
func (s *state) note(pod types.UID, uses *consumer, claims map[types.UID]*claim) error {
	for _, uid := range slices.Sorted(maps.Keys(claims)) {
		c := claims[uid]
		if known := s.Claims[uid]; known != nil && known.Unpreparing {
			return fmt.Errorf("ResourceClaim %s is being unprepared", c.Name)
		}
		for other, old := range s.Claims {
			if other != uid && old.Namespace == c.Namespace && old.Name == c.Name {
				return fmt.Errorf("old ResourceClaim with same name %s and different UID %s still exists (previous pod force-deleted?!)", c.Name, other)
			}
		}
	}
	for uid, c := range claims {
		known := s.Claims[uid]
		if known == nil {
			known = &claim{Namespace: c.Namespace, Name: c.Name, Drivers: map[string][]device{}}
			s.Claims[uid] = known
		}
		for driver := range c.Drivers {
			if _, is := known.Drivers[driver]; !is {
				known.Drivers[driver], known.Prepared = nil, false
			}
		}
	}
	if before := s.Pods[pod]; before != nil && before != uses {
		uses.Former = slices.DeleteFunc(before.all(), func(uid types.UID) bool { return claims[uid] != nil })
	}
	s.Pods[pod] = uses
	return nil
}

// users are the pods that use a claim.
func (s *state) users(claim types.UID) []types.UID {
	var out []types.UID
	for pod, c := range s.Pods {
		if slices.Contains(c.all(), claim) {
			out = append(out, pod)
		}
	}
	slices.Sort(out)
	return out
}

// last are the claims of a pod that no other uses.
func (s *state) last(pod types.UID) []types.UID {
	c := s.Pods[pod]
	if c == nil {
		return nil
	}
	return slices.DeleteFunc(c.all(), func(uid types.UID) bool { return len(s.users(uid)) > 1 })
}

// byDriver are the claims that each driver has devices of.
func (s *state) byDriver(claims []types.UID) map[string][]types.UID {
	out := map[string][]types.UID{}
	for _, uid := range claims {
		for driver := range s.Claims[uid].Drivers {
			out[driver] = append(out[driver], uid)
		}
	}
	return out
}

// part is what a container has of a claim.
type part struct {
	claim types.UID
	// request limits it to the devices for that, if it is not "".
	request string
}

// parts are what a container has. The error says that its pod's claims were not noted.
func (s *state) parts(pod *corev1.Pod, c *corev1.Container) ([]part, error) {
	uses := s.Pods[pod.UID]
	if uses == nil {
		uses = &consumer{}
	}
	unknown := func(name string) error {
		return fmt.Errorf("internal error: unable to get claim info for ResourceClaim %s in namespace %s", name, pod.Namespace)
	}
	var out []part
	for _, wanted := range c.Resources.Claims {
		uid, is := uses.Claims[wanted.Name]
		if !is || uid != "" && s.Claims[uid] == nil {
			return nil, unknown(wanted.Name)
		}
		if uid != "" {
			out = append(out, part{uid, wanted.Request})
		}
	}
	extended := pod.Status.ExtendedResourceClaimStatus
	if extended == nil {
		return out, nil
	}
	for _, r := range extended.RequestMappings {
		switch {
		case r.ContainerName != c.Name:
		case s.Claims[uses.Extended] == nil:
			return nil, unknown(extended.ResourceClaimName)
		default:
			out = append(out, part{uses.Extended, r.RequestName})
		}
	}
	return out, nil
}

// each calls with the devices of a part, in a fixed order.
func (s *state) each(p part, with func(driver string, d device)) {
	c := s.Claims[p.claim]
	for _, driver := range slices.Sorted(maps.Keys(c.Drivers)) {
		for _, d := range c.Drivers[driver] {
			if p.request == "" || len(d.Requests) == 0 || slices.Contains(d.Requests, p.request) {
				with(driver, d)
			}
		}
	}
}

func (s *state) encode() ([]byte, error) {
	data, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("encoding resource claims: %w", err)
	}
	return data, nil
}

// write replaces the file in one step: a kill, or a loss of power, leaves the old or the new one.
func write(path string, data []byte) error {
	if err := atomicwriter.WriteFile(path, data, 0o600); err != nil {
		return fmt.Errorf("checkpoint ResourceClaim state: %w", err)
	}
	return nil
}

// load reads what write has written.
func load(path string) (state, error) {
	empty := state{Claims: map[types.UID]*claim{}, Pods: map[types.UID]*consumer{}}
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return empty, nil
	}
	s := state{}
	if err == nil {
		err = json.Unmarshal(data, &s)
	}
	if err != nil {
		return empty, fmt.Errorf("reading resource claims: %w", err)
	}
	if s.Claims == nil {
		s.Claims = empty.Claims
	}
	if s.Pods == nil {
		s.Pods = empty.Pods
	}
	for uid, c := range s.Claims {
		if c == nil || c.Drivers == nil {
			return empty, fmt.Errorf("reading resource claims: nothing is noted of claim %s", uid)
		}
	}
	for uid, c := range s.Pods {
		if c == nil || slices.ContainsFunc(c.all(), func(of types.UID) bool { return s.Claims[of] == nil }) {
			return empty, fmt.Errorf("reading resource claims: claims of pod %s are not there", uid)
		}
	}
	return s, nil
}
