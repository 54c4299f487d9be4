// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"sync"
	"time"

	"minik8s.io/minik8s/pkg/proxy/model"
)

// dirty collects which Services may have changed since they were looked at last. It is safe for concurrent use.
type dirty struct {
	mu  sync.Mutex
	now changes // guarded by mu
}

// changes are what was collected.
type changes struct {
	everything bool
	services   map[model.Name]bool
	// triggered are the instants at which something happened that changed endpoints, as the API says.
	triggered []time.Time
}

func newDirty() *dirty { return &dirty{now: changes{services: map[model.Name]bool{}}} }

// add notes a Service, and the instant of what has changed its endpoints unless that is zero.
func (d *dirty) add(name model.Name, triggered time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.now.services[name] = true
	if !triggered.IsZero() {
		d.now.triggered = append(d.now.triggered, triggered)
	}
}

// all notes every Service. What was to be measured is not: it is from before this process.
func (d *dirty) all() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.now.everything, d.now.triggered = true, nil
}

// take returns what was noted and begins anew.
func (d *dirty) take() changes {
	d.mu.Lock()
	defer d.mu.Unlock()
	taken := d.now
	d.now = changes{services: map[model.Name]bool{}}
	return taken
}

// retry gives back the instants of changes that did not reach the kernel.
func (d *dirty) retry(triggered []time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.now.triggered = append(triggered, d.now.triggered...)
}
