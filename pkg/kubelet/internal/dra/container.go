// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package dra

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// CDIDevices are the qualified names of what a container gets, by the Container Device Interface. It fails if its pod's claims were
// not noted, so that nothing starts without what it asks for.
func (m *Manager) CDIDevices(pod *corev1.Pod, c *corev1.Container) ([]string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	parts, err := m.state.parts(pod, c)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, p := range parts {
		m.state.each(p, func(_ string, d device) {
			for _, name := range d.CDI {
				if !slices.Contains(out, name) {
					out = append(out, name)
				}
			}
		})
	}
	return out, nil
}

// Claim is one that a container uses.
type Claim struct {
	Namespace, Name string
	Devices         []Device
}

// Device is one of a claim.
type Device struct {
	Driver, Pool, Name string
	ShareID            *string
	// CDI are qualified names.
	CDI []string
}

// Claims are those of a container with all their devices, none if they are not noted.
func (m *Manager) Claims(pod *corev1.Pod, c *corev1.Container) []Claim {
	m.mu.Lock()
	defer m.mu.Unlock()
	parts, err := m.state.parts(pod, c)
	if err != nil {
		return nil
	}
	var out []Claim
	for i, p := range parts {
		if slices.ContainsFunc(parts[:i], func(before part) bool { return before.claim == p.claim }) {
			continue
		}
		own := Claim{Namespace: m.state.Claims[p.claim].Namespace, Name: m.state.Claims[p.claim].Name}
		m.state.each(part{claim: p.claim}, func(driver string, d device) {
			own.Devices = append(own.Devices, Device{Driver: driver, Pool: d.Pool, Name: d.Device, ShareID: d.ShareID, CDI: d.CDI})
		})
		out = append(out, own)
	}
	return out
}
